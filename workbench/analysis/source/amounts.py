"""Integers of a host program as expressions over its constants, and what types of C are to NumPy.

``(n + 255) / 256`` of a program that says ``int n = 1 << 20`` is the amount ``cdiv(n, 256)``, which
is 4096. Its text is an expression of front matter, and of Python where `cdiv` is defined. What
arrays are filled with (``rand() % 10``) is a range of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.study.signatures import ELEMENTS, FURTHER

#: Stands before the number that a ``sizeof`` gave, so that it can be taken out again.
_SIZE = "§"
_ATOM, _PRODUCT, _SUM, _TEST = range(4)
_LEVELS = {"*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "+": _SUM, "-": _SUM}
_TESTS = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})
_BYTES = {"bool": 1, "bfloat16": 2}
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1234])\Z")
_TYPES = ELEMENTS | FURTHER
#: CUDA's own types of several numbers: ``float4``.
VECTORS = frozenset(
    f"{kind}{many}"
    for base in ("char", "short", "int", "long", "longlong")
    for kind in (base, f"u{base}", "float", "double")
    for many in (1, 2, 3, 4)
)


@dataclass(frozen=True, slots=True)
class Known:
    """A number of a program.

    Attributes:
        text: As an expression.
        value: What it is in the program as it stands; None: that is not known.
        level: How tightly the text binds.
    """

    text: str
    value: int | float | None
    level: int = _ATOM

    @property
    def expression(self) -> str:
        """For front matter and for Python."""
        return self.text.replace(_SIZE, "")

    @property
    def whole(self) -> int | None:
        """The value, where it is an integer."""
        return self.value if isinstance(self.value, int) else None


def number(value: int | float) -> Known:
    """A literal."""
    return Known(repr(value), value, _ATOM if value >= 0 else _SUM)


#: Gives the data members of a structure of the file, as type and number of each; None: it is none.
Members = Callable[[str], list[tuple[str, int]] | None]


def size_of(kind: str, members: Members | None = None) -> Known | None:
    """``sizeof`` of a type by its plain name; None: not known."""
    found = element(kind, members)
    if kind.endswith("*"):
        return Known(f"{_SIZE}8", 8)
    if not found:
        return None
    size = width(found[0]) * found[1]
    return Known(f"{_SIZE}{size}", size)


def element(kind: str, members: Members | None = None) -> tuple[str, int] | None:
    """NumPy's type of a type of C, and how many of it: ``float4`` -> ``("float32", 4)``.

    With `members` structures of the file as well, where nothing but numbers of one type is in them.
    """
    kind = " ".join(
        re.sub(r"\b(?:const|volatile|struct|std::|unsigned int(?= ))\b", "", kind).split()
    )
    kind = kind.removeprefix("std::")
    vector = _VECTOR.match(kind)
    if vector and kind not in _TYPES:
        return _TYPES[vector[1]], int(vector[2])
    if kind in ("cuFloatComplex", "cuComplex", "cuDoubleComplex"):
        return "float64" if "Double" in kind else "float32", 2
    if kind in ("half2", "__half2"):
        return "float16", 2
    if kind in ("__nv_bfloat162", "nv_bfloat162"):
        return "bfloat16", 2
    name = _TYPES.get(kind)
    if name is None and members is not None:
        return _of_members(members(kind) or (), members)
    return (name, 1) if name else None


def _of_members(listed: Iterable[tuple[str, int]], members: Members) -> tuple[str, int] | None:
    """The one type of a structure's members and how many of it; None: several, or with gaps."""
    types, whole, widest = set[str](), 0, 1
    for kind, many in listed:
        found = element(kind, members)
        if found is None:
            return None
        # The vectors of two and of four are aligned to their size.
        aligned = found[1] if found[1] in (2, 4) and element(kind) is not None else 1
        if whole % aligned:
            return None
        types.add(found[0])
        whole += found[1] * many
        widest = max(widest, aligned)
    return (types.pop(), whole) if len(types) == 1 and whole % widest == 0 else None


def width(dtype: str) -> int:
    """Bytes of one element."""
    return _BYTES.get(dtype) or int(re.sub(r"\D", "", dtype)) // 8


def elements(size: Known, kind: tuple[str, int]) -> Known:
    """How many elements an allocation of `size` bytes holds, vectors counted by their parts."""
    each = width(kind[0]) * kind[1]
    value = size.whole // each if size.whole is not None else None
    factors = size.text.split(" * ") if size.level <= _PRODUCT else []
    if f"{_SIZE}{each}" in factors and " // " not in size.text:
        factors.remove(f"{_SIZE}{each}")
        count = Known(" * ".join(factors) or "1", value, _PRODUCT if len(factors) > 1 else _ATOM)
    elif each == 1:
        count = size
    else:
        count = Known(f"{_inside(size, _ATOM)} // {each}", value, _PRODUCT)
    return count if kind[1] == 1 else operated("*", count, number(kind[1])) or count


def _inside(amount: Known, level: int) -> str:
    return f"({amount.text})" if amount.level > level else amount.text


