"""Many jobs in few worker processes: what one job breaks, the others do not feel.

A worker does its jobs in one context, so that the start of a process and of its
libraries is paid once. A kernel that crashes takes the context with it; the jobs that
were still to come then go to a fresh worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from workbench.engines.host.client import run_jobs
from workbench.engines.host.failures import failure_error, hang, vanished
from workbench.engines.host.job import Job, Result
from workbench.engines.host.presence import Where
from workbench.engines.host.process import Halt
from workbench.errors import KernelError, WorkbenchError
from workbench.project import Project

#: Workers in a row that may end without any result, before the first of all results, until
#: it is taken for certain that no worker can run here.
_STARTS = 2


class Ending(NamedTuple):
    """What became of one job. `error` is None where all went well."""

    result: Result | None
    error: WorkbenchError | None


def _judged(job: Job, result: Result) -> Ending:
    error = failure_error(job, result.failure, result.check) if result.failure else None
    return Ending(result, error)


def run_batch(
    project: Project,
    jobs: Sequence[Job],
    where: Where,
    tell: Callable[[int, Ending], None],
    begin: Callable[[int], None] = lambda _place: None,
    stop: Halt | None = None,
) -> None:
    """Run jobs, in order, in as few workers as their faults allow.

    A version that hangs is not tried on further problems: each would cost the time limit.
    Jobs that another worker has claimed have no ending here.

    Args:
        project: Its root is the workers' working folder.
        jobs: What to do, of one or several versions.
        where: Launcher, and the time limit of each job.
        tell: Called once for every job with its place in `jobs`, as the ending comes; from
            another thread.
        begin: Called with the place of a job that is begun.
        stop: Ends all from another thread.

    Raises:
        MissingError: no worker can start here, or it finds no GPU; jobs without an
            ending were not run.
        KernelError: the first workers ended without a word.
    """
    left = list(range(len(jobs)))
    # Workers without a result in a row; -1 once there was one: then a worker can run here.
    silent = 0
    while left:
        batch = left

        def on_result(place: int, result: Result, batch: list[int] = batch) -> None:
            if not _nowhere(result) and not result.elsewhere:
                tell(batch[place], _judged(jobs[batch[place]], result))
            if place + 1 < len(batch):
                begin(batch[place + 1])

        begin(batch[0])
        results, finished = run_jobs(
            project, [jobs[place] for place in batch], where, on_result=on_result, stop=stop
        )
        if results and results[-1].failure and _nowhere(results[-1]):
            raise failure_error(jobs[batch[len(results) - 1]], results[-1].failure)
        left = batch[len(results) :]
        if not left:
            break
        broken = jobs[left[0]]
        silent = silent + 1 if not results and silent >= 0 else -1
        if finished.timed_out:
            tell(left.pop(0), Ending(None, hang(broken, where)))
            left = _without(broken, left, jobs, tell)
        elif not results or results[-1].failure is None:
            # It ended in the middle of a job, and left no word about it.
            error = vanished(broken, finished)
            if silent >= _STARTS:
                raise error
            tell(left.pop(0), Ending(None, error))


def _nowhere(result: Result) -> bool:
    """Whether a result says that there is nothing to run on: that holds for all jobs."""
    return result.failure is not None and result.failure.kind in ("no-device", "no-pycuda")


def _without(
    hung: Job, left: Sequence[int], jobs: Sequence[Job], tell: Callable[[int, Ending], None]
) -> list[int]:
    """The jobs that are left, less those of the version that hung."""
    kept = []
    for place in left:
        job = jobs[place]
        if job.program.version != hung.program.version:
            kept.append(place)
            continue
        error = KernelError(
            f"{job.program.version} was not tried on {job.problem}: "
            f"it did not end on {hung.problem}",
            f"Run it on its own: `workbench verify {job.study}/{job.program.version} "
            f"--problem {job.problem}`.",
        )
        tell(place, Ending(None, error))
    return kept
