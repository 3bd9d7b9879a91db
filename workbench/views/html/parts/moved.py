"""Counters that moved: tiles, the whole table, and what a change is linked to, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench import units
from workbench.analysis.attribution import LineShare, Part
from workbench.analysis.compare import Delta
from workbench.analysis.duration import CodeLine, TimePart, TimeSplit, WaitPath
from workbench.analysis.limit import stall_words
from workbench.analysis.story import Story
from workbench.analysis.weight import TELLING
from workbench.analysis.wording import Fact, Passage, Row, Tie, Title
from workbench.counters import catalog
from workbench.model import Number, Record
from workbench.views.html.parts.common import Link, Tone, percent, width

#: Side (0 old, 1 new), path and line -> address on the page, or "".
Anchor = Callable[[int, str, int | None], str]


def relative(delta: Delta) -> str:
    """A change as a reader says it: points for percentages, else the ratio."""
    if delta.old is None or delta.new is None:
        return units.quantity(None)
    if delta.unit == "%":
        return units.points(float(delta.new) - float(delta.old))
    if delta.old == 0:
        return units.signed(delta.new, delta.unit)
    return units.relative(delta.old, delta.new)


def amount(delta: Delta) -> str:
    """A change in its counter's unit, and what that is of the old value where it says more."""
    said = relative(delta)
    if delta.unit != "%" and delta.old and delta.delta is not None:
        return f"{units.signed(delta.delta, delta.unit)} · {said}"
    return said


def noise(delta: Delta) -> str:
    """The change that would still count as none: ``±2.00%``, ``exact``."""
    if delta.old is None or delta.new is None:
        return units.quantity(None)
    scale = max(abs(float(delta.old)), abs(float(delta.new)))
    # `compare` has a floor of a billionth for rounding errors: that is "exact" to a reader.
    if delta.noise <= 2e-9 * scale or not delta.noise:
        return "exact"
    return f"±{units.quantity(delta.noise, delta.unit)}"


def line_link(line: LineShare, anchor: Anchor) -> Link | None:
    """``line 47``, ``old line 3`` where nothing is left of it; None where it is not shown."""
    side = 1 if line.new else 0
    number = line.new or line.old
    href = anchor(side, line.new_file if side else line.old_file, number) if number else ""
    return Link(text=f"{'' if side else 'old '}line {number}", href=href) if href else None


# --- links ----------------------------------------------------------------------------

#: Of one part: from the line that waited to the line that it waited for.
_PATHS = 2


class WaitLink(Record, frozen=True):
    """Which line waited for which, `via` what, and how much time that is."""

    waited: Link
    blamed: Link
    via: str
    amount: str


class LinkRow(Record, frozen=True):
    """A number that a part is linked to; the bar is its share of the whole change."""

    number: Row
    title: str
    meaning: str
    width: str
    share: str
    note: str = ""
    where: Link | None = None
    paths: tuple[WaitLink, ...] = ()


class LinkGroup(Record, frozen=True):
    """The numbers of one part: a hunk's own lines, a symbol, the launch, elsewhere."""

    title: Title
    rows: tuple[LinkRow, ...]


def tone_of(good: bool | None) -> Tone:
    """Good or bad where a number has a better side, else nothing."""
    return "" if good is None else "good" if good else "bad"


class Links:
    """The links of one step as its story tells them, passage by passage.

    Args:
        story: The step, explained.
        anchor: Side (0 old, 1 new), path and line -> address on the page, or "".
    """

    def __init__(self, story: Story, anchor: Anchor) -> None:
        self._story = story
        self._anchor = anchor

    def of(self, passage: Passage) -> tuple[LinkGroup, ...]:
        """A hunk's own lines and its symbols, or launches and what nothing explains."""
        return tuple(
            LinkGroup(title=tie.title, rows=tuple(self._rows(tie))) for tie in passage.ties
        )

    def _rows(self, tie: Tie) -> Iterable[LinkRow]:
        numbers = list(tie.rows)
        if tie.time is not None and self._story.time is not None:
            yield self._time(numbers.pop(0), tie.time, self._story.time)
        yield from map(self._counter, numbers, tie.facts)

    def _time(self, number: Row, part: TimePart, split: TimeSplit) -> LinkRow:
        share = part.delta_s / split.delta_s if split.delta_s else 0.0
        return LinkRow(
            number=number,
            title="Time",
            meaning="An estimate: warp samples on the lines, times the duration.",
            width=width(abs(part.delta_s) / _largest(abs(p.delta_s) for p in split.parts)),
            share=_share(share if 0 < share <= 1 else None),
            note=", ".join(f"{stall.title} {stall.amount}" for stall in number.stalls),
            paths=tuple(self._path(path) for path in _proofs(part, split)),
        )

    def _path(self, path: WaitPath) -> WaitLink:
        return WaitLink(
            waited=self._line(path.waited),
            blamed=self._line(path.blamed),
            via=path.via,
            amount=f"{stall_words(path.stall)} {units.signed(path.delta_s, 's')}",
        )

    def _line(self, line: CodeLine) -> Link:
        number, side = (line.new, 1) if line.new else (line.old, 0)
        words = f"{'' if side else 'old '}line {number}" if number else "code of no line"
        return Link(text=words, href=self._anchor(side, line.file, number) if number else "")

    def _counter(self, number: Row, fact: Fact) -> LinkRow:
        part = fact.part
        return LinkRow(
            number=number,
            title=number.title,
            meaning=catalog()[number.id].meaning,
            width=width(abs(part.delta) / _largest(abs(p.delta) for p in fact.split.parts)),
            share=_share(number.share),
            note=_via(part.lines),
            where=self._where(part),
        )

    def _where(self, part: Part) -> Link | None:
        """The line that holds most of the part, if one does."""
        if not part.lines:
            return None
        line = part.lines[0]
        if abs(line.delta) < 0.5 * abs(part.delta):
            return None
        return line_link(line, self._anchor)


def _proofs(part: TimePart, split: TimeSplit) -> list[WaitPath]:
    """The ways from a wait to the line to blame for it that are worth telling, along the part."""
    least = TELLING * max(split.old_s, split.new_s)
    found = [
        path
        for path in part.paths
        if path.waited != path.blamed
        and path.delta_s * part.delta_s > 0
        and abs(path.delta_s) >= least
        and path.stall in catalog()
    ]
    return found[:_PATHS]


def _via(lines: tuple[LineShare, ...]) -> str:
    names = [name for line in lines[:1] for name in line.via]
    return f"by way of {', '.join(names[:3])}" if names else ""


def _largest(amounts: Iterable[Number]) -> Number:
    return max(amounts, default=0) or 1


def _share(share: float | None) -> str:
    if share is None:
        return ""
    return "all of it" if share == 1 else f"{percent(share)} of it"
