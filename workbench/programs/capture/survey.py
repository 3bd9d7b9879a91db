"""Every launch of a program with its duration, at the cost of tracing.

The tracer is a library that the driver loads. If it cannot be built, ncu measures one metric of
every launch instead; this takes some milliseconds per launch and is announced beforehand.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from workbench.disk.writing import private_folder
from workbench.engines import Say
from workbench.engines.host.presence import need_ncu
from workbench.engines.host.process import Ended, Input, run_foreground
from workbench.engines.ncu.faults import permission
from workbench.errors import (
    DataError,
    KernelError,
    MissingError,
    ProgramError,
    UsageError,
    WorkbenchError,
)
from workbench.model import Dim3, Record
from workbench.programs.capture.records import Survey, TracedLaunch
from workbench.programs.capture.trace import (
    Trace,
    WantedRange,
    read_traces,
    survey_of,
    unknown_range,
)
from workbench.programs.capture.tracer import INJECTION, NVTX_INJECTION, OUTPUT, tracer

Chosen = Literal["auto", "trace", "ncu"]
_METRIC = "gpu__time_duration.sum"
#: The cost of measuring one metric, in milliseconds per launch (docs/measurements.md).
_NCU_MS = 5.4
_SHAPE = re.compile(r"\((\d+), *(\d+), *(\d+)\)")


class Invocation(Record, frozen=True):
    """A command as typed, with its folder, its repetitions and its time limit."""

    command: tuple[str, ...]
    folder: Path
    repeat: int = 1
    timeout_s: float | None = None


def run_program(
    argv: Sequence[str],
    invocation: Invocation,
    given: Input,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run the program once, with additions to its environment.

    Raises:
        MissingError: it cannot be started.
        KernelError: it did not end in time.
        KeyboardInterrupt: Ctrl-C.
    """
    ended = run_foreground(
        argv,
        given,
        cwd=invocation.folder,
        env={**os.environ, **(env or {})},
        timeout_s=invocation.timeout_s,
    )
    if ended.timed_out:
        raise KernelError(
            f"the program did not end within {invocation.timeout_s:g} s, and was stopped",
            "Give it more time with --timeout, or less work. Nothing was kept.",
        )
    return ended


def failed(ended: Ended) -> ProgramError:
    """The error for a program whose exit code was not 0."""
    if ended.code < 0:
        with contextlib.suppress(ValueError):
            how = f"was terminated by {signal.Signals(-ended.code).name}"
            return ProgramError(
                f"the program {how}", "Nothing was kept; it must run to its end.", ended.exit_code
            )
    return ProgramError(
        f"the program ended with exit code {ended.exit_code}",
        "Nothing was kept, and the exit code is passed on: only a program that succeeds can be "
        "captured.",
        ended.exit_code,
    )


def take_survey(
    invocation: Invocation,
    given: Input,
    chosen: Chosen,
    say: Say,
    within: WantedRange | None = None,
) -> tuple[Survey, Trace]:
    """Run a program, and return the survey of all runs, and every launch of the last one.

    Raises:
        ProgramError: it failed by itself.
        KernelError: it did not end in time.
        UsageError: it launched nothing, or nothing inside the range.
        MissingError: neither the tracer nor ncu works here, or no space.
        KeyboardInterrupt: Ctrl-C.
    """
    library: Path | None = None
    if chosen != "ncu":
        try:
            library = tracer()
        except MissingError as error:
            if chosen == "trace":
                raise
            say(f"cannot trace: {error.message}; {error.hint}")
    if library is None:
        need_ncu()
        say(
            f"survey by ncu, which takes about {_NCU_MS:g} ms per launch (1,000 launches: "
            f"{_NCU_MS:.0f} s) and whose durations are of launches that run alone"
        )
    traces: list[Trace] = []
    walls: list[float] = []
    for run in range(invocation.repeat):
        of = f" {run + 1} of {invocation.repeat}" if invocation.repeat > 1 else ""
        say(f"survey{of}: {'tracing' if library else 'measuring'} every launch")
        with private_folder() as holder:
            folder = Path(holder)
            if library is not None:
                env = dict.fromkeys((INJECTION, NVTX_INJECTION), str(library)) | {OUTPUT: holder}
                ended = run_program(invocation.command, invocation, given, env)
                if ended.code:
                    raise failed(ended)
                trace = read_traces(folder)
            else:
                ended, trace = _measured(invocation, given, folder, within)
        if not any(launch.grid[0] for launch in trace.launches):
            raise _nothing(trace)
        if within is not None and library is not None:
            trace = _inside(trace, within)
        traces.append(trace)
        walls.append(ended.seconds)
    way: Literal["trace", "ncu"] = "trace" if library is not None else "ncu"
    return survey_of(traces, walls, way, within.text if within else ""), traces[-1]


