"""Many jobs in few worker processes, on one GPU or several.

A worker does its jobs in one context, so that the start of a process and of its libraries is
paid once. A kernel that crashes takes the context with it; the remaining jobs
then go to a fresh worker (`run_batch`).

On several GPUs (`Crew`) every GPU has its own worker, which gets all jobs; the worker that creates
a job's file does it (`Job.claim`). Each begins with its own problems, whose inputs and reference it
computes alone, and then takes jobs from the end of the others' lists.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench.engines import RunOptions, Where
from workbench.engines.host.client import Feed, run_jobs, workspace
from workbench.engines.host.failures import failure_error, hang, untried, vanished
from workbench.engines.host.job import Executable, Job, Result
from workbench.engines.host.presence import choose_hosts
from workbench.engines.host.process import Halt, HaltedError, Interrupts
from workbench.errors import KernelError, WorkbenchError
from workbench.project import Project, require_project, studies_in
from workbench.store import Store
from workbench.study.folder import parse_target

#: The number of workers in a row that may end without a result before there is any result; after
#: that, no worker can run here.
_STARTS = 2


class Ending(NamedTuple):
    """The end of one job. `error` is None if it succeeded."""

    result: Result | None
    error: WorkbenchError | None


def run_batch(
    project: Project,
    feed: Feed,
    where: Where,
    tell: Callable[[int, Ending], None],
    begin: Callable[[int], None] = lambda _place: None,
    stop: Halt | None = None,
) -> None:
    """Run jobs, in order, in as few workers as faults allow.

    A version that hangs is not tried on further problems: each would take until the time limit.
    Jobs that another worker has claimed have no ending here. Returns when all of `feed` is done.
    `begin` is called with the place of each job that begins, `tell` once for every job with its
    place and ending, from another thread. `stop` ends all from another thread.

    Raises:
        MissingError: no worker can start here, or it finds no GPU; jobs without an ending were not
            run.
        KernelError: the first workers ended without a result.
    """
    state = _Remaining(feed, tell, begin)
    # Workers without a result in a row; -1 once there was one: then a worker can run here.
    silent = 0
    while state.begin_worker():
        with feed.watched(state.completed):
            results, finished = run_jobs(
                project, state.part, where, on_result=state.answered, stop=stop
            )
        if results and results[-1].failure and _nowhere(results[-1]):
            raise failure_error(feed[state.places[len(results) - 1]], results[-1].failure)
        left = state.places[len(results) :]
        silent = silent + 1 if not results and silent >= 0 else -1
        if not left:
            if silent >= _STARTS:  # it ended while waiting for a first job
                raise vanished(feed[0], finished)
        elif finished.timed_out:
            broken = feed[left[0]]
            tell(left.pop(0), Ending(None, hang(broken, where)))
            state.hung[broken.executable.version] = broken
            if where.limit.over:
                for place in left:
                    tell(place, Ending(None, untried(feed[place], where)))
                return
        elif not results or results[-1].failure is None:
            # It ended in the middle of a job, without a result for it.
            error = vanished(feed[left[0]], finished)
            if silent >= _STARTS:
                raise error
            tell(left.pop(0), Ending(None, error))
        state.places = left


class _Remaining:
    """The jobs of a feed that are still to be done, and the worker's progress.

    `places`: places in the feed of the worker's jobs, in its order; `part`: these jobs. `hung`:
    version -> the job on which it hung.
    """

    def __init__(
        self, feed: Feed, tell: Callable[[int, Ending], None], begin: Callable[[int], None]
    ) -> None:
        self.places: list[int] = []
        self.part = Feed()
        self.hung: dict[str, Job] = {}
        self._feed = feed
        self._tell = tell
        self._begin = begin
        self._known = 0
        self._count = 0  # the worker's results

    def begin_worker(self) -> bool:
        """Give the remaining jobs to another worker; False if none is needed."""
        feed = self._feed
        closed = feed.closed  # if so, its length is final
        self.places = self._untried([*self.places, *self._new()])
        if not self.places and closed:
            return False
        self.part = Feed([feed[place] for place in self.places], more=not closed)
        self._count = 0
        if self.places:
            self._begin(self.places[0])
        return True

    def completed(self) -> None:
        """Send the running worker the feed's jobs so far, and whether that is all."""
        new = self._new()
        if self.part.closed or not (new or self._feed.closed):
            return
        idle = self._count == len(self.places)
        places = self._untried(new)
        self.places += places
        self.part.add([self._feed[place] for place in places], more=not self._feed.closed)
        if idle and places:
            self._begin(places[0])

    def answered(self, at: int, result: Result) -> None:
        """Record the worker's result for the job at that place in its own list."""
        self._count = at + 1
        if not _nowhere(result) and not result.elsewhere:
            job = self._feed[self.places[at]]
            error = failure_error(job, result.failure, result.check) if result.failure else None
            self._tell(self.places[at], Ending(result, error))
        if self._count < len(self.places):
            self._begin(self.places[self._count])

    def _new(self) -> range:
        """Places of the jobs added since the last call."""
        new = range(self._known, len(self._feed))
        self._known = new.stop
        return new

    def _untried(self, places: Sequence[int]) -> list[int]:
        """The places of jobs of versions that have not hung; the others are reported."""
        kept = []
        for place in places:
            job = self._feed[place]
            before = self.hung.get(job.executable.version)
            if before is None:
                kept.append(place)
                continue
            error = KernelError(
                f"{job.executable.version} was not tried on {job.problem}: "
                f"it did not end on {before.problem}",
                f"Run it on its own: `workbench verify {job.study}/{job.executable.version}:"
                f"{job.problem}`.",
            )
            self._tell(place, Ending(None, error))
        return kept


