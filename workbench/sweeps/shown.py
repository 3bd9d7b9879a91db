"""The table of ``workbench sweep``: versions × problems, on a terminal and in four forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table

from workbench.analysis.limits.roofline import rate, rate_unit
from workbench.language import N_, _, told
from workbench.measure.plan import Gap, Key
from workbench.model import Timing
from workbench.sweeps.documents import (
    SweepDocument,
    SweptGap,
    SweptProblem,
    SweptTime,
    SweptVersion,
)
from workbench.sweeps.recorded import Sweep
from workbench.units import digits3, factor, quantity, span, symbol, when
from workbench.views.shapes import Json, dumps, shaped
from workbench.views.sheets.time import caches, flat, timed
from workbench.views.terminal.console import Text, print_view
from workbench.views.terminal.tables import plain_table
from workbench.views.text.escaping import inline
from workbench.views.text.safe_output import write
from workbench.views.text.tables import named_csv, to_markdown

_BEST, _STALE, _WIDE = "*", "†", "±"
_HOLE = {"refused": "—", "unavailable": "—", "failed": N_("failed"), "missing": "·"}


# --- cells -----------------------------------------------------------------------------


class Quantity(NamedTuple):
    """One quantity for every version and problem."""

    title: str
    cells: dict[Key, str]


def _marks(sweep: Sweep, key: Key, best: dict[str, str]) -> str:
    timing = sweep.timings[key]
    marks = _BEST if best.get(key[1]) == key[0] else ""
    marks += _WIDE if not timing.converged else ""
    return marks + (_STALE if key in sweep.stale else "")


def _speed(sweep: Sweep, key: Key) -> str:
    timing = sweep.timings[key]
    if key[0] == sweep.rival:
        return factor(1.0)
    return factor(timing.ratio.value) if timing.ratio else "—"


def quantities(sweep: Sweep) -> Iterator[Quantity]:
    """Time, rate and speed, each for every version and problem."""
    best = sweep.best
    holes = {key: _(_HOLE[gap.kind]) for key, gap in sweep.gaps.items()}
    yield Quantity(
        _("time"),
        holes
        | {
            key: quantity(timing.time.value, "s") + _marks(sweep, key, best)
            for key, timing in sweep.timings.items()
        },
    )
    unit = rate_unit(sweep.ordered, sweep.work)
    rates = {key: value for key, t in sweep.timings.items() if (value := rate(t, unit))}
    if rates:
        largest = max(rates.values())
        scale, prefix = next(
            ((s, p) for s, p in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if largest >= s), (1.0, "")
        )
        cells = {key: digits3(value / scale) for key, value in rates.items()}
        yield Quantity(f"{prefix}{symbol(unit)}", holes | dict.fromkeys(sweep.timings, "—") | cells)
    if sweep.rival:
        yield Quantity(
            _("speed to {name}").format(name=sweep.rival),
            holes | {key: _speed(sweep, key) for key in sweep.timings},
        )


def title(sweep: Sweep) -> str:
    """Study, device, dates and cache policy."""
    captured = sorted(timing.captured for timing in sweep.ordered)
    dates = list(dict.fromkeys(when(date) for date in (captured[:1] + captured[-1:])))
    text = _("study {study} on {device}, {dates}, {caches}")
    return text.format(
        study=sweep.study,
        device=sweep.device,
        dates=span(dates[0], dates[-1]),
        caches=caches(sweep.cache),
    )


# --- below the table ---------------------------------------------------------------------


def _fastest(sweep: Sweep) -> str:
    """Name the fastest version of each range of problems, and its ratio to the baseline."""
    best = sweep.best
    if not best:
        return ""
    parts = []
    for version in sorted(set(best.values()), key=sweep.versions.index):
        problems = [problem for problem in sweep.problems if best.get(problem) == version]
        some = _("{n} of {all} problems").format(n=len(problems), all=len(best))
        where = problems[0] if len(problems) == 1 else some
        ratios = [t.ratio.value for p in problems if (t := sweep.timings[version, p]).ratio]
        text = _("{version} on {where}").format(version=version, where=where)
        if ratios:
            ends = span(factor(min(ratios)), factor(max(ratios)))
            text += _(" ({factor} the speed of {name})").format(factor=ends, name=sweep.rival)
        parts.append(text)
    return _("{mark} fastest version: {versions}").format(mark=_BEST, versions=_("; ").join(parts))


def _gap_lines(sweep: Sweep) -> list[str]:
    """A line for each version and reason: which problems have no time, and why."""
    every_one = itertools.product(sweep.versions, sweep.problems)
    holes = [(key, sweep.gaps[key]) for key in every_one if key in sweep.gaps]
    missing = sum(gap.kind == "missing" for __, gap in holes)
    grouped: dict[tuple[str, Gap], list[str]] = {}
    for (version, problem), gap in holes:
        if gap.kind != "missing":
            grouped.setdefault((version, gap), []).append(problem)
    lines = []
    for (version, gap), problems in grouped.items():
        every = len(problems) == len(sweep.problems) and len(problems) > 1
        where = _("every problem") if every else ", ".join(problems)
        text = _("{version} on {where}").format(version=version, where=where)
        lines.append(f"{_(_HOLE[gap.kind])} {text}{_(': ')}{told(gap.why)}")
    if missing:
        total = len(sweep.versions) * len(sweep.problems)
        text = _(
            "{n} of {all} are not recorded: {command} on a machine with a GPU measures them."
        ).format(n=missing, all=total, command=f"`workbench sweep {sweep.study}`")
        lines.append(f"{_HOLE['missing']} {text}")
    return lines


def notes(sweep: Sweep) -> list[str]:
    """The notes below the table, without the warnings."""
    lines = [line for line in (_fastest(sweep),) if line]
    if any(not timing.converged for timing in sweep.ordered):
        text = _("the 95% interval stayed wider than asked for; --again measures again")
        lines.append(f"{_WIDE} {text}")
    if sweep.stale:
        text = _("measured on an older source of the version or its baseline")
        lines.append(f"{_STALE} {text}")
    return lines + _gap_lines(sweep)


# --- forms -------------------------------------------------------------------------------


def raw(sweep: Sweep) -> Iterator[dict[str, Any]]:
    """A row of ``--format csv`` for every version and problem, timed or not."""
    for key in itertools.product(sweep.versions, sweep.problems):
        if key in sweep.timings:
            status = "stale" if key in sweep.stale else "ok"
            yield {"status": status, "reason": None, **flat(sweep.timings[key])}
        else:
            gap, where = sweep.gaps[key], {"study": sweep.study, "version": key[0]}
            yield {"status": gap.kind, "reason": gap.why, **where, "problem": key[1]}


def document(sweep: Sweep) -> Json:
    """``workbench sweep --format json``."""
    problems = {timing.problem: timing for timing in sweep.ordered}
    return shaped(
        sweep,
        SweepDocument,
        problems=[_problem(name, problems.get(name)) for name in sweep.problems],
        versions=[SweptVersion(id=v, baseline=v in sweep.baselines) for v in sweep.versions],
        times=[
            timed(timing, SweptTime, stale=(timing.version, timing.problem) in sweep.stale)
            for timing in sweep.ordered
        ],
        gaps=[
            shaped(gap, SweptGap, version=version, problem=problem)
            for (version, problem), gap in sweep.gaps.items()
        ],
        warnings=[],
    ).plain()


def _problem(name: str, timing: Timing | None) -> SweptProblem:
    known = SweptProblem(name=name)
    return known if timing is None else shaped(timing, SweptProblem, name=name)


def sweep_text(table: Sweep, format_: str) -> str:
    """The sweep as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        return dumps(document(table))
    if format_ == "csv":
        return named_csv(list(raw(table)))
    text = to_markdown((_("version"), *table.problems), ())
    text += "".join(f"| {' | '.join(row)} |\n" for row in _sweep_rows(table))
    lines = "".join(f"- {inline(line)}\n" for line in notes(table))
    return f"{inline(title(table))}\n\n{text}" + (f"\n{lines}" if lines else "")


