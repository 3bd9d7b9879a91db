"""Names of C++ kernels, as compilers write them and as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
#: For an integer as a template argument: its type, and its suffix. Other names of the same types
#: and values, as in headers.
_ALIASES = {
    "half": "__half", "half2": "__half2", "nv_bfloat16": "__nv_bfloat16",
    "nv_bfloat162": "__nv_bfloat162", "uint": "unsigned int", "size_t": "unsigned long",
    "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
    "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int",
    "uint64_t": "unsigned long", "true": "1", "false": "0",
}  # fmt: skip
_ALIAS = re.compile(rf"\b(?:{'|'.join(_ALIASES)}|unsigned(?!\s+(?:int|long|char|short)))\b")
_CAST, _SUFFIX = re.compile(r"\([a-z ]+\)(?=-?\d)"), re.compile(r"\b(\d+)(?:u|l|ul)+\b")


@cache
def _demangler() -> Callable[[str], str] | None:
    """``__cxa_demangle`` of the C++ runtime, which nearly every system has."""
    import ctypes  # few commands need it

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
    """``_Z4gemmPf`` -> ``gemm(float*)``; other names are returned unchanged."""
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
    for at in range(len(signature) - 1, -1, -1):  # and its return type ends at a blank
        depth += (signature[at] == ">") - (signature[at] == "<")
        if signature[at] == " " and depth == 0:
            return signature[at + 1 :]
    return signature


def own_name(kernel: str) -> str:
    """The function's own name, without the namespace and types that a launch may give."""
    name = written(kernel) if kernel.startswith("_Z") else kernel
    return name.partition("<")[0].rpartition("::")[2]


def spelled(name: str) -> str:
    """Normalize a name: drop blanks, casts, suffixes and other spellings of types.

    `name` comes from a demangler, ncu or a source.
    """
    name = _ALIAS.sub(lambda word: _ALIASES.get(word[0], "unsigned int"), name)
    return re.sub(r"\s+", "", _SUFFIX.sub(r"\1", _CAST.sub("", name)))


def entries(kernel: str, names: Collection[str]) -> list[str]:
    """The compiled kernels that a name may mean: itself, an instantiation, or in any namespace.

    `kernel` is ``k``, ``k<float>`` or a mangled name.
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


def in_parentheses(text: str) -> list[str]:
    """Split the first parenthesis that is not part of a template at its commas."""
    depth, parts, at = 0, [""], -1
    for place, letter in enumerate(text):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth == 0 and not text.startswith("(anonymous", place):
            at = place
            break
    if at < 0:
        return []
    depth = 0
    for letter in text[at + 1 :]:
        if letter in "(<[{":
            depth += 1
        elif letter in ">]}" or (letter == ")" and depth):
            depth -= 1
        elif letter == ")":
            break
        elif letter == "," and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts] if any(part.strip() for part in parts) else []
