"""Counters that moved: tiles, the whole table, and what a change is linked to, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from workbench import units
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.movers import Mover
from workbench.analysis.split.attribution import LineShare, Part
from workbench.analysis.split.duration import CodeLine, TimePart, TimeSplit, WaitPath
from workbench.analysis.stalls import stall_words
from workbench.analysis.story import Fact, Passage, Story, Tie, went_well
from workbench.analysis.weight import TELLING
from workbench.counters import catalog
from workbench.model import Number, Record
from workbench.views.html.parts.common import Link, Tone, percent, unit_beside, width

#: Side (0 old, 1 new), path and line -> address on the page, or "".
Anchor = Callable[[int, str, int | None], str]
#: Of one counter.
_MOVERS = 3

_VERDICT: dict[str, Tone] = {"better": "good", "worse": "bad"}
_BETTER = {"lower": "↓ lower", "higher": "↑ higher", "": ""}


class MovedTile(Record, frozen=True):
    """A counter that moved: its new value, and by how much."""

    id: str
    title: str
    meaning: str
    value: str
    old: str
    change: str
    short: str
    tone: Tone


class MovedBy(Record, frozen=True):
    """Hunks that moved a counter, by how much, and the line that holds most of it."""

    hunks: tuple[Link, ...]
    amount: str
    line: Link | None


class CounterRow(Record, frozen=True):
    """A row of the table of all counters; `keys` are what its cells sort by."""

    id: str
    title: str
    meaning: str
    group: str
    ncu: str
    old: str
    new: str
    unit: str
    change: str
    relative: str
    noise: str
    better: str
    verdict: str
    tone: Tone
    moved: bool
    note: str
    keys: tuple[str, ...]
    moved_by: tuple[MovedBy, ...]
    more: str


def change(delta: Delta) -> str:
    """A change as a reader says it: points for percentages, else the ratio."""
    if delta.old is None or delta.new is None:
        return units.quantity(None)
    if delta.unit == "%":
        return units.points(float(delta.new) - float(delta.old))
    if delta.old == 0:
        return units.signed(delta.new, delta.unit)
    return units.relative(delta.old, delta.new)


def tile(delta: Delta) -> MovedTile:
    """A counter as a tile."""
    known = catalog()[delta.id]
    unit = units.plural(unit_beside(delta.unit))
    new = units.quantity(delta.new, delta.unit)
    said = change(delta)
    if delta.unit != "%" and delta.old and delta.delta is not None:
        said = f"{units.signed(delta.delta, delta.unit)} · {said}"
    return MovedTile(
        id=delta.id,
        title=known.title,
        meaning=known.meaning,
        value=new,
        old=units.quantity(delta.old, delta.unit) + (f" {unit}" if unit else ""),
        change=said,
        short=change(delta),
        tone=_VERDICT.get(delta.verdict, ""),
    )


def counter_table(
    comparison: Comparison, moved_by: Mapping[str, Sequence[Mover]], anchor: Anchor
) -> tuple[CounterRow, ...]:
    """All counters of the catalog, in its order.

    Args:
        comparison: Of the two sides.
        moved_by: Which hunks moved a counter, by its id.
        anchor: Side (0 old, 1 new), path and line -> address on the page, or "".
    """
    return tuple(
        _row(delta, tuple(moved_by.get(delta.id, ())), anchor) for delta in comparison.counters
    )


def _moved_by(mover: Mover, anchor: Anchor) -> MovedBy:
    return MovedBy(
        hunks=tuple(Link(text=f"hunk {hunk}", href=f"#hunk-{hunk}") for hunk in mover.hunks),
        amount=units.signed(mover.delta, mover.unit),
        line=line_link(mover.line, anchor) if mover.line is not None else None,
    )


def line_link(line: LineShare, anchor: Anchor) -> Link | None:
    """``line 47``, ``old line 3`` where nothing is left of it; None where it is not shown."""
    side = 1 if line.new else 0
    number = line.new or line.old
    href = anchor(side, line.new_file if side else line.old_file, number) if number else ""
    return Link(text=f"{'' if side else 'old '}line {number}", href=href) if href else None


def _row(delta: Delta, moved_by: tuple[Mover, ...], anchor: Anchor) -> CounterRow:
    known = catalog()[delta.id]
    missing = delta.old is None or delta.new is None
    return CounterRow(
        id=delta.id,
        title=delta.title,
        meaning=known.meaning,
        group=catalog().groups.get(delta.group, ""),
        ncu=delta.ncu,
        old=units.quantity(delta.old, delta.unit),
        new=units.quantity(delta.new, delta.unit),
        unit=unit_beside(delta.unit),
        change=units.quantity(None) if delta.delta is None else _difference(delta),
        relative="" if missing or delta.unit == "%" else change(delta),
        noise=units.quantity(None) if missing else _noise(delta),
        better=_BETTER.get(delta.better, ""),
        verdict=delta.verdict,
        tone=_VERDICT.get(delta.verdict, ""),
        moved=delta.moved,
        note="; ".join(said for said in (delta.rule, delta.reason) if said),
        keys=tuple(
            _key(value)
            for value in (delta.old, delta.new, delta.delta, delta.relative, delta.noise)
        ),
        moved_by=tuple(_moved_by(mover, anchor) for mover in moved_by[:_MOVERS]),
        more=f"and {units.count(rest)} more" if (rest := len(moved_by) - _MOVERS) > 0 else "",
    )


def _difference(delta: Delta) -> str:
    assert delta.delta is not None
    if delta.unit == "%":
        return units.points(float(delta.delta)) if delta.delta else units.signed(0)
    return units.signed(delta.delta, delta.unit)


def _noise(delta: Delta) -> str:
    scale = max(abs(float(delta.old or 0)), abs(float(delta.new or 0)))
    # `compare` has a floor of a billionth for rounding errors: that is "exact" to a reader.
    if delta.noise <= 2e-9 * scale or not delta.noise:
        return "exact"
    return f"±{units.quantity(delta.noise, delta.unit)}"


def _key(value: float | None) -> str:
    return "" if value is None else f"{float(value):.6g}"


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

    id: str
    title: str
    meaning: str
    value: str
    tone: Tone
    width: str
    share: str
    error: str = ""
    note: str = ""
    where: Link | None = None
    paths: tuple[WaitLink, ...] = ()


class LinkGroup(Record, frozen=True):
    """The numbers of one part: a hunk's own lines, a symbol, the launch, elsewhere.

    `together`: the hunks, in words, where several share it; `places`: the lines, by number,
    of a source that is not known; `elsewhere`: why what no edit explains may have changed.
    """

    link: str
    symbol: str
    rows: tuple[LinkRow, ...]
    together: str = ""
    places: str = ""
    elsewhere: str = ""


def tone_of(counter: str, delta: Number) -> Tone:
    """Good or bad where the counter has a direction, else nothing."""
    good = went_well(counter, delta)
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
            LinkGroup(
                link=tie.link,
                symbol=units.listed(tie.symbols),
                rows=(*self._time(tie), *map(self._counter, tie.facts)),
                together=tie.together,
                places=tie.places,
                elsewhere=tie.elsewhere,
            )
            for tie in passage.ties
        )

    def _time(self, tie: Tie) -> Iterable[LinkRow]:
        split, part = self._story.time, tie.time
        if split is None or part is None:
            return
        error = max(part.high_s - part.delta_s, part.delta_s - part.low_s)
        share = part.delta_s / split.delta_s if split.delta_s else 0.0
        yield LinkRow(
            id="duration",
            title="Time",
            meaning="An estimate: warp samples on the lines, times the duration.",
            value=units.signed(part.delta_s, "s"),
            tone="good" if part.delta_s < 0 else "bad",
            width=width(abs(part.delta_s) / _largest(abs(p.delta_s) for p in split.parts)),
            share=_share(share if 0 < share <= 1 else None),
            error=f"±{units.quantity(error, 's')}",
            note=", ".join(
                f"{catalog()[stall.stall].title} {units.signed(stall.delta_s, 's')}"
                for stall in tie.stalls
            ),
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

    def _counter(self, fact: Fact) -> LinkRow:
        split, part = fact.split, fact.part
        counter = catalog()[split.id]
        return LinkRow(
            id=counter.id,
            title=counter.title,
            meaning=counter.meaning,
            value=units.signed(part.delta, split.unit),
            tone=tone_of(split.id, part.delta),
            width=width(abs(part.delta) / _largest(abs(p.delta) for p in split.parts)),
            share=_share(fact.of_change),
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
