"""The step of one kernel of a program on a terminal: below the program's own table."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from workbench.analysis.compare import Comparison
from workbench.analysis.digest import telling
from workbench.analysis.program import KernelStep, ProgramDifference, as_fast
from workbench.analysis.story import Story
from workbench.analysis.weight import Scale
from workbench.model import Profile
from workbench.units import count, factor, quantity
from workbench.views.terminal.console import DIM, HEAD, clean, grid, notes_block
from workbench.views.terminal.hunks import hunks_view, words_view
from workbench.views.text.tables import change_of

#: Counters that are named of a kernel, besides the strip's.
_COUNTERS = 6


def step_view(step: KernelStep, difference: ProgramDifference, *, width: int) -> RenderableType:
    """What became of a kernel: its time in the program, the sentence, counters, lines.

    Args:
        step: As `analysis.program.steps` gives it.
        difference: Of the two programs.
        width: Columns of the terminal.
    """
    before, after = difference.seconds(step.row)
    head = Text("\n" + clean(step.row.name, 60), style=HEAD)
    told = f"  {quantity(before, 's')} → {quantity(after, 's')} of the program"
    launches = list(dict.fromkeys(round(x) for x in difference.launches(step.row)))
    told += f", {' → '.join(map(count, launches))} launches"
    head.append(told, style="not bold")
    parts: list[RenderableType] = [head]
    if step.comparison is None or step.story is None:
        return Group(*parts, Text(clean(step.silence), style=DIM))
    assert step.old is not None and step.new is not None  # with a comparison both are there
    parts += notes_block([*step.comparison.reasons, *step.comparison.warnings])
    parts.append(_launch(step.comparison))
    if as_fast(step.comparison):
        return Group(*parts)
    parts += words_view(step.story)
    parts += [Text(), _counters(step.old, step.comparison, step.story)]
    parts += hunks_view(step.old, step.new, step.story, width=width)
    name = step.row.name.partition(" ")[0]
    labels = (
        f"@{difference.old.name}::{name} @{difference.new.name}::{step.row.name.split(' ')[-1]}"
    )
    parts.append(Text(f"\n  all of it: workbench diff {labels}", style=DIM))
    return Group(*parts)


def _launch(comparison: Comparison) -> Text:
    speed = comparison.speed
    if speed is None:
        return Text("no duration on both sides", style=DIM)
    ratio = factor(max(speed.speedup, 1 / speed.speedup))
    word = f"{ratio} {'faster' if speed.speedup >= 1 else 'slower'}" if speed.moved else "as fast"
    text = Text(f"a launch: {word}")
    return text.append(
        f"  {quantity(speed.old_s, 's')} → {quantity(speed.new_s, 's')} under the profiler",
        style=DIM,
    )


def _counters(old: Profile, comparison: Comparison, story: Story) -> RenderableType:
    """The counters to read first, as `diff` of two versions has them."""
    table = grid("l", "r", "r", "l")
    for delta in telling(comparison, story, Scale(old, comparison), _COUNTERS):
        table.add_row(
            f"  {delta.title}",
            quantity(delta.old, delta.unit),
            quantity(delta.new, delta.unit),
            " ".join(change_of(delta)),
        )
    return table
