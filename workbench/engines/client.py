"""Jobs for the worker, from a study's side; and the worker's failures as errors."""

from __future__ import annotations

import secrets
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from workbench.build import BuildResult, build
from workbench.engines import presence
from workbench.engines.job import (
    Check,
    Failure,
    Job,
    Program,
    Result,
    Task,
    TimeOptions,
    encode,
    read_results,
)
from workbench.engines.process import Finished, run_group
from workbench.engines.workspace import workspace
from workbench.errors import KernelError, MissingError, UsageError, WorkbenchError
from workbench.launches import resolve_launches, resolve_scratch
from workbench.model import Problem, Record, Verification, Version
from workbench.project import Project
from workbench.study import Study
from workbench.units import count

JOB, RESULT = "jobs.json", "results.json"
Progress = Callable[[str], None]


class Where(Record, frozen=True):
    """Where and for how long the worker may run.

    `launcher` stands before every command (``srun --gres=gpu:1``); `arch` is what
    versions are compiled for.
    """

    arch: str
    launcher: tuple[str, ...] = ()
    timeout_s: float = 300.0


def choose_where(
    launcher: str = "", arch: str = "", timeout_s: float = 300.0, *, known: bool = False
) -> Where:
    """Settle where to run before anything is compiled.

    Args:
        launcher: Command to put before every other, split as a shell would.
        arch: What to compile for; empty: what the GPU here needs.
        timeout_s: Time limit of one worker, in seconds.
        known: Nothing will be run here (``--dry-run``): `arch` is enough.

    Raises:
        MissingError: no GPU, no PyCUDA.
        UsageError: a launcher that is no command, or one without `arch` where no GPU
            is here to read it from.
    """
    try:
        words = tuple(shlex.split(launcher))
    except ValueError as error:
        raise UsageError(
            f"--launcher {launcher!r} cannot be split into words: {error}", "Check its quotes."
        ) from error
    if known and arch:
        return Where(arch=arch, launcher=words, timeout_s=timeout_s)
    if not words:
        gpu = presence.need_gpu()
        presence.need_pycuda()
        return Where(arch=arch or presence.arch_of(gpu), timeout_s=timeout_s)
    if not arch:
        found, _ = presence.find_gpus()
        if not found:
            raise UsageError(
                "--launcher reaches a GPU that cannot be asked from here",
                "Say what to compile for, for example --arch sm_90 for H100 and H200.",
            )
        arch = presence.arch_of(found[0])
    return Where(arch=arch, launcher=words, timeout_s=timeout_s)


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
    on_line: Progress | None = None,
) -> tuple[list[Result], Finished]:
    """Run jobs in one worker, with `wrapper` (compute-sanitizer) between launcher and it.

    Returns:
        The worker's results, as many as it came to, and how it ended.

    Raises:
        MissingError: it cannot be started, or there is no room to write to.
    """
    with workspace(project.root, run_name(jobs[0])) as folder:
        stage(project.root, folder, jobs)
        finished = run_group(
            [*where.launcher, *wrapper, *worker_argv(folder)],
            cwd=project.root,
            timeout_s=where.timeout_s,
            on_line=on_line,
        )
        return read_results(project.root / folder / RESULT), finished


def run_job(project: Project, job: Job, where: Where) -> Result:
    """Run one job that must go well.

    Raises:
        KernelError, MissingError, UsageError: see `expect_result`.
    """
    results, finished = run_jobs(project, [job], where)
    return expect_result(job, results[0] if results else None, finished, where)


def expect_result(job: Job, result: Result | None, finished: Finished, where: Where) -> Result:
    """The result of a job that went well, or the error that says why it did not.

    Raises:
        KernelError, MissingError, UsageError: by the kind of failure.
    """
    if result is not None and result.failure is None:
        return result
    if finished.timed_out:
        raise hang(job, where)
    if result is None or result.failure is None:
        raise _vanished(job, finished)
    raise failure_error(job, result.failure, result.check)


def hang(job: Job, where: Where) -> KernelError:
    """The error for a worker that did not end in time."""
    return KernelError(
        f"{job.program.version} on {job.problem} did not end within {where.timeout_s:g} s; "
        "it and all its processes were ended",
        "A kernel that never ends (a barrier that not all threads reach, a loop without an "
        "exit) shows like this; if it is only slow, give it more with --timeout SECONDS.",
    )


