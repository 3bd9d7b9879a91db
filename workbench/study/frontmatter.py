"""Front matter: the TOML with which a version's file describes itself.

A ``.cu`` file starts with ``/* ---``, TOML, ``--- */``. In a ``.py`` file the TOML is in the
module's docstring, between two lines ``---``; if it has a ``[[launch]]``, the file holds a Triton
kernel. Line numbers in records and errors are the file's own, 1-based. docs/front-matter.md lists
the keys.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Literal

from ptxemu import CHANNELS, ELEMENT_BYTES, FILLS
from workbench.disk.limits import FRONT_MATTER, read_toml
from workbench.errors import UsageError, did_you_mean
from workbench.model import Record
from workbench.specs import (
    Description,
    DescriptorSpec,
    Expectation,
    FillSpec,
    LaunchSpec,
    ScratchSpec,
    TuneSpec,
    TuneValue,
    Version,
    parse_prediction,
)
from workbench.study.flags import UNSAFE, refusal, shell_safe
from workbench.study.keys import (
    TENSOR_MAP_SIZES,
    TEXTURE_SIZES,
    ExpectTable,
    FillTable,
    Keys,
    LaunchTable,
    ScratchTable,
    TensorMapTable,
    TextureTable,
)

# --- the tables, each checked and made a record ------------------------------------------------
#
# Checks that need a problem (is the grid empty, is a tensor larger than its buffer?) are made when
# expressions are evaluated: `workbench.study.launches`.

#: Keys of a launch that the other compiler decides, or does not know.
_CUDA_ONLY = ("block", "dynamic_shared", "cluster", "cooperative")
_TRITON_ONLY = ("num_warps", "num_stages", "divisible_by_16")
#: Element types of scratch buffers and of fills of symbols; all except one are NumPy types.
DTYPES = (
    *(f"float{bits}" for bits in (16, 32, 64)),
    "bfloat16",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
#: A kernel in C++, possibly in a namespace or instantiated from a template.
KERNEL = re.compile(r"[A-Za-z_](?:\w|::)*(?:<[\w\s:,*&()<>-]*>)?\Z", re.ASCII)


def read_launch(
    keys: Keys, index: int, table: LaunchTable, given: Collection[str], triton: bool
) -> LaunchSpec:
    """A ``[[launch]]`` of a kernel in Triton or CUDA C++, with the names `given` in it."""
    key = f"launch[{index}]"
    kernel = keys.required(f"{key}.kernel", table.kernel)
    for name in _CUDA_ONLY if triton else _TRITON_ONLY:
        if name in given:
            keys.fail(
                f"{key}.{name}",
                f"`{name}` does not apply to a kernel in {'Triton' if triton else 'CUDA C++'}",
                "Triton decides it from num_warps, num_stages and the code."
                if triton
                else "It applies to Triton kernels; write block and, if needed, dynamic_shared.",
            )
    if not (_IDENTIFIER if triton else KERNEL).match(kernel):
        keys.fail(
            f"{key}.kernel",
            f"`{kernel}` is not a function name",
            "Write only the name of the function that @triton.jit decorates."
            if triton
            else 'Write the name of the __global__ function, or of an instantiation: "k<float>".',
        )
    block, stages = table.block, 0
    if triton:
        # Triton's own defaults; a block is made of whole warps.
        block = 32 * (table.num_warps or 4)
        stages = table.num_stages or 3
    for name, value in (("grid", table.grid), ("block", block)):
        if not value:
            keys.missing(f"{key}.{name}", "[256]")
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
    """A ``[[scratch]]``; `taken` has the names already in use."""
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
    """A ``[[fill]]``; `taken` has the names already in use."""
    key = f"fill[{index}]"
    name = keys.required(f"{key}.name", table.name)
    if name in taken:
        keys.fail(f"{key}.name", f"`{name}` is filled twice", "Keep one [[fill]] for each name.")
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
        restores=table.restores,
        line=keys.line(key),
    )


def read_tensor_map(
    keys: Keys, index: int, table: TensorMapTable, taken: set[str]
) -> DescriptorSpec:
    """A ``[[tensor_map]]``; `taken` has the names already in use."""
    spec = _described(keys, f"tensor_map[{index}]", table, ELEMENT_BYTES, taken)
    _known(keys, f"tensor_map[{index}].fill", table.fill, FILLS)
    return {**spec, "fill": (table.fill,), **_sizes(keys, index, table, TENSOR_MAP_SIZES)}


def read_texture(keys: Keys, index: int, table: TextureTable, taken: set[str]) -> DescriptorSpec:
    """A ``[[texture]]``; `taken` has the names already in use."""
    spec = _described(keys, f"texture[{index}]", table, CHANNELS, taken)
    _known(keys, f"texture[{index}].read", table.read, ("element", "float"))
    given = table.address if isinstance(table.address, tuple) else (table.address,)
    return {
        **spec,
        **_sizes(keys, index, table, TEXTURE_SIZES),
        "layout": (table.layout.strip(),),
        "address": tuple(each.strip() for each in given),
        "filter": (table.filter.strip(),),
        "normalized": (str(table.normalized).lower(),),
        "read": (table.read,),
    }


def _described(
    keys: Keys,
    key: str,
    table: TensorMapTable | TextureTable,
    dtypes: Collection[str],
    taken: set[str],
) -> DescriptorSpec:
    """Read the keys that all descriptors have: a name of their own, a buffer, a type and axes."""
    kind = key.partition("[")[0]
    name = keys.required(f"{key}.name", table.name)
    if not _IDENTIFIER.match(name) or name in taken:
        keys.fail(
            f"{key}.name",
            f"`{name}` is not a name, or is used twice",
            f"Give every {kind.replace('_', ' ')} a name that no scratch buffer, tensor map or "
            "texture has.",
        )
    taken.add(name)
    dtype = keys.required(f"{key}.dtype", table.dtype)
    _known(keys, f"{key}.dtype", dtype, dtypes)
    if not table.dims:
        keys.fail(key, f"`dims` is missing in [[{kind}]]", 'Add dims = ["K", "M"], K innermost.')
    return {
        "name": (name,),
        "buffer": (keys.required(f"{key}.buffer", table.buffer),),
        "dtype": (dtype,),
    }


def _known(keys: Keys, key: str, value: str, known: Collection[str]) -> None:
    """Refuse an unknown word for a descriptor."""
    kind, _, what = key.partition("[")[0], "", key.rpartition(".")[2]
    if value not in known:
        hint = did_you_mean(value, known, f"{what}s")
        keys.fail(key, f"unknown {what} `{value}` of a {kind.replace('_', ' ')}", hint)


def _sizes(
    keys: Keys, index: int, table: TensorMapTable | TextureTable, names: Collection[str]
) -> DescriptorSpec:
    """The given keys that hold sizes."""
    kind = "tensor_map" if isinstance(table, TensorMapTable) else "texture"
    given = {each: getattr(table, each) for each in names}
    return {
        each: keys.texts(f"{kind}[{index}].{each}", value, None)
        for each, value in given.items()
        if value is not None
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


def define_text(value: TuneValue) -> str:
    """A macro's value as it is passed to a compiler."""
    return str(int(value) if isinstance(value, bool) else value)


