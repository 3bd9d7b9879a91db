"""The panel: what limits a profile now, where, and what to try first; and what became of that."""

from __future__ import annotations

from collections import deque

from workbench.analysis.advice import Score, weigh
from workbench.analysis.aggregate import main_launch
from workbench.analysis.headroom import Panel
from workbench.analysis.headroom.ways import ways_of
from workbench.analysis.limit import limit_of_launch
from workbench.analysis.stalls import HotLine, sampled_lines
from workbench.counters import Counter
from workbench.model import Device, Launch, LineKey, Profile

#: Panels of the launches that were asked for last: a report asks for each of them four times.
_found: deque[tuple[Launch, Panel]] = deque(maxlen=32)


def panel_of(profile: Profile) -> Panel | None:
    """The panel of the launch that takes most of a profile's time; None where none was profiled."""
    launch = main_launch(profile)
    return panel_of_launch(launch, profile.device) if launch is not None else None


def panel_of_launch(launch: Launch, device: Device) -> Panel:
    """The panel of one launch."""
    for known, panel in tuple(_found):
        if known is launch:
            return panel
    panel = _panel(launch, device)
    _found.append((launch, panel))
    return panel


def _panel(launch: Launch, device: Device) -> Panel:
    hot = next((line for line in sampled_lines(launch) if line.telling), None)
    return Panel(limit=limit_of_launch(launch, device), hot=hot, ways=ways_of(launch, device))


def waited_most(line: HotLine) -> tuple[Counter, float] | None:
    """The wait that most of a line's samples are of, with its part (0-1) of them."""
    return line.stalls[0] if line.stalls else None


def line_at(profile: Profile, key: LineKey) -> tuple[str, str]:
    """Path and text of a source line; "" for what the profile does not hold."""
    file, number = key
    if not 0 <= file < len(profile.sources):
        return "", ""
    source = profile.sources[file]
    lines = (source.text or "").splitlines()
    return source.path, lines[number - 1].strip() if 0 < number <= len(lines) else ""


def score_ways(old: Panel | None, new: Panel | None, speedup: float) -> tuple[Score, ...]:
    """Score the old side's ways by what the step gained, as ncu's rules are.

    Args:
        old: The panel of the version before.
        new: The panel after it; a way that it still has, as large as before, was not tried.
        speedup: Old time over new time, measured outside of the profiler if possible.
    """
    if old is None:
        return ()
    later = {(way.kind, way.counter): way.saves for way in new.ways} if new is not None else {}
    return tuple(
        weigh(
            Score(
                rule=way.kind,
                title=way.words,
                kernel="",
                promised=way.saves,
                gained=1.0 - 1.0 / speedup,
                still=later.get((way.kind, way.counter)),
            )
        )
        for way in old.ways
    )
