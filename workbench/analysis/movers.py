"""Counter by counter, which hunks moved it: the way back from a number to the source.

`story` goes from a hunk to its counters; here the same parts are read the other way. A counter
has movers where it is split over the source's lines, a warp state and the duration where their
time is; of anything else (ratios, utilizations, occupancy) nothing ties it to a line, and it
has none. What is below `weight.TELLING`, or uncertain in its sign, is left out as everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from workbench.analysis.split.attribution import CounterSplit, LineShare
from workbench.analysis.split.duration import TimeSplit
from workbench.analysis.story import SAMPLES, Story
from workbench.analysis.weight import TELLING
from workbench.model import Number, Record

#: A line is named where it holds this part of what a mover moved.
_MOST = 0.5


class Mover(Record, frozen=True):
    """What hunks moved of one counter, alone or (several numbers) together.

    `delta` is in `unit`, which is seconds for warp states and the duration; `line` holds most of
    it, if one line does.
    """

    hunks: tuple[int, ...]
    delta: Number
    unit: str
    line: LineShare | None = None


def movers(story: Story) -> dict[str, tuple[Mover, ...]]:
    """Catalog id -> its movers, those that moved most first; ids without any are not in it."""
    found = {
        split.id: _of_counter(split)
        for split in story.attribution.counters
        # Samples are told as time, below.
        if split.id and not split.counter.startswith(SAMPLES)
    }
    if story.time is not None:
        found.update(_of_time(story.time))
    return {counter: every for counter, every in found.items() if every}


def _of_counter(split: CounterSplit) -> tuple[Mover, ...]:
    amounts: dict[tuple[int, ...], Number] = defaultdict(int)
    lines: dict[tuple[int, ...], list[LineShare]] = defaultdict(list)
    for part in split.parts:
        if part.hunks and part.link in ("hunk", "symbol"):
            amounts[part.hunks] += part.delta
            lines[part.hunks] += part.lines
    return _heaviest(amounts, max(abs(split.old), abs(split.new), 1), split.unit, lines)


def _of_time(time: TimeSplit) -> dict[str, tuple[Mover, ...]]:
    """Of the duration and of every warp state."""
    amounts: dict[str, dict[tuple[int, ...], Number]] = defaultdict(lambda: defaultdict(float))
    for part in time.parts:
        if not part.hunks or part.link not in ("hunk", "symbol"):
            continue
        if part.certain:
            amounts["duration"][part.hunks] += part.delta_s
        for stall in part.stalls:
            if not stall.low_s <= 0.0 <= stall.high_s:
                amounts[stall.stall][part.hunks] += stall.delta_s
    whole = max(time.old_s, time.new_s)
    return {counter: _heaviest(found, whole, "s", {}) for counter, found in amounts.items()}


def _heaviest(
    amounts: Mapping[tuple[int, ...], Number],
    whole: Number,
    unit: str,
    lines: Mapping[tuple[int, ...], Iterable[LineShare]],
) -> tuple[Mover, ...]:
    told = [hunks for hunks, amount in amounts.items() if abs(amount) >= TELLING * whole]
    return tuple(
        Mover(
            hunks=hunks,
            delta=amounts[hunks],
            unit=unit,
            line=_line(amounts[hunks], lines.get(hunks, ())),
        )
        for hunks in sorted(told, key=lambda hunks: (-abs(amounts[hunks]), hunks))
    )


def _line(amount: Number, lines: Iterable[LineShare]) -> LineShare | None:
    largest = max(lines, key=lambda line: abs(line.delta), default=None)
    holds = largest is not None and abs(largest.delta) >= _MOST * abs(amount)
    return largest if holds and largest is not None and (largest.old or largest.new) else None
