"""What kernels are called: the functions of the machine code as their author wrote them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from workbench.ncurep.names import kernel_name

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
_OPERATOR = re.compile(r"\boperator\b\s*(\(\)|[^\s(\w]+)?")


@cache
def _demangler() -> Callable[..., Any] | None:
    """``__cxa_demangle`` of the C++ runtime, which nearly every system has."""
    for name in _LIBRARIES:
        try:
            function = ctypes.CDLL(name)["__cxa_demangle"]
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    return None


def demangled(symbol: str) -> str:
    """``_Z4gemmPf`` -> ``gemm(float*)``; what is no mangled C++ name comes back as it is."""
    call = _demangler()
    if call is None or not symbol.startswith("_Z"):
        return symbol
    status = ctypes.c_int()
    text = call(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(text)


def name_of(symbol: str, signature: str) -> str:
    """The function's name without its namespaces, template arguments and parameters.

    Args:
        symbol: As the machine code has it.
        signature: `demangled` of it.
    """
    if signature == symbol:
        return kernel_name(symbol)
    return kernel_name(_function(signature) or symbol)


def _function(signature: str) -> str:
    """``void a::b<c::d>(e)`` -> ``b``: what stands at no depth, before the parameters."""
    depth, flat = 0, []
    text = signature.replace("(anonymous namespace)", "{anonymous}")
    text = _OPERATOR.sub("operator", text)
    for letter in text:
        if letter in "<[":
            depth += 1
        elif letter in ">]":
            depth -= 1
        elif letter == "(" and not depth:
            break
        elif not depth:
            flat.append(letter)
    return "".join(flat).split(" ")[-1].rpartition("::")[2]
