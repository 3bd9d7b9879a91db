"""A list of jobs, the rest of which comes when workers are already at work.

A process that runs kernels takes seconds until it can: it loads a driver and libraries. So workers
start before it is known what they are to do, and their jobs are handed to them when they are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from workbench.engines.host.job import Job


class Feed:
    """Jobs in the order in which they are to be done.

    Args:
        jobs: Those that are known.
        more: The rest will follow, with `complete`.

    Attributes:
        closed: All are there.
        grew: When jobs came last, by `time.monotonic`.
    """

    def __init__(self, jobs: Sequence[Job] = (), *, more: bool = False) -> None:
        self.closed = not more
        self.grew = time.monotonic()
        self._jobs = list(jobs)
        self._watcher: Callable[[], None] | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __getitem__(self, place: int) -> Job:
        return self._jobs[place]

    def complete(self, jobs: Sequence[Job]) -> None:
        """Put the rest behind those that are there."""
        with self._lock:
            self._jobs.extend(jobs)
            self.closed = True
            self.grew = time.monotonic()
            if self._watcher is not None:
                self._watcher()

    @contextlib.contextmanager
    def watched(self, look: Callable[[], None]) -> Iterator[None]:
        """Call `look` now, and again when the rest comes: by whoever brings it."""
        with self._lock:
            self._watcher = look
            look()
        try:
            yield
        finally:
            with self._lock:
                self._watcher = None
