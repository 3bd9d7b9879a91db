"""Reports of thousands of launches: the program's table first, then only what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.model import Profile

#: Launches between two lines that say how far reading is, where there is no terminal.
_SAY_EVERY = 1000


def is_large(path: Path) -> bool:
    """Whether a report is read in parts; one that is compressed by what it unpacks to."""
    from workbench.ncurep.files import holds_at_least
    from workbench.ncurep.large import LARGE

    return holds_at_least(path, LARGE)


def whole_large_report(text: str) -> Path | None:
    """The path of a large report that `text` names as a whole; None for everything else."""
    from workbench.ncurep.files import split_target

    path, kernel = split_target(text)
    return path if kernel is None and is_large(path) else None


def read_chosen(path: Path, name: str | None) -> Profile:
    """Of a large report the launches that ``::name`` or ``::name#k`` picks; None: all of them.

    Raises:
        UsageError: none matches.
        DataError: damaged.
    """
    from workbench.commands.progress import Progress
    from workbench.ncurep.large import choice
    from workbench.ncurep.read import read_report

    shown, said = Progress(), 0

    def progress(done: int, of: int) -> None:
        nonlocal said
        line = f"{path.name}: {done:,} of {of:,} launches are read"
        if done - said >= _SAY_EVERY:
            said = done
            shown.say(line)
        else:
            shown.step(line)

    try:
        return read_report(path, progress=progress, choose=choice(name) if name else None)
    finally:
        shown.clear()


def show_table(path: Path, format_: str) -> None:
    """Print the kernels of a large report by their time, without reading their counters.

    Raises:
        DataError: damaged.
    """
    from workbench.capture.records import ProgramCapture
    from workbench.capture.trace import Trace, TracedLaunch, survey_of
    from workbench.ncurep.read import report_results
    from workbench.views.sheets.program import report_sheet
    from workbench.views.terminal.tables import print_sheet

    results, session = report_results(path)
    launches, now = [], 0
    for result in results:
        end = now + round(result.duration_ns or 0)
        launches.append(
            TracedLaunch(result.symbol, 0, 0, 0, False, now, end, result.grid, result.block)
        )
        now = end
    capture = ProgramCapture(
        name=path.name,
        command=tuple(session.command.split()),
        captured=session.when,
        survey=survey_of([Trace(launches=tuple(launches), processes=1)], [0.0], "ncu"),
    )
    print_sheet(report_sheet(capture), format_)
