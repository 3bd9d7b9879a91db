"""``workbench diff`` on a terminal: the time, then every counter that moved, by group."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from workbench.analysis.compare import Comparison, Delta, Side
from workbench.analysis.launches.kernels import NO_PAIR, KernelChange, values_words
from workbench.analysis.weight import TELLING
from workbench.counters import catalog
from workbench.units import count, factor, quantity, several
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
from workbench.views.terminal.figures import Figures, heads
from workbench.views.text.tables import change_of, more

_STYLE = {"better": GOOD, "worse": BAD, "changed": "cyan", "same": DIM, "missing": DIM}
#: Widest column head: as wide as the widest number.
_HEAD = 12
#: Kernels of several that are shown, those whose time changed most.
_KERNELS = 12
_KERNEL_NOTE = "a launch of each, under the profiler"


def diff_view(
    comparison: Comparison,
    *,
    title: str = "",
    change: str = "",
    notes: Sequence[str] = (),
    words: Sequence[RenderableType] = (),
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
        words: What is told of the step, before any counter.
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
    parts += [Text(), _time(comparison), *words]
    parts += _kernels(comparison, width)
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


def _kernels(comparison: Comparison, width: int) -> list[RenderableType]:
    """How launches were compared, and what became of each kernel; nothing for one and one."""
    words = [Text(clean(each), style=DIM) for each in comparison.launch_words]
    kernels = comparison.kernels
    if len(kernels) <= 1:
        return [*words]
    told = sorted(kernels, key=lambda kernel: (-abs(kernel.change_s or 0.0), -kernel.weight))
    table = Figures("lnnnt", width - 2, longest=60)
    least = TELLING * max(sum(k.old_s or 0 for k in kernels), sum(k.new_s or 0 for k in kernels))
    for kernel in told[:_KERNELS]:
        table.add(*_kernel(kernel, least))
    below = [Text(clean(text), style=DIM) for k in told[:_KERNELS] if (text := values_words(k))]
    if len(told) > _KERNELS:
        below.append(Text(more(len(told) - _KERNELS, "kernel"), style=DIM))
    return [*words, section("Kernels", Group(table.table(), *below), _KERNEL_NOTE)]


def _kernel(kernel: KernelChange, least: float) -> list[Text]:
    """One row. A change of less than `least` seconds is nothing to judge."""
    change = Text()
    if not kernel.matched:
        change = Text("removed" if kernel.samples[0] else "added")
    elif kernel.old_s and kernel.new_s and not kernel.moved:
        change = Text("same time", style=DIM)
    elif kernel.old_s and kernel.new_s and abs(kernel.new_s - kernel.old_s) >= least:
        ratio = kernel.old_s / kernel.new_s
        word, style = ("faster", GOOD) if ratio >= 1 else ("slower", BAD)
        change = Text(f"{factor(max(ratio, 1 / ratio))} {word}", style=style)
    times = [f"{n}×" for n in dict.fromkeys(kernel.samples) if n]
    return [
        Text(clean(kernel.name)),
        Text("" if max(kernel.samples) == 1 else " → ".join(times), style=DIM),
        Text(quantity(kernel.old_s, "s") if kernel.samples[0] else ""),
        Text(quantity(kernel.new_s, "s") if kernel.samples[1] else ""),
        change,
    ]


def _counters(comparison: Comparison, shown: Sequence[Delta], width: int) -> RenderableType:
    wide = width >= 100
    table = Figures(
        "lnnnnttw" if wide else "lnnnt",
        width,
        padding=2 if wide else 1,
        longest=40 if wide else 29,
    )
    labels = [clean(side.label.rpartition("::")[2]) for side in (comparison.old, comparison.new)]
    heading = [
        "",
        *heads((labels[0], labels[1]), _HEAD),
        "change",
        *(["", "", "", ""] if wide else [""]),
    ]
    table.head(*(Text(each, style=DIM) for each in heading))
    group = ""
    for delta in shown:
        if delta.group != group:
            group = delta.group
            table.add(Text(catalog().groups[group], style=HEAD))
        table.add(*_row(delta, wide))
    return Group(Text(), table.table())


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
    values = [quantity(delta.old, delta.unit), quantity(delta.new, delta.unit)]
    changes = [Text(difference, style=style), Text(share, style=style)]
    unit = Text(unit_beside(delta.unit), style=DIM)
    return [name, *map(Text, values), *changes, unit, verdict, Text(clean(delta.rule), style=DIM)]


def _rest(comparison: Comparison, everything: bool) -> list[RenderableType]:
    """What is not in the table: counted, and named where it is missing."""
    same = [delta for delta in comparison.counters if delta.verdict == "same"]
    gone = [
        delta
        for delta in comparison.counters
        if delta.verdict == "missing" and (delta.old is None) != (delta.new is None)
    ]
    lone = sum(delta.reason == NO_PAIR for delta in comparison.counters)
    nowhere = sum(delta.old is None and delta.new is None for delta in comparison.counters) - lone
    parts: list[RenderableType] = []
    if gone:
        table = grid("l", "f")
        for delta in gone:
            known = f"{with_unit(delta.old, delta.unit)} → {with_unit(delta.new, delta.unit)}"
            table.add_row(delta.title, Text(f"{known}  {clean(delta.reason)}", style=DIM))
        parts.append(section("Known on one side only", table))
    words = [] if everything else [several(len(same), "counter") + " did not move"]
    if lone:
        words.append(f"{count(lone)} are of one kernel, and no kernel is on both sides")
    if nowhere:
        words.append(f"{count(nowhere)} {'is' if nowhere == 1 else 'are'} in neither profile")
    if words:
        text = "; ".join(words) + ("." if everything else ". --all shows those that are there.")
        parts += [Text(), Text(text, style=DIM)]
    return parts
