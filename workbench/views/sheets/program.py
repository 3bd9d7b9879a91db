"""A captured program, and the difference of two, as tables: kernels by what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from workbench.analysis.launches.titles import shortened
from workbench.analysis.program import total
from workbench.capture.records import ProgramCapture, Work
from workbench.model import Dim3, Estimate
from workbench.units import count, quantity, several
from workbench.views.shapes import shaped
from workbench.views.shapes.program import (
    KernelRow,
    NoticeFacts,
    ProgramDocument,
    ProgramTime,
    RunFacts,
)
from workbench.views.sheets import Sheet, when

#: Rows that people are shown unless they ask for all; programs get every row.
ROWS = 20


def program_sheet(capture: ProgramCapture, *, everything: bool = False) -> Sheet:
    """One capture: every kernel with its time.

    Args:
        capture: The record.
        everything: Show people all rows.
    """
    survey, whole = capture.survey, total(capture.survey)
    runs = len(survey.runs)
    profiled = Counter(capture.detail)
    names = names_of(survey.works)
    raw = [
        _work(work, name, runs, whole, profiled[place])
        for place, (work, name) in enumerate(zip(survey.works, names, strict=True))
    ]
    ranged = any(row["range"] for row in raw)
    shown = [
        (
            shortened(row["kernel"]),
            quantity(row["seconds"], "s"),
            quantity(100 * row["share"], "%"),
            count_words(row["launches"]),
            quantity(row["mean_s"], "s"),
            f"{quantity(row['shortest_s'], 's')} – {quantity(row['longest_s'], 's')}",
            _shape(row["grid"]),
            _shape(row["block"]),
            *([_range(row)] if ranged else []),
            count(row["profiled"]) if row["profiled"] else "",
        )
        for row in (raw if everything else raw[:ROWS])
    ]
    notes = [f"note: [{notice.code}] {notice.message}" for notice in capture.notices]
    if len(raw) > len(shown):
        rest = sum(row["share"] for row in raw[len(shown) :])
        left = several(len(raw) - len(shown), "more kernel")
        notes.insert(0, f"{left}: {quantity(100 * rest, '%')} of the time (--all)")
    if capture.detail:
        # The rows are in the order of their time: of those with counters, the heaviest.
        first = next((row["kernel"] for row in raw if row["profiled"]), "")
        notes.append(
            f"closer: `workbench show @{capture.name}::{first.partition('<')[0]}`"
            if first
            else f"closer: `workbench show @{capture.name}::#1`"
        )
    return Sheet(
        header=(
            *("kernel", "time", "share", "launches", "mean", "shortest – longest"),
            *("grid", "block", *(["NVTX range"] if ranged else []), "profiled"),
        ),
        shown=tuple(shown),
        raw=tuple(raw),
        document=_document(capture, whole, raw).plain(),
        title=_title(capture, whole),
        notes=tuple(notes),
        extra=("block", "grid", "shortest – longest", "NVTX range", "profiled"),
    )


def report_sheet(report: ProgramCapture) -> Sheet:
    """A report of many launches, seen as a program: its kernels by their time under ncu."""
    whole = total(report.survey)
    sheet = program_sheet(report, everything=True)
    launches = several(report.survey.launches, "launch", "launches")
    title = f"{report.name}\ncaptured {when(report.captured)}, {launches}, "
    title += f"{quantity(whole.value, 's')} under the profiler\n"
    closer = (
        f"closer: `workbench show {report.name}::KERNEL#1` (its first launch) or `--launch N`; "
        "--all reads every counter of every launch"
    )
    return replace(
        sheet,
        title=title,
        shown=tuple(row[:-1] for row in sheet.shown),  # without what was profiled: all of it
        header=sheet.header[:-1],
        extra=sheet.extra[:-1],
        notes=(*sheet.notes, closer),
    )


def _work(work: Work, name: str, runs: int, whole: Estimate, profiled: int) -> dict[str, Any]:
    seconds, launches = 1e-9 * sum(work.total_ns) / runs, sum(work.launches)
    shape = work.shapes[0] if work.shapes else None
    return {
        "kernel": name,
        "kind": work.kind,
        "symbol": work.symbol,
        "seconds": seconds,
        "share": seconds / whole.value if whole.value else 0.0,
        "launches": launches / runs,
        "mean_s": 1e-9 * sum(work.total_ns) / launches if launches else 0.0,
        "shortest_s": 1e-9 * min(work.quantiles_ns, default=0),
        "longest_s": 1e-9 * max(work.quantiles_ns, default=0),
        "grid": shape.grid if shape else None,
        "block": shape.block if shape else None,
        "graph": work.graph,
        "range": work.ranges[0].path if work.ranges else None,
        "range_count": work.range_count,
        "profiled": profiled,
    }


def _ranges(work: Work, runs: int) -> list[dict[str, Any]]:
    """The NVTX ranges of a kernel, per run, those with most of its time."""
    return [
        {"range": x.path, "launches": x.launches / runs, "seconds": 1e-9 * x.total_ns / runs}
        for x in work.ranges
    ]


def _range(row: dict[str, Any]) -> str:
    """The range with most of a kernel's time, and how many others there are."""
    if not row["range"]:
        return ""
    others = row["range_count"] - 1
    return shortened(row["range"]) + (f" + {others}" if others else "")


