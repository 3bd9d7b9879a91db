"""The use of the chip over a kernel's run time, from PM samples.

Passes of one launch differ in length: after the end of its own pass, a series is absent, not 0, and
a mean is that of the sampled rows.

Throughputs are in percent of peak. Warp states are in percent of all warps that waited at that
moment: ncu samples every state except the two in which warps do not stall, so they add up to 100.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.analysis.optional import Maybe, over, plus, times
from workbench.counters import catalog
from workbench.language import _
from workbench.model import Launch, Profile, Record, Timeline

_PEAK = r"(_realtime)?\.avg\.pct_of_peak_sustained_elapsed$"
#: Title, and the sampled metric; its name differs slightly between chips and versions of ncu.
_THROUGHPUTS = (
    ("Instructions issued", rf"sm__inst_executed{_PEAK}"),
    ("FMA pipe", rf"sm__(inst_executed_pipe_fma|pipe_fma_cycles_active){_PEAK}"),
    ("Tensor pipe", rf"sm__pipe_tensor_cycles_active{_PEAK}"),
    ("L1/TEX", rf"l1tex__throughput{_PEAK}"),
    ("L2", rf"lts__throughput{_PEAK}"),
    ("Device memory", rf"dramc?__throughput{_PEAK}"),
)
_STATE = re.compile(r"smsp__warps_issue_stalled_(?P<state>\w+)\.avg$")
#: The most states to show one by one, and the least mean share (percent) of each.
_STATES, _LEAST = 6, 1.0


class Lane(Record, frozen=True):
    """One series: percent at equal distances over the run, their mean and their maximum.

    A value is None if its pass was over.
    """

    title: str
    ncu: str
    values: tuple[Maybe, ...]
    mean: float
    largest: float

    @property
    def sampled(self) -> float:
        """The part of the run (0-1) that its pass covers."""
        return sum(value is not None for value in self.values) / len(self.values)

    @property
    def origin(self) -> str:
        """The metric; if the pass is shorter than the run, also the known part."""
        if self.sampled == 1.0:
            return self.ncu
        return _("{ncu}, sampled for the first {sampled:.0f}% of the run").format(
            ncu=self.ncu, sampled=100 * self.sampled
        )


class Course(Record, frozen=True):
    """A launch over time: its length in seconds, throughputs, and the states of waiting warps."""

    kernel: str
    seconds: float
    throughputs: tuple[Lane, ...]
    states: tuple[Lane, ...]


def course(launch: Launch) -> Course | None:
    """A launch over time; None if the report holds no PM samples to show."""
    line = launch.timeline
    if line is None or line.samples <= 0:
        return None
    throughputs = []
    for title, pattern in _THROUGHPUTS:
        name = next((name for name in sorted(line.columns) if re.match(pattern, name)), None)
        if name is not None:
            lane = _lane(title, name, _dense(line, name))
            throughputs += [lane] if lane is not None else []
    states = _states(line)
    if not throughputs and not states:
        return None
    seconds = line.interval * line.samples
    return Course(
        kernel=launch.kernel, seconds=seconds, throughputs=tuple(throughputs), states=states
    )


def courses(profile: Profile) -> tuple[Course, ...]:
    """The launches of a profile that were sampled, the longest first."""
    found = [each for launch in profile.launches if (each := course(launch)) is not None]
    return tuple(sorted(found, key=lambda each: -each.seconds))


def telling(sides: Sequence[Course]) -> tuple[str, ...]:
    """The states that matter on at least one side, the largest mean share first."""
    most: dict[str, float] = {}
    for side in sides:
        for lane in side.states:
            most[lane.title] = max(most.get(lane.title, 0.0), lane.mean)
    order = sorted((title for title in most if most[title] >= _LEAST), key=lambda t: -most[t])
    return tuple(order[:_STATES])


def _dense(line: Timeline, name: str) -> list[Maybe]:
    column, samples = line.columns[name], line.samples
    reached = min(line.reached.get(name, samples), samples)
    out: list[Maybe] = [0.0] * reached + [None] * (samples - reached)
    for row, value in zip(column.rows, column.values, strict=True):
        if row < samples:
            out[row] = float(value)
    return out


def _lane(title: str, ncu: str, values: Sequence[Maybe]) -> Lane | None:
    """The lane of a series; None if none of it was sampled."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return Lane(title=title, ncu=ncu, values=tuple(values), mean=mean, largest=max(known))


def _states(line: Timeline) -> tuple[Lane, ...]:
    """Shares of the waiting warps, the largest mean first."""
    known = {
        name: (found["state"], _dense(line, name))
        for name in line.columns
        if (found := _STATE.match(name))
    }
    # A share of all waiting warps is known if all their states are known.
    totals = [plus(*values) for values in zip(*(v for __, v in known.values()), strict=True)]
    seen = []
    for name, (state, values) in known.items():
        # Percent; 0 if no warp waited.
        pairs = zip(values, totals, strict=True)
        shares = [0.0 if whole == 0 else times(100.0, over(part, whole)) for part, whole in pairs]
        if (lane := _lane(_title(state), name, shares)) is not None:
            seen.append(lane)
    return tuple(sorted(seen, key=lambda lane: -lane.mean))


def _title(state: str) -> str:
    """The catalog's name of a warp state: ``wait`` -> ``Wait``."""
    part = f"_stalled_{state}_per_"
    for counter in catalog().group("stalls"):
        if any(part in name for name in counter.names):
            return counter.title
    return state.replace("_", " ").capitalize()
