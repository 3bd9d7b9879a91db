"""``@NAME`` and ``@REV``, wherever a version or a report may stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from workbench.capture.records import ProgramCapture
from workbench.errors import UsageError
from workbench.model import Profile, Record

if TYPE_CHECKING:
    from workbench.analysis.gates import Gate, Rules
    from workbench.analysis.program import KernelStep, ProgramDifference
    from workbench.views.html.page import CapturedProgram, ReportFile


class Recalled(Record, frozen=True):
    """A capture, its detailed profile if it has one, and the kernels of it that are meant."""

    capture: ProgramCapture
    detail: Profile | None
    kernel: str | None = None

    @property
    def profile(self) -> Profile:
        """What was profiled of the kernels that are meant.

        Raises:
            UsageError: nothing was, or not of these.
        """
        from workbench.ncurep.read import select_kernels

        if self.detail is None:
            why = next((x.message for x in self.capture.notices), "it was captured without")
            raise UsageError(
                f"no kernel of @{self.capture.name} was profiled: {why}",
                f"`workbench show @{self.capture.name}` has its survey.",
            )
        return select_kernels(self.detail, self.kernel)


def is_capture(text: str) -> bool:
    """Whether `text` means a capture: ``@before``, ``@HEAD~1``, ``@before::softmax``."""
    return text.startswith("@")


def is_program(text: str) -> bool:
    """Whether it means a whole program, and not some of its kernels."""
    return is_capture(text) and "::" not in text


def refuse_for_program(text: str, **flags: bool) -> None:
    """Refuse what is said of kernels alone, where a whole program is meant.

    Raises:
        UsageError: one of the flags is set.
    """
    for flag, given in flags.items():
        if given:
            raise UsageError(
                f"--{flag} is of one kernel, and {text} is a whole program",
                f"Name the kernel: {text}::KERNEL. `workbench show {text}` lists them.",
            )


def open_capture(text: str) -> Recalled:
    """The capture that ``@NAME`` or ``@NAME::KERNEL`` means.

    Raises:
        UsageError: there is none; the hint says how to make it.
        DataError: it is damaged.
    """
    from workbench.capture.shelf import find_shelf

    name, _, kernel = text.removeprefix("@").partition("::")
    shelf = find_shelf()
    capture = shelf.find(name)
    return Recalled(capture=capture, detail=shelf.detail(capture), kernel=kernel or None)


def report_file(text: str) -> ReportFile:
    """The file that a report's pages are made of: ``x.ncu-rep::softmax``, ``@before::softmax``.

    Raises:
        UsageError: there is no such capture, or nothing of it was looked at closely.
    """
    from workbench.capture.shelf import find_shelf
    from workbench.ncurep.files import split_target
    from workbench.views.html.page import ReportFile

    if not is_capture(text):
        return ReportFile(*split_target(text))
    found = open_capture(text)
    assert found.profile is not None  # raises where there is none
    return ReportFile(
        path=find_shelf().detail_path(found.capture),
        kernel=found.kernel,
        label=f"@{found.capture.name}",
    )


def captured_program(text: str) -> CapturedProgram:
    """The capture that a report's pages are made of: ``@before``, ``@HEAD~1``.

    Raises:
        UsageError: there is none; the hint says how to make it.
        DataError: it is damaged.
    """
    from workbench.capture.shelf import find_shelf
    from workbench.views.html.page import CapturedProgram

    shelf = find_shelf()
    return CapturedProgram(root=shelf.root, name=shelf.find(text.removeprefix("@")).name)


def show_program(text: str, format_: str, *, everything: bool) -> None:
    """Print one capture: its kernels by their time."""
    from workbench.views.sheets.program import program_sheet
    from workbench.views.terminal.tables import print_sheet

    print_sheet(program_sheet(open_capture(text).capture, everything=everything), format_)


def diff_programs(old: str, new: str, format_: str, *, everything: bool, force: bool) -> None:
    """Print the difference of two captures, and the steps of the kernels that matter."""
    from workbench.analysis.program import compare_programs, kernel_steps
    from workbench.views.sheets.program import difference_sheet
    from workbench.views.terminal.tables import print_sheet

    before, after = open_capture(old), open_capture(new)
    difference = compare_programs(before.capture, after.capture, force=force)
    sheet = difference_sheet(difference, everything=everything)
    if format_ == "csv":
        print_sheet(sheet, format_)
        return
    steps = kernel_steps(difference, (before.detail, after.detail), force=force)
    if format_ == "json":
        from workbench.views.shapes import dumps
        from workbench.views.sheets.program import difference_document
        from workbench.views.text.documents import steps_of

        click.echo(dumps(difference_document(difference, steps_of(steps)).plain()), nl=False)
    elif format_ == "markdown":
        from workbench.views.text.markdown import steps_markdown
        from workbench.views.text.tables import sheet_text

        click.echo(sheet_text(sheet, format_) + steps_markdown(steps), nl=False)
    else:
        print_sheet(sheet, format_)
        for step in steps:
            _print_step(step, difference)


def program_gates(old: str, new: str, rules: Rules, *, force: bool) -> list[Gate]:
    """The gates of the step from one capture to another."""
    from workbench.analysis.gates import inconclusive
    from workbench.analysis.program import check_programs, compare_programs, kernel_steps
    from workbench.errors import InconclusiveError

    before, after = open_capture(old), open_capture(new)
    try:
        difference = compare_programs(before.capture, after.capture, force=force)
    except InconclusiveError as error:
        return [inconclusive(new, "", error.message)]
    steps = kernel_steps(difference, (before.detail, after.detail), force=force)
    return list(check_programs(difference, steps, rules))


def _print_step(step: KernelStep, difference: ProgramDifference) -> None:
    from rich.console import Console

    from workbench.views.terminal.console import print_view
    from workbench.views.terminal.diff import step_view

    print_view(step_view(step, difference, width=Console().width))
