"""Work on versions, a piece at a time, by an engine here or by a feature.

A `Task` defines the work for each piece, and a `Runner` does it: `Here` with an engine on this
machine, others where a feature sends it (`workbench.features.Feature.runners`). Each reports
results as they come, so a session does not know where its pieces run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from workbench.engines import Engine, RunOptions
from workbench.engines.choice import choose
from workbench.engines.host.worker_pool import Crew
from workbench.errors import WorkbenchError
from workbench.features import PLACES
from workbench.measure.experiment import Display, Experiment, Failures
from workbench.measure.plan import Combination, Use, chosen
from workbench.model import Record, Timing
from workbench.project import Project
from workbench.session.targets import Named
from workbench.specs import Version
from workbench.study.folder import Study

NAME_ANOTHER = "Name a version that can run here."
R = TypeVar("R")
#: Called with each result of a piece as it comes, or its error; perhaps from another thread.
Tell: TypeAlias = Callable[[Combination, R | WorkbenchError], None]


class Task(Record, Generic[R], frozen=True, kw_only=True):
    """A task for each of several pieces of work, on this or other machines.

    Attributes:
        kind: The task's name.
        result: The type of a piece's results, a record.
        alone: Each piece is done separately, and may have several results.
        run: Options of the run.
        engine: ``auto``, or the name of an engine.
        timed: The task measures times: other programs should not use the host meanwhile.
        seconds: Time limit of a piece; None: the default.
    """

    kind: ClassVar[str]
    result: ClassVar[type]
    alone: ClassVar[bool] = False

    run: RunOptions
    engine: str = "auto"
    timed: bool = False
    seconds: float | None = None

    def label(self, piece: Combination) -> str:
        """The name of a piece in its errors."""
        return piece.version.id

    def resumed(self, since: str, gpus: str) -> Task[R]:
        """The same task in a job.

        Args:
            since: When it was first begun (ISO 8601), if it was cut short then.
            gpus: The GPUs that the job has.
        """
        del since, gpus
        return self

    def engines(
        self, project: Project, display: Display, workers: Crew | None = None
    ) -> Sequence[Engine]:
        """The engines on this machine: one, or one for each model of GPU.

        Args:
            project: Where the versions are.
            display: Receives the engine's name.
            workers: Processes that were started already.

        Raises:
            MissingError: nothing can run here.
            UsageError: GPUs that this machine does not have.
        """
        del workers
        profiling = self.kind == "profile"
        return (choose(self.engine, project, self.run, display.say, profiling=profiling),)

    def do(self, here: Here, pieces: Sequence[Combination], tell: Tell[R]) -> None:
        """Do pieces on this machine; an error of one does not stop the others.

        Raises MissingError: nothing can run here.
        """
        raise NotImplementedError


class Runner(Protocol):
    """Does pieces of work."""

    @property
    def seed(self) -> int:
        """The seed for the inputs of all pieces; known at the latest when they are done."""

    @property
    def devices(self) -> Sequence[str]:
        """Slugs of the GPUs on which it measures, as far as they are known beforehand.

        Raises KernelError, MissingError: there is no GPU.
        """

    def run(self, task: Task[R], pieces: Sequence[Combination], tell: Tell[R]) -> None:
        """Do pieces, and report each result as it comes; MissingError: nothing can run there."""


class Here(Experiment):
    """Does pieces on this machine, under an engine: on its GPUs, or in the emulator."""

    @property
    def seed(self) -> int:
        """See `Runner.seed`."""
        return self.engine.seed

    @property
    def devices(self) -> Sequence[str]:
        """See `Runner.devices`."""
        return (self.device,)

    def run(self, task: Task[R], pieces: Sequence[Combination], tell: Tell[R]) -> None:
        """See `Runner.run`."""
        task.do(self, pieces, tell)


class VersionRuns:
    """Versions of one study that are to be run.

    Args:
        named: The requested versions, as they were typed.
        picked: The project, the study and the resolved versions.
        options: Where and how they run.
        display: Receives the progress.
        alone: One version is one piece of work; its error ends the run.
        workers: Processes that were started already (`worker_pool.early_workers`).

    Attributes:
        failures: Errors of single versions.
    """

    def __init__(
        self,
        named: Named,
        picked: tuple[Project, Study, list[Version]],
        options: RunOptions,
        display: Display,
        *,
        alone: bool = True,
        workers: Crew | None = None,
    ) -> None:
        self.project, self.study, self.versions = picked
        self.named, self.options, self.display = named, options, display
        self._alone, self._workers = alone, workers
        self.failures = self._new_failures()

    def _new_failures(self) -> Failures:
        broken = self.study.broken if self.named.every else {}
        alone = self._alone and len(self.versions) == 1 and not broken
        return Failures(self.display.say, alone=alone, every=self.named.every, broken=broken)

    def runners(self, task: Task[Any]) -> Sequence[Runner]:
        """The runners of a task: one, or one for each model of GPU.

        Versions that an engine cannot run are left out if all were requested. Raises MissingError,
        UsageError: as `Task.engines`, or as the feature does.
        """
        if self.options.on:
            if task.engine == "emulator":  # on a GPU, only the jobs can tell
                self._only_under(choose(task.engine, self.project, self.options))
            made: Callable[[Project, Study, Display], Runner]
            made = import_module(PLACES[self.options.on]).runner
            return [made(self.project, self.study, self.display)]
        engines = task.engines(self.project, self.display, self._workers)
        for engine in engines:
            self._only_under(engine)
        return [Here(self.project, self.study, each, self.display) for each in engines]

    def _only_under(self, engine: Engine) -> None:
        for version in list(self.versions) if self.named.every else ():
            if why := engine.refuses(version):
                self.display.say(f"{version.id}: skipped, {why}")
                self.versions.remove(version)
                self.failures = self._new_failures()

    def combinations(self, use: Use, most: int | None = None) -> list[Combination]:
        """Each version on its problems for a use; the error of a version without any is kept."""
        found: list[Combination] = []
        for version in self.versions:
            with self.failures.of(version.id, version):
                found += chosen(self.study, version, self.named.problem, use)[:most]
        return found

    def carry_out(
        self,
        runner: Runner,
        task: Task[R],
        pieces: Sequence[Combination],
        tell: Callable[[Combination, R], None],
    ) -> None:
        """Have pieces done; keep the error of each.

        Args:
            runner: The runner that does them.
            task: The work for each piece.
            pieces: Versions on problems.
            tell: Called with each result as it comes.

        Raises MissingError: nothing can run there.
        """
        self._tried: set[str] = set()

        def one(piece: Combination, found: R | WorkbenchError) -> None:
            self._tried.add(task.label(piece))
            if not isinstance(found, WorkbenchError):
                self.failures.passed(task.label(piece))
                tell(piece, found)
                return
            if not self.failures.pass_over(piece.version, found):
                self.failures.add(task.label(piece), found)

        if pieces:
            runner.run(task, pieces, one)

    def say_timing(self, timing: Timing, total: int) -> None:
        """Report a measured time, if there are several."""
        if total > 1:
            self.display.timing(f"[{len(self._tried)}/{total}]", timing, self.study.work)
