"""PM samples of a launch: what the chip did over the time of a run, as series.

Runs in the child process only. A sampled metric has time stamps as correlation ids. ncu takes
its metrics in several passes over the kernel, each with a clock and a lead-in of its own; what
lies before and after the kernel is cut away here by the SMs' activity, so that all series start
with the kernel. Their names are those of ncu without what names the pass
(``TPC.TriageCompute.`` or ``pmsampling:``).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Any

from workbench.model import Column, Timeline
from workbench.ncurep.values import clean, instances

_SAMPLED = re.compile(r"^(?:\w+\.Triage\w*\.|pmsampling:)(?P<name>.+)$")
#: What is worth keeping: shares of peak, hit rates, and warps by state.
_KEPT = re.compile(r"\.pct(_of_peak_sustained_elapsed)?$|__warps_issue_stalled_\w+\.avg$")
#: Units that are busy while, and only while, a kernel runs.
_ACTIVE = ("sm__", "smsp__", "l1tex__")
#: Time stamps are nanoseconds since 1970; what is smaller is no time.
_EARLIEST = 10**15
#: Samples that are kept; more are merged by their mean.
_MOST = 256
_NS = 1e-9

_Series = dict[int, float]  # time stamp -> value


def read_timeline(action: Any) -> Timeline | None:
    """The PM samples of one launch; None where the report holds none.

    Args:
        action: ``ncu_report.IAction``.
    """
    # Metrics of one pass share their time stamps.
    passes: dict[tuple[int, ...], dict[str, _Series]] = defaultdict(dict)
    for raw, name in _sampled(tuple(action.metric_names())):
        series = _samples(action.metric_by_name(raw))
        if len(series) > 1:
            passes[tuple(series)][name] = series
    runs = [run for one in passes.values() if (run := _run(one))]
    if not runs:
        return None
    # Passes may be sampled at different intervals: the coarsest one sets the grid of all.
    samples = min(_MOST, *(len(times) for times, _ in runs))
    length = max(times[-1] - times[0] + _step(times) for times, _ in runs)
    columns: dict[str, Column] = {}
    for times, sampled in runs:
        rows = [(time - times[0]) * samples // length for time in times]
        for name, values in sampled.items():
            if _KEPT.search(name):
                columns[name] = _column(rows, [values[time] for time in times])
    if not columns:
        return None
    return Timeline(interval=length / samples * _NS, samples=samples, columns=columns)


# Launches of one kernel have the same metrics.
@lru_cache(maxsize=64)
def _sampled(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The metrics that are sampled over time: ncu's name, and without what names the pass."""
    found = (_SAMPLED.match(raw) for raw in sorted(names))
    return tuple((match[0], clean(match["name"])) for match in found if match)


def _step(times: list[int]) -> int:
    """Nanoseconds from one sample to the next."""
    return round(median(b - a for a, b in pairwise(times)))


def _samples(native: Any) -> _Series:
    """Time stamp -> value, in order; empty where the ids are no times or a value is no number."""
    if native is None or not native.has_correlation_ids():
        return {}
    ids, count = native.correlation_ids(), native.num_instances()
    out: _Series = {}
    if ids.num_instances() != count:
        return out
    for time, value in zip(instances(ids, count), instances(native, count), strict=True):
        if not isinstance(time, int) or not isinstance(value, (int, float)):
            return {}
        if time >= _EARLIEST:
            if not math.isfinite(value):
                return {}
            out[time] = float(value)
    return dict(sorted(out.items()))


def _run(series: dict[str, _Series]) -> tuple[list[int], dict[str, _Series]] | None:
    """The time stamps of a pass between which SMs were active; None where none was."""
    busy = {
        time
        for name, values in series.items()
        if name.startswith(_ACTIVE)
        for time, value in values.items()
        if value
    }
    if len(busy) < 2:
        return None
    first, last = min(busy), max(busy)
    times = [time for time in next(iter(series.values())) if first <= time <= last]
    return times, series


def _column(rows: list[int], values: list[float]) -> Column:
    """The non-zero rows of a series to four digits; samples of one row are their mean."""
    found: dict[int, list[float]] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        found[row].append(value)
    means = {row: float(f"{sum(part) / len(part):.4g}") for row, part in found.items()}
    kept = {row: mean for row, mean in means.items() if mean}
    return Column(rows=tuple(kept), values=tuple(kept.values()))
