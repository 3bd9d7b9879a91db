"""What a kernel's parameters are, and where its arguments are of another size or type.

A driver reads as many bytes as a kernel's parameters have, whatever it was given: arguments are
counted and measured against the PTX before anything is launched.

NumPy makes float64 where nothing else is said, and a kernel that takes ``const float*`` reads
such an array as noise: no compiler sees that, and no access is out of bounds. Only types that are
written out are read; of a name that a typedef or a template gave, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import calcsize

from workbench.specs import Version
from workbench.study.expressions import Key
from workbench.study.launches import (
    Argument,
    BufferArg,
    ResolvedLaunch,
    StructArg,
    TensorMapArg,
    format_of,
    members_of,
)
from workbench.study.mangling import entries, own_name
from workbench.study.sources import without_comments

#: NumPy's name of what a pointer of that type points to.
ELEMENTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "int": "int32",
    "int32_t": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "long long": "int64",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "int8_t": "int8",
    "uint8_t": "uint8",
}
_TENSOR_MAP_BYTES, _WIDEST = 128, 8
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)[^\[]*(?:\[(\d+)\])?\s*\Z")
_POINTER = re.compile(r"(?:(?:const|volatile)\s+)*([\w ]+?)\s*(?:\bconst\s*)?\*[^*\[]*\Z")


def check_arguments(version: Version, ptx: str, launches: Iterable[ResolvedLaunch]) -> None:
    """Hold arguments against the parameters that kernels were compiled with.

    Args:
        version: Whose launches they are.
        ptx: What its code was compiled to; of kernels that it lacks nothing is said.
        launches: On a problem.

    Raises:
        UsageError: there are more or fewer arguments than parameters, or one is of another size;
            at the line of `args`.
    """
    for launch in launches:
        wanted = parameter_bytes(ptx, launch.kernel)
        given = [_bytes(argument) for argument in launch.args]
        if wanted is None or given == list(wanted):
            continue
        index = next(
            n for n, spec in enumerate(version.launches) if entries(spec.kernel, [launch.kernel])
        )
        key = Key(version, f"launch[{index}].args")
        if len(given) != len(wanted):
            raise key.error(
                f"kernel {launch.kernel} takes {len(wanted)} arguments, not {len(given)}",
                "A struct that is passed by value is one argument: a list of its members.",
            )
        place = next(
            n for n, pair in enumerate(zip(given, wanted, strict=True)) if len({*pair}) > 1
        )
        struct = isinstance(launch.args[place], StructArg)
        raise key.error(
            f"argument {place + 1} of kernel {launch.kernel} has {given[place]} bytes, "
            f"and the kernel takes {wanted[place]}",
            "Give every member of the struct in order, of its type: long(N), float(0.5), short(1)."
            if struct or wanted[place] > _WIDEST
            else "Give its type: long(N), float(0.5), double(N).",
        )


@lru_cache(maxsize=16)
def parameter_bytes(ptx: str, kernel: str) -> tuple[int, ...] | None:
    """The sizes of a kernel's parameters in its PTX; None: it has no such kernel."""
    found = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(([^)]*)\)", ptx)
    if found is None:
        return None
    declared = [text.strip() for text in found[1].split(",") if text.strip()]
    matches = [_PARAMETER.match(text) for text in declared]
    sizes = [int(match[1]) // 8 * int(match[2] or 1) for match in matches if match]
    return tuple(sizes) if len(sizes) == len(declared) else None


def _bytes(argument: Argument) -> int:
    if isinstance(argument, TensorMapArg):
        return _TENSOR_MAP_BYTES
    return calcsize(f"@{format_of([each.ctype for each in members_of(argument)])}")


def misread(
    code: str, launches: Iterable[ResolvedLaunch], dtypes: Mapping[str, str]
) -> tuple[str, ...]:
    """Sentences on the arguments whose elements the kernels take for another type.

    Args:
        code: The version's CUDA source.
        launches: Its launches on a problem.
        dtypes: NumPy's name of the type of every buffer.
    """
    plain = without_comments(code)
    said = []
    for launch in launches:
        found = re.search(rf"\b{re.escape(own_name(launch.kernel))}\s*\(([^()]*)\)", plain)
        parameters = found[1].split(",") if found else []
        if len(parameters) != len(launch.args):
            continue
        for parameter, argument in zip(parameters, launch.args, strict=True):
            if not isinstance(argument, BufferArg):
                continue
            given, (taken, written) = dtypes.get(argument.name, ""), _pointer(parameter)
            if taken and _mistaken(given, taken):
                said.append(
                    f"`{argument.name}` is {given}, and {own_name(launch.kernel)} takes it as "
                    f"{written}: give both one type."
                )
    return tuple(dict.fromkeys(said))


def _mistaken(given: str, taken: str) -> bool:
    """Whether that can hardly be meant. Several small integers may well be read as one."""
    if given not in ELEMENTS.values() or given == taken:
        return False
    floats = given.startswith("float") and taken.startswith("float")
    return floats or _bits(given) > _bits(taken)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _pointer(parameter: str) -> tuple[str, str]:
    """NumPy's type of what a parameter points to, and C's; empty where it is not written out."""
    match = _POINTER.match(" ".join(parameter.split()))
    name = match[1] if match else ""
    return ELEMENTS.get(name, ""), f"{name}*"
