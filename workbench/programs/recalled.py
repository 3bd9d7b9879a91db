"""Captures recalled by name (``@NAME``, ``@REV``), comparisons of two, and reports as programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.errors import UsageError
from workbench.model import Profile, Record
from workbench.ncurep.read import report_results, select_kernels
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.compared.program import compare_programs
from workbench.programs.compared.steps import KernelStep, kernel_steps


class Recalled(Record, frozen=True):
    """A capture, its detailed profile if it has one, and its selected kernels."""

    capture: ProgramCapture
    detail: Profile | None
    kernel: str | None = None

    @property
    def profile(self) -> Profile:
        """The profile of the selected kernels.

        Raises UsageError: no kernel was profiled, or not these.
        """
        if self.detail is None:
            why = next((x.message for x in self.capture.notices), "it was captured without ncu")
            raise UsageError(
                f"no kernel of @{self.capture.name} was profiled: {why}",
                f"`workbench show @{self.capture.name}` has its survey.",
            )
        return select_kernels(self.detail, self.kernel)


class ProgramDiff:
    """Two captured programs: the rows of their difference, and the kernels' steps.

    Raises InconclusiveError: they are not comparable, and `force` is not set.
    """

    def __init__(self, old: Recalled, new: Recalled, *, force: bool = False) -> None:
        self.old, self.new, self._force = old, new, force
        self.difference = compare_programs(old.capture, new.capture, force=force)

    def steps(self) -> Iterator[KernelStep]:
        """Yield the stories of the kernels that matter; each takes a moment."""
        details = self.old.detail, self.new.detail
        return kernel_steps(self.difference, details, force=self._force)


def open_capture(shelf: Shelf, text: str) -> Recalled:
    """The capture that ``@NAME`` or ``@NAME::KERNEL`` means.

    Raises:
        UsageError: no such capture; the hint says how to make it.
        DataError: it is damaged.
    """
    name, _, kernel = text.removeprefix("@").partition("::")
    capture = shelf.find(name)
    return Recalled(capture=capture, detail=shelf.detail(capture), kernel=kernel or None)


def program_of_report(path: Path) -> ProgramCapture:
    """A report as a program, by its launches' durations; their counters are not read.

    Raises DataError: damaged.
    """
    results, session = report_results(path)
    launches, now = [], 0
    for result in results:
        end = now + round(result.duration_ns or 0)
        launches.append(
            TracedLaunch(result.symbol, 0, 0, 0, False, now, end, result.grid, result.block)
        )
        now = end
    return ProgramCapture(
        name=path.name,
        command=tuple(session.command.split()),
        captured=session.when,
        survey=survey_of([Trace(launches=tuple(launches), processes=1)], [0.0], "ncu"),
    )
