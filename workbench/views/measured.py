"""What verify, time, profile and doctor print: one table of facts in four forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.engines.survey import Finding as Row
from workbench.model import Notice, Record, Timing
from workbench.sanitizer import Finding, describe
from workbench.units import count, factor, quantity


class Sheet(Record, frozen=True):
    """A table twice: `shown` for people, `raw` for programs, and the whole for JSON.

    `notes` stand under the table; JSON has them in `document` already.
    """

    header: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    raw: tuple[tuple[Any, ...], ...]
    document: dict[str, Any]
    title: str = ""
    notes: tuple[str, ...] = ()


def render(sheet: Sheet, format_: str) -> str:
    """The sheet as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        from workbench.views.jsonout import dumps

        return dumps(sheet.document)
    from workbench.views.flat import to_csv, to_markdown

    if format_ == "csv":
        return to_csv(sheet.columns, sheet.raw)
    notes = "".join(f"\n{note}\n" for note in sheet.notes)
    title = f"{sheet.title}\n\n" if sheet.title else ""
    return f"{title}{to_markdown(sheet.header, sheet.shown)}{notes}"


def print_sheet(sheet: Sheet, format_: str) -> None:
    """Print on standard output."""
    import click

    if format_ != "table":
        click.echo(render(sheet, format_), nl=False)
        return
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from workbench.views.terminal import print_view

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    numeric = {"time", "median", "95% interval", "FLOP/s", "error", "tolerance", "samples"}
    for name in sheet.header:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in sheet.shown:
        table.add_row(*(Text(cell) for cell in row))
    parts: list[Any] = [Text(sheet.title)] if sheet.title else []
    parts.append(table)
    parts += [Text(note) for note in sheet.notes]
    print_view(Group(*parts))


# --- verify --------------------------------------------------------------------------


class VerifyRow(Record, frozen=True):
    """One version on one problem. `error` is None where it could not be computed."""

    version: str
    problem: str
    ok: bool
    error: float | None
    tolerance: float
    worst: str = ""
    unwritten: int = 0
    sampled: int = 0
    message: str = ""


def verify_sheet(
    study: str,
    seed: int,
    rows: Sequence[VerifyRow],
    findings: Sequence[tuple[str, Finding]],
    sanitized: Sequence[str],
    texts: dict[str, str],
) -> Sheet:
    """The table of ``workbench verify``.

    Args:
        study: Its name.
        seed: Seed of the inputs.
        rows: One a version and problem.
        findings: (version, finding) of compute-sanitizer.
        sanitized: The tools that ran; empty without ``--sanitize``.
        texts: Path -> text of the versions' sources, for the findings' lines.
    """
    notes = [row.message for row in rows if row.message]
    for version, finding in findings:
        notes.append(f"{version}: " + "\n".join(describe(finding, texts)))
    if sanitized and not findings:
        notes.append(f"compute-sanitizer ({', '.join(sanitized)}): no findings.")
    return Sheet(
        title=f"study {study}, seed {seed}",
        header=("version", "problem", "result", "error", "tolerance", "worst element"),
        shown=tuple(
            (
                row.version,
                row.problem,
                "ok" if row.ok else "WRONG",
                count(row.error) if row.error is not None else "—",
                count(row.tolerance),
                row.worst + (f" ({row.sampled} sampled)" if row.sampled else ""),
            )
            for row in rows
        ),
        columns=(
            "study",
            "version",
            "problem",
            "seed",
            "ok",
            "error",
            "tolerance",
            "unwritten",
            "sampled",
        ),
        raw=tuple(
            (
                study,
                row.version,
                row.problem,
                seed,
                row.ok,
                row.error,
                row.tolerance,
                row.unwritten,
                row.sampled,
            )
            for row in rows
        ),
        document={
            "study": study,
            "seed": seed,
            "results": [
                {
                    "version": row.version,
                    "problem": row.problem,
                    "ok": row.ok,
                    "error": row.error,
                    "tolerance": row.tolerance,
                    "worst": row.worst,
                    "unwritten": row.unwritten,
                    "sampled": row.sampled,
                    "message": row.message,
                }
                for row in rows
            ],
            "sanitized": list(sanitized),
            "findings": [
                {
                    "version": version,
                    "tool": finding.tool,
                    "message": finding.message,
                    "count": finding.count,
                    "thread": finding.thread,
                    "block": finding.block,
                    "places": [
                        {
                            "kernel": place.kernel,
                            "file": place.file,
                            "line": place.line,
                            "access": place.access,
                        }
                        for place in finding.places
                    ],
                    "details": list(finding.details),
                }
                for version, finding in findings
            ],
        },
        notes=tuple(notes),
    )


# --- time ----------------------------------------------------------------------------


def _interval(low: float, high: float) -> str:
    return f"{quantity(low, 's')} – {quantity(high, 's')}"


def notices_text(notices: Sequence[Notice], label: str = "") -> list[str]:
    """Notices as lines under a table."""
    prefix = f"{label}: " if label else ""
    return [f"note: {prefix}{notice.message}" for notice in notices]


