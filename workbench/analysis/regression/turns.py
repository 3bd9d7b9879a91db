"""The slow-down of two states of a kernel that ran in turns in one process.

Both partners of a pair ran within a millisecond, on the same buffers, at the same clock: what
disturbs the machine reaches both, and their quotient is left alone. Pairs that follow one another
are still not independent, because a disturbance lasts. So consecutive pairs are put into blocks,
each block is one observation (its median), and the interval is the distribution-free one of the
median of blocks (`workbench.analysis.timing.median_interval`). Batch means serve simulations in
the same way: A. M. Law, *Simulation Modeling and Analysis*, 5th ed., 2015, section 9.5.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import median

from workbench.analysis.regression.verdict import CONFIDENCE
from workbench.analysis.timing import median_interval, minimum_samples
from workbench.model import DeviceState, Estimate, Notice, Record

#: Blocks that the pairs are put into, where there are enough of them.
BLOCKS = 20
#: The fewest pairs that give an interval at all.
LEAST_PAIRS = minimum_samples(CONFIDENCE)


def slowdown(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """New over old, with its 99% interval.

    Args:
        old: Seconds of the earlier state, in the order in which they were taken.
        new: Seconds of the later state, each measured next to its partner in `old`.

    Returns:
        The median ratio of all pairs, and the interval of the median of blocks; `n` pairs.

    Raises:
        ValueError: different lengths, fewer pairs than `LEAST_PAIRS`, or no positive time.
    """
    if len(old) != len(new):
        raise ValueError(f"{len(old)} times before, {len(new)} after")
    if any(value <= 0 for value in (*old, *new)):
        raise ValueError("a time that is not positive has no ratio")
    logs = [math.log(b / a) for a, b in zip(old, new, strict=True)]
    inner = median_interval([median(block) for block in blocks(logs)], CONFIDENCE)
    middle = min(max(median(logs), inner.low), inner.high)
    return Estimate(
        value=math.exp(middle), low=math.exp(inner.low), high=math.exp(inner.high), n=len(logs)
    )


def blocks(values: Sequence[float], count: int = BLOCKS) -> list[Sequence[float]]:
    """Consecutive values in at most `count` blocks, whose sizes differ by one at most."""
    count = min(count, len(values))
    cuts = [len(values) * place // count for place in range(count + 1)]
    return [values[first:last] for first, last in itertools.pairwise(cuts)]


class Turns(Record, frozen=True):
    """Two states of one version, measured in turns on one problem.

    `samples` are the single times in seconds, pair by pair, the earlier state first. `slowdown`
    is None where the earlier state could not run beside the new one, or there are too few pairs:
    `silence` says which.
    """

    version: str
    problem: str
    device: str
    samples: tuple[tuple[float, ...], tuple[float, ...]]
    slowdown: Estimate | None
    silence: str = ""
    state: DeviceState | None = None
    notices: tuple[Notice, ...] = ()