def read_define(keys: Keys, name: str, value: object, key: str = "") -> str:
    """A macro from ``[defines]``, as text; `key`: its place, if elsewhere."""
    key = key or f"defines.{name}"
    if not _IDENTIFIER.match(name):
        keys.fail(key, f"`{name}` is not a macro name", "Use letters, digits and _.")
    if not isinstance(value, str | int | float):
        keys.fail(
            key, f"`{name}` must be a number or a string, not {value!r}", f"Write {name} = 32."
        )
    if not shell_safe(str(value)):
        keys.fail(key, f"`{name}` contains a character that a shell may interpret", UNSAFE)
    return define_text(value)


#: Plausible limits: the most values of a parameter, and the most parameters.
_MOST_VALUES, _MOST_PARAMETERS = 256, 32
#: Parameters that are keys of a launch, and the form of each of their values.
_OF_LAUNCH = {
    "block": "a size or a list of up to three: block = [128, [32, 8]]",
    "num_warps": "1, 2, 4, 8, 16 or 32: num_warps = [4, 8]",
    "num_stages": "an integer from 1 to 16: num_stages = [2, 3, 4]",
}


def read_tune(
    keys: Keys,
    table: dict[str, object],
    defines: dict[str, str],
    launches: tuple[LaunchSpec, ...],
    code: str,
) -> TuneSpec | None:
    """``[tune]``: the values that parameters may have.

    `table` is the table as written, `defines` has those of ``[defines]``; a parameter not among
    these becomes one, with the first of its values. ``block``, ``num_warps`` and ``num_stages`` are
    keys of the launch. `code` is the file without its front matter, which uses the parameters.
    """
    requires = table.get("requires", "")
    if not isinstance(requires, str):
        keys.fail("tune.requires", f"`requires` must be a string, not {requires!r}", _WRITE_RULE)
    parameters: dict[str, tuple[TuneValue, ...]] = {}
    default: dict[str, TuneValue] = {}
    for name, given in table.items():
        if name == "requires":
            continue
        key = f"tune.{name}"
        if not isinstance(given, list) or not 1 <= len(given) <= _MOST_VALUES:
            keys.fail(
                key,
                f"`{name}` must be a list of 1 to {_MOST_VALUES} values, not {given!r:.60}",
                f"Write {name} = [16, 32].",
            )
        if name in _OF_LAUNCH:
            own = _of_launch(keys, key, launches)
            values = tuple(_launch_value(keys, key, each) for each in given)
        else:
            if name not in defines and not re.search(rf"\b{re.escape(name)}\b", code):
                keys.fail(
                    key,
                    f"`{name}` is not a define, and the code does not use it",
                    did_you_mean(name, (*defines, *_OF_LAUNCH), "parameters"),
                )
            for each in given:
                read_define(keys, name, each, key)
                if isinstance(each, int | float) and not abs(each) < 2**63:
                    keys.fail(key, f"{each} is invalid for `{name}`", f"Write {name} = [16, 32].")
            values = tuple(given)
            own = defines.setdefault(name, read_define(keys, name, given[0], key))
        texts = [define_text(each) for each in values]
        if len(set(texts)) < len(texts):
            keys.fail(key, f"`{name}` is given a value twice", "Keep each only once.")
        if own not in texts:
            keys.fail(
                key,
                f"`{name}` is {own} in this version, which is not among its values",
                f"Add {own}: the gain from tuning is measured against it.",
            )
        parameters[name], default[name] = values, values[texts.index(own)]
    if table and not 1 <= len(parameters) <= _MOST_PARAMETERS:
        keys.fail(
            "tune",
            f"[tune] has {len(parameters)} parameters",
            f"Give 1 to {_MOST_PARAMETERS} of them a list of values: TILE = [16, 32].",
        )
    line = keys.line("tune") if table else 0
    return (
        TuneSpec(parameters=parameters, default=default, requires=requires.strip(), line=line)
        if table
        else None
    )