def _inside(trace: Trace, within: WantedRange) -> Trace:
    """The launches inside a range; UsageError: it has no launch."""
    kept = tuple(launch for launch in trace.launches if within.holds(launch.ranges))
    if not any(launch.grid[0] for launch in kept):
        raise unknown_range(within, (launch.ranges for launch in trace.launches))
    return replace(trace, launches=kept)


def _nothing(trace: Trace) -> WorkbenchError:
    if not trace.processes:
        return UsageError(
            "the program never initialized CUDA (it ran, and exited with code 0)",
            "Check that it uses the GPU here: `workbench doctor` shows what there is. If it only "
            "talks to a server that does the work, capture the server.",
        )
    return UsageError(
        "the program initialized CUDA and launched no kernel",
        "Check its arguments: were its tests skipped, or its steps left out? A process that was "
        "killed may also have lost its last half second.",
    )


# --- by ncu ------------------------------------------------------------------------------


def _measured(
    invocation: Invocation, given: Input, folder: Path, within: WantedRange | None
) -> tuple[Ended, Trace]:
    log = folder / "ncu.log"
    argv = [need_ncu(), "--csv", "--page", "raw", "--print-units", "base", "--metrics", _METRIC]
    argv += ["--print-kernel-base", "mangled", "--clock-control", "none", "--cache-control"]
    argv += ["none", "--target-processes", "all", "--log-file", str(log)]
    argv += [*(within.ncu_words if within else ()), *invocation.command]
    ended = run_program(argv, invocation, given)
    text = log.read_text("utf-8", "replace") if log.is_file() else ""
    if "ERR_NVGPUCTRPERM" in text:
        raise permission(
            "Tracing needs no counters: install CUPTI and a C compiler (`--survey trace` says what "
            "is missing)."
        )
    if ended.code:
        raise failed(ended)
    return ended, read_listing(text)


def read_listing(text: str) -> Trace:
    """Read ncu's CSV, one metric per launch, as a trace.

    ncu runs launches one after another, so they are placed end to end. Raises DataError: the text
    is not ncu's CSV.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: list[TracedLaunch] = []
    now = 0
    processes: set[str] = set()
    for row in csv.DictReader(lines):
        try:
            value = row[_METRIC].replace(",", "")
            if not row["ID"]:
                continue  # the line of units
            length = round(float(value))
            processes.add(row["Process ID"])
            launches.append(
                TracedLaunch(
                    symbol=row["Kernel Name"],
                    process=int(row["Process ID"]),
                    device=int(row.get("Device") or 0),
                    stream=int(row.get("Stream") or 0),
                    graph=False,
                    start=now,
                    end=now + length,
                    grid=_shape(row["Grid Size"]),
                    block=_shape(row["Block Size"]),
                )
            )
        except (KeyError, ValueError, AttributeError) as error:
            raise DataError(
                f"ncu's listing cannot be read ({error!r})", "Report it with ncu's version."
            ) from error
        now += length
    return Trace(launches=tuple(launches), processes=len(processes))


def _shape(text: str) -> Dim3:
    found = _SHAPE.search(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]), int(found[2]), int(found[3])
