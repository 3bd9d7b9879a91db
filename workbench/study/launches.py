"""From launch expressions to numbers: what a version starts for one problem."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from typing import Protocol

from workbench.errors import UsageError
from workbench.model import Dim3, Number, Problem, Record, Version
from workbench.nearest import did_you_mean
from workbench.study.expressions import evaluate, names_in
from workbench.study.frontmatter import place

#: Limits that hold on every chip since compute capability 3.0 (CUDA C++ Programming
#: Guide, "Technical Specifications per Compute Capability").
MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
#: 8 blocks a cluster are portable; 16 need a kernel attribute and chip support.
MAX_CLUSTER = 16

#: C type of a scalar argument -> (lowest, highest) value; None: a floating type.
CTYPES: dict[str, tuple[int, int] | None] = {
    "int": (-(2**31), 2**31 - 1),
    "uint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1),
    "ulong": (0, 2**64 - 1),
    "float": None,
    "double": None,
}
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?\Z|[+-]?(inf|nan)\Z")


class BufferArg(Record, frozen=True, tag="buffer"):
    """A pointer to a buffer: an input, an output or a scratch buffer."""

    name: str


class ScalarArg(Record, frozen=True, tag="scalar"):
    """A number passed by value; `ctype` is a key of `CTYPES`."""

    value: Number
    ctype: str = "int"


class ResolvedLaunch(Record, frozen=True):
    """One launch with every expression evaluated. `dynamic_shared` is in bytes."""

    kernel: str
    grid: Dim3
    block: Dim3
    args: tuple[BufferArg | ScalarArg, ...] = ()
    dynamic_shared: int = 0
    cluster: Dim3 | None = None


class ResolvedScratch(Record, frozen=True):
    """A scratch buffer with its shape in elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Scope(Protocol):
    """What resolving needs of a `workbench.study.folder.Study`, which imports this module."""

    def names(self, version: Version, problem: Problem) -> dict[str, int]:
        """Parameters and integer defines, by name."""
        ...

    def buffer_names(self, version: Version) -> set[str]:
        """Inputs, outputs and the version's scratch buffers."""
        ...


def _fail(version: Version, key: str, what: str, hint: str) -> UsageError:
    return UsageError(f"{place(version, key)}: {what}", hint)


def defined_integers(version: Version) -> dict[str, int]:
    """The version's defines that are plain integers; launch expressions may use them."""
    found = {}
    for name, text in version.defines.items():
        try:
            found[name] = int(text, 0)
        except ValueError:
            continue
    return found


def split_cast(text: str) -> tuple[str, str]:
    """An argument's C type and the expression in it: ``long(M*N)`` -> ("long", "M*N")."""
    if _FLOAT.match(text):
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
    for key, text in _expressions(version):
        if key.endswith(".args"):
            if text in buffers:
                continue
            ctype, text = split_cast(text)
            if _FLOAT.match(text) and CTYPES[ctype] is None:
                continue
        if unknown := _unknown(version, key, text, names):
            known = [*names, *(sorted(buffers) if key.endswith(".args") else ())]
            raise _fail(
                version,
                key,
                f"unknown name `{unknown}` in {key.rpartition('.')[2]}",
                did_you_mean(unknown, known, "names"),
            )


def _unknown(version: Version, key: str, text: str, names: dict[str, int]) -> str:
    try:
        used = names_in(text)
    except UsageError as error:
        raise _fail(
            version, key, f"{key.rpartition('.')[2]}: {error.message}", error.hint
        ) from None
    return next((name for name in used if name not in names), "")


def _expressions(version: Version) -> Iterator[tuple[str, str]]:
    """Every (key path, expression) of a version's front matter."""
    for index, launch in enumerate(version.launches):
        for key in ("grid", "block", "args", "cluster"):
            for text in getattr(launch, key):
                yield f"launch[{index}].{key}", text
        yield f"launch[{index}].dynamic_shared", launch.dynamic_shared
    for index, buffer in enumerate(version.scratch):
        for text in buffer.shape:
            yield f"scratch[{index}].shape", text
    if version.requires:
        yield "requires", version.requires


def _value(version: Version, key: str, text: str, names: dict[str, int]) -> int:
    try:
        return evaluate(text, names)
    except UsageError as error:
        raise _fail(
            version, key, f"{key.rpartition('.')[2]}: {error.message}", error.hint
        ) from None


