"""How much a number moves although nothing has changed, and whether it moved more.

Counters that repeated captures were made of (``--repeat``, or several launches of one
kernel in a report) bring their own spread. For all others the catalog states what two
captures of one kernel can show: a relative and an absolute floor.
"""

from __future__ import annotations

import math

from workbench.counters import Counter
from workbench.model import Number, Spread

#: However close repeated captures lie, a change below this share of the default noise
#: is not called one: captures of one session share their clocks and their addresses.
_SHARE = 0.1


def noise_of(counter: Counter, old: Number, new: Number) -> float:
    """The largest change, in the counter's unit, that two captures of one kernel explain."""
    scale = max(abs(old), abs(new))
    # 1e-9: counters with no noise are still ratios of floats.
    noise = max(counter.noise, 1e-9) * scale
    if counter.unit == "sample":
        noise = max(noise, 2.0 * math.sqrt(old + new))
    return max(noise, counter.floor)


def left_noise(
    counter: Counter,
    old: Number,
    new: Number,
    spreads: tuple[Spread | None, Spread | None] = (None, None),
) -> bool:
    """Whether a change is larger than its noise.

    Args:
        counter: What is counted.
        old: Its value before.
        new: Its value after.
        spreads: Of repeated captures of either side, where there are any.
    """
    noise, delta = noise_of(counter, old, new), abs(new - old)
    before, after = spreads
    if before and after and min(before.n, after.n) >= 2:
        return _apart(before, after) and delta > _SHARE * noise
    return delta > noise


def _apart(a: Spread, b: Spread) -> bool:
    """Whether two spreads are apart, each widened for how few captures it rests on.

    The range of n captures holds the next one with probability (n - 1)/(n + 1) only:
    half of the time for three. So each end is moved out by 2/(n - 1) of the range.
    """
    (a_low, a_high), (b_low, b_high) = (_widened(spread) for spread in (a, b))
    return a_high < b_low or b_high < a_low


def _widened(spread: Spread) -> tuple[float, float]:
    margin = 2.0 * (spread.high - spread.low) / (spread.n - 1)
    return spread.low - margin, spread.high + margin
