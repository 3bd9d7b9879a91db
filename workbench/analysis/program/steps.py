"""The kernels behind a program's change, each told as a step of a ladder is."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from workbench.analysis.compare import Comparison, compare
from workbench.analysis.program.difference import ProgramDifference, WorkChange
from workbench.analysis.story import Story, explain
from workbench.captures.records import ProgramCapture
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
    old, new = difference.totals
    least = MATTERS * max(old.value, new.value)
    rows = [
        row
        for row in difference.rows
        if abs(difference.seconds(row)[1] - difference.seconds(row)[0]) >= least
        and not row.name.startswith("[")
    ]
    return tuple(rows[:TOLD])


def kernel_steps(
    difference: ProgramDifference, details: tuple[Profile | None, Profile | None], *, force: bool
) -> Iterator[KernelStep]:
    """The steps of the kernels that matter, one after the other: each takes a moment.

    Args:
        difference: Of the two programs.
        details: What was profiled of them.
        force: Compare launches that are not comparable.
    """
    for row in matter(difference):
        if row.fate in ("came", "went"):
            continue  # there is nothing to compare it with, and the table says so
        yield _step(row, difference, details, force)


def _step(
    row: WorkChange,
    difference: ProgramDifference,
    details: tuple[Profile | None, Profile | None],
    force: bool,
) -> KernelStep:
    sides = [
        launches_of(capture, detail, places)
        for capture, detail, places in zip(
            (difference.old, difference.new), details, (row.old, row.new), strict=True
        )
    ]
    old, new = sides
    if old is None or new is None:
        lacking = [
            f"@{capture.name}"
            for capture, side in zip((difference.old, difference.new), sides, strict=True)
            if side is None
        ]
        return KernelStep(
            row=row, silence=f"no launch of it was looked at closely in {' and '.join(lacking)}"
        )
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