_WRITE_RULE = 'Write requires = "TILE * UNROLL <= 1024".'


def _of_launch(keys: Keys, key: str, launches: tuple[LaunchSpec, ...]) -> str:
    """The value that the only launch has for a parameter that is its key."""
    name = key.rpartition(".")[2]
    triton = bool(launches) and launches[0].num_stages > 0
    if (name == "block") == triton:
        keys.fail(
            key,
            f"`{name}` does not apply to a kernel in {'Triton' if triton else 'CUDA C++'}",
            "Tune num_warps, num_stages and constants of [defines]."
            if triton
            else "Tune block, and defines.",
        )
    if len(launches) != 1:
        keys.fail(
            key,
            f"`{name}` does not say which of the {len(launches)} launches it tunes",
            'Use a define in them, as in block = ["THREADS"], and tune that.',
        )
    launch = launches[0]
    if name == "block":
        return "x".join(launch.block)
    return str(int(launch.block[0]) // 32) if name == "num_warps" else str(launch.num_stages)


def _launch_value(keys: Keys, key: str, given: object) -> TuneValue:
    """A value of such a parameter: a number, or a block's shape as text."""
    name = key.rpartition(".")[2]
    sizes = given if isinstance(given, list) and name == "block" else [given]
    whole = all(type(each) is int and 1 <= each <= 1024 for each in sizes)
    right = {"num_warps": (1, 2, 4, 8, 16, 32), "num_stages": range(1, 17)}.get(name)
    if not whole or not 1 <= len(sizes) <= 3 or (right is not None and given not in right):
        keys.fail(key, f"{given!r} is not a value of `{name}`", f"Each is {_OF_LAUNCH[name]}.")
    return "x".join(map(str, sizes)) if name == "block" else int(str(given))


Kind = Literal["cuda", "triton", "python"]

_OPEN = re.compile(r"\A\s*/\*[ \t]*---[ \t]*\n")
_CLOSE = re.compile(r"^[ \t]*---\s*\*/", re.MULTILINE)

#: Keys that only code compiled here has.
_COMPILED = ("launch", "scratch", "fill", "tensor_map", "texture", "defines", "flags",
             "arch_specific", "tune")  # fmt: skip


class FrontMatter(Description, frozen=True, kw_only=True):
    """The front matter of a version's file, checked but not yet evaluated.

    `lines` are the first and last line of the front matter.
    """

    lines: tuple[int, int]
    keys: Keys

    @property
    def key_lines(self) -> dict[str, int]:
        """The line of each key by its path, for example ``launch[0].grid``."""
        return self.keys.lines


class _Header(Record, frozen=True):
    """The TOML in a file: its text, its first line, and the lines of the block around it."""

    toml: str
    first: int
    lines: tuple[int, int]


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _cuda_block(text: str, path: str) -> _Header | None:
    start = _OPEN.match(text)
    if start is None:
        return None
    end = _CLOSE.search(text, start.end())
    opened = _line(text, text.index("/*"))
    if end is None:
        raise UsageError(
            f"{path}:{opened}: the front matter is not closed", "End it with a line `--- */`."
        )
    toml = text[start.end() : end.start()]
    if "*/" in toml:
        line = _line(text, start.end() + toml.index("*/"))
        raise UsageError(
            f"{path}:{line}: `*/` inside the front matter ends the comment early",
            "Remove it: the compiler reads the rest as code.",
        )
    return _Header(
        toml=toml, first=_line(text, start.end()), lines=(opened, _line(text, end.end()))
    )


@lru_cache(maxsize=256)
def _docstring(text: str, path: str) -> ast.Expr | None:
    try:
        with warnings.catch_warnings():
            # Python itself warns about "\\d" in a docstring when it runs the file.
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error) or "nested too deeply"
        raise UsageError(
            f"{path}:{line}: not valid Python: {reason}", "Correct the file."
        ) from None
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[0] if isinstance(body[0].value.value, str) else None
    return None


