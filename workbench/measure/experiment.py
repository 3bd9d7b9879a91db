"""The experiment: build → verify → (time) → profile → save. Nothing unverified is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from workbench.compile.build import BuildResult
from workbench.engines import Engine, ProfileOptions, Say, Subject, Verdict, silent
from workbench.engines.host.failures import failure_error, hang
from workbench.engines.host.job import Job, Result, TimeOptions
from workbench.engines.host.process import Finished
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import MissingError, UsageError, WorkbenchError
from workbench.measure import sanitizer
from workbench.measure.plan import Combination
from workbench.measure.sanitizer import Finding, Tool
from workbench.model import Notice, Problem, Profile, Timing
from workbench.project import Project
from workbench.specs import Version
from workbench.store import Store
from workbench.study.folder import Study
from workbench.units import digits3, quantity


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
        step: Called with a line that the next one replaces.
    """

    def __init__(
        self,
        project: Project,
        study: Study,
        engine: Engine,
        *,
        say: Say = silent,
        step: Say = silent,
    ) -> None:
        self.project = project
        self.study = study
        self.engine = engine
        self.store = Store(project.profiles)
        self._say = say
        self._step = step
        self._built: dict[str, BuildResult | None] = {}

    @property
    def gpu(self) -> GpuEngine:
        """The engine, which has a GPU.

        Raises:
            MissingError: it has none.
        """
        if self.engine.gpu is None:
            raise MissingError(
                f"this needs a GPU, which the engine {self.engine.name} does not have",
                "Run it on a machine with a GPU, or reach one with --launcher.",
            )
        return self.engine.gpu

    def subject(self, version: Version, problem: Problem) -> Subject:
        """Compile a version for a problem that it can do (`workbench.measure.plan`).

        Raises:
            KernelError, MissingError: it does not compile, or there is no compiler.
            UsageError: a launch that no chip can run.
        """
        return Subject.of(self.study, version, problem, self._build(version))

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
            self._step(f"verify {version} on {name} ({names.index(name) + 1} of {len(names)})")

        def one(place: int, verdict: Verdict) -> None:
            verdicts[place] = verdict
            tell(place, verdict)

        self.engine.verify(subjects, one, begin)
        return [verdicts[place] for place in range(len(subjects))]

    def sanitize(self, subjects: Sequence[Subject], tool: Tool, program: str) -> list[Finding]:
        """Run one version on several problems under one tool of compute-sanitizer.

        Raises:
            KernelError: a hang, or errors that name no kernel.
            MissingError: compute-sanitizer does not work here.
        """
        jobs, results, finished = self._under(subjects, tool, program)
        if finished.timed_out:
            raise hang(jobs[min(len(results), len(jobs) - 1)], self.gpu.where)
        failed = next((result for result in results if result.failure), None)
        # A crash is what we look for; anything else kept the kernels from running at all.
        if failed is not None and failed.failure and failed.failure.kind != "crash":
            raise failure_error(jobs[results.index(failed)], failed.failure)
        kernels = {launch.kernel for subject in subjects for launch in subject.launches}
        return sanitizer.judge(tool, finished.output, finished.code, kernels)

    def clean(self, subjects: Sequence[Subject], tool: Tool, program: str) -> bool:
        """Whether a tool runs over versions, all in one process, and finds nothing at all.

        False says nothing about any of them: `sanitize` finds out about each.
        """
        jobs, results, finished = self._under(subjects, tool, program)
        whole = len(results) == len(jobs) and not any(result.failure for result in results)
        return whole and not finished.timed_out and sanitizer.reported(finished.output) == 0

    def _under(
        self, subjects: Sequence[Subject], tool: Tool, program: str
    ) -> tuple[list[Job], list[Result], Finished]:
        names = list(dict.fromkeys(subject.version.id for subject in subjects))
        self._say(f"{tool} {names[0] if len(names) == 1 else f'{len(names)} versions'}")
        return self.gpu.verify_under(subjects, sanitizer.arguments(program, tool))

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
            return None, [Notice(code="no-baseline", message=why)]

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
