"""The experiment: build → verify → (time) → profile → save. Nothing unverified is kept.

Of many versions in one run, the errors of single ones are kept so that the others have their
turn (`Failures`). Of many combinations to time, what is stored of the same sources is taken from
there where asked for, the rest is measured in as few worker processes as faults allow, and each
time is stored as it comes (`Campaign`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

import msgspec

from workbench.compile.build import BuildResult
from workbench.engines import Engine, ProfileOptions, Say, Subject, Verdict, silent
from workbench.engines.host import presence
from workbench.engines.host.client import describe
from workbench.engines.host.failures import failure_error, hang
from workbench.engines.host.job import Job, Result, TimeOptions
from workbench.engines.host.process import Finished
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.measure import sanitizer
from workbench.measure.plan import Combination, Gap, Key, UnableError, recorded
from workbench.measure.sanitizer import Finding, Tool
from workbench.model import Notice, Problem, Profile, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store, device_slug
from workbench.study.folder import Study
from workbench.units import digits3, quantity, several


def report_lines(
    profile: Profile, engine: Engine, path: str, said: Sequence[Notice] = ()
) -> tuple[str, ...]:
    """What is said of a kept profile: one line, and one for each notice that was not `said` yet.

    ``v3 n1024: sgemm, error 2.1e-07, seed 7, 12.3 s under ncu -> profiles/…``
    """
    kernels = ", ".join(dict.fromkeys(launch.kernel for launch in profile.launches))
    check = profile.verification
    error = f", error {digits3(check.error)}, seed {check.seed}" if check else ""
    seconds = quantity(profile.capture.wall_s, "s")
    head = f"{profile.version} {profile.problem}: {kernels}{error}, {seconds}"
    notes = [
        f"note: {profile.version}: {notice.message}"
        for notice in profile.notices
        if notice.code != "emulated" and notice not in said  # the engine's first line says it
    ]
    return f"{head} {engine.under} -> {path}", *notes


class Experiment:
    """Runs versions of one study under one engine.

    Args:
        project: Where the study lies.
        study: The study.
        engine: What runs them.
        say: Called with one line of progress at a time.
        doing: Called with a line that the next one replaces.
    """

    def __init__(
        self,
        project: Project,
        study: Study,
        engine: Engine,
        *,
        say: Say = silent,
        doing: Say = silent,
    ) -> None:
        self.project = project
        self.study = study
        self.engine = engine
        self.store = Store.of(project)
        self._say = say
        self._doing = doing
        self._built: dict[str, BuildResult | None] = {}

    @property
    def gpu(self) -> GpuEngine:
        """The engine, which has a GPU.

        Raises:
            MissingError: it has none.
        """
        if not isinstance(self.engine, GpuEngine):
            raise MissingError(
                f"this needs a GPU, which the engine {self.engine.name} does not have",
                "Run it on a machine with a GPU, or reach one with --launcher.",
            )
        return self.engine

    @property
    def device(self) -> str:
        """The slug of the GPU that versions run on.

        Raises:
            KernelError, MissingError: there is none, or the launcher leads to none.
        """
        where = self.gpu.where
        if where.launcher:
            return describe(self.project, where).slug
        return device_slug(where.device or presence.need_gpu().name)

    def subject(self, version: Version, problem: Problem) -> Subject:
        """Compile a version for a problem that it can do (`workbench.measure.plan`).

        Raises:
            KernelError, MissingError: it does not compile, or there is no compiler.
            UsageError: a launch that no chip can run.
        """
        return Subject.of(self.study, version, problem, self._build)

    def build_all(self, versions: Sequence[Version]) -> dict[str, WorkbenchError]:
        """Compile versions side by side, a compiler process for each core.

        Returns:
            Version -> why it does not compile, for those that do not.
        """
        failed: dict[str, WorkbenchError] = {}

        def one(version: Version) -> None:
            try:
                self._build(version)
            except WorkbenchError as error:
                failed[version.id] = error

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            list(pool.map(one, versions))
        return failed

    def _build(self, version: Version) -> BuildResult | None:
        if version.id not in self._built:
            # Once, on however many problems it is to run.
            self._built[version.id] = self.engine.build(version)
        return self._built[version.id]

    # --- verify -----------------------------------------------------------------

    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None] = lambda _place, _verdict: None,
    ) -> list[Verdict]:
        """Check versions on problems.

        Args:
            subjects: What to check, in this order.
            tell: Called with place and verdict as each comes; perhaps from another thread.

        Returns:
            A verdict a subject, in their order. No failure keeps the others from being
            checked.

        Raises:
            MissingError: nothing can run here.
        """
        verdicts: dict[int, Verdict] = {}
        shown = ""

        def begin(place: int) -> None:
            nonlocal shown
            version = subjects[place].version.id
            names = [each.problem.name for each in subjects if each.version.id == version]
            if version != shown:
                what = names[0] if len(names) == 1 else f"{len(names)} problems"
                self._say(f"verify {version} on {what}")
                shown = version
            name = subjects[place].problem.name
            self._doing(f"verify {version} on {name} ({names.index(name) + 1} of {len(names)})")

        def one(place: int, verdict: Verdict) -> None:
            verdicts[place] = verdict
            tell(place, verdict)

        self.engine.verify(subjects, one, begin)
        return [verdicts[place] for place in range(len(subjects))]

    def sanitize(self, subjects: Sequence[Subject], tool: Tool, path: str) -> list[Finding]:
        """Run one version on several problems under one tool of compute-sanitizer.

        Raises:
            KernelError: a hang, or errors that name no kernel.
            MissingError: compute-sanitizer does not work here.
        """
        jobs, results, finished = self._under(subjects, tool, path)
        if finished.timed_out:
            raise hang(jobs[min(len(results), len(jobs) - 1)], self.gpu.where)
        failed = next((result for result in results if result.failure), None)
        # A crash is what we look for; anything else kept the kernels from running at all.
        if failed is not None and failed.failure and failed.failure.kind != "crash":
            raise failure_error(jobs[results.index(failed)], failed.failure)
        kernels = {launch.kernel for subject in subjects for launch in subject.launches}
        return sanitizer.judge(tool, finished.output, finished.code, kernels)

    def clean(self, subjects: Sequence[Subject], tool: Tool, path: str) -> bool:
        """Whether a tool runs over versions, all in one process, and finds nothing at all.

        False says nothing about any of them: `sanitize` finds out about each.
        """
        jobs, results, finished = self._under(subjects, tool, path)
        whole = len(results) == len(jobs) and not any(result.failure for result in results)
        return whole and not finished.timed_out and sanitizer.reported(finished.output) == 0

    def _under(
        self, subjects: Sequence[Subject], tool: Tool, path: str
    ) -> tuple[list[Job], list[Result], Finished]:
        names = list(dict.fromkeys(subject.version.id for subject in subjects))
        self._say(f"{tool} {names[0] if len(names) == 1 else f'{len(names)} versions'}")
        return self.gpu.verify_under(subjects, sanitizer.arguments(path, tool))

    # --- time ---------------------------------------------------------------------

    def time(self, subject: Subject, options: TimeOptions, *, keep: bool = True) -> Timing:
        """Time one version, the study's baseline beside it, and keep the timing.

        Raises:
            KernelError: wrong result, crash, hang. Nothing is kept then.
        """
        self._say(f"time {subject.version.id} on {subject.problem.name} ({options.cache} caches)")
        outcomes: list[Timing | WorkbenchError] = []
        self.time_all([subject], options, lambda _, outcome: outcomes.append(outcome), keep=keep)
        (outcome,) = outcomes
        if isinstance(outcome, WorkbenchError):
            raise outcome
        return outcome

    def time_all(
        self,
        subjects: Sequence[Subject],
        options: TimeOptions,
        tell: Callable[[Subject, Timing | WorkbenchError], None],
        *,
        begin: Callable[[Subject], None] = lambda _subject: None,
        meanwhile: Callable[[], None] = lambda: None,
        keep: bool = True,
    ) -> None:
        """Time versions on problems, each with the study's baseline in turns beside it.

        Subjects on the same problem should stand together: they share inputs and reference.

        Args:
            subjects: What to time, in this order, in as few worker processes as faults allow.
            options: How long and in what state of the caches.
            tell: Called once a subject, as its timing (which is kept by then) or error comes;
                from another thread.
            begin: Called with each subject before it is measured.
            meanwhile: Called while the workers are busy.
            keep: Store each timing.

        Raises:
            MissingError: no worker can run here.
        """
        beside = [self._baseline(subject) for subject in subjects]

        def one(place: int, outcome: Timing | WorkbenchError) -> None:
            if isinstance(outcome, Timing):
                notices = (*beside[place][1], *outcome.notices)
                outcome = msgspec.structs.replace(outcome, notices=notices)
                try:
                    if keep:
                        self.store.save_timing(outcome)
                except WorkbenchError as error:
                    outcome = error
            tell(subjects[place], outcome)

        pairs = [(subject, rival) for subject, (rival, _) in zip(subjects, beside, strict=True)]
        self.gpu.time(pairs, options, one, lambda place: begin(subjects[place]), meanwhile)

    def _baseline(self, subject: Subject) -> tuple[Subject | None, list[Notice]]:
        baseline = self.study.baseline
        if baseline is None or baseline.id == subject.version.id:
            return None, []
        try:
            return self.subject(*Combination.of(self.study, baseline, subject.problem)), []
        except UsageError as error:
            why = f"The baseline {baseline.id} was not timed: {error.message}."
            return None, [Notice("no-baseline", why)]

    # --- profile --------------------------------------------------------------------

    def profile(
        self,
        subject: Subject,
        options: ProfileOptions = ProfileOptions(),  # noqa: B008 - frozen
        notices: Sequence[Notice] = (),
    ) -> tuple[Profile, Path]:
        """Verify and profile one version, and keep the profile.

        Args:
            subject: The version, on a problem.
            options: What is asked of the engine.
            notices: What is known of the circumstances, to be kept with the profile.

        Returns:
            The profile and the path it is kept at.

        Raises:
            KernelError, MissingError, UsageError, DataError: nothing was kept, and an
                earlier profile is as it was.
        """
        profile, raw = self.engine.profile(subject, options)
        profile = msgspec.structs.replace(profile, notices=(*notices, *profile.notices))
        return profile, self.store.save(profile, raw)


class Display(Protocol):
    """Where a campaign says how far it is."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def doing(self, text: str) -> None:
        """What is being done now."""

    def counting(self, total: int) -> AbstractContextManager[None]:
        """As long as it is open, `done` counts up to `total`."""

    def done(self, count: int) -> None:
        """How many combinations are done."""

    def prepare(self) -> None:
        """All is handed over and the workers are busy: time to load what prints the end."""

    def timing(self, place: str, timing: Timing, work: Literal["flop", "op"]) -> None:
        """A result, with its place among all (``[2/6]``) and what the study counts."""


