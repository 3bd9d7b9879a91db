"""View models of counters that moved: tiles, the short list of a step, the whole table."""

from __future__ import annotations

from workbench import units
from workbench.analysis.compare import Comparison, Delta
from workbench.counters import catalog
from workbench.model import Record
from workbench.views.html.parts.common import Tone, unit_beside

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
    unit = unit_beside(delta.unit)
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


def counter_table(comparison: Comparison) -> tuple[CounterRow, ...]:
    """All counters of the catalog, in its order."""
    groups = catalog().groups
    return tuple(_row(delta, groups.get(delta.group, "")) for delta in comparison.counters)


def _row(delta: Delta, group: str) -> CounterRow:
    known = catalog()[delta.id]
    missing = delta.old is None or delta.new is None
    return CounterRow(
        id=delta.id,
        title=delta.title,
        meaning=known.meaning,
        group=group,
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
