"""``workbench diff`` on a terminal: the time, words, the hunks, then counters, by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from workbench.analysis.cause.sentence import speed_words
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
    height,
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
#: Rows of a screen: what was edited, what it did and where is told in these.
SCREEN = 40
#: Rows of the author's words, and of warnings, that stand above the hunks.
_CHANGE, _NOTES = 3, 4
#: Which rule made one value of several launches: beside a counter, and once above the table.
_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
#: From this width on there are two blanks between columns.
_ROOMY = 76
_KERNEL_NOTE = "a launch of each, under the profiler"


class Told(NamedTuple):
    """What is told of a step around its counters.

    `words` come first; `hunks` makes sections for the rows that are left of the screen; `extras`
    follow the counters, which are the `telling` ones (None: all that moved).
    """

    words: Sequence[RenderableType] = ()
    hunks: Callable[[int], Sequence[RenderableType]] = lambda _: ()
    extras: Sequence[RenderableType] = ()
    telling: Sequence[Delta] | None = None


_NOTHING = Told()


def diff_view(
    comparison: Comparison,
    *,
    title: str = "",
    change: str = "",
    notes: Sequence[str] = (),
    told: Told = _NOTHING,
    everything: bool = False,
    width: int = 80,
) -> RenderableType:
    """Two profiles: what moved between them.

    Args:
        comparison: The result of `analysis.compare.compare`.
        title: The new version's title.
        change: What its author says was changed.
        notes: Warnings beside those of the comparison (a stale source).
        told: What is told of the step beside its counters.
        everything: All counters, those that did not move too, and the missing ones.
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
        said = Text(clean(change), style="italic")
        parts.append(said if everything else _cut_rows(said, width, _CHANGE))
    # A comparison by force says so before any number; the other warnings may have to wait.
    parts += notes_block([f"not comparable, compared by force: {x}" for x in comparison.reasons])
    warnings = [*notes, *comparison.warnings]
    block = notes_block(warnings)
    late = sum(height(part, width) for part in block) > _NOTES
    if late:
        parts += notes_block([f"{several(len(warnings), 'warning')}, below the hunks"])
    else:
        parts += block
    parts += [Text(), _time(comparison), *told.words]
    parts += told.hunks(SCREEN - sum(height(part, width) for part in parts))
    parts += block if late else []
    parts += _kernels(comparison, width)
    moved = [delta for delta in comparison.counters if delta.moved]
    shown = list(told.telling) if told.telling is not None else moved
    if everything:
        shown = [delta for delta in comparison.counters if delta.verdict != "missing"]
    if shown:
        parts.append(_counters(comparison, shown, width))
    parts += told.extras
    parts += _rest(comparison, len(moved) - len(shown), everything)
    return Group(*parts)


def _cut_rows(text: Text, width: int, most: int) -> Text:
    """The first `most` rows, with an ellipsis where there are more."""
    rows = text.wrap(Console(width=width), width)
    if len(rows) <= most:
        return text
    *kept, last = rows[:most]
    last.rstrip()
    if last.cell_len > width - 2:
        last.truncate(len(last.plain.rpartition(" ")[0]))
    return Text("\n").join([*kept, last.append(" …")])


def _provenance(old: Side, new: Side) -> str:
    problem = new.problem if new.problem == old.problem else f"{old.problem}, {new.problem}"
    device = new.device if new.device == old.device else f"{old.device}, {new.device}"
    engine = new.engine if new.engine == old.engine else f"{old.engine}, {new.engine}"
    text = f"{problem} on " if problem.strip(", ") else ""
    before, after = when(old.captured), when(new.captured)
    # Of two times of one day the day is said once: "2026-11-21 12:46 and 12:47 UTC".
    same_day = before[:11] == after[:11] and before != after
    if same_day and before.endswith(" UTC"):
        before, after = before.removesuffix(" UTC"), after[11:]
    captured = " and ".join(dict.fromkeys((before, after)))
    return clean(f"{text}{device}, captured {captured} by {engine}")


def _time(comparison: Comparison) -> RenderableType:
    speed, time = comparison.speed, comparison.time
    if speed is None:
        return Text("No time: neither a timing nor a duration on both sides", style=DIM)
    speedup = speed.speedup
    faster, label, style = speedup >= 1, "as fast", "bold"
    if speed.moved:
        label = speed_words(speedup)
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
    words = [Text(), *words] if words else []
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
        speedup = kernel.old_s / kernel.new_s
        change = Text(speed_words(speedup), style=GOOD if speedup >= 1 else BAD)
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
        "Lnnnntt" if wide else "Lnnnt", width, padding=2 if width >= _ROOMY else 1, longest=40
    )
    rules = list(dict.fromkeys(clean(delta.rule) for delta in shown if delta.rule))
    marks = dict(zip(rules, _MARKS, strict=False)) if len(rules) > 1 else {}
    labels = [clean(side.label) for side in (comparison.old, comparison.new)]
    kernels = [label.rpartition("::")[2] for label in labels]
    labels = kernels if len(set(kernels)) > 1 else labels
    heading = [
        "",
        *heads((labels[0], labels[1]), _HEAD),
        "change",
        *(["", "", ""] if wide else [""]),
    ]
    table.head(*(Text(each, style=DIM) for each in heading))
    group = ""
    for delta in shown:
        if delta.group != group:
            group = delta.group
            table.add(Text(catalog().groups[group], style=HEAD))
        table.add(*_row(delta, marks.get(clean(delta.rule), ""), wide))
    said = [f"{marks.get(rule, '')} {rule}".strip() for rule in rules]
    legend = [Text(f"Of several launches: {'; '.join(said)}", style=DIM)] if said else []
    return Group(Text(), *legend, table.table())


def _row(delta: Delta, mark: str, wide: bool) -> list[Text]:
    style = _STYLE[delta.verdict]
    difference, share = change_of(delta)
    name = Text(f"  {delta.title}{mark}", style="" if delta.moved else DIM)
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
    return [name, *map(Text, values), *changes, unit, verdict]


def _rest(comparison: Comparison, hidden: int, everything: bool) -> list[RenderableType]:
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
    words = [f"{more(hidden, 'counter')} moved"] if hidden > 0 and not everything else []
    words += [] if everything else [several(len(same), "counter") + " did not move"]
    if lone:
        words.append(f"{count(lone)} are of one kernel, and no kernel is on both sides")
    if nowhere:
        words.append(f"{count(nowhere)} {'is' if nowhere == 1 else 'are'} in neither profile")
    if words:
        text = "; ".join(words) + ("." if everything else "; --all shows all that is there.")
        parts += [Text(), Text(text, style=DIM)]
    return parts