def _python_block(text: str, path: str) -> _Header | None:
    node = _docstring(text, path)
    if node is None or node.end_lineno is None:
        return None
    rows = text.split("\n")[node.lineno - 1 : node.end_lineno]
    # The opening quotes may be on the line of the first "---".
    rows[0] = re.sub(r"^\s*[rRuU]?(\"\"\"|''')", "", rows[0])
    marks = [index for index, row in enumerate(rows) if row.strip() == "---"]
    if not marks:
        return None
    if len(marks) == 1:
        raise UsageError(
            f"{path}:{node.lineno + marks[0]}: the front matter is not closed",
            "End it with a second line `---` in the docstring.",
        )
    first, last = marks[0], marks[1]
    return _Header(
        toml="\n".join(rows[first + 1 : last]) + "\n",
        first=node.lineno + first + 1,
        lines=(node.lineno + first, node.lineno + last),
    )


def _block(text: str, path: str, kind: Kind) -> _Header | None:
    return _cuda_block(text, path) if kind == "cuda" else _python_block(text, path)


def present(text: str, *, path: str, kind: Kind) -> bool:
    """True if the text starts with front matter.

    Raises UsageError: the front matter is not closed, or a ``.py`` file is not Python.
    """
    return _block(text, path, kind) is not None


def code(text: str, *, kind: Kind) -> str:
    """The text without its description: front matter, or the whole docstring."""
    if kind == "cuda":
        block = _cuda_block(text, "")
        return text if block is None else "\n".join(text.split("\n")[block.lines[1] :])
    node = _docstring(text, "")
    if node is None or node.end_lineno is None:
        return text
    rows = text.split("\n")
    return "\n".join(rows[: node.lineno - 1] + rows[node.end_lineno :])


def _load(block: _Header, path: str) -> dict[str, Any]:
    if len(block.toml) > FRONT_MATTER.bytes:
        found = f"has {len(block.toml):,} characters of front matter"
        told = FRONT_MATTER.exceeded(f"{path}:{block.lines[0]}", found)
        raise UsageError(told.message, told.hint)
    try:
        return read_toml(block.toml)
    except ValueError as error:
        message = str(error)
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line = block.lines[1]
        column = ""
        if place is not None:
            message = message[: place.start()]
            if place[1]:
                line = block.first + int(place[1]) - 1
                column = f" (column {place[2]})"
        written = block.toml.split("\n")[line - block.first :][:1]
        quoted = _quoted(written[0]) if written else ""
        raise UsageError(
            f"{path}:{line}: not valid TOML: {message}{column}",
            f"Write expressions and names in quotes: {quoted}"
            if quoted
            else "Correct the front matter; `workbench docs front-matter` shows every key.",
        ) from None


