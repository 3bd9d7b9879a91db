"""A folder for one run of the worker: job, result, raw report. Neutral and never shared.

It lies below the project root and is named after the version and the problem, so the
command that is printed is the command that runs, and no path of the machine gets into
a report. A lock file keeps a second run of the same version out; it takes the next name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from workbench.disk.lock import LOCK, BusyError, locked
from workbench.disk.writing import clear_folder, replace_file
from workbench.errors import MissingError, WorkbenchError

RUNS = Path("build") / "runs"
_MAX_RUNS = 64


def _safe(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)


def folder_for(root: Path, name: str) -> Path:
    """Make (and empty) the run folder of that name, without taking its lock.

    Returns:
        The path relative to the project root.

    Raises:
        MissingError: the project folder cannot be written to.
    """
    relative = RUNS / _safe(name)
    # The folder is of no interest to version control, whatever the project ignores.
    if not (root / RUNS / ".gitignore").exists():
        replace_file(root, (RUNS / ".gitignore").as_posix(), b"*\n")
    _clear(root, relative)
    return relative


def _clear(root: Path, relative: Path) -> None:
    """Remove everything in a run folder but its lock."""
    try:
        clear_folder(root, relative.as_posix(), keep=LOCK)
    except OSError as error:
        raise _unwritable(root / relative, error) from error


def _unwritable(folder: Path, error: OSError) -> MissingError:
    return MissingError(
        f"{folder}: cannot be written to: {error.strerror}",
        "A run needs a little room below the project's build folder: free some space, or "
        "correct the permissions.",
    )


@contextlib.contextmanager
def workspace(root: Path, name: str) -> Iterator[Path]:
    """A run folder that is ours until the end, and empty again after it.

    Args:
        root: The project root.
        name: E.g. ``sgemm-v3-n1024``; a number is added where another run has it.

    Yields:
        The path relative to `root`.

    Raises:
        MissingError: the project folder cannot be written to, or 64 runs are going on.
    """
    for number in range(1, _MAX_RUNS + 1):
        relative = RUNS / _safe(name if number == 1 else f"{name}-{number}")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(root, 0.0, relative.as_posix(), keep=True))
            except BusyError:
                continue
            folder_for(root, relative.name)
            try:
                yield relative
            finally:
                with contextlib.suppress(WorkbenchError):
                    _clear(root, relative)
        return
    raise MissingError(
        f"{_MAX_RUNS} runs named {name} are under way in {root / RUNS}",
        "Wait for them, or remove that folder.",
    )
