"""The tables of front matter, each checked and made a record; every complaint names its line.

What only a problem can decide (is the grid empty, is a tensor larger than its buffer?) is
looked at when expressions are evaluated: `workbench.study.launches`, `fills`, `tensormaps`.
"""

from __future__ import annotations

import re

from workbench.errors import UsageError, did_you_mean
from workbench.specs import (
    Expectation,
    FillSpec,
    LaunchSpec,
    ScratchSpec,
    TensorMapSpec,
)
from workbench.study.flags import UNSAFE, shell_safe
from workbench.study.keys import (
    TENSOR_MAP_SIZES,
    ExpectTable,
    FillTable,
    Keys,
    LaunchTable,
    ScratchTable,
    TensorMapTable,
)
from workbench.study.predictions import parse as parse_prediction
from workbench.study.tensormap import ELEMENT_BYTES, FILLS

#: Keys of a launch that the other compiler decides, or does not know.
_CUDA_ONLY = ("block", "dynamic_shared", "cluster", "cooperative")
_TRITON_ONLY = ("num_warps", "num_stages", "divisible_by_16")
#: Element types of scratch buffers and of what symbols are filled with; all but one are NumPy's.
DTYPES = (
    *(f"float{bits}" for bits in (16, 32, 64)),
    "bfloat16",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


def read_launch(keys: Keys, index: int, table: LaunchTable, triton: bool) -> LaunchSpec:
    """A ``[[launch]]``, of a kernel in Triton or in CUDA C++."""
    key = f"launch[{index}]"
    kernel = keys.required(f"{key}.kernel", table.kernel)
    for name in _CUDA_ONLY if triton else _TRITON_ONLY:
        if f"{key}.{name}" in keys.lines:
            keys.fail(
                f"{key}.{name}",
                f"`{name}` has no meaning for a kernel in {'Triton' if triton else 'CUDA C++'}",
                "Triton decides it from num_warps, num_stages and the code."
                if triton
                else "It is for Triton's kernels; write block and, if need be, dynamic_shared.",
            )
    if not _IDENTIFIER.match(kernel):
        keys.fail(
            f"{key}.kernel",
            f"`{kernel}` is not a function name",
            "Write only the name of the function that @triton.jit decorates."
            if triton
            else 'Write only the name; the kernel is declared extern "C" __global__.',
        )
    block, stages = table.block, 0
    if triton:
        # Triton's own defaults; a block is made of whole warps.
        block = 32 * (table.num_warps or 4)
        stages = table.num_stages or 3
    for name, value in (("grid", table.grid), ("block", block)):
        if not value:
            keys.fail(f"{key}.{name}", f"`{name}` is missing in [[launch]]", f"Add {name} = [256].")
    args = _arguments(keys, f"{key}.args", table, triton)
    plain = [text for text in args if isinstance(text, str)]
    for text in table.divisible_by_16:
        if text not in plain:
            keys.fail(
                f"{key}.divisible_by_16",
                f"`{text}` is not one of the launch's args",
                did_you_mean(text, plain, "args"),
            )
    (shared,) = keys.texts(f"{key}.dynamic_shared", table.dynamic_shared, 1) or ("0",)
    return LaunchSpec(
        kernel=kernel,
        grid=keys.texts(f"{key}.grid", table.grid),
        block=keys.texts(f"{key}.block", block),
        args=args,
        dynamic_shared=shared,
        cluster=keys.texts(f"{key}.cluster", table.cluster),
        cooperative=table.cooperative,
        when=str(table.when).strip(),
        num_stages=stages,
        divisible_by_16=table.divisible_by_16,
        line=keys.line(key),
    )


def _arguments(
    keys: Keys, key: str, table: LaunchTable, triton: bool
) -> tuple[str | tuple[str, ...], ...]:
    """Every argument as text; a list of them is a struct."""
    given = table.args if isinstance(table.args, tuple) else (table.args,)
    for each in given:
        if each == () or (triton and isinstance(each, tuple)):
            keys.fail(
                key,
                "a struct without members" if each == () else "a kernel in Triton takes no struct",
                'Write its members in order: args = ["x", ["N", "float(0.5)"]]; or leave it out.',
            )
    return tuple(
        keys.texts(key, each, None) if isinstance(each, tuple) else str(each).strip()
        for each in given
    )


def read_scratch(keys: Keys, index: int, table: ScratchTable, taken: set[str]) -> ScratchSpec:
    """A ``[[scratch]]``; `taken` has the names of those before it."""
    key = f"scratch[{index}]"
    name = keys.required(f"{key}.name", table.name)
    if not _IDENTIFIER.match(name) or name in taken:
        keys.fail(
            f"{key}.name",
            f"`{name}` is not a name, or is used twice",
            "Give every scratch buffer a name of its own, of letters, digits and _.",
        )
    taken.add(name)
    dtype = _dtype(keys, key, keys.required(f"{key}.dtype", table.dtype))
    if not table.shape:
        keys.fail(f"{key}.shape", "`shape` is missing in [[scratch]]", 'Add shape = ["M", "N"].')
    shape = keys.texts(f"{key}.shape", table.shape, None)
    return ScratchSpec(name=name, dtype=dtype, shape=shape, line=keys.line(key))


def _dtype(keys: Keys, key: str, dtype: str) -> str:
    if dtype not in DTYPES:
        keys.fail(f"{key}.dtype", f"unknown dtype `{dtype}`", did_you_mean(dtype, DTYPES, "types"))
    return dtype


def read_fill(keys: Keys, index: int, table: FillTable, taken: set[str]) -> FillSpec:
    """A ``[[fill]]``; `taken` has the names of those before it."""
    key = f"fill[{index}]"
    name = keys.required(f"{key}.name", table.name)
    if name in taken:
        keys.fail(f"{key}.name", f"`{name}` is filled twice", "Keep one [[fill]] of each name.")
    taken.add(name)
    if (table.value == ()) == (not table.input.strip()):
        keys.fail(
            key,
            f"[[fill]] of `{name}` takes either `value` or `input`",
            "Write value = 0, value = [1, 0] to repeat several, or input = the name of an input.",
        )
    return FillSpec(
        name=name,
        values=keys.texts(f"{key}.value", table.value, None),
        input=table.input.strip(),
        dtype=_dtype(keys, key, table.dtype) if table.dtype else "",
        line=keys.line(key),
    )


def read_tensor_map(
    keys: Keys, index: int, table: TensorMapTable, taken: set[str]
) -> TensorMapSpec:
    """A ``[[tensor_map]]``; `taken` has the names of those before it."""
    key = f"tensor_map[{index}]"
    name = keys.required(f"{key}.name", table.name)
    if not _IDENTIFIER.match(name) or name in taken:
        keys.fail(
            f"{key}.name",
            f"`{name}` is not a name, or is used twice",
            "Give every tensor map a name that no scratch buffer and no other map has.",
        )
    taken.add(name)
    dtype = keys.required(f"{key}.dtype", table.dtype)
    for what, value, known in (("dtype", dtype, ELEMENT_BYTES), ("fill", table.fill, FILLS)):
        if value not in known:
            hint = did_you_mean(value, known, f"{what}s")
            keys.fail(f"{key}.{what}", f"unknown {what} `{value}` of a tensor map", hint)
    if not table.dims:
        keys.fail(key, "`dims` is missing in [[tensor_map]]", 'Add dims = ["K", "M"], K innermost.')
    sizes = {each: getattr(table, each) for each in TENSOR_MAP_SIZES}
    return {
        "name": (name,),
        "buffer": (keys.required(f"{key}.buffer", table.buffer),),
        "dtype": (dtype,),
        "fill": (table.fill,),
        **{
            each: keys.texts(f"{key}.{each}", value, None)
            for each, value in sizes.items()
            if value is not None
        },
    }


def read_expectation(keys: Keys, index: int, table: ExpectTable) -> Expectation:
    """An ``[[expect]]``."""
    key = f"expect[{index}]"
    change = keys.required(f"{key}.change", table.change)
    try:
        parse_prediction(change)
    except UsageError as error:
        keys.fail(f"{key}.change", error.message, error.hint)
    return Expectation(
        counter=keys.required(f"{key}.counter", table.counter),
        change=change,
        why=table.why.strip(),
        learned=table.learned.strip(),
        line=keys.line(key),
    )


def read_define(keys: Keys, name: str, value: object) -> str:
    """A macro of ``[defines]``, as text."""
    key = f"defines.{name}"
    if not _IDENTIFIER.match(name):
        keys.fail(key, f"`{name}` is not a macro name", "Use letters, digits, _.")
    if not isinstance(value, str | int | float):
        keys.fail(
            key, f"`{name}` must be a number or a string, not {value!r}", f"Write {name} = 32."
        )
    if not shell_safe(str(value)):
        keys.fail(key, f"`{name}` contains a character that a shell may interpret", UNSAFE)
    return str(int(value) if isinstance(value, bool) else value)
