"""The memory chart as tables, for one profile or for two beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workbench import units
from workbench.analysis.limits.memory import LineAmount, MemoryChart, Transfer, memory, shown
from workbench.errors import UsageError
from workbench.language import _, told
from workbench.model import Profile, Record
from workbench.views.shapes import Document, shaped
from workbench.views.shapes.show import (
    FlowLine,
    MemoryDocument,
    MemoryFlow,
    MemoryLevel,
    MemoryPair,
    MemorySide,
    MemoryStepDocument,
)
from workbench.views.sheets import Sheet

#: The most source lines that a row names.
_LINES = 3


class FlowRow(Record, frozen=True):
    """A flow in words; amounts and shares have one text per side, `why` the reasons for "—"."""

    id: str
    title: str
    way: str
    amounts: tuple[str, ...]
    change: str
    shares: tuple[str, ...]
    why: str


class LevelRow(Record, frozen=True):
    """A place in words: hit rates and shares of peak, one text per side; "" if it has none."""

    place: str
    title: str
    hits: tuple[str, ...]
    busy: tuple[str, ...]


def flow_rows(sides: Sequence[MemoryChart]) -> tuple[FlowRow, ...]:
    """The flows that at least one side has."""
    titles = {level.place: _(level.title) for level in sides[0].levels}
    rows = []
    for flows in shown(sides):
        first, last = flows[0], flows[-1]
        rows.append(
            FlowRow(
                id=last.id,
                title=_(last.title),
                way=f"{titles[last.start]} → {titles[last.end]}",
                amounts=tuple(map(amount, flows)),
                change=_change(first, last) if len(flows) > 1 else "",
                shares=tuple(share(flow.share) for flow in flows),
                why="; ".join(dict.fromkeys(flow.missing for flow in flows if flow.missing)),
            )
        )
    return tuple(rows)


def level_rows(sides: Sequence[MemoryChart]) -> tuple[LevelRow, ...]:
    """The places that the flows of at least one side touch."""
    flows = [flow for row in shown(sides) for flow in row]
    touched = {place for flow in flows for place in (flow.start, flow.end)}
    return tuple(
        LevelRow(
            place=levels[0].place,
            title=_(levels[0].title),
            hits=_rates([level.hit_rate for level in levels], levels[0].hit_counter),
            busy=_rates([level.throughput for level in levels], levels[0].throughput_counter),
        )
        for levels in zip(*(side.levels for side in sides), strict=True)
        if levels[0].place in touched
    )


def amount(flow: Transfer) -> str:
    """``2.68 GB``, ``67.1 M wavefronts``; an em dash if unknown."""
    if flow.amount is None:
        return units.quantity(None)
    whole = int(flow.amount) if flow.amount.is_integer() else flow.amount
    text = units.quantity(whole, flow.unit)
    return _("{n} wavefronts").format(n=text) if flow.unit == "wavefront" else text


def share(of_peak: float | None) -> str:
    """A share (0-1) in percent, or an em dash."""
    return units.quantity(None if of_peak is None else 100.0 * of_peak, "%")


def _rates(values: Sequence[float | None], counter: str) -> tuple[str, ...]:
    return tuple(units.quantity(value, "%") if counter else "" for value in values)


def _change(old: Transfer, new: Transfer) -> str:
    if old.amount is None or new.amount is None:
        return units.quantity(None)
    if not old.amount and new.amount:
        return _("new")
    return units.relative(old.amount, new.amount)


def memory_sheet(title: str, profiles: Sequence[Profile], labels: Sequence[str]) -> Sheet:
    """The chart of one profile, or of an old and a new one, as one table: flows, then places.

    Raises UsageError: a profile has no counters of memory.
    """
    sides = []
    for profile, label in zip(profiles, labels, strict=True):
        side = memory(profile)
        if side is None:
            raise UsageError(
                f"{label}: it has no memory counter",
                "Capture it with the sections SourceCounters and MemoryWorkloadAnalysis.",
            )
        sides.append(side)
    two = len(sides) > 1
    rows = [
        (
            row.title,
            row.way,
            *row.amounts,
            *((row.change,) if two else ()),
            arrow(row.shares),
            _lines(profiles[-1], sides[-1][row.id]),
        )
        for row in flow_rows(sides)
    ]
    blank = ("",) if two else ()
    for level in level_rows(sides):
        if any(level.hits):
            rows.append(
                (_("{place} hit rate").format(place=level.title), "", *level.hits, *blank, "", "")
            )
        if any(level.busy):
            none = ("",) * len(sides)
            head = _("{place} throughput").format(place=level.title)
            rows.append((head, "", *none, *blank, arrow(level.busy), ""))
    parts = [_side(*each) for each in zip(profiles, sides, strict=True)]
    document: Document = MemoryDocument(memory=parts[0])
    if two:
        document = MemoryStepDocument(memory=MemoryPair(old=parts[0], new=parts[1]))
    amounts = tuple(labels) if two else ("amount",)
    return Sheet(
        title=(title,),
        header=("flow", "way", *amounts, *(("change",) if two else ()), "of peak", "lines"),
        shown=tuple(rows),
        raw=tuple(_raw(flows) for flows in shown(sides)),
        document=document.plain(),
        notes=(
            *(f"— {row.title}: {told(row.why)}" for row in flow_rows(sides) if row.why),
            *_several(profiles, labels),
        ),
        extra=("lines", "way"),
    )


def _several(profiles: Sequence[Profile], labels: Sequence[str]) -> Iterator[str]:
    for profile, label in zip(profiles, labels, strict=True):
        launches = sum(launch.profiled for launch in profile.launches)
        if launches > 1:
            words = _("{name}: {n} launches; amounts are added up, rates are means by duration")
            yield words.format(name=label, n=launches)


def arrow(texts: Sequence[str]) -> str:
    """``24.1% → 6.13%``; only one text if both are the same."""
    return " → ".join(dict.fromkeys(texts))


def _lines(profile: Profile, flow: Transfer) -> str:
    """The lines with the largest shares: ``47 50%, 48 50%``."""
    known = [line for line in flow.lines if line.key[0] >= 0 and line.key[1] > 0][:_LINES]
    main = known[0].key[0] if known else 0
    texts = []
    for line in known:
        file, number = line.key
        name = "" if file == main else f"{profile.sources[file].path.rsplit('/', 1)[-1]}:"
        texts.append(f"{name}{number} {share(line.share)}")
    return ", ".join(texts)


def _raw(flows: Sequence[Transfer]) -> dict[str, Any]:
    last = flows[-1]
    sides = ("",) if len(flows) == 1 else ("old_", "new_")
    row: dict[str, Any] = {"flow": last.id, "from": last.start, "to": last.end, "unit": last.unit}
    for side, flow in zip(sides, flows, strict=True):
        row |= {f"{side}amount": flow.amount, f"{side}share": flow.share, f"{side}ncu": flow.ncu}
    return row


def _side(profile: Profile, side: MemoryChart) -> MemorySide:
    return MemorySide(
        levels=[shaped(level, MemoryLevel) for level in side.levels],
        flows=[
            shaped(flow, MemoryFlow, lines=[_line(profile, each) for each in flow.lines])
            for flow in side.flows
            if flow.shown
        ],
    )


def _line(profile: Profile, of: LineAmount) -> FlowLine:
    known = 0 <= of.key[0] < len(profile.sources)
    file = profile.sources[of.key[0]].path if known else ""
    return FlowLine(file=file, line=of.key[1], amount=of.amount, share=of.share)
