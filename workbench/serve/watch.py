"""Find changed files: poll folders with `stat`.

It polls instead of using the kernel's change notices: a profile that a compute node writes to a
network folder raises no notice on the machine that watches it. A poll of three thousand files takes
a few hundredths of a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

#: Seconds between two polls.
INTERVAL_S = 0.25
#: Seconds between the polls that check whether changes have ended; two writes are closer.
SETTLED_S = 0.08
#: The longest wait for a folder that keeps changing, in polls.
_RESTLESS = 20
_NEVER_OURS = {"__pycache__", "node_modules"}


class FileState(NamedTuple):
    """Facts that tell a file from its next version. The inode detects an atomic replacement."""

    modified_ns: int
    size: int
    inode: int


#: By path, as text: this is read and compared four times a second, and making a `Path` for each
#: file would be most of the work.
Snapshot = dict[str, FileState]


def look(roots: Iterable[Path]) -> Snapshot:
    """The state of every file at or below `roots`.

    Hidden files (locks, temporary files, editors' swap files, ``.git``) and compiled
    Python are left out. A file that vanishes meanwhile, or is not readable, is left out.
    """
    found: Snapshot = {}
    waiting: list[str] = []
    for root in roots:
        if root.is_dir():
            waiting.append(str(root))
        else:
            _note(found, str(root), root.stat)
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as listed:
                entries = list(listed)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _NEVER_OURS:
                continue
            # Links to folders are not followed: a link to a parent would never end.
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                _note(found, entry.path, entry.stat)
    return found


def _note(found: Snapshot, path: str, stat: Callable[[], os.stat_result]) -> None:
    try:
        status = stat()
    except (OSError, ValueError):
        return
    found[path] = FileState(status.st_mtime_ns, status.st_size, status.st_ino)


def changed(before: Snapshot, after: Snapshot) -> frozenset[Path]:
    """The files that are new, gone or different."""
    return frozenset(
        Path(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def changes(
    roots: Iterable[Path],
    *,
    interval_s: float = INTERVAL_S,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[frozenset[Path]]:
    """Wait for changes, and yield each settled set of changed files; never end by itself.

    A set is yielded when a poll finds the same as the poll before, so that saving ten files, or a
    checkout, is one change and not ten. Changes made while the caller works are found by the next
    poll. The first poll is done when the iterator is made, so that no change is lost between making
    it and using it.

    Roots need not exist yet. `interval_s` is seconds between two polls, `pause` the function that
    waits; a test passes its own.
    """
    watched = tuple(roots)
    return _changes(watched, look(watched), interval_s, pause)


def _changes(
    roots: tuple[Path, ...], known: Snapshot, interval_s: float, pause: Callable[[float], object]
) -> Iterator[frozenset[Path]]:
    while True:
        pause(interval_s)
        now = look(roots)
        if now == known:
            continue
        for _ in range(_RESTLESS):
            pause(min(SETTLED_S, interval_s / 2))
            again = look(roots)
            settled, now = again == now, again
            if settled:
                break
        difference = changed(known, now)
        known = now
        if difference:
            yield difference
