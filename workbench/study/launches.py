"""From expressions to numbers: the launches of a version for one problem.

Also its scratch buffers, the descriptors of ``[[tensor_map]]`` and ``[[texture]]`` that a kernel
takes by name, and the contents that ``[[fill]]`` puts into buffers before the first launch.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from ptxemu import ELEMENT_BYTES, DescriptorError, Im2col, TensorMap, Texture
from workbench.disk.limits import ARRAY
from workbench.errors import UsageError, did_you_mean
from workbench.model import Dim3, KernelResources, Number, Problem, Record
from workbench.specs import DescriptorSpec, FillSpec, LaunchSpec, Version
from workbench.study.expressions import Key, Scope
from workbench.study.keys import TENSOR_MAP_SIZES, TEXTURE_SIZES
from workbench.study.mangling import entries

# --- tensor maps and textures: descriptors of a buffer's content -----------------------------
#
# A tensor map is passed to a kernel by its name, as a ``const __grid_constant__ CUtensorMap``, a
# texture as a ``cudaTextureObject_t``. Values that the driver would refuse are refused here, with
# their line.

#: The keys that only an im2col map has.
_OF_PIXELS = ("lower", "upper", "channels", "pixels")


class TensorMapArg(Record, frozen=True, tag="tensor_map"):
    """The descriptor of a tensor in a buffer; `where` is its place in the front matter."""

    buffer: str
    map: TensorMap
    where: str = ""

    def check(self, size: int) -> None:
        """Refuse a tensor that reaches beyond its buffer of `size` bytes."""
        _check_reach(self.where, "tensor", self.map.extent, self.buffer, size)


class TextureArg(Record, frozen=True, tag="texture"):
    """A texture over a buffer; `where` is its place in the front matter."""

    buffer: str
    texture: Texture
    where: str = ""

    def check(self, size: int) -> None:
        """Refuse a texture that reaches beyond its buffer of `size` bytes."""
        _check_reach(self.where, "texture", self.texture.extent, self.buffer, size)


def _check_reach(where: str, what: str, extent: int, buffer: str, size: int) -> None:
    if extent > size:
        steps = "strides" if what == "tensor" else "pitch"
        raise UsageError(
            f"{where}: the {what} reaches over {extent:,} bytes, but buffer `{buffer}` has "
            f"{size:,}",
            f"Correct `dims`, `{steps}` or `dtype`; the innermost axis comes first.",
        )


def resolve_descriptors(
    study: Scope, version: Version, problem: Problem
) -> dict[str, TensorMapArg | TextureArg]:
    """A version's tensor maps and textures for one problem, by name.

    Raises UsageError, at the key's line: an unknown buffer, a name that a buffer or parameter has,
    or values that the driver would refuse.
    """
    if not version.tensor_maps and not version.textures:
        return {}
    names, buffers = study.names(version, problem), study.buffer_names(version)
    found: dict[str, TensorMapArg | TextureArg] = {}
    for key, spec, sizes in _descriptors(version):
        (name,), (buffer,) = spec["name"], spec["buffer"]
        if name in buffers or name in names:
            raise Key(version, f"{key}.name").error(
                f"the name `{name}` is taken",
                "Buffers, parameters, maps and textures must all have different names.",
            )
        if buffer not in buffers:
            raise Key(version, f"{key}.buffer").error(
                f"unknown buffer `{buffer}`", did_you_mean(buffer, buffers, "buffers")
            )
        values = {
            each: tuple(Key(version, f"{key}.{each}").value(text, names) for text in texts)
            for each, texts in spec.items()
            if each in sizes
        }
        where = Key(version, f"{key}.dims").where
        try:
            if sizes is TEXTURE_SIZES:
                found[name] = TextureArg(buffer=buffer, texture=_texture(spec, values), where=where)
            else:
                found[name] = TensorMapArg(
                    buffer=buffer, map=_tensor_map(spec, values), where=where
                )
        except DescriptorError as error:
            # Strides that are not given follow from the axes.
            fault = error.key if spec.get(error.key) or error.key != "strides" else "dims"
            raise Key(version, f"{key}.{fault}").error(
                f"{error.message} (problem {problem.name})", error.hint
            ) from None
        texture = found[name]
        if isinstance(texture, TextureArg) and texture.texture.layout == "array":
            _check_copied(Key(version, f"{key}.buffer"), study, buffer)
    return found


def _descriptors(version: Version) -> Iterator[tuple[str, DescriptorSpec, tuple[str, ...]]]:
    """Every descriptor of a version: its key, its texts, and the keys that hold sizes."""
    for index, spec in enumerate(version.tensor_maps):
        yield f"tensor_map[{index}]", spec, TENSOR_MAP_SIZES
    for index, spec in enumerate(version.textures):
        yield f"texture[{index}]", spec, TEXTURE_SIZES


def _check_copied(key: Key, study: Scope, buffer: str) -> None:
    """Refuse an array of a written buffer: it is copied once, before the first launch."""
    if buffer not in study.input_names:
        raise key.error(
            f"`{buffer}` is not an input; arrays are filled before the first launch",
            'Write layout = "linear" for a texture over an output or a scratch buffer.',
        )


def _texture(spec: DescriptorSpec, values: dict[str, tuple[int, ...]]) -> Texture:
    (dtype,), (layout,), (filtered,) = spec["dtype"], spec["layout"], spec["filter"]
    return Texture(
        dtype=dtype,
        dims=values["dims"],
        channels=values["channels"][0],
        pitch=values["pitch"][0],
        layout=layout,  # type: ignore[arg-type] # the rules refuse others
        address=spec["address"],  # type: ignore[arg-type]
        filter=filtered,  # type: ignore[arg-type]
        normalized=spec["normalized"] == ("true",),
        as_float=spec["read"] == ("float",),
    )


def _tensor_map(spec: DescriptorSpec, values: dict[str, tuple[int, ...]]) -> TensorMap:
    (dtype,), (fill,) = spec["dtype"], spec["fill"]
    dims = values["dims"]
    packed = itertools.accumulate(dims[:-1], operator.mul, initial=ELEMENT_BYTES[dtype])
    pixels = None
    if any(values.get(each) for each in _OF_PIXELS):
        for each in _OF_PIXELS:
            if not values.get(each):
                hint = "An im2col map has `lower`, `upper`, `channels` and `pixels`."
                raise DescriptorError(each, f"an im2col map needs `{each}`", hint)
        (channels,), (count,) = values["channels"], values["pixels"]
        pixels = Im2col(values["lower"], values["upper"], channels, count)
    return TensorMap(
        dtype=dtype,
        dims=dims,
        strides=values["strides"] or tuple(packed)[1:],
        box=values["box"],
        element_strides=values["element_strides"],
        swizzle=values["swizzle"][0],  # type: ignore[arg-type] # the rules refuse others
        interleave=values["interleave"][0],  # type: ignore[arg-type]
        fill_nan=fill == "nan",
        im2col=pixels,
        l2_promotion=values["l2_promotion"][0],  # type: ignore[arg-type]
    )


#: Limits that hold on every chip since compute capability 3.0 (CUDA C++ Programming
#: Guide, "Technical Specifications per Compute Capability").
MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
#: Names of a launch's own block, and the keys whose expressions may use them.
BLOCK_NAMES = ("block_x", "block_y", "block_z")
_KNOWING_BLOCK = re.compile(r"launch\[\d+\]\.(grid|args|dynamic_shared|cluster)|tune\.requires")
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
#: 8 blocks per cluster are portable; 16 need a kernel attribute and chip support.
MAX_CLUSTER = 16

#: C type of a number -> (lowest, highest) value; None: a floating type.
CTYPES: dict[str, tuple[int, int] | None] = {
    "int": (-(2**31), 2**31 - 1),
    "uint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1),
    "ulong": (0, 2**64 - 1),
    "float": None,
    "double": None,
    "char": (-(2**7), 2**7 - 1),
    "uchar": (0, 2**8 - 1),
    "short": (-(2**15), 2**15 - 1),
    "ushort": (0, 2**16 - 1),
}
_LETTERS = dict(zip((*CTYPES, "pointer"), "iIqQfdbBhHP", strict=True))
#: A pointer into a buffer: ``at(x, 64)``, this many bytes past its start.
_AT = re.compile(r"at\(\s*(\w+)\s*,(.*)\)\Z", re.DOTALL)
_LARGEST = (2 - 2**-23) * 2.0**127  # the largest float
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?\Z|[+-]?(inf|nan)\Z")


class BufferArg(Record, frozen=True, tag="buffer"):
    """A pointer to a buffer: an input, an output or a scratch buffer; `offset` bytes into it."""

    name: str
    offset: int = 0

    @property
    def ctype(self) -> str:
        """The type's name for `format_of`."""
        return "pointer"