def _extent(
    version: Version,
    key: str,
    texts: tuple[str, ...],
    names: dict[str, int],
    limits: Dim3,
    problem: Problem,
) -> Dim3:
    values = [_value(version, key, text, names) for text in texts]
    short = key.rpartition(".")[2]
    for axis, (value, text, limit) in enumerate(zip(values, texts, limits, strict=False)):
        if not 1 <= value <= limit:
            raise _fail(
                version,
                key,
                f"{short}.{'xyz'[axis]} is {value} for problem {problem.name} (`{text}`)",
                f"It must be from 1 to {limit}.",
            )
    x, y, z = (*values, 1, 1)[:3] if len(values) < 3 else values
    return (x, y, z)


def _argument(
    version: Version, key: str, text: str, names: dict[str, int], buffers: set[str]
) -> BufferArg | ScalarArg:
    if text in buffers:
        return BufferArg(name=text)
    ctype, inner = split_cast(text)
    bounds = CTYPES[ctype]
    if bounds is None:
        number = float(inner) if _FLOAT.match(inner) else float(_value(version, key, inner, names))
        return ScalarArg(value=number, ctype=ctype)
    value = _value(version, key, inner, names)
    low, high = bounds
    if not low <= value <= high:
        raise _fail(
            version,
            key,
            f"argument `{text}` is {value}, which no `{ctype}` holds",
            f"Write long({inner}) and take it as `long long` in the kernel.",
        )
    return ScalarArg(value=value, ctype=ctype)


def resolve_launches(
    study: Scope, version: Version, problem: Problem
) -> tuple[ResolvedLaunch, ...]:
    """A version's launches with every expression evaluated for one problem.

    Raises:
        UsageError: a value that no chip can launch (an empty grid, more than 1024
            threads a block …), at the key's line; an unmet requirement is not
            checked here: see `Study.check_requirements`.
    """
    names = study.names(version, problem)
    buffers = study.buffer_names(version)
    launches = []
    for index, spec in enumerate(version.launches):
        key = f"launch[{index}]"
        grid = _extent(version, f"{key}.grid", spec.grid, names, MAX_GRID, problem)
        block = _extent(version, f"{key}.block", spec.block, names, MAX_BLOCK, problem)
        if (threads := math.prod(block)) > MAX_THREADS:
            raise _fail(
                version,
                f"{key}.block",
                f"{threads} threads a block for problem {problem.name}",
                f"No chip runs more than {MAX_THREADS}.",
            )
        shared = _value(version, f"{key}.dynamic_shared", spec.dynamic_shared, names)
        if shared < 0:
            raise _fail(
                version,
                f"{key}.dynamic_shared",
                f"dynamic_shared is {shared} bytes for problem {problem.name}",
                "It must be 0 or more.",
            )
        launches.append(
            ResolvedLaunch(
                kernel=spec.kernel,
                grid=grid,
                block=block,
                args=tuple(
                    _argument(version, f"{key}.args", text, names, buffers) for text in spec.args
                ),
                dynamic_shared=shared,
                cluster=_cluster(version, key, spec.cluster, names, grid, problem),
            )
        )
    return tuple(launches)


def _cluster(
    version: Version,
    key: str,
    texts: tuple[str, ...],
    names: dict[str, int],
    grid: Dim3,
    problem: Problem,
) -> Dim3 | None:
    if not texts:
        return None
    limits = (MAX_CLUSTER, MAX_CLUSTER, MAX_CLUSTER)
    cluster = _extent(version, f"{key}.cluster", texts, names, limits, problem)
    blocks = math.prod(cluster)
    uneven = any(size % part for size, part in zip(grid, cluster, strict=True))
    if blocks > MAX_CLUSTER or uneven:
        why = "is not a divisor of the grid" if uneven else f"has {blocks} blocks"
        raise _fail(
            version,
            f"{key}.cluster",
            f"cluster {cluster} {why} for problem {problem.name}",
            f"Each dimension must divide the grid's, {grid}; at most {MAX_CLUSTER} blocks in all.",
        )
    return cluster


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
        key = f"scratch[{index}].shape"
        shape = tuple(_value(version, key, text, names) for text in spec.shape)
        if any(size < 1 for size in shape):
            raise _fail(
                version,
                key,
                f"scratch `{spec.name}` has shape {shape} for problem {problem.name}",
                "Every dimension must be 1 or more.",
            )
        buffers.append(ResolvedScratch(name=spec.name, dtype=spec.dtype, shape=shape))
    return tuple(buffers)
