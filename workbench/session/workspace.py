"""The folder to work in, the forms of targets, and options.

This module reads no files and imports nothing heavy: a page that is up to date needs no study.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from workbench.errors import UsageError
from workbench.model import Record
from workbench.ncurep.files import SUFFIXES
from workbench.project import VERSION_SUFFIXES, Project, find_project, require_project, studies_in
from workbench.store import Store

if TYPE_CHECKING:
    from workbench.engines.host.job import TimeOptions
    from workbench.engines.host.worker_pool import Crew


class Listener(Protocol):
    """Receives the progress of long operations."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def doing(self, text: str) -> None:
        """Show a line that the next one replaces."""

    def clear(self) -> None:
        """Remove the line that the next one would replace."""


class Workspace:
    """A folder to work in; a report file needs no project, so it is searched for only when needed.

    Args:
        start: The folder, or one above which the project lies; None: the current one.
        listener: Receives the progress of reading; None: not reported.
    """

    def __init__(self, start: Path | None = None, listener: Listener | None = None) -> None:
        self.start, self.listener = start, listener

    @cached_property
    def found(self) -> Project | None:
        """The project, if there is one."""
        return find_project(self.start)

    @cached_property
    def project(self) -> Project:
        """The project at or above the folder; UsageError if there is none."""
        return self.found or require_project(self.start)

    @cached_property
    def store(self) -> Store:
        """The project's records."""
        return Store.of(self.project)

    def is_study(self, text: str) -> bool:
        """True if `text` names a study of the project; False without a project."""
        return self.found is not None and text in studies_in(self.found.kernels)

    def say(self, line: str) -> None:
        """Send a line to the listener."""
        if self.listener is not None:
            self.listener.say(line)


class Selection(Record, frozen=True):
    """The choice of a recorded profile: the shared command line options."""

    study: str | None = None
    problem: str | None = None
    device: str | None = None
    engine: str | None = None
    launch: int | None = None

    def of(self, name: str) -> str:
        """Spell a target with this problem and device: ``sgemm/v3:n4096@h200``."""
        marks = ((":", self.problem), ("@", self.device))
        return name + "".join(mark + value for mark, value in marks if value)


def apart(text: str, selection: Selection = Selection()) -> tuple[str, Selection]:  # noqa: B008
    """``sgemm/v3:n4096@h200`` -> (``sgemm/v3``, the selection with that problem and device)."""
    head, placed, device = text.partition("@")
    name, sized, problem = (head, "", "") if "::" in head else head.partition(":")
    if (sized and not problem) or (placed and not device):
        raise UsageError(f"`{text}` ends too early", "Write sgemm/v3:n4096@h200, or v3 alone.")
    if problem and selection.problem not in (None, problem):
        words = f"two problems are named: {selection.problem} and {problem}"
        raise UsageError(words, "Name one of them.")
    own = {"problem": problem or selection.problem, "device": device or selection.device}
    return name, replace(selection, **own)


def of_one_problem(
    texts: tuple[str, ...], selection: Selection
) -> tuple[tuple[str, ...], Selection]:
    """Targets without their problem, and the selection with the problem, which applies to all."""
    names = []
    for text in texts:
        name = text
        if not is_report(text):
            name, own = apart(text, selection)
            name += "".join(text.partition("@")[1:])
            selection = replace(selection, problem=own.problem)
        names += [name] if name else []  # `:n4096` applies to all
    return tuple(names), selection


class Places(Record, frozen=True):
    """Folders of sources as typed: for both sides, for the old one, for the new one."""

    source: str | None = None
    source_old: str | None = None
    source_new: str | None = None

    def of(self, side: int) -> str | None:
        """The place of the sources of the old side (0) or the new side (1)."""
        return (self.source_new if side else self.source_old) or self.source


class Manner(NamedTuple):
    """Options for timing combinations.

    Attributes:
        sampling: Duration, and the state of the caches.
        resume: Use stored results for the same sources.
        since: ISO time; results stored before it are measured again.
        workers: Processes that were started already (`worker_pool.early_workers`).
    """

    sampling: TimeOptions
    resume: bool
    since: str = ""
    workers: Crew | None = None


def is_capture(text: str) -> bool:
    """True if `text` means a capture: ``@before``, ``@HEAD~1``, ``@before::softmax``."""
    return text.startswith("@")


def is_program(text: str) -> bool:
    """True if `text` means a whole program, not some of its kernels."""
    return is_capture(text) and "::" not in text


def refuse_for_program(text: str, **flags: bool) -> None:
    """Refuse options for kernels if a whole program is meant.

    Raises UsageError: one of the flags is set.
    """
    for flag, given in flags.items():
        if given:
            raise UsageError(
                f"--{flag} applies to one kernel, but {text} is a whole program",
                f"Name the kernel: {text}::KERNEL. `workbench show {text}` lists them.",
            )


def is_report(text: str) -> bool:
    """True if `text` names a report file (with or without ``::kernel``), existing or not."""
    head = text.partition("::")[0]
    if is_capture(text):
        return True  # the profiled launches of a program, as in a report
    return text.endswith(SUFFIXES) or head.endswith(SUFFIXES) or _is_file(head)


def _is_file(text: str) -> bool:
    # "sgemm/v3" could be a folder of that name, but a version's id never has a suffix.
    try:
        path = Path(text)
        return path.suffix not in ("", *VERSION_SUFFIXES) and path.exists()
    except (OSError, ValueError):
        return False


def sides(text: str) -> tuple[str, ...]:
    """Two versions in one word: ``sgemm/v1..v4`` -> (``sgemm/v1``, ``sgemm/v4``)."""
    old, mark, new = text.partition("..")
    if not mark or not old or is_report(text) or text.endswith(".html"):
        return (text,)
    study, slash, _ = old.rpartition("/")
    return (old, new if "/" in new else f"{study}{slash}{new}")
