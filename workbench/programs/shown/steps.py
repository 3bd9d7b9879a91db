"""``workbench diff @OLD @NEW``, and the steps of kernels, in each format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType

from workbench.analysis.aggregate import main_launch
from workbench.analysis.compare import Comparison
from workbench.analysis.story import Story, telling
from workbench.analysis.weight import Scale
from workbench.language import _
from workbench.model import Profile
from workbench.programs.compared.program import ProgramDifference
from workbench.programs.compared.steps import KernelStep
from workbench.programs.compared.words import ClassRow, step_words
from workbench.programs.documents import ProgramStep
from workbench.programs.recalled import ProgramDiff
from workbench.programs.shown.sheets import difference_document, difference_sheet, told_names
from workbench.units import quantity
from workbench.views.shapes import dumps
from workbench.views.terminal.console import (
    DIM,
    HEAD,
    Figures,
    Text,
    grid,
    notes_block,
    print_view,
    tied,
    width,
)
from workbench.views.terminal.diff import hunks_view
from workbench.views.terminal.tables import print_sheet
from workbench.views.text.documents import step_of
from workbench.views.text.escaping import inline, paragraph
from workbench.views.text.markdown import step_markdown
from workbench.views.text.safe_output import write
from workbench.views.text.tables import sheet_text

#: The most counters shown for a kernel, in addition to the strip's.
_KERNEL_COUNTERS = 6


def kernel_step_view(
    step: KernelStep, difference: ProgramDifference, *, width: int
) -> RenderableType:
    """The change of a kernel: its time in the program, the sentence, counters, lines."""
    name = told_names(difference)[difference.rows.index(step.row)]
    words = step_words(step, difference)
    head = Text(name, style=HEAD).append(f"  {words.program}", style="not bold")
    parts: list[RenderableType] = [Text(), head, *_class_rows(words.configurations, width)]
    if step.comparison is None or step.story is None:
        return Group(*parts, *(Text(text, style=DIM) for text in words.sentences))
    old, new = step.near.old, step.near.new
    assert old is not None and new is not None  # both exist if there is a comparison
    parts += notes_block([*step.comparison.reasons, *words.warnings, *step.comparison.warnings])
    if words.launch or words.profiler:
        parts.append(Text(words.launch).append(f"  {words.profiler}", style=DIM))
    if not words.sentences:
        return Group(*parts)
    for text in words.sentences:
        parts += [Text(), tied(Text(text))]
    parts += [Text(), _step_counters(old, step.comparison, step.story)]
    parts += hunks_view(old, new, step.story, width=width)
    speakers = main_launch(old), main_launch(new)
    if speakers[0] is not None and speakers[1] is not None:
        labels = f"@{difference.old.name}::{speakers[0].kernel}"
        labels += f" @{difference.new.name}::{speakers[1].kernel}"
        whole = _("  all of it: {command}").format(command=f"workbench diff {labels}")
        parts += [Text(), Text(whole, style=DIM)]
    return Group(*parts)


def _class_rows(rows: Sequence[ClassRow], width: int) -> list[RenderableType]:
    table = Figures("Lnnn", width, longest=width)
    for row in filter(lambda row: row.before, rows):
        table.add(*(Text(cell, style=DIM) for cell in (f"  {row.words}", *row[1:])))
    alone = [Text(f"  {row.words}", style=DIM) for row in rows if not row.before]
    return [table.table(), *alone] if len(alone) < len(rows) else [*alone]


def _step_counters(old: Profile, comparison: Comparison, story: Story) -> RenderableType:
    """The counters to read first, as in `diff` of two versions."""
    table = grid("l", "r", "r", "l")
    for delta in telling(comparison, story, Scale(old, comparison), _KERNEL_COUNTERS):
        table.add_row(
            f"  {_(delta.title)}",
            quantity(delta.old, delta.unit),
            quantity(delta.new, delta.unit),
            f"{delta.difference} {delta.ratio}",
        )
    return table


def steps_markdown(difference: ProgramDifference, steps: Iterable[KernelStep]) -> str:
    """One section per kernel: its sentences, then its step."""
    out = []
    for step in steps:
        out.append(f"\n### {inline(step.row.name)}\n\n")
        out += [f"{paragraph(text)}\n\n" for text in step_words(step, difference).said]
        old, new = step.near.old, step.near.new
        if old is not None and new is not None and step.story is not None:
            assert step.comparison is not None  # a story has a comparison
            out.append(step_markdown(old, new, step.comparison, step.story))
    return "".join(out)


def steps_of(difference: ProgramDifference, steps: Iterable[KernelStep]) -> list[ProgramStep]:
    """One document per kernel: its name and fate, and its step, or null and the reason."""
    out = []
    for one in steps:
        told = None
        if one.comparison is not None and one.story is not None:
            told = step_of(one.comparison, one.story)
        missing = one.silence if told is None else None
        out.append(
            ProgramStep(
                kernel=one.row.name,
                fate=one.row.fate,
                said=list(step_words(one, difference).said),
                step=told,
                missing=missing,
                told=one.near.of.words if one.near.of is not None else one.near.part or None,
                explains=one.near.explains,
                doubt=one.doubt.words if one.doubt is not None else None,
                opposed=one.opposed_words or None,
            )
        )
    return out


def print_programs(programs: ProgramDiff, format_: str, everything: bool) -> None:
    """Print the difference of two programs."""
    sheet = difference_sheet(programs.difference, everything=everything)
    if format_ == "json":
        steps = steps_of(programs.difference, programs.steps())
        document = difference_document(programs.difference, steps)
        write(dumps(document.plain()))
    elif format_ == "markdown":
        text = sheet_text(sheet, format_)
        write(text + steps_markdown(programs.difference, programs.steps()))
    else:
        print_sheet(sheet, format_)
        if format_ == "csv":
            return
        for step in programs.steps():
            print_view(kernel_step_view(step, programs.difference, width=width()))
