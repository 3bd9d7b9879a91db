"""View model of the counter glossary: the catalog, in its own order."""

from __future__ import annotations

from workbench import units
from workbench.counters import Counter, catalog
from workbench.model import Record

_BETTER = {"lower": "lower is better", "higher": "higher is better", "": ""}


class Term(Record, frozen=True):
    """One counter in words."""

    counter: Counter
    unit: str
    better: str
    noise: str
    search: str


class TermGroup(Record, frozen=True):
    """One group of the catalog."""

    id: str
    title: str
    terms: tuple[Term, ...]


def _noise(counter: Counter) -> str:
    parts = []
    if counter.noise:
        parts.append(units.tick(100 * counter.noise, "%"))
    if counter.floor:
        printed = counter.unit if counter.unit == "byte" else ""
        unit = {"%": " points", "byte": ""}.get(counter.unit, f" {counter.unit}")
        parts.append(f"{units.tick(counter.floor, printed)}{unit}".rstrip())
    return " and ".join(parts) or "exact"


def _term(counter: Counter) -> Term:
    return Term(
        counter=counter,
        unit=units.symbol(counter.unit) or "a ratio",
        better=_BETTER[counter.better],
        noise=_noise(counter),
        search=" ".join((counter.id, counter.title, counter.meaning, *counter.names)),
    )


def glossary_view() -> tuple[TermGroup, ...]:
    """All counters by group; groups without one are left out."""
    known = catalog()
    groups = (
        TermGroup(id=key, title=title, terms=tuple(map(_term, known.group(key))))
        for key, title in known.groups.items()
    )
    return tuple(group for group in groups if group.terms)
