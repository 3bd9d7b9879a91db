"""How busy a kernel kept the chip over the time of its run, from PM samples.

Throughputs are percent of peak. Warp states are percent of all warps that waited in that moment:
ncu samples every state but those in which nothing is wrong, so they add up to 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from workbench.counters import catalog
from workbench.model import Column, Launch, Profile, Record, Timeline

_PEAK = r"(_realtime)?\.avg\.pct_of_peak_sustained_elapsed$"
#: Title, and the sampled metric; chips and versions of ncu call it somewhat differently.
_THROUGHPUTS = (
    ("Instructions issued", rf"sm__inst_executed{_PEAK}"),
    ("FMA pipe", rf"sm__(inst_executed_pipe_fma|pipe_fma_cycles_active){_PEAK}"),
    ("Tensor pipe", rf"sm__pipe_tensor_cycles_active{_PEAK}"),
    ("L1/TEX", rf"l1tex__throughput{_PEAK}"),
    ("L2", rf"lts__throughput{_PEAK}"),
    ("Device memory", rf"dramc?__throughput{_PEAK}"),
)
_STATE = re.compile(r"smsp__warps_issue_stalled_(?P<state>\w+)\.avg$")
#: States that are told one by one, and the least mean share (percent) of one.
_STATES, _LEAST = 6, 1.0


class Lane(Record, frozen=True):
    """One series: percent at equal distances over the run, their mean and the largest."""

    title: str
    ncu: str
    values: tuple[float, ...]
    mean: float
    largest: float


class Course(Record, frozen=True):
    """A launch over time: its length in seconds, throughputs, and the states of waiting warps."""

    kernel: str
    seconds: float
    throughputs: tuple[Lane, ...]
    states: tuple[Lane, ...]


def course(launch: Launch) -> Course | None:
    """A launch over time; None where the report holds no PM samples that are told."""
    line = launch.timeline
    if line is None or line.samples <= 0:
        return None
    throughputs = []
    for title, pattern in _THROUGHPUTS:
        name = next((name for name in sorted(line.columns) if re.match(pattern, name)), None)
        if name is not None:
            throughputs.append(_lane(title, name, _dense(line.columns[name], line.samples)))
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


def _dense(column: Column, samples: int) -> list[float]:
    out = [0.0] * samples
    for row, value in zip(column.rows, column.values, strict=True):
        if row < samples:
            out[row] = float(value)
    return out


def _lane(title: str, ncu: str, values: Sequence[float]) -> Lane:
    mean = sum(values) / len(values)
    return Lane(title=title, ncu=ncu, values=tuple(values), mean=mean, largest=max(values))


def _states(line: Timeline) -> tuple[Lane, ...]:
    """Shares of the waiting warps, the largest mean first."""
    known = {
        name: (found["state"], _dense(column, line.samples))
        for name, column in line.columns.items()
        if (found := _STATE.match(name))
    }
    totals = [sum(values) for values in zip(*(v for _, v in known.values()), strict=True)]
    lanes = [
        _lane(_title(state), name, [100 * v / t if t else 0.0 for v, t in _pairs(values, totals)])
        for name, (state, values) in known.items()
    ]
    return tuple(sorted(lanes, key=lambda lane: -lane.mean))


def _pairs(values: Iterable[float], totals: Iterable[float]) -> Iterable[tuple[float, float]]:
    return zip(values, totals, strict=True)


def _title(state: str) -> str:
    """The catalog's name of a warp state: ``wait`` -> ``Wait``."""
    part = f"_stalled_{state}_per_"
    for counter in catalog().group("stalls"):
        if any(part in name for name in counter.names):
            return counter.title
    return state.replace("_", " ").capitalize()
