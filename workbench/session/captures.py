"""Captures of programs (``@NAME``): a feature reads them, and the core knows their sign alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from workbench.errors import UsageError
from workbench.features import FEATURES
from workbench.model import Profile

if TYPE_CHECKING:
    from workbench.project import Project
    from workbench.session.workspace import Workspace
    from workbench.views.html.page import CapturedProgram, ReportFile
    from workbench.views.sheets import Sheet


class Captures(Protocol):
    """The module of the feature; it raises the errors of a missing or damaged capture."""

    def profile_of(self, place: Workspace, text: str) -> Profile:
        """What was profiled of the kernels that ``@NAME::KERNEL`` means."""

    def table(self, place: Workspace, text: str, *, everything: bool) -> Sheet:
        """A whole program, ``@NAME``, as a table."""

    def large(self, path: Path) -> Sheet:
        """A large report as the table of a program."""

    def show_difference(
        self,
        place: Workspace,
        sides: tuple[str, str],
        format_: str,
        *,
        everything: bool,
        force: bool,
    ) -> None:
        """Print the difference of two programs."""

    def asked(self, place: Workspace, text: str) -> CapturedProgram:
        """The capture that pages are made of."""

    def report_file(self, place: Workspace, text: str) -> ReportFile:
        """The file with the profile of ``@NAME::KERNEL``."""

    def home(self, program: CapturedProgram) -> Path:
        """The folder of a capture's files."""

    def profiles_above(self, folder: Path) -> Iterator[tuple[str, Path, Path]]:
        """Name, profile and root of each capture that a folder, or the next one above it, has."""

    def without_sign(self, text: str) -> str:
        """The hint where `text` is a capture's name that lacks its @; "" where it is none."""

    def from_program(self, project: Project, version: str | None, **wished: Any) -> None:
        """Make a study, or a version of one, of a program (``workbench new --from-cu``)."""


def installed() -> Captures | None:
    """The module that reads captures; None: the feature is not here."""
    found = next((each for each in FEATURES if each.captures), None)
    return cast(Captures, found.load(found.captures)) if found else None


def captures(text: str) -> Captures:
    """The module that reads captures; `text` is the word that needs it.

    Raises:
        UsageError: the feature is not here.
    """
    if (found := installed()) is None:
        raise UsageError(
            f"{text} is of a program, and this workbench has no feature for programs",
            "Name a version or a report file, or install workbench with all of its features.",
        )
    return found
