"""Races: many versions on one problem, first alone and then in turns.

Shared data (inputs, outputs, and the copies to rotate over) is put into device memory once and
stays for the next race on the same problem; each brings its code and its scratch memory. A race of
one checks its result as well, unless it is certainly slower than the best correct one: comparing
takes the host longer than everything else. A race of several does not check results.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

from workbench.analysis.times.timing import median_interval
from workbench.engines.gpu.bench import Bench, Run
from workbench.engines.gpu.device import DeviceArray, DeviceContext
from workbench.engines.gpu.stopwatch import Conditions, Stopwatch, contestant, rotating
from workbench.engines.host.job import Job, Raced
from workbench.model import Notice

#: Times that are not taken in turns may differ by this fraction only because of the chip.
DRIFT = 0.03


class Field:
    """Device data that races on one problem share; one at a time."""

    def __init__(self) -> None:
        self._key: tuple[str, ...] = ()
        self._left: tuple[str, ...] = ()  # the last key
        self._sets: list[dict[str, DeviceArray]] = []
        self._held = 0
        self.settled = False
        self.best_s = math.inf  # the end of the interval of the fastest correct one
        self.notices: tuple[Notice, ...] = ()

    def leave(self, session: DeviceContext) -> None:
        """Free all allocations, if any."""
        if self._key:
            self._key, self._sets = (), []
            session.release()

    def enter(self, session: DeviceContext, bench: Bench, job: Job) -> list[dict[str, DeviceArray]]:
        """Return the sets of buffers for a job; WorkerError: not enough memory."""
        key = (job.study, job.problem, str(job.seed), job.time.cache)
        if key == self._key:
            session.release(but=self._held)
            return self._sets
        self.leave(session)
        self.settled = False
        first = bench.upload(session)
        self._sets, self.notices = rotating(session, bench, first, job.time.cache)
        if key != self._left:
            self.best_s = math.inf
        self._key, self._left = key, key
        self._held = session.allocations
        return self._sets


def race(session: DeviceContext, bench: Bench, job: Job, field: Field) -> dict[str, Any]:
    """Time a job's versions; return fields of the `Result`, with a check of a single one.

    Raises WorkerError if one of them has an error.
    """
    sets = field.enter(session, bench, job)
    runs = []
    for executable in (job.executable, *job.others):
        run = Run(session, bench, executable, sets[0], poison=True)
        run.execute()
        runs.append(run)
    found: dict[str, Any] = {}
    every = [contestant(run, sets) for run in runs]
    stopwatch = Stopwatch(session, job.time)
    watched = bool(job.others) or not field.settled
    with Conditions(session.bus_id, job.time.settle_s) if watched else nullcontext() as conditions:
        left = stopwatch.race(every, *([conditions.settle] if conditions else []))
    field.settled = True
    found["raced"] = tuple(
        Raced(
            version=each.name,
            samples=tuple(each.samples),
            dropped=all(each is not one for one in left),
        )
        for each in every
    )
    if not job.others:
        times = median_interval(every[0].samples)
        if times.low <= min(field.best_s, job.time.ceiling_s or math.inf) * (1 + DRIFT):
            found["check"] = runs[0].again()
            bench.fill(session, sets[0])  # as for the other sets
            if found["check"].ok:
                field.best_s = min(field.best_s, times.high)
    found["notices"] = (*field.notices, *stopwatch.notices)
    if conditions is not None:
        found |= {"state": conditions.state}
        found["notices"] += conditions.notices
    return found
