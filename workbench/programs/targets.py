"""The core's door to captures (`workbench.session.captures.Captures`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.model import Profile
from workbench.programs.capture.capture_store import Shelf, find_shelf, shelf_above
from workbench.programs.capture.capture_store import without_sign as without_sign
from workbench.programs.recalled import ProgramDiff, open_capture, program_of_report
from workbench.session.workspace import Workspace

if TYPE_CHECKING:
    from workbench.views.html.page import CapturedProgram, ReportFile
    from workbench.views.sheets import Sheet


def profile_of(place: Workspace, text: str) -> Profile:
    """The profile of the kernels that ``@NAME::KERNEL`` selects."""
    return open_capture(find_shelf(place.start), text).profile


def table(place: Workspace, text: str, everything: bool) -> Sheet:
    """A whole program, ``@NAME``, as a table."""
    from workbench.programs.shown.sheets import program_sheet

    found = open_capture(find_shelf(place.start), text)
    return program_sheet(found.capture, found.detail, everything=everything)


def large(path: Path) -> Sheet:
    """A large report as the table of a program."""
    from workbench.programs.shown.sheets import report_sheet

    return report_sheet(program_of_report(path))


def show_difference(
    place: Workspace, sides: tuple[str, str], format_: str, everything: bool, force: bool
) -> None:
    """Print the difference of two programs."""
    from workbench.programs.shown.steps import print_programs

    old, new = (open_capture(find_shelf(place.start), text) for text in sides)
    print_programs(ProgramDiff(old, new, force=force), format_, everything)


def asked(place: Workspace, text: str) -> CapturedProgram:
    """The capture to make pages from: ``@before``, ``@HEAD~1``."""
    from workbench.views.html.page import CapturedProgram

    shelf = find_shelf(place.start)
    return CapturedProgram(root=shelf.root, name=shelf.find(text.removeprefix("@")).name)


def report_file(place: Workspace, text: str) -> ReportFile:
    """The file with the profile of ``@NAME::KERNEL``."""
    from workbench.views.html.page import ReportFile

    shelf = find_shelf(place.start)
    found = open_capture(shelf, text)
    assert found.profile is not None  # the property raises an error without one
    name = found.capture.name
    return ReportFile(path=shelf.detail_path(name), kernel=found.kernel, label=f"@{name}")


def home(program: CapturedProgram) -> Path:
    """The folder of a capture's files."""
    return Shelf(program.root).home(program.name)


def profiles_above(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Name, profile and root of each capture of a folder, or of the nearest one above with any."""
    shelf = shelf_above(folder)
    for name in shelf.names() if shelf else ():
        if shelf and (path := shelf.detail_path(name)).exists():
            yield name, path, shelf.root
