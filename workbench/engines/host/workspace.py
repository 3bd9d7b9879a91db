"""A folder for one run of the worker: job, result, raw report. Neutral and never shared.

It lies below the project root and is named after the version and the problem, so the
command that is printed is the command that runs, and no path of the machine gets into
a report. A lock file keeps a second run of the same version out; it takes the next name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import MissingError

RUNS = Path("build") / "runs"
_LOCK = ".lock"
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
    folder = root / relative
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The folder is of no interest to version control, whatever the project ignores.
        ignore = root / RUNS / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        clear(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return relative


def _unwritable(folder: Path, error: OSError) -> MissingError:
    return MissingError(
        f"{folder}: cannot be written to: {error.strerror}",
        "A run needs a little room below the project's build folder: free some space, or "
        "correct the permissions.",
    )


def clear(folder: Path) -> None:
    """Remove everything in a run folder but its lock."""
    for path in folder.iterdir():
        if path.name == _LOCK:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


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
        folder = root / relative
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(folder, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        try:
            folder_for(root, relative.name)
            yield relative
        finally:
            with contextlib.suppress(OSError):
                clear(folder)
            os.close(lock)
        return
    raise MissingError(
        f"{_MAX_RUNS} runs named {name} are going on in {root / RUNS}",
        "Wait for them, or remove that folder.",
    )
