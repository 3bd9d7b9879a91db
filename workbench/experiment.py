"""The experiment: build → verify → (time) → profile → save. Nothing unverified is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from workbench import __version__, sanitizer
from workbench.build import BuildResult
from workbench.engines.assemble import (
    fold_repeats,
    library_notices,
    metric_notices,
    own_notices,
    own_sources,
)
from workbench.engines.client import (
    fresh_seed,
    make_job,
    make_program,
    run_job,
    run_jobs,
    verification,
)
from workbench.engines.failures import expect_result, failure_error, hang
from workbench.engines.job import Check, Job, Program, Result, TimeOptions
from workbench.engines.ncu import Captured, Command, Options, capture, prepare
from workbench.engines.rawreport import Keep
from workbench.engines.where import Where
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.model import Notice, Problem, Profile, Record, Timing, Version
from workbench.project import Project
from workbench.sanitizer import Finding, Tool
from workbench.store import Store
from workbench.study import Study, source_hash

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
        self._announced: set[str] = set()

    def subject(self, version: Version, problem: Problem) -> Subject:
        """Compile a version for a problem.

        Raises:
            UsageError, KernelError, MissingError: see `make_program`.
        """
        if version.kind == "cuda" and version.id not in self._announced:
            self._announced.add(version.id)  # once, on however many problems it is to run
            self._say(f"build {version.id} for {self.where.arch}")
        program, built = make_program(self.project, self.study, version, problem, self.where.arch)
        return Subject(version=version, problem=problem, program=program, built=built)

    # --- verify -----------------------------------------------------------------

    def verify(self, subjects: Sequence[Subject]) -> list[Verdict]:
        """Check one version on several problems, in one worker process.

        Returns:
            A verdict a problem. A wrong result does not keep the other problems from
            being checked; a crash or a hang does, since it takes the context with it.
        """
        first = subjects[0]
        names = [subject.problem.name for subject in subjects]
        what = names[0] if len(names) == 1 else f"{len(names)} problems"
        self._say(f"verify {first.version.id} on {what}")

        def done(count: int) -> None:
            if count < len(names):
                self._step(
                    f"verify {first.version.id} on {names[count]} ({count + 1} of {len(names)})"
                )

        jobs = [self._verify_job(subject) for subject in subjects]
        results, finished = run_jobs(self.project, jobs, self.where, on_done=done)
        verdicts = []
        for index, (subject, job) in enumerate(zip(subjects, jobs, strict=True)):
            result = results[index] if index < len(results) else None
            try:
                passed = expect_result(job, result, finished, self.where)
                verdicts.append(Verdict(subject.problem, passed.check))
            except WorkbenchError as error:
                verdicts.append(Verdict(subject.problem, result.check if result else None, error))
                if not isinstance(error, KernelError) or result is None or result.check is None:
                    break
        return verdicts

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
        first = subjects[0]
        self._say(f"{tool} {first.version.id}")
        jobs = [self._verify_job(subject, sanitize=True) for subject in subjects]
        results, finished = run_jobs(
            self.project, jobs, self.where, wrapper=sanitizer.arguments(program, tool)
        )
        if finished.timed_out:
            raise hang(jobs[min(len(results), len(jobs) - 1)], self.where)
        failed = next((result for result in results if result.failure), None)
        # A crash is what we look for; anything else kept the kernels from running at all.
        if failed is not None and failed.failure and failed.failure.kind not in ("crash",):
            raise failure_error(jobs[results.index(failed)], failed.failure)
        kernels = {launch.kernel for subject in subjects for launch in subject.program.launches}
        return sanitizer.judge(tool, finished.output, finished.code, kernels)

    # --- time ---------------------------------------------------------------------

    def time(self, subject: Subject, options: TimeOptions, *, keep: bool = True) -> Timing:
        """Time one version, the study's baseline beside it, and keep the timing.

        Raises:
            KernelError: wrong result, crash, hang. Nothing is kept then.
        """
        self._say(f"time {subject.version.id} on {subject.problem.name} ({options.cache} caches)")
        baseline, notices = self._baseline(subject)
        job = make_job(
            "time",
            self.study,
            subject.problem,
            subject.program,
            seed=self.seed,
            baseline=baseline,
            time=options,
        )
        done = run_job(self.project, job, self.where)
        timing = self._timing(subject, job, done, notices)
        if keep:
            self.store.save_timing(timing)
        return timing

    def _baseline(self, subject: Subject) -> tuple[Program | None, list[Notice]]:
        baseline = self.study.baseline
        if baseline is None or baseline.id == subject.version.id:
            return None, []
        try:
            program, _ = make_program(
                self.project, self.study, baseline, subject.problem, self.where.arch
            )
        except UsageError as error:
            why = f"The baseline {baseline.id} was not timed: {error.message}."
            return None, [Notice(code="no-baseline", message=why)]
        return program, []

    def _timing(
        self, subject: Subject, job: Job, result: Result, notices: Sequence[Notice]
    ) -> Timing:
        times, device, check = result.times, result.device, result.check
        assert times is not None and device is not None and check is not None
        return Timing(
            study=self.study.name,
            version=subject.version.id,
            problem=subject.problem.name,
            device=device,
            captured=_now(),
            time=times.time,
            parameters=result.parameters,
            source_hash=source_hash(self.project, subject.version),
            cache=job.time.cache,
            method=times.method,
            converged=times.converged,
            first_launch=times.first_launch,
            launches=times.launches,
            flops=result.flops,
            bytes=result.bytes,
            baseline=job.baseline.version if job.baseline and times.ratio else "",
            baseline_time=times.baseline_time,
            ratio=times.ratio,
            verification=verification(job, check),
            state=result.state,
            tools={**result.tools, "workbench": __version__},
            notices=(*notices, *result.notices),
        )

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
            captured=read.captured or _now(),
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


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