def _document(
    capture: ProgramCapture, whole: Estimate, kernels: Sequence[dict[str, Any]]
) -> ProgramDocument:
    return ProgramDocument(
        **side_fields(capture, whole),
        runs=[
            RunFacts(
                wall_s=run.wall_s,
                busy_s=1e-9 * run.busy_ns,
                span_s=1e-9 * run.span_ns,
                processes=run.processes,
            )
            for run in capture.survey.runs
        ],
        kernels=[
            msgspec.convert({**row, "ranges": _ranges(work, len(capture.survey.runs))}, KernelRow)
            for row, work in zip(kernels, capture.survey.works, strict=True)
        ],
        notices=[shaped(notice, NoticeFacts) for notice in capture.notices],
    )


def side_fields(capture: ProgramCapture, whole: Estimate) -> dict[str, Any]:
    """What every document says of a capture."""
    return {
        "capture": capture.name,
        "command": list(capture.command),
        "captured": capture.captured,
        "commit": capture.state.commit or None,
        "clean": capture.state.clean,
        "device": capture.device.name if capture.device else None,
        "survey": capture.survey.way,
        "nvtx": capture.survey.nvtx or None,
        "time": program_time(whole),
        "tools": capture.tools,
    }


def program_time(estimate: Estimate) -> ProgramTime:
    """Seconds with their interval; null where one run gives none."""
    known = estimate.n > 1
    return ProgramTime(
        seconds=estimate.value,
        low=estimate.low if known else None,
        high=estimate.high if known else None,
        runs=estimate.n,
    )


def _title(capture: ProgramCapture, whole: Estimate) -> str:
    survey = capture.survey
    run = survey.runs[0]
    device = f" on {capture.device.name}" if capture.device else ""
    state = ""
    if capture.state.commit:
        changed = "" if capture.state.clean else " with uncommitted changes"
        state = f", commit {capture.state.commit[:12]}{changed}"
    processes = f", {several(run.processes, 'process', 'processes')}" if run.processes > 1 else ""
    gpus = f"{several(survey.gpus, 'GPU')} in " if survey.gpus > 1 else ""
    return (
        f"@{capture.name}: {' '.join(capture.command)}\n"
        f"captured {when(capture.captured)}{device}{state}\n"
        f"{time_words(whole)} on the GPU in {several(survey.launches, 'launch', 'launches')}, "
        f"busy {quantity(1e-9 * run.busy_ns, 's')} of {gpus}{quantity(1e-9 * run.span_ns, 's')}, "
        f"wall {quantity(run.wall_s, 's')}{processes}\n"
    )


def time_words(estimate: Estimate) -> str:
    """``4.20 ms (4.10 ms to 4.30 ms, 5 runs)``."""
    text = quantity(estimate.value, "s")
    if estimate.n < 2:
        return text
    return (
        f"{text} ({quantity(estimate.low, 's')} to {quantity(estimate.high, 's')}, "
        f"{estimate.n} runs)"
    )


def names_of(works: Sequence[Work]) -> list[str]:
    """Names that tell kernels of one name apart by their template arguments."""
    from workbench.analysis.launches.titles import titles
    from workbench.model import Launch

    return titles(
        [
            Launch(
                kernel=work.name,
                index=place,
                signature=work.signature,
                grid=work.shapes[0].grid if work.shapes else (0, 0, 0),
            )
            for place, work in enumerate(works)
        ]
    )


def count_words(value: float) -> str:
    """Launches of one run: whole, or with a digit where runs differ."""
    return count(round(value)) if abs(value - round(value)) < 1e-9 else f"{value:.1f}"


def _shape(size: Dim3 | None) -> str:
    if size is None:
        return ""
    parts = list(size)
    while len(parts) > 1 and parts[-1] == 1:
        parts.pop()
    return "×".join(f"{part:,}" for part in parts)  # an extent is exact: 16,384 and not 16.4 k