def _vanished(job: Job, finished: Finished) -> WorkbenchError:
    tail = "\n".join(f"  {line}" for line in finished.output.splitlines()[-8:])
    ended = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    return KernelError(
        f"the worker for {job.program.version} on {job.problem} ended with {ended} and "
        f"without a result{chr(10) + tail if tail else ''}",
        "If the lines above do not say why, run the command by itself: "
        "`workbench profile --dry-run` prints it.",
    )


def failure_error(job: Job, failure: Failure, check: Check | None = None) -> WorkbenchError:
    """The error for a failure that the worker named."""
    version, problem = job.program.version, job.problem
    again = f"workbench verify {job.study}/{version} --problem {problem} --seed {job.seed}"
    said = f" ({failure.code})" if failure.code else ""
    step = f" while {failure.step}" if failure.step else ""
    match failure.kind:
        case "wrong-result" if check is not None:
            return KernelError(
                f"{version} gives a wrong result on {problem}: " + describe_check(check),
                f"The same inputs again: `{again}`; add --sanitize to look for races and "
                "accesses out of bounds.",
            )
        case "crash":
            return KernelError(
                f"{version} crashed on {problem}{step}: {failure.message}{said}",
                f"Find the line: `{again} --sanitize`.",
            )
        case "launch-failed":
            return KernelError(
                f"{version} could not be launched on {problem}{step}: {failure.message}{said}",
                "Check grid, block, dynamic_shared and the registers (`workbench show "
                f"{job.study}/{version}`) against the chip's limits.",
            )
        case "not-loadable":
            return KernelError(
                f"{version} could not be loaded{step}: {failure.message}{said}",
                'Kernels must be declared extern "C" and named as in [[launch]]; the build '
                "must be for this chip (--arch).",
            )
        case "bad-version":
            return KernelError(failure.message, f"Correct {job.program.path}.")
        case "unsupported":
            return MissingError(
                f"{version} needs what is not supported here: {failure.message}{said}",
                "It needs another chip or a newer driver.",
            )
        case "bad-study":
            return UsageError(failure.message, f"Correct kernels/{job.study}/study.py.")
        case "unavailable":
            return MissingError(
                f"{version} cannot run here: {failure.message}",
                "Install what it names on the machine with the GPU.",
            )
        case "out-of-memory":
            return MissingError(
                f"too little memory for {version} on {problem}{step}: {failure.message}{said}",
                "Choose a smaller problem with --problem, or end other programs on the GPU.",
            )
        case "no-device":
            return MissingError(
                f"the worker finds no GPU: {failure.message}{said}",
                f"Check nvidia-smi and CUDA_VISIBLE_DEVICES. {presence.WITHOUT_GPU}",
            )
        case "no-pycuda":
            return MissingError(
                failure.message, f'pip install "workbench[gpu]". {presence.WITHOUT_GPU}'
            )
        case _:
            return KernelError(
                f"{version} on {problem} failed{step}: {failure.message}{said}",
                "This failure has no explanation of its own; --debug shows more.",
            )


def describe_check(check: Check) -> str:
    """What is wrong with a result, in lines: the error, the worst element, the counts."""
    if check.error is None:
        first = f"{check.not_a_number:,} of {check.compared:,} elements are not a number"
    else:
        first = f"‖out − ref‖ / ‖ref‖ = {count(check.error)}, tolerance {count(check.tolerance)}"
    lines = [first]
    if check.worst is not None:
        place = ", ".join(str(i) for i in check.worst.index)
        lines.append(
            f"worst element: {check.worst.output}[{place}] = {check.worst.got}, "
            f"expected {check.worst.want}"
        )
    if check.unwritten:
        lines.append(f"{check.unwritten:,} elements were never written")
    if check.far_off:
        lines.append(f"{check.far_off:,} of {check.compared:,} elements are far off")
    if check.strayed:
        lines.append(f"it wrote outside of the buffer {', '.join(check.strayed)}")
    return "\n  ".join(lines)


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