def _nowhere(result: Result) -> bool:
    """Test whether a result says that there is no GPU here, which applies to all jobs."""
    return result.failure is not None and result.failure.kind in ("no-device", "no-pycuda")


Tell = Callable[[int, Ending], None]


class Crew:
    """Workers for all GPUs of `where`, started and waiting for jobs of one study; see `crew`."""

    def __init__(self, project: Project, where: Where, study: str, claims: Path) -> None:
        self.study = study
        self.where = where
        self._project = project
        self._claims = claims
        self._halt = Halt()
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._ended: set[int] = set()
        self._errors: list[BaseException] = []
        self._turn = threading.Event()  # all jobs so far have ended, or a worker has
        # Place in a worker's feed -> place among all jobs; -1: a job that only prepares.
        self._orders: list[list[int]] = [[-1] for _ in where.gpus or ("",)]
        ready = Job(
            task="prepare",
            study=study,
            problem="start",
            seed=0,
            executable=Executable(version="worker", kind="python", path=""),
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

    @property
    def over(self) -> bool:
        """True if all of its workers have ended."""
        return all(over.is_set() for over in self._over)

    @property
    def stays(self) -> bool:
        """True if it accepts further jobs: a single worker that has not ended."""
        return len(self._over) == 1 and not self._over[0].is_set()

    def run(
        self,
        jobs: Sequence[Job],
        tell: Tell,
        begin: Callable[[int], None] = lambda _place: None,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        more: bool = False,
    ) -> None:
        """Run jobs, given largest first; they are a crew's last ones unless `more` will follow.

        With `more` the worker stays for other jobs, if the crew `stays`. If no worker can run on a
        GPU, the others do its share. `tell` and `begin` as in `run_batch`; `meanwhile` is called
        while the workers are busy. Raises MissingError, KernelError: as `run_batch`, if jobs are
        left without an ending.
        """
        before = len(self._jobs)
        self._tell = lambda place, ending: tell(place - before, ending)
        self._begin = lambda place: begin(place - before)
        self._turn.clear()
        self._hand_over(jobs, more)
        meanwhile()
        if more:
            self._turn.wait()
        else:
            self._wait()
        left = [place for place in range(before, len(self._jobs)) if place not in self._ended]
        for error in self._errors:
            if left or not isinstance(error, WorkbenchError):
                raise error
        if left:  # claimed by a worker that died before it could report it
            run_batch(
                self._project,
                Feed([msgspec.structs.replace(self._jobs[place], claim="") for place in left]),
                msgspec.structs.replace(self.where, gpus=self.where.gpus[:1]),
                lambda place, ending: tell(left[place] - before, ending),
                lambda place: begin(left[place] - before),
            )

    def end(self) -> None:
        """End running workers, after their results were reported."""
        self._halt.say()
        self._wait()

    def close(self) -> None:
        """Release resources, after `end`."""
        self._halt.close()

    def _wait(self) -> None:
        # Not with `Thread.join`: if Ctrl-C interrupts it, Python 3.11 believes that the thread has
        # ended, and waiting for it fails.
        for over in self._over:
            over.wait()

    def _hand_over(self, jobs: Sequence[Job], more: bool) -> None:
        """Give each worker all jobs: those for its own problems, then the others from their end."""
        count, before = len(self._feeds), len(self._jobs)
        owners: dict[str, int] = {}
        for place, job in enumerate(jobs, before):
            claim = (self._claims / str(place)).as_posix() if count > 1 else ""
            self._jobs.append(msgspec.structs.replace(job, claim=claim))
            owners.setdefault(job.problem, len(owners) % count)
        for number, (order, feed) in enumerate(zip(self._orders, self._feeds, strict=True)):
            own = [place for place, job in enumerate(jobs, before) if owners[job.problem] == number]
            others = set(range(before, len(self._jobs))) - set(own)
            places = [*own, *sorted(others, reverse=True)]
            order += places
            feed.add([self._jobs[place] for place in places], more=more)

    def _work(self, number: int) -> None:
        order = self._orders[number]

        def one(at: int, ending: Ending) -> None:
            with self._lock:
                place = order[at]
                if place >= 0 and place not in self._ended:
                    self._ended.add(place)
                    self._tell(place, ending)
                    if len(self._ended) == len(self._jobs):
                        self._turn.set()

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
            self._turn.set()


@contextlib.contextmanager
def crew(project: Project, where: Where, study: str) -> Iterator[Crew]:
    """Start one worker per GPU, which loads a study's data while its jobs are prepared.

    Leaving ends all running workers. Raises MissingError: the project is not writable.
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


@contextlib.contextmanager
def early_workers(
    run: RunOptions, study: str | None, target: str | None, *, again: bool
) -> Iterator[Crew | None]:
    """Start workers before their jobs are known, if it is certain that there are some.

    It is certain with `again` (measure stored times too), or if no time of the study is stored.
    Yields None if it is not certain, or if it fails: later callers then report why. `target` is a
    named version, perhaps with its study.
    """
    with contextlib.ExitStack() as open_:
        workers = None
        with contextlib.suppress(WorkbenchError):
            project = require_project()
            name = study or project.default_study
            name = parse_target(target, project, study)[0] if target else name
            here = name in studies_in(project.kernels) and not run.on and not run.launcher
            if here and (again or not Store.of(project).has_timings(name)):
                workers = open_.enter_context(crew(project, choose_hosts(run)[0], name))
        yield workers
