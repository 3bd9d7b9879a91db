"""Turn the worker's failures into errors: what happened, where, and what to do next."""

from __future__ import annotations

from workbench.engines import Where
from workbench.engines.host import presence
from workbench.engines.host.buffers import FAR_OFF
from workbench.engines.host.job import Check, Failure, Job, Result
from workbench.engines.host.process import Finished
from workbench.errors import (
    DataError,
    HangError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.units import digits3


def expect_result(job: Job, result: Result | None, finished: Finished, where: Where) -> Result:
    """Return a successful job's result, or raise the error for its failure.

    Raises KernelError, MissingError, UsageError: by the kind of failure.
    """
    if result is not None and result.failure is None:
        return result
    if finished.timed_out:
        raise hang(job, where)
    if result is None or result.failure is None:
        raise vanished(job, finished)
    raise failure_error(job, result.failure, result.check)


def hang(job: Job, where: Where) -> HangError:
    """The error for a worker that did not end in time."""
    return HangError(
        f"{job.executable.version} on {job.problem} did not end within {where.limit}; "
        "it and all its processes were terminated",
        "A kernel that never ends (a barrier that not all threads reach, an endless loop) looks "
        "like this; if it is only slow, allow more with --timeout SECONDS.",
    )


def untried(job: Job, where: Where) -> InconclusiveError:
    """The error for a job that was not started before all time was over."""
    return InconclusiveError(
        f"{job.executable.version} was not tried on {job.problem}: {where.limit} had passed",
        "Allow more with --timeout SECONDS, or name fewer versions.",
    )


def vanished(job: Job, finished: Finished) -> WorkbenchError:
    """The error for a worker that ended without a result for the job."""
    tail = "\n".join(f"  {line}" for line in finished.output.splitlines()[-8:])
    ended = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    return KernelError(
        f"the worker for {job.executable.version} on {job.problem} ended with {ended} and "
        f"without a result{chr(10) + tail if tail else ''}",
        "If the lines above do not say why, run the command by itself: "
        "`workbench profile --dry-run` prints it.",
    )


#: Added if the result is compared with another version's, which is not proven right either.
UNPROVED = (
    "Nothing proves {other}: write a reference(problem, inputs) in study.py, or give {version} a "
    "study of its own if it does a different job."
)
#: The text after the error of a second run of loaded code, and what to do.
AGAIN = "This was a second run of the loaded code, on inputs with seed {seed}; the first was right."
KEPT = (
    "A version is a function of its inputs: set each __device__ variable that it changes in the "
    "kernel or with a [[fill]], and keep no result."
)
#: Kind of failure -> error, what happened, and what to do next. For the braces see `failure_error`.
_WORDS: dict[str, tuple[type[WorkbenchError], str, str]] = {
    "wrong-result": (
        KernelError,
        "{version} gives a wrong result on {problem}: {check}",
        "The same inputs again: `{again}`; add --sanitize to look for races and accesses out "
        "of bounds.",
    ),
    "other-result": (
        KernelError,
        "{version} gives a different result from {other} on {problem}: {check}",
        UNPROVED,
    ),
    "crash": (
        KernelError,
        "{version} crashed on {problem} while {during}: {message} ({code})",
        "Find the line: `{again} --sanitize`.",
    ),
    "launch-failed": (
        KernelError,
        "{version} could not be launched on {problem} while {during}: {message} ({code})",
        "Check grid, block, dynamic_shared and the registers (`workbench show "
        "{study}/{version}`) against the chip's limits.",
    ),
    "not-loadable": (
        KernelError,
        "{version} could not be loaded while {during}: {message} ({code})",
        "Kernels must be named as in [[launch]]; the build must be for this chip (--arch).",
    ),
    "bad-version": (KernelError, "{message}", "Correct {path}."),
    "unsupported": (
        MissingError,
        "{version} needs an unsupported feature: {message} ({code})",
        "It needs another chip or a newer driver.",
    ),
    "bad-data": (DataError, "{message}", "{code}"),
    "bad-study": (UsageError, "{message}", "Correct kernels/{study}/study.py."),
    "unavailable": (
        MissingError,
        "{version} cannot run here: {message}",
        "Install what it names on the machine with the GPU.",
    ),
    "out-of-memory": (
        MissingError,
        "too little memory for {version} on {problem} while {during}: {message} ({code})",
        "Choose a smaller problem, or end other programs on the GPU.",
    ),
    "no-device": (
        MissingError,
        "the worker finds no GPU: {message} ({code})",
        f"Check nvidia-smi and CUDA_VISIBLE_DEVICES. {presence.WITHOUT_GPU}",
    ),
    "no-pycuda": (MissingError, "{message}", f"{presence.INSTALL_PYCUDA}. {presence.WITHOUT_GPU}"),
    "internal": (
        KernelError,
        "{version} on {problem} failed while {during}: {message} ({code})",
        "The cause is not one that workbench knows; --debug shows more.",
    ),
}


def failure_error(job: Job, failure: Failure, check: Check | None = None) -> WorkbenchError:
    """The error for a failure that the worker named."""
    version, problem = job.executable.version, job.problem
    kind: str = failure.kind
    of = job.answering
    if kind == "wrong-result" and check is None:
        kind = "internal"
    elif check is not None and kind == "wrong-result" and of is not None and differs(check):
        kind = "other-result" if of.version != version else kind
    error, message, hint = _WORDS[kind]
    words = {
        "version": version,
        "other": of.version if of is not None else "",
        "problem": problem,
        "study": job.study,
        "path": job.executable.path,
        "message": failure.message,
        "code": failure.code,
        "during": failure.during,
        "check": describe_check(check) if check else "",
        "again": f"workbench verify {job.study}/{version}:{problem} --seed {job.seed}",
    }
    coded = message if failure.code else message.replace(" ({code})", "")
    form = coded if failure.during else coded.replace(" while {during}", "")
    said, advice = form.format_map(words), hint.format_map(words)
    if failure.kind == "wrong-result" and failure.code:
        return error(f"{said}\n{AGAIN.format(seed=failure.code)}", KEPT)
    return error(said, advice)


def differs(check: Check) -> bool:
    """Test whether a result merely differs from its reference.

    A write outside of a buffer is wrong whatever the reference is.
    """
    return not check.ok and not check.strayed


def describe_check(check: Check) -> str:
    """Describe a wrong result, in lines: the error, the worst element, the counts."""
    if check.error is None:
        first = f"{check.not_a_number:,} of {check.compared:,} elements are NaN"
    else:
        first = (
            f"‖out − ref‖ / ‖ref‖ = {digits3(check.error)}, tolerance {digits3(check.tolerance)}"
        )
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
        lines.append(
            f"{check.far_off:,} of {check.compared:,} elements are off by more than {FAR_OFF:g} "
            "times the tolerance"
        )
    if check.strayed:
        lines.append(f"it wrote into an input, or outside a buffer: {', '.join(check.strayed)}")
    return "\n  ".join(lines)