class ScalarArg(Record, frozen=True, tag="scalar"):
    """A number passed by value; `ctype` is a key of `CTYPES`."""

    value: Number
    ctype: str = "int"


class StructArg(Record, frozen=True, tag="struct"):
    """A C struct by value: its members in order, without padding."""

    members: tuple[BufferArg | ScalarArg, ...]


Argument = BufferArg | ScalarArg | StructArg | TensorMapArg | TextureArg


def members_of(argument: BufferArg | ScalarArg | StructArg) -> tuple[BufferArg | ScalarArg, ...]:
    """A struct's members; any other argument is its own only member."""
    return argument.members if isinstance(argument, StructArg) else (argument,)


class ResolvedLaunch(Record, frozen=True):
    """One launch with every expression evaluated. `dynamic_shared` is in bytes."""

    kernel: str
    grid: Dim3
    block: Dim3
    args: tuple[Argument, ...] = ()
    dynamic_shared: int = 0
    cluster: Dim3 | None = None
    cooperative: bool = False


class ResolvedScratch(Record, frozen=True):
    """A scratch buffer with its shape in elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def defined_integers(version: Version) -> dict[str, int]:
    """The version's defines that are plain integers; launch expressions may use them."""
    found = {}
    for name, text in version.defines.items():
        try:
            found[name] = int(text, 0)
        except ValueError:
            continue
    return found


