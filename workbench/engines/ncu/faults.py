"""Explain why a run of ncu gave no profile, which its exit code alone does not tell.

ncu ends with 0 if nothing was profiled, writes a report after a crash, and prints its reasons as
``==ERROR==`` lines. ``data/ncu_faults.toml`` explains these for `profile`, `capture` and `doctor
--log`; a few words identify a text, since ncu's versions word them differently.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

import tomli
from msgspec import convert, field

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
from workbench.model import Record

#: NVIDIA's page about ERR_NVGPUCTRPERM.
_PERMISSION_PAGE = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
_APPLICATION_CODE = re.compile(r"application returned an error code \((-?\d+)\)")


def permission(without: str = "Without it verify and time work.") -> CountersDeniedError:
    """Make the error for counters that the driver reserves for administrators.

    `without` says what works nevertheless.
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
    """Return the lines that ncu printed as errors, without their marks."""
    marked = [line for line in output.splitlines() if line.startswith("==ERROR==")]
    return [line.removeprefix("==ERROR==").strip() for line in marked]


class NcuFault(Record, frozen=True):
    """An error from ncu, its meaning and its remedy: a row of ``data/ncu_faults.toml``."""

    words: tuple[str, ...]
    what: str
    hint: str
    kind: Literal["denied", "missing", "usage", "kernel", "after", "note"] = field(name="is")


class _Release(Record, frozen=True):
    ncu: str
    cuda: str
    driver: int


class _FaultTable(Record, frozen=True):
    fault: tuple[NcuFault, ...]
    release: tuple[_Release, ...]
    chips: dict[str, str]


@cache
def _table() -> _FaultTable:
    path = Path(__file__).resolve().parents[2] / "data" / "ncu_faults.toml"
    return convert(tomli.loads(path.read_text(encoding="utf-8")), _FaultTable)


class Explained(Record, frozen=True):
    """A line of ncu's output and its meaning; `fault` None: an unknown error."""

    line: str
    fault: NcuFault | None


def explain(output: str) -> list[Explained]:
    """Explain the errors and warnings of a log; those that follow from others come last.

    `output` is what ncu printed, with or without the program's output.
    """
    table = _table()
    found: dict[NcuFault | str, Explained] = {}
    for raw in _TRACEBACK.sub("Traceback: ", output).splitlines():
        line = raw.strip()[:_LONGEST]
        marked = line.startswith(("==ERROR==", "==WARNING==", "==PROF==", "Traceback: "))
        low = line.lower()
        fault = next((x for x in table.fault if any(word in low for word in _lower(x))), None)
        # A program may write anything: without ncu's mark only texts of ncu's own failures count.
        if fault is not None and (marked or fault.kind in ("denied", "missing", "note")):
            found.setdefault(fault, Explained(line=line, fault=fault))
        elif fault is None and line.startswith("==ERROR==") and line != "==ERROR==":
            found.setdefault(line, Explained(line=line, fault=None))
    order = {fault: place for place, fault in enumerate(table.fault)}
    return sorted(found.values(), key=lambda x: order[x.fault] if x.fault else -1)


#: Python's text for an error, whose last line names it; but not if it is from ncu's parent process.
_TRACEBACK = re.compile(
    r"^Traceback \(.*\):\n(?:[ \t].*\n)*+(?!\S*CalledProcessError)", re.MULTILINE
)
#: The most characters of a line that are searched.
_LONGEST = 400


def remedy(fault: NcuFault) -> str:
    """Return the remedy for a fault."""
    return permission().hint if fault.kind == "denied" else fault.hint


@cache
def _lower(fault: NcuFault) -> tuple[str, ...]:
    return tuple(word.lower() for word in fault.words)


_ERRORS: dict[str, type[MissingError | UsageError | KernelError]] = {
    "missing": MissingError,
    "usage": UsageError,
    "kernel": KernelError,
}


def known_fault(output: str) -> WorkbenchError | None:
    """The error that ncu's output reports; None if it has no known error."""
    for found in explain(output):
        if found.fault is None or found.fault.kind in ("after", "note"):
            continue
        if found.fault.kind == "denied":
            return permission()
        lines = error_lines(output)[:6] or [found.line]
        quoted = "".join(f"\n  {line}" for line in lines)
        return _ERRORS[found.fault.kind](f"{found.fault.what}:{quoted}", found.fault.hint)
    return None


def fitting(ncu: str, capability: str, driver: str) -> list[str]:
    """State what is known about an ncu version's support for a chip and a driver.

    `ncu` is like ``2025.3.1.0``, `capability` ``9.0``, `driver` ``580.159.04``.
    """
    own = _dotted(ncu)[:2]
    table = _table()
    out = []
    newest = [x for x in table.release if x.driver <= _dotted(driver)[0]]
    first = next((x for x in table.release if x.cuda == table.chips.get(capability)), None)
    if first is not None and own < _dotted(first.ncu):
        out.append(
            f"ncu {ncu} is older than the chip (compute capability {capability}): the first that "
            f"supports it is {first.ncu}, from CUDA {first.cuda}"
        )
    mine = [x for x in table.release if _dotted(x.ncu) == own]
    if mine and mine[0].driver > _dotted(driver)[0]:
        out.append(
            f"ncu {ncu} is from CUDA {mine[0].cuda}, which needs driver {mine[0].driver} or newer; "
            f"the driver here is {driver}"
        )
    if newest and out:
        best = newest[-1]
        out.append(f"as old as the driver: ncu {best.ncu} (CUDA {best.cuda})")
    return out or [f"ncu {ncu}, compute capability {capability} and driver {driver} fit"]


def _dotted(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)) or (0,)


def find_fault(
    job: Job, where: Where, finished: Finished, result: Result | None, report: bool
) -> WorkbenchError | None:
    """The error of a finished ncu run; None if its report is good.

    `finished` is ncu's end and output, `result` the worker's result; None if there is none.
    `report`: whether ncu wrote a report file.
    """
    version = job.executable.version
    text = finished.output
    quoted = "".join(f"\n  {line}" for line in error_lines(text) or text.splitlines()[-6:])
    if finished.timed_out:
        return hang(job, where)
    fault = known_fault(text)
    if isinstance(fault, MissingError | UsageError):
        return fault
    if result is not None and result.failure is not None:
        return failure_error(job, result.failure, result.check)
    if "LaunchFailed" in text or "Failed to profile" in text:
        return KernelError(
            f"{version} crashed on {job.problem} while it was profiled:{quoted}",
            "It most likely read or wrote out of bounds: `workbench verify "
            f"{job.study}/{version}:{job.problem} --sanitize` names the line. "
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
            f"Try it without ncu: `workbench verify {job.study}/{version}:{job.problem}`.",
        )
    if finished.code != 0 or result is None:
        ended = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
        return MissingError(
            f"ncu ended with {ended} before it profiled anything:{quoted}",
            "`ncu --version` should print a version here; `workbench doctor` shows what is "
            "missing. Without ncu, verify and time work.",
        )
    if not report:
        return DataError(
            f"ncu succeeded but left no report of {version}",
            "Run it again; `workbench profile --dry-run` prints the command.",
        )
    return None
