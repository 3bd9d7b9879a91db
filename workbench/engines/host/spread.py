"""One list of jobs on several GPUs of a host: one measurement a GPU, none done twice.

Every GPU has a worker of its own that knows all jobs, and whoever makes a job's file does
it (`Job.claim`); so no GPU waits for another while there is work, and how long a job takes
need not be known. Each begins with problems of its own, whose inputs and reference it
computes alone, and then helps the others from their end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from workbench.engines.host.batch import Ending, run_batch
from workbench.engines.host.client import run_name
from workbench.engines.host.job import Job
from workbench.engines.host.presence import Where
from workbench.engines.host.process import Halt, HaltedError, Interrupts
from workbench.engines.host.workspace import workspace
from workbench.errors import WorkbenchError
from workbench.project import Project


def run_spread(
    project: Project,
    jobs: Sequence[Job],
    where: Where,
    tell: Callable[[int, Ending], None],
    begin: Callable[[int], None] = lambda _place: None,
) -> None:
    """Run jobs on all GPUs of `where`, as `run_batch` does on one.

    A GPU on which no worker can run leaves its share to the others.

    Raises:
        MissingError, KernelError: as `run_batch`, where jobs are left without an ending.
    """
    if len(where.gpus) < 2:
        run_batch(project, jobs, where, tell, begin)
        return
    lock = threading.Lock()
    told: set[int] = set()
    errors: list[BaseException] = []
    stop = Halt()

    with workspace(project.root, f"{run_name(jobs[0])}-shared") as folder:
        claimed = [
            msgspec.structs.replace(job, claim=(folder / str(place)).as_posix())
            for place, job in enumerate(jobs)
        ]

        def work(number: int) -> None:
            order = _order(jobs, number, len(where.gpus))

            def one(place: int, ending: Ending) -> None:
                with lock:
                    if order[place] not in told:
                        told.add(order[place])
                        tell(order[place], ending)

            own = msgspec.structs.replace(where, gpus=(where.gpus[number],))
            try:
                run_batch(
                    project,
                    [claimed[place] for place in order],
                    own,
                    one,
                    lambda place: begin(order[place]),
                    stop,
                )
            except HaltedError:
                pass
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=work, args=(number,)) for number in range(len(where.gpus))
        ]
        with Interrupts() as interrupts:
            try:
                for thread in threads:
                    thread.start()
                interrupts.release()
                for thread in threads:
                    thread.join()
            finally:
                interrupts.hold()
                stop.say()
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
                stop.close()
    left = [place for place in range(len(jobs)) if place not in told]
    for error in errors:
        if left or not isinstance(error, WorkbenchError):
            raise error
    if left:  # claimed by a worker that died before it could say so
        alone = msgspec.structs.replace(where, gpus=where.gpus[:1])
        run_batch(
            project,
            [jobs[place] for place in left],
            alone,
            lambda place, ending: tell(left[place], ending),
            lambda place: begin(left[place]),
        )


def _order(jobs: Sequence[Job], number: int, count: int) -> list[int]:
    """The places of jobs in the order in which one of `count` GPUs tries them.

    Its own problems first, every `count`-th; then those of the others from the last on, which
    their owners come to last.
    """
    problems = list(dict.fromkeys(job.problem for job in jobs))
    own = {name for at, name in enumerate(problems) if at % count == number}
    mine = [place for place, job in enumerate(jobs) if job.problem in own]
    return mine + [place for place in reversed(range(len(jobs))) if jobs[place].problem not in own]