class Failures:
    """Errors of single versions, so that the others still have their turn.

    Args:
        say: Says each error as it comes.
        alone: There is one piece of work only: its error is raised as it is.
        every: Versions were not named (``--all``): what cannot run here is passed over.
        broken: What is wrong with versions that were meant, too, and never had a turn.
    """

    def __init__(
        self,
        say: Say,
        *,
        alone: bool,
        every: bool,
        broken: Mapping[str, WorkbenchError] = MappingProxyType({}),
    ) -> None:
        self._broken = broken
        self._say = say
        self._alone = alone
        self._every = every
        self._errors: list[tuple[str, WorkbenchError]] = []
        self._begun = 0
        self._skipped: set[tuple[str, str]] = set()

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
        if over and (version.id, error.message) not in self._skipped:
            self._skipped.add((version.id, error.message))
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
        for label, error in self._broken.items():
            self.add(label, error)
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
    ) -> None:
        self.timings: dict[Key, Timing] = {}
        self.gaps: dict[Key, Gap] = {}
        self.taken = 0
        self._runner = runner
        self._options = options
        self._display = display
        self._failures = failures

    # --- what is there already -------------------------------------------------------

    def take(self, combinations: Sequence[Combination], since: str = "") -> None:
        """Take from the store what still holds, and say how many that are.

        Raises:
            DataError: a stored time is damaged.
            KernelError, MissingError: the launcher leads to no GPU.
        """
        runner = self._runner
        if not Store.of(runner.project).has_timings(runner.study.name):
            return
        device = runner.device
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
            times = several(again, "stored time")
            old = f"; {times} {'is' if again == 1 else 'are'} out of date" if again else ""
            self._display.say(
                f"{self.taken} of {len(combinations)} are taken from the store"
                f" ({device}, same sources){old}; --again measures all"
            )

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
            self._display.doing(f"{subject.version.id} {subject.problem.name}")

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
                subjects, self._options, tell, begin=begin, meanwhile=self._display.prepare
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
