"""View models of counters that moved: tiles, the short list of a step, the whole table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench import units
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.movers import Mover
from workbench.analysis.split.attribution import LineShare
from workbench.counters import catalog
from workbench.model import Record
from workbench.views.html.parts.common import Link, Tone, unit_beside

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
