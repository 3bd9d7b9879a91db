"""What an interval of a slow-down allows to be said: one rule, however the times were taken.

A gate *fails* where the whole interval lies beyond what is allowed, and *passes* where the whole
interval lies below that and `resolution` more: a pass therefore says that no slow-down larger than
``allowed + resolution`` is there. Whatever interval does neither is *inconclusive*. So a noisy
machine, whose intervals are wide, gives neither green nor red.

This is the test of non-inferiority with a margin (S. Wellek, *Testing Statistical Hypotheses of
Equivalence and Noninferiority*, 2nd ed., 2010, chapter 2), read off a confidence interval, with the
test for a difference beside it.
"""

from __future__ import annotations

from typing import Literal

from workbench.model import Estimate
from workbench.units import quantity, signed

Status = Literal["pass", "fail", "inconclusive"]

#: Confidence of the intervals that gates are judged by: one in two hundred lies wholly above
#: the truth.
CONFIDENCE = 0.99
#: Percent. Two builds of one source differ by up to this much (where code and buffers lie, what ran
#: before), so a smaller slow-down is never called one, however narrow the interval.
LEAST = 0.5
#: Percent by which a pass may be wrong, unless the project says otherwise.
RESOLUTION = 2.0


def limits(allowed: float, resolution: float) -> tuple[float, float]:
    """The slow-downs, in percent, that fail from above and pass from below."""
    floor = max(allowed, LEAST)
    return floor, floor + resolution


def verdict(slowdown: Estimate, allowed: float, resolution: float = RESOLUTION) -> Status:
    """Judge a slow-down.

    Args:
        slowdown: New time over old, with its interval.
        allowed: Percent that the new side may be slower.
        resolution: Percent beyond it that a pass must exclude.
    """
    floor, ceiling = limits(allowed, resolution)
    if slowdown.low > 1 + floor / 100:
        return "fail"
    return "pass" if slowdown.high <= 1 + ceiling / 100 else "inconclusive"


def in_words(slowdown: Estimate, status: Status, allowed: float, resolution: float) -> str:
    """The slow-down, its interval, and what follows: for a gate's message."""
    floor, ceiling = limits(allowed, resolution)
    seen = f"{_change(slowdown.value)} ({_change(slowdown.low)} to {_change(slowdown.high)})"
    if status == "fail":
        return f"slower than allowed ({quantity(floor, '%')}): {seen}"
    if status == "pass":
        return f"{seen}: no slow-down of more than {quantity(ceiling, '%')}"
    return f"{seen}: neither within {quantity(ceiling, '%')} nor beyond {quantity(floor, '%')}"


def _change(ratio: float) -> str:
    """A ratio of times as a change: a plus is slower."""
    return signed(100 * (ratio - 1), "%")