def time_sheet(timings: Sequence[Timing]) -> Sheet:
    """The table of ``workbench time``."""
    shown = []
    notes: list[str] = []
    for timing in timings:
        rate = timing.flops / timing.time.value if timing.flops else None
        against = ""
        if timing.ratio is not None:
            against = (
                f"{factor(timing.ratio.value)} ({factor(timing.ratio.low)} – "
                f"{factor(timing.ratio.high)}) of {timing.baseline}"
            )
        shown.append(
            (
                timing.version,
                timing.problem,
                quantity(timing.time.value, "s"),
                _interval(timing.time.low, timing.time.high),
                quantity(rate, "flop/s") if rate else "—",
                against or "—",
                quantity(timing.first_launch, "s"),
                f"{timing.cache}, {timing.method}",
                count(timing.time.n),
            )
        )
        where = f"{timing.version} {timing.problem}"
        if timing.launches:
            parts = ", ".join(f"{k} {quantity(s, 's')}" for k, s in timing.launches.items())
            notes.append(f"{where}: {parts}")
        notes += notices_text(timing.notices, where)
    first = timings[0]
    clocks = ""
    if first.state is not None:
        low, high = first.state.sm_clock
        clocks = f", SM clock {quantity(low, 'hz')} – {quantity(high, 'hz')}, " + (
            f"{quantity(first.state.power[1], 'w')}, {first.state.temperature[1]:.0f} °C"
        )
    return Sheet(
        title=f"study {first.study} on {first.device.name}, {first.captured}{clocks}",
        header=(
            "version",
            "problem",
            "median",
            "95% interval",
            "FLOP/s",
            "speed",
            "first launch",
            "how",
            "samples",
        ),
        shown=tuple(shown),
        columns=(
            "study",
            "version",
            "problem",
            "device",
            "captured",
            "seconds",
            "low",
            "high",
            "samples",
            "cache",
            "method",
            "converged",
            "first_launch",
            "flops",
            "bytes",
            "baseline",
            "baseline_seconds",
            "ratio",
            "ratio_low",
            "ratio_high",
        ),
        raw=tuple(
            (
                timing.study,
                timing.version,
                timing.problem,
                timing.device.name,
                timing.captured,
                timing.time.value,
                timing.time.low,
                timing.time.high,
                timing.time.n,
                timing.cache,
                timing.method,
                timing.converged,
                timing.first_launch,
                timing.flops,
                timing.bytes,
                timing.baseline or None,
                timing.baseline_time.value if timing.baseline_time else None,
                timing.ratio.value if timing.ratio else None,
                timing.ratio.low if timing.ratio else None,
                timing.ratio.high if timing.ratio else None,
            )
            for timing in timings
        ),
        document={"study": first.study, "times": [_timing_document(t) for t in timings]},
        notes=tuple(notes),
    )


def _timing_document(timing: Timing) -> dict[str, Any]:
    def estimate(value: Any) -> Any:
        if value is None:
            return None
        return {"value": value.value, "low": value.low, "high": value.high, "n": value.n}

    state = timing.state
    return {
        "version": timing.version,
        "problem": timing.problem,
        "device": timing.device.name,
        "captured": timing.captured,
        "seconds": estimate(timing.time),
        "cache": timing.cache,
        "method": timing.method,
        "converged": timing.converged,
        "first_launch": timing.first_launch,
        "launches": timing.launches,
        "flops": timing.flops,
        "bytes": timing.bytes,
        "baseline": timing.baseline or None,
        "baseline_seconds": estimate(timing.baseline_time),
        "ratio": estimate(timing.ratio),
        "state": None
        if state is None
        else {
            "sm_clock": state.sm_clock,
            "memory_clock": state.memory_clock,
            "power": state.power,
            "temperature": state.temperature,
        },
        "notices": [{"code": n.code, "message": n.message} for n in timing.notices],
    }


# --- doctor --------------------------------------------------------------------------


def doctor_sheet(rows: Sequence[Row]) -> Sheet:
    """The table of ``workbench doctor``."""
    notes = []
    for row in rows:
        if row.state == "ok":
            continue
        notes.append(f"{row.what}: {row.detail}")
        if row.remedy:
            notes.append(f"  how to get it: {row.remedy}")
        if row.without:
            notes.append(f"  works without it: {row.without}")
    return Sheet(
        header=("what", "state", "detail"),
        shown=tuple(
            (row.what, row.state, row.detail if row.state == "ok" else "see below") for row in rows
        ),
        columns=("what", "state", "detail", "remedy", "without"),
        raw=tuple((row.what, row.state, row.detail, row.remedy, row.without) for row in rows),
        document={
            "checks": [
                {
                    "what": row.what,
                    "state": row.state,
                    "detail": row.detail,
                    "remedy": row.remedy,
                    "without": row.without,
                }
                for row in rows
            ]
        },
        notes=tuple(notes),
    )
