"""Captures of programs (``@NAME``): a feature reads them; the core knows only their sign."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from workbench.errors import UsageError
from workbench.features import FEATURES
from workbench.model import Profile

if TYPE_CHECKING:
    from workbench.session.workspace import Workspace
    from workbench.views.html.page import CapturedProgram, ReportFile
    from workbench.views.sheets import Sheet


class Captures(Protocol):
    """The module of the feature; it raises the errors of a missing or damaged capture.

    Attributes:
        profile_of: The profile of the kernels that ``@NAME::KERNEL`` means.
        table: A whole program, ``@NAME``, as a table; `everything`: people see all rows.
        large: A large report as the table of a program.
        show_difference: Print two programs compared: sides, format, `everything`, `force`.
        asked: The capture from which pages are made.
        report_file: The file with the profile of ``@NAME::KERNEL``.
        home: The folder of a capture's files.
        profiles_above: Name, profile and root of each capture in a folder or the next one above it.
        without_sign: The hint if a word is a capture's name without its @; "" if it is not.
    """

    profile_of: Callable[[Workspace, str], Profile]
    table: Callable[[Workspace, str, bool], Sheet]
    large: Callable[[Path], Sheet]
    show_difference: Callable[[Workspace, tuple[str, str], str, bool, bool], None]
    asked: Callable[[Workspace, str], CapturedProgram]
    report_file: Callable[[Workspace, str], ReportFile]
    home: Callable[[CapturedProgram], Path]
    profiles_above: Callable[[Path], Iterator[tuple[str, Path, Path]]]
    without_sign: Callable[[str], str]


def installed() -> Captures | None:
    """The module that reads captures; None: the feature is not installed."""
    found = next((each for each in FEATURES if each.captures), None)
    return cast(Captures, found.load(found.captures)) if found else None


def captures(text: str) -> Captures:
    """The module that reads captures; `text` is the word that needs it.

    Raises UsageError: the feature is not installed.
    """
    if (found := installed()) is None:
        raise UsageError(
            f"{text} belongs to a program, and this workbench lacks the feature for programs",
            "Name a version or a report file, or install workbench with all of its features.",
        )
    return found