def is_float(text: str) -> bool:
    """True for a number with a point or an exponent, an infinity or a NaN."""
    return _FLOAT.match(text) is not None


@lru_cache(maxsize=4096)
def split_cast(text: str) -> tuple[str, str]:
    """An argument's C type and the expression in it: ``long(M*N)`` -> ("long", "M*N")."""
    if is_float(text):
        return "float", text
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return "int", text
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CTYPES
        and len(node.args) == 1
        and not node.keywords
    ):
        return node.func.id, ast.get_source_segment(text, node.args[0]) or ""
    return "int", text


def check_names(version: Version, buffers: set[str], names: dict[str, int]) -> None:
    """Refuse names in a version's expressions that its study does not have.

    `buffers` are inputs, outputs and the version's scratch buffers, `names` parameters and integer
    defines. Raises UsageError: at file and line, with the nearest right name.
    """
    maps = [name for _, spec, _ in _descriptors(version) for name in spec["name"]]
    plain = names
    for key, text in _expressions(version):
        names = plain | dict.fromkeys(BLOCK_NAMES, 1) if _KNOWING_BLOCK.match(key.path) else plain
        if key.name == "args":
            if text in buffers or text in maps:
                continue
            if inside := _AT.match(text):
                if inside[1] not in buffers:
                    hint = did_you_mean(inside[1], buffers, "buffers")
                    raise key.error(f"unknown buffer `{inside[1]}` in {key.name}", hint)
                text = inside[2]
            ctype, text = split_cast(text)
            if is_float(text) and CTYPES[ctype] is None:
                continue
        if key.name == "value" and is_float(text):
            continue
        for used in key.names_in(text):
            if used not in names:
                known = [*plain, *([*sorted(buffers), *maps] if key.name == "args" else ())]
                raise key.error(
                    f"unknown name `{used}` in {key.name}", did_you_mean(used, known, "names")
                )


def _expressions(version: Version) -> Iterator[tuple[Key, str]]:
    """Every expression of a version's front matter, and its key."""
    for index, launch in enumerate(version.launches):
        for name in ("grid", "block", "args", "cluster"):
            for given in getattr(launch, name):
                for text in (given,) if isinstance(given, str) else given:
                    yield Key(version, f"launch[{index}].{name}"), text
        for name in ("dynamic_shared", "when"):
            yield Key(version, f"launch[{index}].{name}"), getattr(launch, name)
    for index, buffer in enumerate(version.scratch):
        for text in buffer.shape:
            yield Key(version, f"scratch[{index}].shape"), text
    for index, fill in enumerate(version.fills):
        for text in fill.values:
            yield Key(version, f"fill[{index}].value"), text
    for key, spec, sizes in _descriptors(version):
        for name in sizes:
            for text in spec.get(name, ()):
                yield Key(version, f"{key}.{name}"), text
    if version.requires:
        yield Key(version, "requires"), version.requires
    if version.tune and version.tune.requires:
        yield Key(version, "tune.requires"), version.tune.requires


