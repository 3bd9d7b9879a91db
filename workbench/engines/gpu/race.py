"""Races: many versions on one problem, alone at first and then in turns.

What they share (inputs, outputs, and the copies to rotate over) is put into device memory once
and stays for the next race on the same problem; each brings its code and its scratch memory. A
race of one checks its result as well: a later one takes it as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from workbench.engines.gpu.bench import Bench, Run
from workbench.engines.gpu.device import DeviceArray, DeviceContext, set_bytes
from workbench.engines.gpu.stopwatch import (
    Conditions,
    Contestant,
    Stopwatch,
    bind_all,
    make_sets,
    rotation,
)
from workbench.engines.host.job import Job, Raced
from workbench.model import Notice

Upload = Callable[[DeviceContext, Bench], dict[str, DeviceArray]]


class Field:
    """What races on one problem share, in device memory; one at a time.

    Args:
        upload: Makes the first set of inputs and outputs.
    """

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._key: tuple[str, ...] = ()
        self._sets: list[dict[str, DeviceArray]] = []
        self._held = 0
        self.settled = False
        self.notices: tuple[Notice, ...] = ()

    def leave(self, session: DeviceContext) -> None:
        """Free all of it, where there is any."""
        if self._key:
            self._key, self._sets = (), []
            session.release()

    def enter(self, session: DeviceContext, bench: Bench, job: Job) -> list[dict[str, DeviceArray]]:
        """The sets of buffers for a job, with the inputs anew: a wrong version may have written.

        Raises:
            WorkerError: no room.
        """
        key = (job.study, job.problem, str(job.seed), job.time.cache)
        if key == self._key:
            session.release(but=self._held)
            for name, values in bench.inputs.items():
                session.upload(self._sets[0][name], values)
            bench.link(session, self._sets[0])
            return self._sets
        self.leave(session)
        self.settled, notices = False, []
        arrays = self._upload(session, bench)
        count = 1
        if job.time.cache == "cold":
            l2 = session.describe().l2_bytes
            count, cold = rotation(l2, set_bytes(bench.specs), session.free_bytes() // 2)
            if not cold:
                notices.append(not_cold(count))
        with session.doing("preparing the buffers to rotate over"):
            self._sets = make_sets(session, bench.specs, arrays, count)
            for each in self._sets[1:]:
                bench.link(session, each)
        self._key, self._held, self.notices = key, session.allocations, tuple(notices)
        return self._sets


def not_cold(count: int) -> Notice:
    """What is said where too few sets of buffers fit to keep the caches cold."""
    return Notice(
        code="not-cold",
        message="The buffers of this problem cannot rotate over twice the L2 "
        f"({count} sets of them); part of them stays in the cache.",
    )


def race(session: DeviceContext, bench: Bench, job: Job, field: Field) -> dict[str, Any]:
    """Time the versions of a job; fields of the `Result`, with a check where there is one alone.

    Raises:
        WorkerError: one of them does wrong.
    """
    sets = field.enter(session, bench, job)
    runs = []
    for executable in (job.executable, *job.others):
        run = Run(session, bench, executable, sets[0], poison=True)
        run.execute()
        runs.append(run)
    found: dict[str, Any] = {}
    if not job.others:
        found["check"] = runs[0].check()
        if not found["check"].ok:
            field.leave(session)  # whatever else it wrote
            return found

    def contestant(run: Run) -> Contestant:
        calls, restores = bind_all(run.loaded, sets, run.scratch)
        return Contestant(run.executable.version, calls, run.first_launch, restores)

    every = [contestant(run) for run in runs]
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
    found["notices"] = (*field.notices, *stopwatch.notices)
    if conditions is not None:
        found |= {"state": conditions.state}
        found["notices"] += conditions.notices
    return found
