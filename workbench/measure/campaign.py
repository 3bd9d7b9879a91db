"""Many versions in one run: errors of single ones, and timing many combinations.

What is stored of the same sources is taken from there where asked for, the rest is
measured in as few worker processes as faults allow, and each time is stored as it comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from workbench.engines import Engine, Say, Subject
from workbench.engines.host import presence
from workbench.engines.host.client import describe
from workbench.engines.host.job import TimeOptions
from workbench.errors import MissingError, WorkbenchError
from workbench.measure.experiment import Experiment
from workbench.measure.plan import Combination, Gap, Key, UnableError, recorded
from workbench.model import Timing
from workbench.specs import Version
from workbench.store import Store, device_slug


class Display(Protocol):
    """Where a campaign says how far it is."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def step(self, text: str) -> None:
        """What is being done now."""

    def counting(self, total: int) -> AbstractContextManager[None]:
        """As long as it is open, `done` counts up to `total`."""

    def done(self, count: int) -> None:
        """How many combinations are done."""

    def timing(self, place: str, timing: Timing, work: Literal["flop", "op"]) -> None:
        """A result, with its place among all (``[2/6]``) and what the study counts."""


class Failures:
    """Errors of single versions, so that the others still have their turn.

    Args:
        say: Says each error as it comes.
        alone: There is one piece of work only: its error is raised as it is.
        every: Versions were not named (``--all``): what cannot run here is passed over.
    """

    def __init__(self, say: Say, *, alone: bool, every: bool) -> None:
        self._say = say
        self._alone = alone
        self._every = every
        self._errors: list[tuple[str, WorkbenchError]] = []
        self._begun = 0
        self._told: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def of(self, label: str, version: Version | None = None) -> Iterator[None]:
        """Keep the error of what is done in the block, unless `version` is passed over for it."""
        try:
            yield
        except WorkbenchError as error:
            if version is not None and self.pass_over(version, error):
                self.passed()
            elif self._alone:
                raise
            else:
                self.add(label, error)
        else:
            self.passed()

    def passed(self) -> None:
        """Count a piece of work that went well."""
        self._begun += 1

    def add(self, label: str, error: WorkbenchError) -> None:
        """Keep an error that was caught already, and say it."""
        self._begun += 1
        self._errors.append((label, error))
        if self._alone:
            return  # it will be raised, and said then
        self._say(f"{label}: error: {error.message}")
        if error.hint:
            self._say(f"  hint: {error.hint}")

    def pass_over(self, version: Version, error: WorkbenchError) -> bool:
        """Whether an error means only that ``--all`` has named what cannot run here.

        That is a baseline whose library is not installed; and, where problems are chosen, a
        version that cannot do any of them (`UnableError`). It is said then, once.
        """
        if not self._every:
            return False
        if isinstance(error, MissingError):
            over = version.baseline and version.kind == "python"
        else:
            over = isinstance(error, UnableError)
        if over and (version.id, error.message) not in self._told:
            self._told.add((version.id, error.message))
            self._say(f"{version.id}: skipped: {error.message}")
        return over

    def raise_alone(self) -> None:
        """Raise the error of the one piece of work there is, as it is.

        Raises:
            WorkbenchError: it failed, and there was nothing else to do.
        """
        if self._alone and self._errors:
            raise self._errors[0][1]

    def finish(self) -> None:
        """End with the worst error's class (and exit code), if there was any.

        Raises:
            WorkbenchError: a summary that names what failed.
        """
        if not self._errors:
            return
        worst = min((error for _, error in self._errors), key=_rank)
        labels = ", ".join(dict.fromkeys(label for label, _ in self._errors))
        raise type(worst)(
            f"{len(self._errors)} of {self._begun} failed: {labels}",
            "Each error is shown above with its hint; everything that succeeded is kept.",
        )


def runnable(engine: Engine, versions: Sequence[Version], every: bool, say: Say) -> list[Version]:
    """The versions that an engine can run; others are passed over where all were asked for."""
    chosen = []
    for version in versions:
        if every and (why := engine.refuses(version)):
            say(f"{version.id}: skipped, {why}")
        else:
            chosen.append(version)
    return chosen


def _rank(error: WorkbenchError) -> int:
    """Which of several errors decides the exit code: a wrong kernel before all else."""
    order = (4, 5, 3, 1, 6, 2)
    return order.index(error.exit_code) if error.exit_code in order else len(order)


