"""A list of jobs that grows while workers are already at work on it.

A process that runs kernels takes seconds until it can: it loads a driver and libraries. So workers
start before it is known what they are to do, and jobs are handed to them when they are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from workbench.engines.host.job import Job

#: Is called with what was added, and whether that was all.
Grown = Callable[[Sequence[Job], bool], None]


class Feed:
    """Jobs in the order in which they are to be done.

    Args:
        jobs: Those that are known.
        more: Others may follow, until the `last` are added.

    Attributes:
        closed: No more will follow.
        grew: When it grew last, by `time.monotonic`.
    """

    def __init__(self, jobs: Sequence[Job] = (), *, more: bool = False) -> None:
        self.closed = not more
        self.grew = time.monotonic()
        self._jobs = list(jobs)
        self._told = 0
        self._watcher: Grown | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, place: int) -> Job:
        return self._jobs[place]

    def add(self, jobs: Sequence[Job], *, last: bool = False) -> None:
        """Put jobs behind those that are there; nothing may follow the `last`."""
        with self._lock:
            self._jobs.extend(jobs)
            self.closed = self.closed or last
            self.grew = time.monotonic()
            self._tell()

    @contextlib.contextmanager
    def watched(self, grown: Grown) -> Iterator[None]:
        """Call `grown` for all jobs that no watcher was told of, now and as they come.

        It is called by whoever adds them, one call at a time.
        """
        with self._lock:
            self._watcher = grown
            self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._watcher = None

    def _tell(self) -> None:
        if self._watcher is not None:
            new = self._jobs[self._told :]
            self._told = len(self._jobs)
            self._watcher(new, self.closed)
