"""What stands beside lines of code: one counter, as text, a bar and a note for each line.

A version's page has the lines of one launch; a step's page those of both sides on one
scale, where several launches of a side count on the same lines and add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import NamedTuple

from workbench import units
from workbench.analysis.aggregate import value_of
from workbench.analysis.limit import HotLine, sampled_lines
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Profile, Record, line_counters
from workbench.views.html.parts.common import percent, profiled, width

_LANES = 32
#: Id, title, counter, its ideal ("" where it has none).
_COUNTED = (
    ("global", "Global sectors", "global_sectors", "global_sectors_ideal"),
    ("shared", "Shared wavefronts", "shared_wavefronts", "shared_wavefronts_ideal"),
    ("local", "Local sectors", "local_sectors", ""),
    ("instructions", "Instructions", "instructions", ""),
)
_DIVERGENT = ("divergent", "Divergent branches", "divergent_branches", "")

Lines = dict[LineKey, dict[str, Number]]


class Cell(NamedTuple):
    """A line's number: its text, the widths of its bar and of the excess (CSS percent), a note.

    As JSON it is a list, which the page's script draws as `markup` does.
    """

    text: str
    width: float
    excess: float = 0.0
    note: str = ""

    def markup(self, before: str = "", *, titled: bool = False) -> str:
        """The cell as HTML: the amount's bar, hatched what exceeds the ideal, and the text.

        Args:
            before: Markup between bars and text.
            titled: The note is the text's title; else it stands elsewhere.
        """
        bar = f'<i style="width:{self.width}%"></i>' if self.width else ""
        bar += f'<i class="x" style="width:{self.excess}%"></i>' if self.excess else ""
        title = f' title="{escape(self.note)}"' if titled else ""
        return f"{bar}{before}<span{title}>{escape(self.text)}</span>"


class Gutter(Record, frozen=True):
    """One counter beside the lines: its heading, the note's heading, cells by line key."""

    id: str
    title: str
    note: str
    cells: dict[LineKey, Cell]


class PairGutter(Record, frozen=True):
    """One counter beside the lines of both sides; cells by (file index, line)."""

    id: str
    title: str
    old: dict[LineKey, Cell]
    new: dict[LineKey, Cell]


class _Amount(NamedTuple):
    text: str
    total: Number
    excess: Number = 0
    note: str = ""


_Amounts = dict[LineKey, _Amount]


def gutters(launch: Launch, lines: Lines) -> tuple[Gutter, ...]:
    """The counters that a launch holds per line, the most telling first."""
    found = [("samples", "Warp samples", "largest stall", _samples(launch))]
    for identity, title, counter, ideal in (*_COUNTED, _DIVERGENT):
        amounts = _counted([(launch, lines)], counter, ideal)
        note = "against the ideal" if ideal else ""
        if counter == "instructions" and (lanes := _lanes(launch, lines)) is not None:
            amounts = {key: item._replace(note=lanes(key)) for key, item in amounts.items()}
            note = "active lanes"
        found.append((identity, title, note, amounts))
    return tuple(
        Gutter(id=identity, title=title, note=note, cells=_cells(amounts, top))
        for identity, title, note, amounts in found
        if (top := _largest(amounts))
    )


def pair_gutters(old: Profile, new: Profile) -> tuple[PairGutter, ...]:
    """The counters that at least one side holds per line, the most telling first."""
    sides = [
        [
            (launch, {key: own for key, own in line_counters(launch).items() if key[1] > 0})
            for launch in profiled(profile)
        ]
        for profile in (old, new)
    ]
    found = [("time", "Time", _time(old), _time(new))]
    for identity, title, counter, ideal in _COUNTED:
        before, after = (_counted(side, counter, ideal) for side in sides)
        found.append((identity, title, before, after))
    return tuple(
        PairGutter(id=identity, title=title, old=_cells(before, top), new=_cells(after, top))
        for identity, title, before, after in found
        if (top := _largest(before, after))
    )


def _largest(*sides: _Amounts) -> Number:
    return max((item.total for side in sides for item in side.values()), default=0)


def _cells(side: _Amounts, top: Number) -> dict[LineKey, Cell]:
    return {
        key: Cell(
            item.text,
            float(width(item.total / top)),
            float(width(item.excess / top)) if item.excess else 0.0,
            item.note,
        )
        for key, item in side.items()
        if item.total
    }


def stall_note(line: HotLine, limit: int = 1) -> str:
    """The largest stalls of a line, as shares of its samples."""
    parts = [f"{state.title} {percent(share)}" for state, share in line.stalls[:limit]]
    return ", ".join(parts)


def _samples(launch: Launch) -> _Amounts:
    return {
        line.key: _Amount(text=percent(line.share), total=line.share, note=stall_note(line))
        for line in sampled_lines(launch)
    }


def _time(profile: Profile) -> _Amounts:
    """Seconds by line, its share of a launch's samples times the duration; the note as above."""
    seconds: dict[LineKey, float] = {}
    stalls: dict[LineKey, dict[str, float]] = {}
    for launch in profiled(profile):
        duration = value_of(launch, "duration")
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


def _counted(side: Iterable[tuple[Launch, Lines]], counter: str, ideal: str) -> _Amounts:
    totals: dict[LineKey, Number] = {}
    least: dict[LineKey, Number] = {}
    for launch, lines in side:
        name = line_metric(launch, catalog()[counter])
        best = line_metric(launch, catalog()[ideal]) if ideal else None
        for key, own in lines.items() if name else ():
            if number := own.get(name or "", 0):
                totals[key] = totals.get(key, 0) + number
                least[key] = least.get(key, 0) + (own.get(best, 0) if best else number)
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


def _lanes(launch: Launch, lines: Lines) -> Callable[[LineKey], str] | None:
    """What gives a line's active lanes in words; None where the launch does not hold them."""
    active = line_metric(launch, catalog()["thread_instructions"])
    issued = line_metric(launch, catalog()["instructions"])
    if active is None or issued is None:
        return None

    def said(key: LineKey) -> str:
        lanes = lines[key].get(active, 0) / lines[key][issued]
        return f"{units.digits3(lanes)} of {_LANES} lanes" if lanes < _LANES else ""

    return said