class Campaign:
    """One run over combinations of one study.

    Args:
        runner: Runs them.
        options: How long, and in what state of the caches.
        display: Where it is said what is done.
        failures: Keeps the errors of single combinations.
        meanwhile: Called when all is handed over, while the workers are busy.

    Attributes:
        timings: What was measured or taken from the store.
        gaps: Why there is none of a combination: its library is not here, or it failed.
        taken: How many timings came from the store.
    """

    def __init__(
        self,
        runner: Experiment,
        options: TimeOptions,
        display: Display,
        failures: Failures,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.timings: dict[Key, Timing] = {}
        self.gaps: dict[Key, Gap] = {}
        self.taken = 0
        self._runner = runner
        self._options = options
        self._display = display
        self._failures = failures
        self._meanwhile = meanwhile

    # --- what is there already -------------------------------------------------------

    def take(self, combinations: Sequence[Combination], since: str = "") -> None:
        """Take from the store what still holds, and say how many that are.

        Raises:
            DataError: a stored time is damaged.
            KernelError, MissingError: the launcher leads to no GPU.
        """
        runner = self._runner
        if not Store(runner.project.profiles).has_timings(runner.study.name):
            return
        device = self._device()
        found = recorded(
            runner.project,
            runner.study,
            [each.key for each in combinations],
            device,
            self._options.cache,
            since,
        )
        self.timings |= found.current
        self.taken = len(found.current)
        if self.taken:
            again = sum(each.key in found.stale for each in combinations)
            old = f"; {again} stored ones are no longer valid" if again else ""
            self._display.say(
                f"{self.taken} of {len(combinations)} are taken from the store"
                f" ({device}, same sources){old}; --again measures all"
            )

    def _device(self) -> str:
        where = self._runner.gpu.where
        if where.launcher:
            return describe(self._runner.project, where).slug
        if where.device:
            return device_slug(where.device)
        return device_slug(presence.need_gpu().name)

    # --- measuring ---------------------------------------------------------------------

    def measure(self, combinations: Sequence[Combination]) -> None:
        """Measure what is not there yet; every time is stored as it comes.

        Raises:
            MissingError: no worker can run here.
            WorkbenchError: the error of a single combination, where failures are to be
                raised as they are.
        """
        todo = [each for each in combinations if each.key not in self.timings]
        if not todo:
            return
        with self._runner.gpu.ready(self._runner.study.name):
            # Before the first is timed: compilers on all of the host's cores would disturb it.
            subjects = self._subjects(todo)
            if subjects:
                self._time(subjects)
        self._failures.raise_alone()

    def _time(self, subjects: Sequence[Subject]) -> None:
        total = len(subjects)
        count = 0

        def begin(subject: Subject) -> None:
            self._display.step(f"{subject.version.id} {subject.problem.name}")

        def tell(subject: Subject, outcome: Timing | WorkbenchError) -> None:
            nonlocal count
            count += 1
            self._tell(subject, outcome, f"[{count}/{total}]" if total > 1 else "")
            self._display.done(count)

        what = (
            f"{subjects[0].version.id} on {subjects[0].problem.name}"
            if total == 1
            else f"{total} combinations"
        )
        self._display.say(f"time {what} ({self._options.cache} caches)")
        with self._display.counting(total):
            self._runner.time_all(
                subjects, self._options, tell, begin=begin, meanwhile=self._meanwhile
            )

    def _subjects(self, combinations: Sequence[Combination]) -> list[Subject]:
        versions: dict[str, Version] = {each.version.id: each.version for each in combinations}
        broken = self._runner.build_all(list(versions.values()))
        for version_id, error in broken.items():
            names = [each.problem.name for each in combinations if each.version.id == version_id]
            self._failures.add(" ".join((version_id, *names[:1])), error)
            for name in names:
                self._gap((version_id, name), "failed", error)
        self._failures.raise_alone()
        subjects = []
        for version, problem in combinations:
            if version.id in broken:
                continue
            try:
                subjects.append(self._runner.subject(version, problem))
            except WorkbenchError as error:
                self._fail((version.id, problem.name), error)
        self._failures.raise_alone()
        return subjects

    def _tell(self, subject: Subject, outcome: Timing | WorkbenchError, place: str) -> None:
        key = subject.version.id, subject.problem.name
        if not isinstance(outcome, WorkbenchError):
            self._failures.passed()
            self.timings[key] = outcome
            if place:
                self._display.timing(place, outcome, self._runner.study.work)
            return
        if self._failures.pass_over(subject.version, outcome):
            self._gap(key, "unavailable", outcome)
        else:
            self._fail(key, outcome)

    def _fail(self, key: Key, error: WorkbenchError) -> None:
        self._gap(key, "failed", error)
        self._failures.add(" ".join(key), error)

    def _gap(self, key: Key, kind: Literal["unavailable", "failed"], error: WorkbenchError) -> None:
        self.gaps[key] = Gap(kind=kind, why=error.message.splitlines()[0])
