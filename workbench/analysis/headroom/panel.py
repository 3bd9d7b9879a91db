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


#: Files whose statements end as those of C do, and how many lines one is looked for upwards.
_OF_C = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl")
_UPWARDS = 12
_MOST = 120


def statement_at(profile: Profile, key: LineKey) -> str:
    """The line's text; of C++ code the statement's from its first line on, cut to one line.

    The operands of an inline assembly tell nothing without the instruction above them.
    """
    path, text = line_at(profile, key)
    if not text or not path.lower().endswith(_OF_C):
        return text
    lines = [line.strip() for line in (profile.sources[key[0]].text or "").splitlines()[: key[1]]]
    first = len(lines) - 1
    while first > max(len(lines) - _UPWARDS, 0) and _goes_on(lines[first - 1]):
        first -= 1
    whole = " ".join(lines[first:])
    return whole if len(whole) <= _MOST else f"{whole[:_MOST].rstrip()}…"


def _goes_on(line: str) -> bool:
    """Whether a statement that began on this line, or above, goes on below."""
    code = line.split("//")[0].rstrip()
    return bool(code) and not code.startswith("#") and code[-1] not in ";{}:"


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
