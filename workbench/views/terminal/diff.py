"""``workbench diff`` on a terminal: the time, then every counter that moved, by group."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from workbench.analysis.compare import Comparison, Delta, Side
from workbench.counters import catalog
from workbench.units import count, factor, quantity
from workbench.views.sheets import when
from workbench.views.terminal.console import (
    BAD,
    DIM,
    GOOD,
    HEAD,
    clean,
    grid,
    notes_block,
    section,
    unit_beside,
    with_unit,
)
from workbench.views.text.tables import change_of

_STYLE = {"better": GOOD, "worse": BAD, "changed": "cyan", "same": DIM, "missing": DIM}
#: Widest column head: as wide as the widest number.
_HEAD = 12


def diff_view(
    comparison: Comparison,
    *,
    title: str = "",
    change: str = "",
    notes: Sequence[str] = (),
    extras: Sequence[RenderableType] = (),
    everything: bool = False,
    width: int = 80,
) -> RenderableType:
    """Two profiles: what moved between them.

    Args:
        comparison: The result of `analysis.compare.compare`.
        title: The new version's title.
        change: What its author says was changed.
        notes: Warnings beside those of the comparison (a stale source).
        extras: Further sections, shown after the counters.
        everything: Also the counters that did not move, and the missing ones.
        width: Columns of the terminal.
    """
    old, new = comparison.old, comparison.new
    study = new.study or old.study
    head = Text(f"{clean(study)}  " if study else "", style=DIM)
    head.append(clean(old.label, 120), style="not dim bold")
    head.append(" → ", style="not dim")
    head.append(clean(new.label, 120), style="not dim bold")
    if title:
        head.append(f"  {clean(title)}", style="not dim")
    parts: list[RenderableType] = [head, Text(_provenance(old, new), style=DIM)]
    if change:
        parts.append(Text(clean(change), style="italic"))
    refused = [f"not comparable, compared by force: {reason}" for reason in comparison.reasons]
    parts += notes_block([*refused, *notes, *comparison.warnings])
    parts += [Text(), _time(comparison)]
    parts += _launches(comparison)
    moved = [delta for delta in comparison.counters if delta.moved]
    shown = [d for d in comparison.counters if d.verdict != "missing"] if everything else moved
    if shown:
        parts.append(_counters(comparison, shown, width))
    parts += extras
    parts += _rest(comparison, everything)
    return Group(*parts)


def _provenance(old: Side, new: Side) -> str:
    problem = new.problem if new.problem == old.problem else f"{old.problem}, {new.problem}"
    device = new.device if new.device == old.device else f"{old.device}, {new.device}"
    engine = new.engine if new.engine == old.engine else f"{old.engine}, {new.engine}"
    text = f"{problem} on " if problem.strip(", ") else ""
    captured = when(new.captured)
    if old.captured != new.captured:
        captured = f"{when(old.captured)} and {when(new.captured)}"
    return clean(f"{text}{device}, captured {captured} by {engine}")


def _time(comparison: Comparison) -> RenderableType:
    speed, time = comparison.speed, comparison.time
    if speed is None:
        return Text("No time: neither a timing nor a duration on both sides", style=DIM)
    speedup = speed.speedup
    faster, label, style = speedup >= 1, "as fast", "bold"
    if speed.moved:
        label = f"{factor(max(speedup, 1 / speedup))} {'faster' if faster else 'slower'}"
        style = f"bold {GOOD if faster else BAD}"
    text = Text().append(label, style=style)
    text.append(f"  {quantity(speed.old_s, 's')} → {quantity(speed.new_s, 's')}")
    note = "under the profiler; no time is recorded"
    if time is not None:
        note = f"speed-up {factor(time.low)} to {factor(time.high)}"
    return text.append(f"  {note}", style=DIM)


def _launches(comparison: Comparison) -> list[RenderableType]:
    """Only where it is not one launch against one: which ones correspond."""
    if len(comparison.launches) <= 1:
        return []
    lines = []
    for pair in comparison.launches:
        mark = "added" if pair.old is None else "removed" if pair.new is None else ""
        if mark:
            lines.append(f"{clean(pair.kernel, 60)} ({mark})")
    matched = sum(pair.old is not None and pair.new is not None for pair in comparison.launches)
    text = f"{matched} launch{'' if matched == 1 else 'es'} matched by name and order"
    if lines:
        text += "; " + ", ".join(lines)
    text += ". Counts are summed over launches, rates weighted by duration."
    return [Text(text, style=DIM)]


def _counters(comparison: Comparison, shown: Sequence[Delta], width: int) -> RenderableType:
    wide = width >= 100
    table = Table.grid(padding=(0, 2 if wide else 1, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=40 if wide else 29)
    for _ in range(4 if wide else 3):
        table.add_column(justify="right", no_wrap=True)
    for _ in range(2 if wide else 1):
        table.add_column(no_wrap=True, overflow="ellipsis")
    labels = _heads(comparison.old.label, comparison.new.label)
    heading = ["", *labels, "change", *(["", ""] if wide else []), ""]
    table.add_row(*(Text(each, style=DIM) for each in heading))
    group = ""
    for delta in shown:
        if delta.group != group:
            group = delta.group
            table.add_row(Text(catalog().groups[group], style=HEAD))
        table.add_row(*_row(delta, wide))
    return Group(Text(), table)


def _heads(*labels: str) -> list[str]:
    """What tells the sides apart in a column head: the kernels of ``file::kernel``, cut to fit."""
    names = [clean(label.rpartition("::")[2]) for label in labels]
    cut = [name if len(name) <= _HEAD else name[: _HEAD - 1] + "…" for name in names]
    if len(set(cut)) < len(set(names)):
        cut = [name if len(name) <= _HEAD else "…" + name[1 - _HEAD :] for name in names]
    return cut


def _row(delta: Delta, wide: bool) -> list[Text]:
    style = _STYLE[delta.verdict]
    difference, share = change_of(delta)
    name = Text(f"  {delta.title}", style="" if delta.moved else DIM)
    verdict = Text(delta.verdict if delta.moved else "", style=style)
    if not wide:
        # No room for both: the relative change says more, except from zero and where it rounds
        # to nothing although an exact counter moved.
        small = share == "±0%" and delta.moved
        short = difference if small or share in ("", "—") else share
        values = [quantity(delta.old, delta.unit), quantity(delta.new, delta.unit)]
        return [name, *map(Text, values), Text(short, style=style), verdict]
    if delta.rule:
        verdict.append(f"  {delta.rule}", style=DIM)
    values = [quantity(delta.old, delta.unit), quantity(delta.new, delta.unit)]
    changes = [Text(difference, style=style), Text(share, style=style)]
    unit = Text(unit_beside(delta.unit), style=DIM)
    return [name, *map(Text, values), *changes, unit, verdict]


def _rest(comparison: Comparison, everything: bool) -> list[RenderableType]:
    """What is not in the table: counted, and named where it is missing."""
    same = [delta for delta in comparison.counters if delta.verdict == "same"]
    gone = [
        delta
        for delta in comparison.counters
        if delta.verdict == "missing" and (delta.old is None) != (delta.new is None)
    ]
    nowhere = sum(delta.old is None and delta.new is None for delta in comparison.counters)
    parts: list[RenderableType] = []
    if gone:
        table = grid("l", "f")
        for delta in gone:
            known = f"{with_unit(delta.old, delta.unit)} → {with_unit(delta.new, delta.unit)}"
            table.add_row(delta.title, Text(f"{known}  {clean(delta.reason)}", style=DIM))
        parts.append(section("Known on one side only", table))
    words = [] if everything else [f"{count(len(same))} counters did not move"]
    if nowhere:
        words.append(f"{count(nowhere)} are in neither profile")
    if words:
        text = "; ".join(words) + ("." if everything else ". --all shows those that are there.")
        parts += [Text(), Text(text, style=DIM)]
    return parts
