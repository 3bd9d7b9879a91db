"""Why a run of ncu gave no profile. Its exit code alone does not say.

ncu ends with 0 where nothing was profiled, writes a report after a crash, and prints
its reasons as ``==ERROR==`` lines; docs/engines.md has the table of what was seen.
Texts are matched by a few of their words, since ncu's versions word them differently.
"""

from __future__ import annotations

import re

from workbench.engines import Where
from workbench.engines.host.failures import failure_error, hang
from workbench.engines.host.job import Job, Result
from workbench.engines.host.process import Finished
from workbench.errors import (
    CountersDeniedError,
    DataError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)

#: NVIDIA's page on ERR_NVGPUCTRPERM.
_PERMISSION_PAGE = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
_APPLICATION_CODE = re.compile(r"application returned an error code \((-?\d+)\)")


def permission(without: str = "Without it verify and time work.") -> CountersDeniedError:
    """The error for counters that the driver keeps to administrators.

    Args:
        without: What can be had all the same.
    """
    return CountersDeniedError(
        "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM)",
        "Run as root, or allow every user: put `options nvidia "
        "NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/nvidia-profiling.conf "
        "and reboot (in a container: start it with --cap-add=SYS_ADMIN; under WSL: NVIDIA "
        "Control Panel of Windows, Developer, Manage GPU Performance Counters). "
        f"{_PERMISSION_PAGE} has the details. {without}",
    )


def error_lines(output: str) -> list[str]:
    """What ncu printed as errors, without its marks."""
    marked = [line for line in output.splitlines() if line.startswith("==ERROR==")]
    return [line.removeprefix("==ERROR==").strip() for line in marked]


def _quote(finished: Finished) -> str:
    lines = error_lines(finished.output) or finished.output.splitlines()[-6:]
    return "".join(f"\n  {line}" for line in lines)


#: Words of ncu's error lines by which it refuses an option -> what to do next.
_REFUSED = {
    "unrecognised option": "See `ncu --help` for the options of this version of ncu.",
    "unrecognized option": "See `ncu --help` for the options of this version of ncu.",
    "did not match any section": "`ncu --list-sections` names them.",
    "did not match any set": "`ncu --list-sets` names them.",
    "Could not find set": "`ncu --list-sets` names them.",
    "Failed to find metric": "`ncu --query-metrics` names them.",
    "is not valid for": "See `ncu --help` for the values of that option.",
    "is invalid": "See `ncu --help` for the values of that option.",
}
_NO_ROOM = (
    "ncu could not write its report",
    "Free some space (a report takes about a megabyte per kernel) below the project's build "
    "folder, and check its permissions.",
)
_DRIVER = ("ncu and the driver are not compatible", "Install a newer driver, or an older ncu.")
_CHIP = (
    "ncu does not support this GPU",
    "Recent versions of ncu support chips from compute capability 7.0 (Volta) or 7.5 "
    "(Turing) on; use an ncu that knows the chip.",
)
#: Words of ncu's output -> what is missing, and what to do next; the first match wins.
_LACKS = {
    "Failed to save the report": _NO_ROOM,
    "Unable to write to file": _NO_ROOM,
    "driver resource was unavailable": (
        "another program is using the GPU's counters",
        "End the other profiler; on a server this is often DCGM: `dcgmi profile --pause`, and "
        "`--resume` afterwards.",
    ),
    "is not compatible with Nsight Compute": _DRIVER,
    "Cuda driver is not compatible": _DRIVER,
    "Profiling is not supported on": _CHIP,
    "not supported on this device": _CHIP,
    "does not exist or is not an executable": (
        "ncu cannot start the worker",
        "With --launcher, the same Python must be at the same path where it leads to.",
    ),
}


def _usage(finished: Finished) -> UsageError | None:
    text = finished.output
    for words, hint in _REFUSED.items():
        if any(words in line for line in error_lines(text)):
            return UsageError(f"ncu refused its options:{_quote(finished)}", hint)
    if "Unsupported API during capture" in text or "RecordStatusUnsupportedApi" in text:
        return UsageError(
            f"this version cannot be profiled as a range:{_quote(finished)}",
            "Range replay records the driver calls of the range and knows only some of "
            "them. Leave out --replay-mode, or take --replay-mode application.",
        )
    return None


def _missing(finished: Finished) -> MissingError | None:
    if "ERR_NVGPUCTRPERM" in finished.output:
        return permission()
    for words, (what, hint) in _LACKS.items():
        if words in finished.output:
            return MissingError(f"{what}:{_quote(finished)}", hint)
    return None


def find_fault(
    job: Job, where: Where, finished: Finished, result: Result | None, report: bool
) -> WorkbenchError | None:
    """The error that a finished ncu run stands for; None: it gave a good report.

    Args:
        job: What the worker had to do.
        where: Where it ran, for the time limit.
        finished: How ncu ended and what it printed.
        result: What the worker said; None where it did not come to that.
        report: Whether ncu wrote a report file.
    """
    version = job.executable.version
    text = finished.output
    if finished.timed_out:
        return hang(job, where)
    for fault in (_missing(finished), _usage(finished)):
        if fault is not None:
            return fault
    if result is not None and result.failure is not None:
        return failure_error(job, result.failure, result.check)
    if "LaunchFailed" in text or "Failed to profile" in text:
        return KernelError(
            f"{version} crashed on {job.problem} while it was profiled:{_quote(finished)}",
            "It read or wrote out of bounds, most likely: `workbench verify "
            f"{job.study}/{version} --problem {job.problem} --sanitize` names the line. "
            "The report that ncu wrote is incomplete and was removed.",
        )
    if "No kernels were profiled" in text:
        return KernelError(
            f"{version} launched no kernel on {job.problem} that ncu could profile",
            "A Python version must launch its work on the current stream, in the same "
            "process, when the prepared callable is called.",
        )
    code = _APPLICATION_CODE.search(text)
    if code is not None or ("Connected to process" in text and (finished.code or not result)):
        ended = code.group(1) if code else finished.code
        tail = "".join(
            f"\n  {line}" for line in text.splitlines()[-8:] if not line.startswith("==PROF==")
        )
        return KernelError(
            f"the worker for {version} on {job.problem} ended with exit code {ended} under "
            f"ncu{tail}",
            f"Try it without ncu: `workbench verify {job.study}/{version} --problem "
            f"{job.problem}`.",
        )
    if finished.code != 0 or result is None:
        ended = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
        return MissingError(
            f"ncu ended with {ended} before it profiled anything:{_quote(finished)}",
            "`ncu --version` should print a version here; `workbench doctor` shows what is "
            "missing. Without ncu verify and time work.",
        )
    if not report:
        return DataError(
            f"ncu succeeded but left no report of {version}",
            "Run it again; `workbench profile --dry-run` prints the command.",
        )
    return None