def operated(operator: str, a: Known, b: Known) -> Known | None:
    """``a operator b`` as C computes it; None: that cannot be said here."""
    value = _value(operator, a.value, b.value)
    if operator in ("<<", ">>") and b.whole is not None and 0 <= b.whole < 63:
        return operated("*" if operator == "<<" else "/", a, number(2**b.whole))
    if operator in _TESTS:
        words = {"&&": "and", "||": "or"}.get(operator, operator)
        return Known(f"{_inside(a, _SUM)} {words} {_inside(b, _SUM)}", value, _TEST)
    if operator not in _LEVELS:
        return None if value is None else Known(repr(value), value)
    if _literal(a) and _literal(b) and value is not None:
        return number(value)
    if operator == "/":
        return _divided(a, b, value)
    level = _LEVELS[operator]
    right = level if operator in "+*" else level - 1
    # A quotient is rounded, so its factors stay together.
    left = f"({a.text})" if operator == "*" and "//" in a.text and a.level else _inside(a, level)
    other = f"({b.text})" if operator == "*" and "//" in b.text and b.level else _inside(b, right)
    if operator == "*" and "1" in (a.text, b.text):
        return a if b.text == "1" else b
    return Known(f"{left} {operator} {other}", value, level)


def _literal(amount: Known) -> bool:
    return bool(re.fullmatch(r"-?[\d.e+-]+", amount.text))


def _divided(a: Known, b: Known, value: int | float | None) -> Known | None:
    if isinstance(value, float):
        return Known(f"{_inside(a, _PRODUCT)} / {_inside(b, _ATOM)}", value, _PRODUCT)
    if b.value == 1:
        return a
    divisor = _inside(b, _ATOM)
    # (n + b - 1) / b, and with numbers (n + 255) / 256
    up = re.fullmatch(r"(.+) \+ (.+) - 1", a.text) if a.level == _SUM else None
    if up is not None and b.text in (up[1], up[2]):
        whole = up[1] if up[2] == b.text else up[2]
        return Known(f"cdiv({whole}, {b.text})", value)
    up = re.fullmatch(r"(.+) \+ (\d+)", a.text) if a.level == _SUM else None
    if up is not None and b.whole is not None and int(up[2]) == b.whole - 1:
        return Known(f"cdiv({up[1]}, {b.text})", value)
    return Known(f"{_inside(a, _PRODUCT)} // {divisor}", value, _PRODUCT)


def rounded_up(a: Known, b: Known) -> Known:
    """``ceil(a / b)``."""
    value = None
    if a.value is not None and b.value:
        value = math.ceil(a.value / b.value)
    return Known(f"cdiv({a.text}, {b.text})", value)


def _value(operator: str, a: int | float | None, b: int | float | None) -> int | float | None:
    if a is None or b is None:
        known = next((each for each in (a, b) if each is not None), None)
        if operator == "&&" and known == 0:
            return 0
        return 1 if operator == "||" and known else None
    try:
        return _OPERATIONS[operator](a, b)
    except (KeyError, ZeroDivisionError, TypeError, ValueError, OverflowError):
        return None


def _quotient(a: int | float, b: int | float) -> int | float:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if (a < 0) == (b < 0) else -(-a // b)
    return a / b


def _shifted(a: int | float, b: int | float) -> int:
    if not isinstance(a, int) or not isinstance(b, int) or not 0 <= b < 63:
        raise ValueError
    return a << b


_OPERATIONS: dict[str, Callable[[Any, Any], int | float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": lambda a, b: a % b,
    "<<": _shifted,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
}


def drawn_between(
    written: str, kind: str, constants: Mapping[str, int], sizes: Iterable[str]
) -> tuple[int, int | str]:
    """The range of whole numbers that a file fills an array with; below a size, by its name."""
    low, high = 0, {"int8": 100, "uint8": 256}.get(kind, 100)
    bound = re.search(r"%\s*\(?\s*(\w+)", written)
    if bound is not None:
        high = int(bound[1]) if bound[1].isdigit() else constants.get(bound[1], high)
    between = re.search(r"\w*[rR]and\w*\s*\(\s*(-?\d+)\s*,\s*(\w+)\s*(-\s*1\s*)?\)", written)
    if between is not None:  # a helper that draws from the first to the last
        low, whole = int(between[1]), between[2] in sizes and between[3] is not None
        if whole:
            return low, between[2]
        last = int(between[2]) if between[2].isdigit() else constants.get(between[2], high)
        return low, max(low + 1, last + (between[3] is None))
    letter = re.search(r"'(.)'\s*\+", written)
    if letter is not None:
        low, high = ord(letter[1]), ord(letter[1]) + high
    minus = re.search(r"%\s*\(?\s*\w+\s*\)?\s*\)?\s*-\s*(\d+)", written)
    if minus is not None:
        low, high = -int(minus[1]), high - int(minus[1])
    elif letter is None and bound is not None and bound[1] in sizes:
        return low, bound[1]
    most = {"int8": 128, "uint8": 256, "int16": 1 << 15, "uint16": 1 << 16}.get(kind, 1 << 31)
    return low, max(low + 1, min(high, most))
