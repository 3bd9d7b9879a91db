"""The kernels behind a program's change, each told as a step of a ladder is."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from workbench.analysis.compare import Comparison, compare
from workbench.analysis.program.difference import ProgramDifference, WorkChange
from workbench.analysis.story import Story, explain
from workbench.capture.records import ProgramCapture
from workbench.errors import InconclusiveError
from workbench.model import Profile, Record

#: Part (0-1) of the program's time from which a kernel's change is worth its own story.
MATTERS = 0.01
#: Kernels that are told, those that change most.
TOLD = 5


class KernelStep(Record, frozen=True):
    """One kernel on both sides; or why its step cannot be told: `silence`.

    `old`, `new` are the profiles of its launches that were looked at closely.
    """

    row: WorkChange
    old: Profile | None = None
    new: Profile | None = None
    comparison: Comparison | None = None
    story: Story | None = None
    silence: str = ""


def matter(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """The rows of kernels that changed by `MATTERS` of the program's time or more."""
    rows = [
        row for row in difference.rows if weighs(difference, row) and not row.name.startswith("[")
    ]
    return tuple(rows[:TOLD])


def weighs(difference: ProgramDifference, row: WorkChange) -> bool:
    """Whether a row changed by `MATTERS` of the program's time or more."""
    old, new = difference.totals
    before, after = difference.seconds(row)
    return abs(after - before) >= MATTERS * max(old.value, new.value)


def kernel_steps(
    difference: ProgramDifference, details: tuple[Profile | None, Profile | None], *, force: bool
) -> Iterator[KernelStep]:
    """The steps of the kernels that matter, one after the other: each takes a moment.

    Args:
        difference: Of the two programs.
        details: What was profiled of them.
        force: Compare launches that are not comparable.
    """
    for row in told(difference):
        yield _step(row, difference, details, force)


def told(difference: ProgramDifference) -> tuple[WorkChange, ...]:
    """Of the rows that matter those with a kernel on both sides; the table says the others."""
    return tuple(row for row in matter(difference) if row.fate not in ("came", "went"))


def closer(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
) -> tuple[Profile | None, Profile | None, str]:
    """What was profiled of a row's kernels on both sides, and why that is not all."""
    captures = difference.old, difference.new
    old, new = (
        launches_of(capture, detail, places)
        for capture, detail, places in zip(captures, details, (row.old, row.new), strict=True)
    )
    lacking = [
        f"@{capture.name}"
        for capture, side in zip(captures, (old, new), strict=True)
        if side is None
    ]
    words = f"no launch of it was looked at closely in {' and '.join(lacking)}" if lacking else ""
    return old, new, words


def as_fast(comparison: Comparison) -> bool:
    """Whether a launch takes as long as before: then it is launched more or less often.

    That is no matter of its lines, and none of them is told.
    """
    return comparison.speed is not None and not comparison.speed.moved


def _step(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
    force: bool,
) -> KernelStep:
    old, new, silence = closer(row, difference, details)
    if old is None or new is None:
        return KernelStep(row=row, silence=silence)
    labels = (f"@{difference.old.name}", f"@{difference.new.name}")
    try:
        comparison = compare(old, new, force=force, labels=labels)
    except InconclusiveError as error:
        return KernelStep(row=row, old=old, new=new, silence=error.message)
    story = explain(old, new, comparison)
    return KernelStep(row=row, old=old, new=new, comparison=comparison, story=story)


def launches_of(
    capture: ProgramCapture, detail: Profile | None, places: tuple[int, ...]
) -> Profile | None:
    """The profiled launches of some works of a capture; None where there are none."""
    if detail is None:
        return None
    own = tuple(
        launch
        for launch, place in zip(detail.launches, capture.detail, strict=True)
        if place in places and launch.profiled
    )
    return replace(detail, launches=own) if own else None
