"""Names of C++ kernels: as compilers write them, and as people do."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
#: Of an integer as an argument of a template: its type, and its suffix.
_CAST, _SUFFIX = re.compile(r"\([a-z ]+\)(?=-?\d)"), re.compile(r"\b(\d+)(?:u|l|ul)+\b")


@cache
def _demangler() -> Callable[[str], str] | None:
    """``__cxa_demangle`` of the C++ runtime, which nearly every system has."""
    import ctypes  # few commands meet such a name

    for name in _LIBRARIES:
        with suppress(OSError, AttributeError):
            function = ctypes.CDLL(name)["__cxa_demangle"]
            break
    else:
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def call(symbol: str) -> str:
        text = function(symbol.encode(), None, None, ctypes.byref(ctypes.c_int()))
        if not text:
            return symbol
        try:
            return ctypes.string_at(text).decode("utf-8", "replace")
        finally:
            free(text)

    return call


def demangled(symbol: str) -> str:
    """``_Z4gemmPf`` -> ``gemm(float*)``; what is no mangled C++ name comes back as it is."""
    call = _demangler() if symbol.startswith("_Z") else None
    return call(symbol) if call else symbol


def written(symbol: str) -> str:
    """``_Z4gemmIfLi8EEvPT_`` -> ``gemm<float, 8>``: the kernel, as a launch names it."""
    signature = demangled(symbol)
    depth = 0
    for at in range(len(signature) - 1, -1, -1):  # its parameters are the last parentheses
        depth += (signature[at] == ")") - (signature[at] == "(")
        if signature[at] == "(" and depth == 0:
            signature = signature[:at]
            break
    depth = 0
    for at in range(len(signature) - 1, -1, -1):  # and what it gives back stands before a blank
        depth += (signature[at] == ">") - (signature[at] == "<")
        if signature[at] == " " and depth == 0:
            return signature[at + 1 :]
    return signature


def own_name(kernel: str) -> str:
    """The function's own name, however a launch names it: without its namespace and types."""
    name = written(kernel) if kernel.startswith("_Z") else kernel
    return name.partition("<")[0].rpartition("::")[2]


def spelled(name: str) -> str:
    """A name without what may be written in two ways: white space, casts, suffixes of numbers.

    Args:
        name: As a demangler, ncu or a source has it.
    """
    return re.sub(r"\s+", "", _SUFFIX.sub(r"\1", _CAST.sub("", name)))


def entries(kernel: str, names: Collection[str]) -> list[str]:
    """Which compiled kernels a name may mean: itself, an instantiation, or one of any namespace.

    Args:
        kernel: ``k``, ``k<float>`` or a mangled name.
        names: Of what was compiled.
    """
    if kernel in names:
        return [kernel]
    asked = spelled(kernel)
    found = []
    for name in names:
        have = spelled(written(name)) if name.startswith("_Z") else ""
        ways = {have, have.partition("<")[0]}
        ways |= {
            each.partition("<")[0].rpartition("::")[2] + "".join(each.partition("<")[1:])
            for each in ways
        }
        if asked in ways:
            found.append(name)
    return found
