"""Jobs for the worker, from a study's side, and their run."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from workbench.build import BuildResult, build
from workbench.engines.failures import expect_result
from workbench.engines.job import (
    Check,
    Job,
    Program,
    Result,
    Task,
    TimeOptions,
    encode,
    read_results,
)
from workbench.engines.process import Finished, run_group
from workbench.engines.where import Where
from workbench.engines.workspace import workspace
from workbench.errors import MissingError
from workbench.launches import resolve_launches, resolve_scratch
from workbench.model import Problem, Verification, Version
from workbench.project import Project
from workbench.study import Study

JOB, RESULT = "jobs.json", "results.json"


def fresh_seed() -> int:
    """A seed nobody chose, so that no kernel is right by habit."""
    return secrets.randbits(32)


def make_program(
    project: Project, study: Study, version: Version, problem: Problem, arch: str
) -> tuple[Program, BuildResult | None]:
    """Compile a version and settle its launches for one problem.

    Raises:
        UsageError: the version cannot do this problem.
        KernelError: it does not compile.
        MissingError: no compiler.
    """
    study.check_requirements(version, problem)
    if version.kind == "python":
        return Program(version=version.id, kind="python", path=version.path), None
    built = build(project, version, arch)
    program = Program(
        version=version.id,
        kind="cuda",
        path=version.path,
        cubin=str(built.cubin),
        launches=resolve_launches(study, version, problem),
        scratch=resolve_scratch(study, version, problem),
    )
    return program, built


def make_job(
    task: Task,
    study: Study,
    problem: Problem,
    program: Program,
    *,
    seed: int,
    baseline: Program | None = None,
    sanitize: bool = False,
    repeats: int = 1,
    time: TimeOptions | None = None,
) -> Job:
    """The job record for one version on one problem."""
    return Job(
        task=task,
        study=study.name,
        problem=problem.name,
        seed=seed,
        program=program,
        baseline=baseline,
        sanitize=sanitize,
        repeats=repeats,
        time=time or TimeOptions(),
    )


def python() -> str:
    """Our own interpreter: by its bare name where PATH leads to it, else by its path.

    ncu writes the command line into its report, which should name no folder of a user.
    """
    name = Path(sys.executable).name
    return name if shutil.which(name) == sys.executable else sys.executable


def worker_argv(folder: Path) -> tuple[str, ...]:
    """The worker's command line, for a job that lies in `folder` (relative to the root)."""
    return (
        python(),
        "-m",
        "workbench.engines.worker",
        (folder / JOB).as_posix(),
        "--result",
        (folder / RESULT).as_posix(),
    )


def stage(root: Path, folder: Path, jobs: Sequence[Job]) -> None:
    """Put jobs and cubins where `worker_argv` says.

    The cubins are copied from the compiler's cache, so that the run folder has all that
    the printed command needs and the jobs name no path outside of the project.

    Raises:
        MissingError: no space.
    """
    try:
        staged = [
            msgspec.structs.replace(
                job,
                program=_staged(root, folder, job.program),
                baseline=_staged(root, folder, job.baseline) if job.baseline else None,
            )
            for job in jobs
        ]
        (root / folder / JOB).write_bytes(encode(staged))
    except OSError as error:
        raise MissingError(
            f"{root / folder}: cannot be written to: {error.strerror}",
            "Free some space in the project's build folder.",
        ) from error


def _staged(root: Path, folder: Path, program: Program) -> Program:
    if not program.cubin:
        return program
    cubin = folder / f"{program.version}.cubin"
    if not (root / cubin).exists():
        shutil.copyfile(program.cubin, root / cubin)
    return msgspec.structs.replace(program, cubin=cubin.as_posix())


def run_name(job: Job) -> str:
    """Name of the run folder."""
    return f"{job.study}-{job.program.version}-{job.problem}"


def run_jobs(
    project: Project,
    jobs: Sequence[Job],
    where: Where,
    *,
    wrapper: Sequence[str] = (),
    on_done: Callable[[int], None] | None = None,
) -> tuple[list[Result], Finished]:
    """Run jobs in one worker, with `wrapper` (compute-sanitizer) between launcher and it.

    Args:
        project: Its root is the worker's working folder.
        jobs: At least one.
        where: Launcher and time limit.
        wrapper: What stands before the worker's own command line.
        on_done: Called with the number of jobs that are done, as it grows.

    Returns:
        The worker's results, as many as it came to, and how it ended.

    Raises:
        MissingError: it cannot be started, or there is no room to write to.
    """
    with workspace(project.root, run_name(jobs[0])) as folder:
        stage(project.root, folder, jobs)
        target = project.root / folder / RESULT
        with _watching(target, on_done):
            finished = run_group(
                [*where.launcher, *wrapper, *worker_argv(folder)],
                cwd=project.root,
                timeout_s=where.timeout_s,
            )
        return read_results(target), finished


@contextlib.contextmanager
def _watching(target: Path, on_done: Callable[[int], None] | None) -> Iterator[None]:
    """Tell how many results there are, five times a second."""
    if on_done is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        before = -1
        while not over.is_set():
            count = len(read_results(target))
            if count != before:
                on_done(count)
                before = count
            over.wait(0.2)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def run_job(project: Project, job: Job, where: Where) -> Result:
    """Run one job that must go well.

    Raises:
        KernelError, MissingError, UsageError: see `expect_result`.
    """
    results, finished = run_jobs(project, [job], where)
    return expect_result(job, results[0] if results else None, finished, where)


def verification(job: Job, check: Check) -> Verification:
    """The record of a passed check, as it is kept with profiles and times."""
    return Verification(
        problem=job.problem,
        error=check.error or 0.0,
        worst=check.largest or 0.0,
        tolerance=check.tolerance,
        seed=job.seed,
        sampled=check.sampled,
    )