def _extent(
    key: Key, texts: tuple[str, ...], names: dict[str, int], limits: Dim3, problem: Problem
) -> Dim3:
    values = [key.value(text, names) for text in texts]
    for axis, value, text, limit in zip("xyz", values, texts, limits, strict=False):
        if not 1 <= value <= limit:
            raise key.error(
                f"{key.name}.{axis} is {value} for problem {problem.name} (`{text}`)",
                f"It must be from 1 to {limit}.",
            )
    x, y, z = (*values, 1, 1)[:3]
    return (x, y, z)


def _argument(
    key: Key,
    given: str | tuple[str, ...],
    names: dict[str, int],
    buffers: set[str],
    maps: dict[str, TensorMapArg | TextureArg],
) -> Argument:
    if isinstance(given, str):
        return maps[given] if given in maps else _plain(key, given, names, buffers)
    for text in given:
        if text in maps:
            what, takes = (
                ("texture", "cudaTextureObject_t")
                if isinstance(maps[text], TextureArg)
                else ("tensor map", "const __grid_constant__ CUtensorMap")
            )
            raise key.error(
                f"`{text}` is a {what}, which no struct may hold here",
                f"Give it as an argument of its own, a `{takes}`.",
            )
    return StructArg(members=tuple(_plain(key, text, names, buffers) for text in given))


def _plain(key: Key, text: str, names: dict[str, int], buffers: set[str]) -> BufferArg | ScalarArg:
    if text in buffers:
        return BufferArg(name=text)
    if inside := _AT.match(text):
        if (offset := key.value(inside[2].strip(), names)) < 0:
            raise key.error(f"argument `{text}` points before its buffer", "Count bytes from 0.")
        return BufferArg(name=inside[1], offset=offset)
    ctype, inner = split_cast(text)
    bounds = CTYPES[ctype]
    if bounds is None:
        number = float(inner) if is_float(inner) else float(key.value(inner, names))
        if ctype == "float" and _LARGEST < abs(number) < math.inf:
            raise key.error(
                f"argument `{text}` does not fit into `float`", f"double({inner}) does."
            )
        return ScalarArg(value=number, ctype=ctype)
    value = key.value(inner, names)
    low, high = bounds
    if not low <= value <= high:
        raise key.error(
            f"argument `{text}` is {value}, which does not fit into `{ctype}`",
            f"Write long({inner}) and take it as `long long` in the kernel.",
        )
    return ScalarArg(value=value, ctype=ctype)


def resolve_launches(
    study: Scope, version: Version, problem: Problem
) -> tuple[ResolvedLaunch, ...]:
    """A version's launches with every expression evaluated for one problem.

    Raises UsageError: a value that no chip can launch (an empty grid, more than 1024 threads per
    block …), a tensor map or texture that no chip can read, or no launch, at the key's line.
    Requirements are not checked here: see `Study.check_requirements`.
    """
    plain = study.names(version, problem)
    buffers = study.buffer_names(version)
    maps = resolve_descriptors(study, version, problem)
    launches = []
    for index, spec in enumerate(version.launches):
        grid_key, block_key, args_key, shared_key, cluster_key, when_key = (
            Key(version, f"launch[{index}].{name}")
            for name in ("grid", "block", "args", "dynamic_shared", "cluster", "when")
        )
        if not when_key.value(spec.when, plain):
            continue
        block = _extent(block_key, spec.block, plain, MAX_BLOCK, problem)
        names = dict(zip(BLOCK_NAMES, block, strict=True)) | plain
        grid = _extent(grid_key, spec.grid, names, MAX_GRID, problem)
        if (threads := math.prod(block)) > MAX_THREADS:
            raise block_key.error(
                f"{threads} threads per block for problem {problem.name}",
                f"A block has at most {MAX_THREADS} threads, such as 32 × 32, or 1024 along x.",
            )
        shared = shared_key.value(spec.dynamic_shared, names)
        if shared < 0:
            raise shared_key.error(
                f"dynamic_shared is {shared} bytes for problem {problem.name}",
                "It must be 0 or more.",
            )
        args = tuple(_argument(args_key, text, names, buffers, maps) for text in spec.args)
        _check_divisible(Key(version, f"launch[{index}].divisible_by_16"), spec, args, problem)
        cluster = None
        if spec.cluster:
            limits = (MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER)
            cluster = _extent(cluster_key, spec.cluster, names, limits, problem)
            _check_cluster(cluster_key, cluster, grid, problem)
        launches.append(
            ResolvedLaunch(
                kernel=spec.kernel,
                grid=grid,
                block=block,
                args=args,
                dynamic_shared=shared,
                cluster=cluster,
                cooperative=spec.cooperative,
            )
        )
    if version.launches and not launches:
        raise Key(version, "launch[0].when").error(
            f"every `when` is 0 for problem {problem.name}, so nothing is launched",
            "Make one of them true, or exclude the problem with `requires`.",
        )
    return tuple(launches)


