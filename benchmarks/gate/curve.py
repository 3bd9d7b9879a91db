"""What the gate says of recorded pairs: how often each slow-down was found, and how large it was.

Both ways of the gate are judged by the same pairs: in turns as they were taken, and by a rolling
baseline, where the medians of the earlier state in the twenty processes before are the kept runs,
and the median of the later state in this process is the new one. As in ``check --baseline``, a run
whose conditions were disturbed is inconclusive.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from workbench.analysis.times.regression import Status, judge_run, slowdown, verdict
from workbench.analysis.times.timing import median_interval
from workbench.gate.baselines import DISTURBED
from workbench.gate.rules import Rules
from workbench.model import Estimate
from workbench.units import signed

RULES = Rules()


class Point(NamedTuple):
    """One planted slow-down: how its runs ended, and the ratios that were measured."""

    planted: int
    ends: Counter[Status]
    ratios: tuple[float, ...]

    @property
    def found(self) -> float:
        """The share of runs that failed."""
        return self.ends["fail"] / max(1, self.ends.total())


def read_runs(path: Path) -> list[dict[str, Any]]:
    """All runs of a campaign: a line of JSON each, compressed or not."""
    data = path.read_bytes()
    text = lzma.decompress(data) if path.suffix == ".xz" else data
    return [json.loads(line) for line in text.splitlines()]


def _pairs(runs: Sequence[dict[str, Any]], kind: str, version: str) -> Iterator[dict[str, Any]]:
    for run in runs:
        if run["kind"] == kind and version in run.get("measured", {}):
            yield run["measured"][version]


def _seconds(nanoseconds: Sequence[int]) -> list[float]:
    return [1e-9 * each for each in nanoseconds]


def in_turns(runs: Sequence[dict[str, Any]], planted: int, kind: str = "quiet") -> Point:
    """The gate as it was run: pairs of one process."""
    ratios: list[float] = []
    ends: Counter[Status] = Counter()
    for pairs in _pairs(runs, kind, f"v{planted}"):
        estimate = slowdown(_seconds(pairs["old_ns"]), _seconds(pairs["new_ns"]))
        ends[verdict(estimate, RULES.max_regression, RULES.resolution)] += 1
        ratios.append(estimate.value)
    return Point(planted, ends, tuple(ratios))


def rolling(
    runs: Sequence[dict[str, Any]], planted: int, kind: str = "quiet", kept: int = 20
) -> Point:
    """A run beside the `kept` quiet processes before it, and their earlier state."""
    version = f"v{planted}"
    past = [_run(each["old_ns"]) for each in _pairs(runs, "quiet", version)]
    ratios: list[float] = []
    ends: Counter[Status] = Counter()
    for place, pairs in enumerate(_pairs(runs, kind, version)):
        before = past[-kept:] if kind != "quiet" else past[max(0, place - kept) : place]
        if len(before) < kept:
            continue
        new = _run(pairs["new_ns"])
        judged = judge_run(new, before, RULES.max_regression, RULES.resolution).status
        ends["inconclusive" if set(DISTURBED) & set(pairs["notices"]) else judged] += 1
        ratios.append(new.value / median(run.value for run in before))
    return Point(planted, ends, tuple(ratios))


def _run(nanoseconds: Sequence[int]) -> Estimate:
    return median_interval(_seconds(nanoseconds))


def table(points: Sequence[Point]) -> str:
    """The curve as a table in Markdown."""
    lines = [
        "| planted | measured (median; lowest to highest) | runs | fail | inconclusive | pass |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for point in points:
        seen = "—"
        if point.ratios:
            ends = (median(point.ratios), min(point.ratios), max(point.ratios))
            middle, low, high = (signed(100 * (ratio - 1), "%") for ratio in ends)
            seen = f"{middle} ({low} to {high})"
        counts = [point.ends[status] for status in ("fail", "inconclusive", "pass")]
        row = (f"{point.planted}%", seen, point.ends.total(), *counts)
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)