def _quoted(line: str) -> str:
    """A line of front matter with its missing quotes; "" if they are not the fault."""
    key, _, value = (part.strip() for part in line.partition("="))
    listed = value.startswith("[") and value.endswith("]")
    items = re.split(r",(?![^()]*\))", value[1:-1] if listed else value)
    plain = re.compile(r"""-?\d[\w.]*|".*"|'.*'|""")
    quoted = [each if plain.fullmatch(each) else f'"{each}"' for each in map(str.strip, items)]
    text = f"{key} = [{', '.join(quoted)}]" if listed else f"{key} = {', '.join(quoted)}"
    try:
        read_toml(text)
    except ValueError:
        return ""
    return text if quoted != list(map(str.strip, items)) else ""


@lru_cache(maxsize=256)
def parse(text: str, *, path: str, kind: Kind) -> FrontMatter:
    """Read and check the front matter of a version's file.

    `path` is the name of the file in messages; `kind` is ``cuda`` for a ``.cu``, else a ``.py``.
    Raises UsageError: no front matter, TOML that does not parse, an unknown key, a wrong type or a
    missing key; the error names file, line and the nearest valid key.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    block = _block(text, path, kind)
    if block is None:
        form = "`/* ---`, TOML, `--- */`" if kind == "cuda" else "a docstring: `---`, TOML, `---`"
        raise UsageError(
            f"{path}:1: no front matter",
            f"A version's file starts with {form}; `workbench new` writes one.",
        )
    table = _load(block, path)
    keys = Keys(path, block.toml, block.first, block.lines[0])
    said = keys.read(table)
    triton = kind != "cuda" and bool(said.launch) and not said.image
    if said.image:
        _check_image(keys, table)
    elif kind != "cuda":
        for key in ("flags",) if triton else _COMPILED:
            if key in table:
                keys.fail(
                    key,
                    f"`{key}` does not apply to a .py version"
                    + ("" if triton else " without [[launch]]"),
                    "Triton takes num_warps and num_stages in [[launch]], constants in [defines]."
                    if triton
                    else "Its prepare() launches what it needs.",
                )
    if not said.launch and (kind == "cuda" or said.image):
        keys.fail("launch", "no [[launch]]", "Add one: kernel, grid, block and args.")
    if wrong := refusal(said.flags):
        keys.fail("flags", *wrong)
    taken: set[str] = set()
    filled: set[str] = set()
    defines = {name: read_define(keys, name, value) for name, value in said.defines.items()}
    launches = tuple(
        read_launch(keys, index, each, table["launch"][index], triton)
        for index, each in enumerate(said.launch)
    )
    tune = read_tune(keys, said.tune, defines, launches, code(text, kind=kind))
    return FrontMatter(
        title=keys.required("title", said.title),
        parent=None if said.parent is None else said.parent.strip(),
        change=said.change.strip(),
        baseline=said.baseline,
        launches=launches,
        scratch=tuple(read_scratch(keys, *each, taken) for each in enumerate(said.scratch)),
        fills=tuple(read_fill(keys, *each, filled) for each in enumerate(said.fill)),
        defines=defines,
        tensor_maps=tuple(
            read_tensor_map(keys, *each, taken) for each in enumerate(said.tensor_map)
        ),
        textures=tuple(read_texture(keys, *each, taken) for each in enumerate(said.texture)),
        flags=said.flags,
        arch_specific=said.arch_specific,
        image=said.image,
        requires=said.requires.strip()
        if isinstance(said.requires, str)
        else " and ".join(f"({each})" for each in said.requires),
        requires_why=said.requires_why.strip(),
        tolerance=said.tolerance,
        tolerance_why=said.tolerance_why.strip(),
        expectations=tuple(read_expectation(keys, *each) for each in enumerate(said.expect)),
        tune=tune,
        lines=block.lines,
        keys=keys,
    )


def _check_image(keys: Keys, table: dict[str, object]) -> None:
    """Refuse a file that is not an image, and keys that only code compiled here has."""
    if not _SHA256.match(str(table["image"])):
        keys.fail(
            "image",
            f"`{table['image']}` is not a SHA-256",
            "`workbench new --from-launch …` writes the hash of the machine code in captured/.",
        )
    for key in ("flags", "defines", "arch_specific", "tune"):
        if key in table:
            keys.fail(
                key,
                f"`{key}` does not apply with `image`: nothing is compiled",
                "`workbench new` starts a version of the source, which has it.",
            )


def place(version: Version, key: str) -> str:
    """``kernels/sgemm/v3_padded.cu:7``: the place of a key of the front matter."""
    front = parse(version.text, path=version.path, kind=version.kind)
    line = front.key_lines.get(key) or front.key_lines.get(key.rpartition(".")[0])
    return f"{version.path}:{line or front.lines[0]}"
