"""What a kernel's parameters point to, and where its arguments are of another type.

NumPy makes float64 where nothing else is said, and a kernel that takes ``const float*`` reads
such an array as noise: no compiler sees that, and no access is out of bounds. Only types that are
written out are read; of a name that a typedef or a template gave, nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from workbench.study.discovery import without_comments
from workbench.study.launches import BufferArg, ResolvedLaunch

#: NumPy's name of what a pointer of that type points to.
_ELEMENTS = {
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
_POINTER = re.compile(r"(?:(?:const|volatile)\s+)*([\w ]+?)\s*(?:\bconst\s*)?\*[^*\[]*\Z")


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
        found = re.search(rf"\b{re.escape(launch.kernel)}\s*\(([^()]*)\)", plain)
        parameters = found[1].split(",") if found else []
        if len(parameters) != len(launch.args):
            continue
        for parameter, argument in zip(parameters, launch.args, strict=True):
            if not isinstance(argument, BufferArg):
                continue
            given, (taken, written) = dtypes.get(argument.name, ""), _pointer(parameter)
            if taken and _mistaken(given, taken):
                said.append(
                    f"`{argument.name}` is {given}, and {launch.kernel} takes it as {written}: "
                    "give both one type."
                )
    return tuple(dict.fromkeys(said))


def _mistaken(given: str, taken: str) -> bool:
    """Whether that can hardly be meant. Several small integers may well be read as one."""
    if given not in _ELEMENTS.values() or given == taken:
        return False
    floats = given.startswith("float") and taken.startswith("float")
    return floats or _bits(given) > _bits(taken)


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _pointer(parameter: str) -> tuple[str, str]:
    """NumPy's type of what a parameter points to, and C's; empty where it is not written out."""
    match = _POINTER.match(" ".join(parameter.split()))
    name = match[1] if match else ""
    return _ELEMENTS.get(name, ""), f"{name}*"