def _check_divisible(key: Key, spec: LaunchSpec, args: Sequence[object], problem: Problem) -> None:
    for text, argument in zip(spec.args, args, strict=True):
        if not isinstance(text, str) or text not in spec.divisible_by_16:
            continue
        value = argument.value if isinstance(argument, ScalarArg) else "a pointer"
        if isinstance(value, str) or value % 16:
            raise key.error(
                f"`{text}` is {value} for problem {problem.name}, which is not a multiple of 16",
                f'Require this: requires = "{text} % 16 == 0"; or drop `divisible_by_16`.',
            )


def format_of(kinds: Sequence[str]) -> str:
    """A number, or a struct of several, as Python's `struct` writes it after ``@``.

    It has C's layout: it begins and ends at a multiple of its widest member's size.

    `kinds` are keys of `CTYPES`, or ``pointer``.
    """
    letters = "".join(_LETTERS[kind] for kind in kinds)
    widest = max(letters, key=struct.calcsize)
    return f"0{widest}{letters}0{widest}"


def complete(
    launches: tuple[ResolvedLaunch, ...], resources: tuple[KernelResources, ...]
) -> tuple[ResolvedLaunch, ...]:
    """Launches by their compiled kernels' names, with the additions that Triton needs."""
    wants = {each.name: each for each in resources if each.implied_shared or each.implied_args}
    null = ScalarArg(value=0, ctype="ulong")
    names = [each.name for each in resources]

    def named(launch: ResolvedLaunch) -> ResolvedLaunch:
        found = entries(launch.kernel, names)
        return msgspec.structs.replace(launch, kernel=found[0]) if found else launch

    return tuple(
        named(launch)
        if (want := wants.get(launch.kernel)) is None
        else msgspec.structs.replace(
            launch,
            dynamic_shared=want.implied_shared,
            args=launch.args + (null,) * want.implied_args,
        )
        for launch in launches
    )


def _check_cluster(key: Key, cluster: Dim3, grid: Dim3, problem: Problem) -> None:
    blocks = math.prod(cluster)
    uneven = any(size % part for size, part in zip(grid, cluster, strict=True))
    if blocks > MAX_CLUSTER or uneven:
        why = "is not a divisor of the grid" if uneven else f"has {blocks} blocks"
        raise key.error(
            f"cluster {cluster} {why} for problem {problem.name}",
            f"Each dimension must divide the grid's, {grid}; at most {MAX_CLUSTER} blocks in all.",
        )


def resolve_scratch(
    study: Scope, version: Version, problem: Problem
) -> tuple[ResolvedScratch, ...]:
    """A version's scratch buffers with their shapes evaluated for one problem.

    Raises UsageError: a dimension below one, or a buffer over the limit, at the key's line.
    """
    names = study.names(version, problem)
    buffers = []
    for index, spec in enumerate(version.scratch):
        key = Key(version, f"scratch[{index}].shape")
        shape = tuple(key.value(text, names) for text in spec.shape)
        if any(size < 1 for size in shape):
            raise key.error(
                f"scratch `{spec.name}` has shape {shape} for problem {problem.name}",
                "Every dimension must be 1 or more.",
            )
        what, hint = ARRAY.too_large(spec.name, shape, ELEMENT_BYTES.get(spec.dtype, 1))
        if what:
            raise key.error(f"scratch {what}, on problem {problem.name}", hint)
        buffers.append(ResolvedScratch(name=spec.name, dtype=spec.dtype, shape=shape))
    return tuple(buffers)


