"""From launch expressions to numbers: what a version starts for one problem."""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from workbench.errors import did_you_mean
from workbench.model import Dim3, KernelResources, Number, Problem, Record
from workbench.specs import LaunchSpec, Version
from workbench.study.keys import TENSOR_MAP_SIZES
from workbench.study.scope import Key, Scope
from workbench.study.tensormaps import TensorMapArg, resolve_tensor_maps

#: Limits that hold on every chip since compute capability 3.0 (CUDA C++ Programming
#: Guide, "Technical Specifications per Compute Capability").
MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
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
_LARGEST = (2 - 2**-23) * 2.0**127  # of float
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?\Z|[+-]?(inf|nan)\Z")


class BufferArg(Record, frozen=True, tag="buffer"):
    """A pointer to a buffer: an input, an output or a scratch buffer."""

    name: str

    @property
    def ctype(self) -> str:
        """What `format_of` calls it."""
        return "pointer"


class ScalarArg(Record, frozen=True, tag="scalar"):
    """A number passed by value; `ctype` is a key of `CTYPES`."""

    value: Number
    ctype: str = "int"


class StructArg(Record, frozen=True, tag="struct"):
    """A C struct by value: its members in order, without what C puts between them."""

    members: tuple[BufferArg | ScalarArg, ...]


Argument = BufferArg | ScalarArg | StructArg | TensorMapArg


def members_of(
    argument: BufferArg | ScalarArg | StructArg,
) -> tuple[BufferArg | ScalarArg, ...]:
    """A struct's members; any other argument is its own only one."""
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
    """Whether it is a number with a point or an exponent, an infinity or a NaN."""
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

    Args:
        version: The version to check.
        buffers: Inputs, outputs and the version's scratch buffers.
        names: Parameters and integer defines.

    Raises:
        UsageError: at file and line, with the nearest right name.
    """
    maps = [name for spec in version.tensor_maps for name in spec["name"]]
    for key, text in _expressions(version):
        if key.name == "args":
            if text in buffers or text in maps:
                continue
            ctype, text = split_cast(text)
            if is_float(text) and CTYPES[ctype] is None:
                continue
        if key.name == "value" and is_float(text):
            continue
        for used in key.names_in(text):
            if used not in names:
                known = [*names, *([*sorted(buffers), *maps] if key.name == "args" else ())]
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
    for index, spec in enumerate(version.tensor_maps):
        for name in TENSOR_MAP_SIZES:
            for text in spec.get(name, ()):
                yield Key(version, f"tensor_map[{index}].{name}"), text
    if version.requires:
        yield Key(version, "requires"), version.requires


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
    maps: dict[str, TensorMapArg],
) -> Argument:
    if isinstance(given, str):
        return maps[given] if given in maps else _plain(key, given, names, buffers)
    for text in given:
        if text in maps:
            raise key.error(
                f"`{text}` is a tensor map, which no struct may hold here",
                "Give it as an argument of its own, a `const __grid_constant__ CUtensorMap`.",
            )
    return StructArg(members=tuple(_plain(key, text, names, buffers) for text in given))


def _plain(key: Key, text: str, names: dict[str, int], buffers: set[str]) -> BufferArg | ScalarArg:
    if text in buffers:
        return BufferArg(name=text)
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

    Raises:
        UsageError: a value that no chip can launch (an empty grid, more than 1024
            threads per block …), a tensor map that none can read, or no launch at all, at the
            key's line; an unmet requirement is not checked here: see
            `Study.check_requirements`.
    """
    names = study.names(version, problem)
    buffers = study.buffer_names(version)
    maps = resolve_tensor_maps(study, version, problem)
    launches = []
    for index, spec in enumerate(version.launches):
        grid_key, block_key, args_key, shared_key, cluster_key, when_key = (
            Key(version, f"launch[{index}].{name}")
            for name in ("grid", "block", "args", "dynamic_shared", "cluster", "when")
        )
        if not when_key.value(spec.when, names):
            continue
        grid = _extent(grid_key, spec.grid, names, MAX_GRID, problem)
        block = _extent(block_key, spec.block, names, MAX_BLOCK, problem)
        if (threads := math.prod(block)) > MAX_THREADS:
            raise block_key.error(
                f"{threads} threads per block for problem {problem.name}",
                f"A block has at most {MAX_THREADS} threads.",
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
            "Make one of them hold, or exclude the problem with `requires`.",
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
                f'Ask for it: requires = "{text} % 16 == 0"; or leave it out.',
            )


def format_of(kinds: Sequence[str]) -> str:
    """A number, or a struct of several, as Python's `struct` writes it after ``@``.

    As C lays it out: it begins and ends at a multiple of its widest member's size.

    Args:
        kinds: Keys of `CTYPES`, or ``pointer``.
    """
    letters = "".join(_LETTERS[kind] for kind in kinds)
    widest = max(letters, key=struct.calcsize)
    return f"0{widest}{letters}0{widest}"


def complete(
    launches: tuple[ResolvedLaunch, ...], resources: tuple[KernelResources, ...]
) -> tuple[ResolvedLaunch, ...]:
    """Launches with what the compiler of their kernels wants of every launch (Triton does)."""
    wants = {each.name: each for each in resources if each.implied_shared or each.implied_args}
    null = ScalarArg(value=0, ctype="ulong")
    return tuple(
        launch
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

    Raises:
        UsageError: a dimension below one, at the key's line.
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
        buffers.append(ResolvedScratch(name=spec.name, dtype=spec.dtype, shape=shape))
    return tuple(buffers)
