"""One list of jobs on the GPUs of a host: one measurement a GPU, none done twice.

Every GPU has a worker of its own that comes to know all jobs, and whoever makes a job's file does
it (`Job.claim`); so no GPU waits for another while there is work, and how long a job takes
need not be known. Each begins with problems of its own, whose inputs and reference it
computes alone, and then helps the others from their end. Given the longest first, that end
is the shortest of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from workbench.engines.host.batch import Ending, run_batch
from workbench.engines.host.feed import Feed
from workbench.engines.host.job import Executable, Job
from workbench.engines.host.presence import Where
from workbench.engines.host.process import Halt, HaltedError, Interrupts
from workbench.engines.host.workspace import workspace
from workbench.errors import WorkbenchError
from workbench.project import Project

Tell = Callable[[int, Ending], None]


class Crew:
    """Workers of all GPUs of `where`, started and waiting for jobs of one study; see `crew`."""

    def __init__(self, project: Project, where: Where, study: str, claims: Path) -> None:
        self.study = study
        self.where = where
        self._project = project
        self._claims = claims
        self._halt = Halt()
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._told: set[int] = set()
        self._errors: list[BaseException] = []
        # Place in a worker's feed -> place among all jobs; -1: only to make ready.
        self._orders: list[list[int]] = [[-1] for _ in where.gpus or ("",)]
        ready = Job(
            task="prepare",
            study=study,
            problem="start",
            seed=0,
            program=Executable(version="worker", kind="python", path=""),
        )
        self._feeds = [Feed([ready], more=True) for _ in self._orders]
        self._over = [threading.Event() for _ in self._orders]
        for over in self._over:
            over.set()  # until it is started
        self._tell: Tell = lambda _place, _ending: None
        self._begin: Callable[[int], None] = lambda _place: None

    def start(self) -> None:
        """Start the workers; `end` must follow."""
        for number, over in enumerate(self._over):
            over.clear()
            threading.Thread(target=self._work, args=(number,)).start()

    def run(
        self,
        jobs: Sequence[Job],
        tell: Tell,
        begin: Callable[[int], None] = lambda _place: None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Run jobs; once a crew.

        A GPU on which no worker can run leaves its share to the others.

        Args:
            jobs: Those of the most work first.
            tell: As in `run_batch`.
            begin: As there.
            meanwhile: Called while the workers are busy.

        Raises:
            MissingError, KernelError: as `run_batch`, where jobs are left without an ending.
        """
        self._tell, self._begin = tell, begin
        self._hand_over(jobs)
        meanwhile()
        self._wait()
        left = [place for place in range(len(self._jobs)) if place not in self._told]
        for error in self._errors:
            if left or not isinstance(error, WorkbenchError):
                raise error
        if left:  # claimed by a worker that died before it could say so
            run_batch(
                self._project,
                Feed([msgspec.structs.replace(self._jobs[place], claim="") for place in left]),
                msgspec.structs.replace(self.where, gpus=self.where.gpus[:1]),
                lambda place, ending: tell(left[place], ending),
                lambda place: begin(left[place]),
            )

    def end(self) -> None:
        """End what still runs; what it has done is told by then."""
        self._halt.say()
        self._wait()

    def close(self) -> None:
        """Give back what is held, after `end`."""
        self._halt.close()

    def _wait(self) -> None:
        # Not by `Thread.join`: where Ctrl-C breaks that off, Python 3.11 takes the thread for
        # ended, and nobody can wait for it any more.
        for over in self._over:
            over.wait()

    def _hand_over(self, jobs: Sequence[Job]) -> None:
        """Give each worker all jobs: those of its own problems, then the others from their end."""
        count = len(self._feeds)
        owners: dict[str, int] = {}
        for place, job in enumerate(jobs):
            claim = (self._claims / str(place)).as_posix() if count > 1 else ""
            self._jobs.append(msgspec.structs.replace(job, claim=claim))
            owners.setdefault(job.problem, len(owners) % count)
        for number, (order, feed) in enumerate(zip(self._orders, self._feeds, strict=True)):
            own = [place for place, job in enumerate(jobs) if owners[job.problem] == number]
            others = set(range(len(jobs))) - set(own)
            places = [*own, *sorted(others, reverse=True)]
            order += places
            feed.complete([self._jobs[place] for place in places])

    def _work(self, number: int) -> None:
        order = self._orders[number]

        def one(at: int, ending: Ending) -> None:
            with self._lock:
                place = order[at]
                if place >= 0 and place not in self._told:
                    self._told.add(place)
                    self._tell(place, ending)

        def begin(at: int) -> None:
            if order[at] >= 0:
                self._begin(order[at])

        own = msgspec.structs.replace(self.where, gpus=self.where.gpus[number : number + 1])
        try:
            run_batch(self._project, self._feeds[number], own, one, begin, self._halt)
        except HaltedError:
            pass
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._over[number].set()


@contextlib.contextmanager
def crew(project: Project, where: Where, study: str) -> Iterator[Crew]:
    """Start a worker a GPU, which loads what jobs of a study need while these are made.

    Leaving ends all that still runs.

    Raises:
        MissingError: the project cannot be written to.
    """
    with workspace(project.root, f"{study}-shared") as folder, Interrupts() as interrupts:
        workers = Crew(project, where, study, folder)
        try:
            workers.start()
            interrupts.release()
            yield workers
        finally:
            interrupts.hold()
            workers.end()
            workers.close()
