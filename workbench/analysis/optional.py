"""Readings that may be absent, and arithmetic with them: absent is not zero.

A counter that was not collected, a warp state that a chip does not know, a sample outside a pass:
each is None, and so is any result computed from it. Only the largest of several readings is known
as soon as one of them is. No other place in the analysis replaces None by a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

#: A number; None: not counted.
Maybe = float | None


def plus(*amounts: Maybe) -> Maybe:
    """Their sum; absent if one of them is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def minus(one: Maybe, other: Maybe) -> Maybe:
    """Their difference; absent if one of them is."""
    return None if one is None or other is None else one - other


def times(*amounts: Maybe) -> Maybe:
    """Their product; absent if one of them is."""
    known = [amount for amount in amounts if amount is not None]
    return math.prod(known) if len(known) == len(amounts) else None


def over(part: Maybe, whole: Maybe) -> Maybe:
    """A quotient; absent also if the whole is zero."""
    return part / whole if part is not None and whole else None


def growth(old: Maybe, new: Maybe) -> Maybe:
    """The logarithm of new over old; absent if either is zero or absent."""
    return math.log(new / old) if old and new else None


def largest(*readings: Maybe) -> Maybe:
    """The largest known one of several readings."""
    return max((one for one in readings if one is not None), default=None)


def total(amounts: Iterable[Maybe]) -> Maybe:
    """The sum of any number of amounts; absent if one is, or without amounts."""
    every = list(amounts)
    return plus(*every) if every else None
