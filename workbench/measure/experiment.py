"""The experiment: build → verify → (time) → profile → save. Nothing unverified is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench import __version__
from workbench.compile.build import BuildResult
from workbench.engines.host.batch import Outcome, run_batch
from workbench.engines.host.client import (
    compiled,
    fresh_seed,
    make_job,
    make_program,
    run_jobs,
    verification,
)
from workbench.engines.host.failures import failure_error, hang
from workbench.engines.host.job import Check, Job, Program, Result, TimeOptions
from workbench.engines.host.process import Finished
from workbench.engines.host.timed import now, timing_record
from workbench.engines.host.where import Where
from workbench.engines.ncu.assemble import (
    fold_repeats,
    library_notices,
    metric_notices,
    own_notices,
    own_sources,
)
from workbench.engines.ncu.command import Captured, Command, Options, capture, prepare
from workbench.engines.ncu.raw import Keep
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.measure import sanitizer
from workbench.measure.sanitizer import Finding, Tool
from workbench.model import Notice, Problem, Profile, Record, Timing, Version
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import Study, source_hash

Say = Callable[[str], None]


class Subject(Record, frozen=True):
    """A version on a problem, compiled and ready for the worker."""

    version: Version
    problem: Problem
    program: Program
    built: BuildResult | None


class Verdict(NamedTuple):
    """What verifying one problem said: the check, and the error unless all was well."""

    problem: Problem
    check: Check | None
    error: WorkbenchError | None = None


class Experiment:
    """Runs versions of one study on one machine.

    Args:
        project: Where the study lies.
        study: The study.
        where: What to compile for and how to reach the GPU.
        seed: Seed of the random inputs; None: a fresh one.
        say: Called with one line of progress at a time.
        step: Called with a line that the next one replaces.
    """

    def __init__(
        self,
        project: Project,
        study: Study,
        where: Where,
        *,
        seed: int | None = None,
        say: Say = lambda _line: None,
        step: Say = lambda _line: None,
    ) -> None:
        self.project = project
        self.study = study
        self.where = where
        self.seed = fresh_seed() if seed is None else seed
        self.store = Store(project.profiles)
        self._say = say
        self._step = step
        self._built: dict[str, BuildResult] = {}

    def subject(self, version: Version, problem: Problem) -> Subject:
        """Compile a version for a problem.

        Raises:
            UsageError, KernelError, MissingError: see `make_program`.
        """
        self.study.check_requirements(version, problem)
        program, built = make_program(
            self.project, self.study, version, problem, self.where.arch, self._build(version)
        )
        return Subject(version=version, problem=problem, program=program, built=built)

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
        if version.kind != "cuda":
            return None
        if version.id not in self._built:
            # Once, on however many problems it is to run.
            self._say(f"build {version.id} for {self.where.arch}")
            self._built[version.id] = compiled(self.project, version, self.where.arch)
        return self._built[version.id]

    # --- verify -----------------------------------------------------------------

    def verify(self, subjects: Sequence[Subject]) -> list[Verdict]:
        """Check versions on problems, in as few worker processes as faults allow.

        Returns:
            A verdict a subject, in their order. No failure keeps the others from being
            checked, but a version that hung is not tried again.

        Raises:
            MissingError: no worker can run here.
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

        def tell(place: int, outcome: Outcome) -> None:
            check = outcome.result.check if outcome.result else None
            verdicts[place] = Verdict(subjects[place].problem, check, outcome.error)

        jobs = [self._verify_job(subject) for subject in subjects]
        run_batch(self.project, jobs, self.where, tell, begin)
        return [verdicts[place] for place in range(len(subjects))]

    def _verify_job(self, subject: Subject, *, sanitize: bool = False) -> Job:
        return make_job(
            "verify",
            self.study,
            subject.problem,
            subject.program,
            seed=self.seed,
            sanitize=sanitize,
        )

    def sanitize(self, subjects: Sequence[Subject], tool: Tool, program: str) -> list[Finding]:
        """Run one version on several problems under one tool of compute-sanitizer.

        Raises:
            KernelError: a hang, or errors that name no kernel.
            MissingError: compute-sanitizer does not work here.
        """
        jobs, results, finished = self._under(subjects, tool, program)
        if finished.timed_out:
            raise hang(jobs[min(len(results), len(jobs) - 1)], self.where)
        failed = next((result for result in results if result.failure), None)
        # A crash is what we look for; anything else kept the kernels from running at all.
        if failed is not None and failed.failure and failed.failure.kind not in ("crash",):
            raise failure_error(jobs[results.index(failed)], failed.failure)
        kernels = {launch.kernel for subject in subjects for launch in subject.program.launches}
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
        jobs = [self._verify_job(subject, sanitize=True) for subject in subjects]
        wrapper = sanitizer.arguments(program, tool)
        results, finished = run_jobs(self.project, jobs, self.where, wrapper=wrapper)
        return jobs, results, finished

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
            keep: Store each timing.

        Raises:
            MissingError: no worker can run here.
        """
        beside = [self._baseline(subject) for subject in subjects]
        jobs = [
            make_job(
                "time",
                self.study,
                subject.problem,
                subject.program,
                seed=self.seed,
                baseline=baseline,
                options=options,
            )
            for subject, (baseline, _) in zip(subjects, beside, strict=True)
        ]

        def one(place: int, outcome: Outcome) -> None:
            if outcome.error is not None or outcome.result is None:
                tell(subjects[place], outcome.error or KernelError("no result"))
                return
            timing = timing_record(
                self.project,
                self.study,
                subjects[place].version,
                jobs[place],
                outcome.result,
                beside[place][1],
            )
            try:
                if keep:
                    self.store.save_timing(timing)
            except WorkbenchError as error:
                tell(subjects[place], error)
            else:
                tell(subjects[place], timing)

        run_batch(self.project, jobs, self.where, one, lambda place: begin(subjects[place]))

    def _baseline(self, subject: Subject) -> tuple[Program | None, list[Notice]]:
        baseline = self.study.baseline
        if baseline is None or baseline.id == subject.version.id:
            return None, []
        try:
            return self.subject(baseline, subject.problem).program, []
        except UsageError as error:
            why = f"The baseline {baseline.id} was not timed: {error.message}."
            return None, [Notice(code="no-baseline", message=why)]

    # --- profile --------------------------------------------------------------------

    def _profile_job(self, subject: Subject, repeats: int) -> Job:
        return make_job(
            "profile",
            self.study,
            subject.problem,
            subject.program,
            seed=self.seed,
            repeats=repeats,
        )

    def command(self, subject: Subject, options: Options, ncu: str, repeats: int) -> Command:
        """The ncu command, with its job in place, but not run."""
        job = self._profile_job(subject, repeats)
        return prepare(self.project, job, self.where, options, ncu)

    def profile(
        self,
        subject: Subject,
        options: Options,
        ncu: str,
        *,
        repeats: int = 1,
        keep_raw: Keep = "auto",
    ) -> tuple[Profile, Path]:
        """Verify and profile one version, and keep the profile.

        Args:
            subject: What to profile.
            options: What ncu collects.
            ncu: Path of ncu.
            repeats: Captures of every launch, for the noise of its counters.
            keep_raw: Keep the raw report beside the profile; ``auto``: if it is small and
                names no folder of this machine.

        Returns:
            The profile and the path it is kept at.

        Raises:
            KernelError, MissingError, UsageError, DataError: nothing was kept, and an
                earlier profile is as it was.
        """
        self._say(f"verify and profile {subject.version.id} on {subject.problem.name}")
        job = self._profile_job(subject, repeats)
        captured = capture(self.project, job, self.where, options, ncu, self._ncu_line, keep_raw)
        profile = self._assemble(subject, job, captured, options)
        return profile, self.store.save(profile, captured.raw.packed)

    def _ncu_line(self, line: str) -> None:
        if line.startswith("==PROF== Profiling"):
            self._say(line.removeprefix("==PROF== ").strip())

    def _assemble(
        self, subject: Subject, job: Job, captured: Captured, options: Options
    ) -> Profile:
        result = captured.result
        assert result.check is not None and result.device is not None
        read = captured.profile
        read_notices = own_notices(read.notices)
        if subject.version.kind == "python":
            read_notices = library_notices(read_notices, subject.version.id)
        notices = [*read_notices, *metric_notices(read, options.metrics, options.catalog_metrics)]
        if captured.raw.notice is not None:
            notices.append(captured.raw.notice)
        folded = fold_repeats(read, job.repeats, len(job.program.launches))
        built = subject.built
        named = own_sources(folded, built.sources if built else ())
        return msgspec.structs.replace(
            named,
            engine="ncu",
            # The chip as ncu describes it; what it left out, the driver knows.
            device=read.device if read.device.name else result.device,
            captured=read.captured or now(),
            study=self.study.name,
            version=subject.version.id,
            problem=subject.problem.name,
            parameters=result.parameters,
            tools={**result.tools, **read.tools, "workbench": __version__},
            capture=msgspec.structs.replace(
                read.capture,
                command=captured.command.neutral,
                clock_control=options.clock_control,
                cache_control=options.cache_control,
                replay_mode=options.replay_mode,
                sections=options.chosen_sections,
                wall_s=captured.wall_s,
                repeats=job.repeats,
            ),
            source_hash=source_hash(self.project, subject.version),
            build=built.build if built else None,
            verification=verification(job, result.check),
            notices=(*notices, *result.notices),
        )
