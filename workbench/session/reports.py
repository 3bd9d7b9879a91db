"""What a profiler said of somebody's program: report files, and captures (``@NAME``, ``@REV``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench.errors import UsageError
from workbench.model import Profile, Record
from workbench.ncurep import large
from workbench.ncurep.files import holds_at_least, split_target
from workbench.ncurep.read import read_report, report_results, select_kernels
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.capture.records import ProgramCapture, TracedLaunch
from workbench.programs.capture.trace import Trace, survey_of
from workbench.programs.compared.program import KernelStep, compare_programs, kernel_steps
from workbench.session.workspace import Selection, Workspace, is_capture

#: Launches between two lines that say how far reading is, where there is no terminal.
_SAY_EVERY = 1000


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
        if self.detail is None:
            why = next((x.message for x in self.capture.notices), "it was captured without")
            raise UsageError(
                f"no kernel of @{self.capture.name} was profiled: {why}",
                f"`workbench show @{self.capture.name}` has its survey.",
            )
        return select_kernels(self.detail, self.kernel)


class ProgramDiff:
    """Two captured programs: the rows of their difference, and the kernels' steps.

    Raises:
        InconclusiveError: they are not comparable, and `force` is not set.
    """

    def __init__(self, old: Recalled, new: Recalled, *, force: bool = False) -> None:
        self.old, self.new, self._force = old, new, force
        self.difference = compare_programs(old.capture, new.capture, force=force)

    def steps(self) -> Iterator[KernelStep]:
        """The stories of the kernels that matter, one after the other: each takes a moment."""
        details = self.old.detail, self.new.detail
        return kernel_steps(self.difference, details, force=self._force)


def open_capture(shelf: Shelf, text: str) -> Recalled:
    """The capture that ``@NAME`` or ``@NAME::KERNEL`` means.

    Raises:
        UsageError: there is none; the hint says how to make it.
        DataError: it is damaged.
    """
    name, _, kernel = text.removeprefix("@").partition("::")
    capture = shelf.find(name)
    return Recalled(capture=capture, detail=shelf.detail(capture), kernel=kernel or None)


# --- report files --------------------------------------------------------------------------------


def is_large(path: Path) -> bool:
    """Whether a report is read in parts; one that is compressed by what it unpacks to."""
    return holds_at_least(path, large.LARGE)


def load_report(place: Workspace, text: str, selection: Selection) -> tuple[Profile, str]:
    """The profile of a report, or of a captured program's kernels; of a large one what is meant.

    `text` is ``x.ncu-rep::kernel`` or ``@before::kernel``.

    Returns:
        The profile, and ``#2`` where it holds that launch alone because it was asked for.

    Raises:
        UsageError: no launch matches, or an engine that no report is of.
        DataError: damaged.
    """
    if is_capture(text):
        return open_capture(place.shelf, text).profile, ""
    path, kernel = split_target(text)
    if is_large(path):
        return _of_large(place, path, kernel, selection.launch)
    profile = select_kernels(read_report(path), kernel)
    if selection.engine == "emulator":
        raise UsageError(f"{path} is an ncu report, not one of the emulator", "Leave out --engine.")
    return profile, ""


def _of_large(
    place: Workspace, path: Path, kernel: str | None, launch: int | None
) -> tuple[Profile, str]:
    if launch is not None and "#" in (kernel or ""):
        raise UsageError(f"--launch and {kernel} both name a launch", "Use only one of them.")
    picked = "" if launch is None else f"#{launch}"
    name = f"{kernel or ''}{picked}" or None
    listener, said = place.listener, 0

    def progress(done: int, of: int) -> None:
        nonlocal said
        if listener is None:
            return
        line = f"{path.name}: {done:,} of {of:,} launches are read"
        if done - said >= _SAY_EVERY:
            said = done
            listener.say(line)
        else:
            listener.doing(line)

    try:
        return read_report(
            path, progress=progress, choose=large.choice(name) if name else None
        ), picked
    finally:
        if listener is not None:
            listener.clear()


def program_of_report(path: Path) -> ProgramCapture:
    """A report as a program, by its launches' durations; their counters are not read.

    Raises:
        DataError: damaged.
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