# --- fills: the contents of buffers and symbols before the first launch -------------------------
#
# A fill writes one of the version's own buffers (outputs, scratch) or a ``__constant__`` or
# ``__device__`` variable of its code. Any other name is taken for such a variable; whether the
# build has it is known only when the version runs.

_INTEGER = re.compile(r"(u?)int(\d+)\Z")


class ResolvedFill(Record, frozen=True):
    """A fill with its values evaluated.

    `input` names the input that is copied; empty: `values` of type `dtype` are repeated, the
    last repetition cut where the memory ends. They are numbers as text, because some that pass to
    the worker have no form in JSON (infinities). `where` is the place in the front matter.
    """

    name: str
    symbol: bool
    input: str = ""
    dtype: str = ""
    values: tuple[str, ...] = ()
    where: str = ""
    restores: bool = False


class FillScope(Scope, Protocol):
    """The part of a `workbench.study.folder.Study`, beyond a `Scope`, that resolving fills uses."""

    def outputs(self, problem: Problem) -> dict[str, tuple[tuple[int, ...], str]]:
        """Name -> shape and dtype of each output."""
        ...


def resolve_fills(study: FillScope, version: Version, problem: Problem) -> tuple[ResolvedFill, ...]:
    """A version's fills for one problem.

    Raises UsageError, at the key's line: the fill writes an input, or copies an unknown input, or
    has a value that the type cannot hold.
    """
    if not version.fills:
        return ()
    names = study.names(version, problem)
    types = {name: dtype for name, (_, dtype) in study.outputs(problem).items()}
    types |= {each.name: each.dtype for each in version.scratch}
    return tuple(
        _resolved(study, version, index, types, names) for index in range(len(version.fills))
    )


def _resolved(
    study: FillScope, version: Version, index: int, types: dict[str, str], names: dict[str, int]
) -> ResolvedFill:
    spec = version.fills[index]
    name, value, source = (
        Key(version, f"fill[{index}].{key}") for key in ("name", "value", "input")
    )
    if spec.name in study.input_names:
        raise name.error(
            f"`{spec.name}` is an input, which study.py fills",
            "Fill an output, a scratch buffer, or a __constant__ or __device__ variable.",
        )
    if spec.input and spec.input not in study.input_names:
        raise source.error(
            f"unknown input `{spec.input}`", did_you_mean(spec.input, study.input_names, "inputs")
        )
    dtype = _dtype(spec, types, name) if spec.values else ""
    return ResolvedFill(
        name=spec.name,
        symbol=spec.name not in types,
        input=spec.input,
        dtype=dtype,
        values=tuple(_number(value, text, dtype, names) for text in spec.values),
        where=name.where,
        restores=spec.restores,
    )


def _dtype(spec: FillSpec, types: dict[str, str], key: Key) -> str:
    """The type of the values: the buffer's own, or the one given for a variable of the code."""
    own = types.get(spec.name, "")
    if own and spec.dtype not in ("", own):
        raise key.error(f"`{spec.name}` holds {own}, not {spec.dtype}", "Leave `dtype` out.")
    if not (dtype := own or spec.dtype):
        raise key.error(
            f"`{spec.name}` is not a buffer, and the type of its value is not given",
            f'Add dtype = "float32" for a variable of the code. '
            f"{did_you_mean(spec.name, sorted(types), 'buffers')}",
        )
    return dtype


def _number(key: Key, text: str, dtype: str, names: dict[str, int]) -> str:
    integer = _INTEGER.match(dtype)
    if is_float(text):
        if integer:
            raise key.error(f"value {text} is not a {dtype}", "Write it without a decimal point.")
        return text
    number = key.value(text, names)
    if not integer:
        return str(number)
    bits = int(integer[2])
    low, high = (0, 2**bits - 1) if integer[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not low <= number <= high:
        raise key.error(f"value {number} is more than {dtype} can hold", f"From {low} to {high}.")
    return str(number)
