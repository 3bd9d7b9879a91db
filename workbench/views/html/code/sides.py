"""Line counters for the gutters of both sides of a diff, on one scale.

Several launches of a side count on the same lines: their counters add up. The time of
a line is its share of the warp samples of its launch times the launch's duration, an
estimate like everything that samples say.
"""

from __future__ import annotations

from workbench import units
from workbench.analysis.stalls import sampled_lines
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Profile, Record, line_counters
from workbench.views.html.code.gutters import Cell
from workbench.views.html.parts.common import percent, profiled, value, width

#: Id, title, counter, its ideal ("" where it has none).
_COUNTED = (
    ("global", "Global sectors", "global_sectors", "global_sectors_ideal"),
    ("shared", "Shared wavefronts", "shared_wavefronts", "shared_wavefronts_ideal"),
    ("local", "Local sectors", "local_sectors", ""),
    ("instructions", "Instructions", "instructions", ""),
)


class PairGutter(Record, frozen=True):
    """One counter beside the lines of both sides; cells by (file index, line)."""

    id: str
    title: str
    old: dict[LineKey, Cell]
    new: dict[LineKey, Cell]


class _Amount(Record, frozen=True):
    text: str
    total: Number
    excess: Number = 0
    note: str = ""


_Amounts = dict[LineKey, _Amount]
_Lines = dict[LineKey, dict[str, Number]]


def pair_gutters(old: Profile, new: Profile) -> tuple[PairGutter, ...]:
    """The counters that at least one side holds per line, the most telling first."""
    lines = [
        [(launch, line_counters(launch)) for launch in profiled(profile)] for profile in (old, new)
    ]
    found = [("time", "Time", _time(old), _time(new))]
    for identity, title, counter, ideal in _COUNTED:
        before, after = (_counted(side, counter, ideal) for side in lines)
        found.append((identity, title, before, after))
    out = []
    for identity, title, before, after in found:
        top = max((item.total for side in (before, after) for item in side.values()), default=0)
        if top:
            sides = [_cells(side, top) for side in (before, after)]
            out.append(PairGutter(id=identity, title=title, old=sides[0], new=sides[1]))
    return tuple(out)


def _cells(side: _Amounts, top: Number) -> dict[LineKey, Cell]:
    return {
        key: (
            item.text,
            float(width(item.total / top)),
            float(width(item.excess / top)) if item.excess else 0.0,
            item.note,
        )
        for key, item in side.items()
        if item.total
    }


def _time(profile: Profile) -> _Amounts:
    """Seconds by line; the largest stall is the note."""
    seconds: dict[LineKey, float] = {}
    stalls: dict[LineKey, dict[str, float]] = {}
    for launch in profiled(profile):
        duration = value(launch, "duration")
        for line in sampled_lines(launch) if duration else ():
            spent = line.share * float(duration or 0.0)
            seconds[line.key] = seconds.get(line.key, 0.0) + spent
            own = stalls.setdefault(line.key, {})
            for state, share in line.stalls:
                own[state.title] = own.get(state.title, 0.0) + share * spent
    return {
        key: _Amount(text=units.quantity(spent, "s"), total=spent, note=_top(stalls[key], spent))
        for key, spent in seconds.items()
    }


def _top(stalls: dict[str, float], spent: float) -> str:
    title, most = max(stalls.items(), key=lambda item: item[1], default=("", 0.0))
    return f"{title} {percent(most / spent)}" if most else ""


def _counted(side: list[tuple[Launch, _Lines]], counter: str, ideal: str) -> _Amounts:
    totals: dict[LineKey, Number] = {}
    least: dict[LineKey, Number] = {}
    for launch, lines in side:
        name = line_metric(launch, catalog()[counter])
        best = line_metric(launch, catalog()[ideal]) if ideal else None
        for key, own in lines.items():
            if name is None or key[1] <= 0 or not own.get(name):
                continue
            totals[key] = totals.get(key, 0) + own[name]
            least[key] = least.get(key, 0) + (own.get(best, 0) if best else own[name])
    return {
        key: _Amount(
            text=units.count(total),
            total=total,
            excess=max(total - least[key], 0),
            note=_beyond(total, least[key]),
        )
        for key, total in totals.items()
    }


def _beyond(total: Number, least: Number) -> str:
    if total <= least:
        return ""
    return f"{units.factor(total / least)} the ideal" if least else "all of it excess"
