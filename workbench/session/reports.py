"""What a profiler said of somebody's program: report files, and kernels of captures."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UsageError
from workbench.model import Profile
from workbench.ncurep import large
from workbench.ncurep.files import holds_at_least, split_target
from workbench.ncurep.read import read_report, select_kernels
from workbench.session.captures import captures
from workbench.session.workspace import Selection, Workspace, is_capture

#: Launches between two lines that say how far reading is, where there is no terminal.
_SAY_EVERY = 1000


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
        return captures(text).profile_of(place, text), ""
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