def _sweep_rows(table: Sweep) -> Iterator[list[str]]:
    """All quantities of a combination in one cell; the fastest in bold."""
    every, best = list(quantities(table)), table.best
    for version in table.versions:
        row = [inline(version)]
        for problem in table.problems:
            key = (version, problem)
            cells = [(each.title, each.cells[key]) for each in every]
            if key not in table.timings:
                cells = [("", cells[0][1])]
            text = inline(" · ".join(f"{cell}{_rate_unit(title, cell)}" for title, cell in cells))
            row.append(f"**{text}**" if best.get(problem) == version else text)
        yield row


def _rate_unit(title: str, cell: str) -> str:
    return f" {title}" if title.endswith("/s") and cell != "—" else ""


# --- a terminal ----------------------------------------------------------------------------


def print_sweep(table: Sweep, format_: str) -> None:
    """Print on standard output, as a ``table`` or in one of the forms of `sweep_text`."""
    if format_ == "table":
        print_view(sweep_view(table), whole=True)
    else:
        write(sweep_text(table, format_))


def sweep_view(table: Sweep) -> RenderableType:
    """The sweep for a terminal of any width: times, rates and ratios below each other."""
    parts: list[RenderableType] = [Text(title(table))]
    for each in quantities(table):
        parts += [Text(), _Tables(table, each)]
    lines = notes(table)
    parts += [Text()] if lines else []
    parts += [Text(line) for line in lines]
    return Group(*parts)


class _Tables:
    """One quantity of a sweep, in as many tables as the width needs."""

    def __init__(self, table: Sweep, quantity: Quantity) -> None:
        self._sweep = table
        self._quantity = quantity

    def _table(self, problems: Sequence[str]) -> Table:
        sweep, table = self._sweep, plain_table()
        table.add_column(Text(self._quantity.title, style="bold"), no_wrap=True)
        for problem in problems:
            table.add_column(Text(problem), justify="right", no_wrap=True)
        best = sweep.best
        for version in sweep.versions:
            row = [Text(version, style="cyan" if version in sweep.baselines else "")]
            for problem in problems:
                text = Text(self._quantity.cells[version, problem])
                if best.get(problem) == version:
                    text.stylize("bold green")
                row.append(text)
            table.add_row(*row)
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = max(cell_len(self._quantity.title), *map(cell_len, self._sweep.versions)) + 2
        width, fitting = first, list[str]()
        for problem in self._sweep.problems:
            cells = [self._quantity.cells[v, problem] for v in self._sweep.versions]
            wide = max(cell_len(problem), *map(cell_len, cells)) + 2
            if fitting and width + wide - 2 > options.max_width:
                yield self._table(fitting)
                yield Text()
                width, fitting = first, []
            fitting.append(problem)
            width += wide
        yield self._table(fitting)
