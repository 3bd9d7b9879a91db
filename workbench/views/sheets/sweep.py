"""The table of ``workbench sweep``: versions × problems, in four forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.analysis import growth
from workbench.gpus import chip_for
from workbench.measure.plan import Gap, Key
from workbench.model import Record, Timing
from workbench.units import digits3, factor, quantity, symbol
from workbench.views.sheets.time import COLUMNS, columns_of, timing_document
from workbench.views.terminal.console import clean, when

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

Unit = Literal["flop/s", "op/s", "byte/s"]
Work = Literal["flop", "op"]
#: Operations per byte from which arithmetic decides, on chips that the table does not list.
_RIDGE = 10.0
_BEST, _STALE, _WIDE = "*", "†", "±"
_HOLE = {"refused": "—", "unavailable": "—", "failed": "failed", "missing": "·"}


class Sweep(Record, frozen=True):
    """Everything that the table shows. Keys are (version, problem).

    `problems` stand from the least work to the most, `versions` in ladder order, the
    baselines (the names in `baselines`) last. Every key has a timing or a gap. `stale`
    names timings of older sources, `work` is what `Timing.flops` counts.
    """

    study: str
    device: str
    cache: str
    versions: tuple[str, ...]
    baselines: tuple[str, ...]
    problems: tuple[str, ...]
    timings: dict[Key, Timing]
    gaps: dict[Key, Gap]
    stale: frozenset[Key] = frozenset()
    work: Work = "flop"

    @property
    def ordered(self) -> list[Timing]:
        """The timings, version by version."""
        keys = ((version, problem) for version in self.versions for problem in self.problems)
        return [self.timings[key] for key in keys if key in self.timings]

    @property
    def best(self) -> dict[str, str]:
        """Problem -> its fastest version; baselines and stale times do not count."""
        out = {}
        for problem in self.problems:
            times = {
                version: self.timings[version, problem].time.value
                for version in self.versions
                if version not in self.baselines
                and (version, problem) in self.timings
                and (version, problem) not in self.stale
            }
            if times:
                out[problem] = min(times, key=lambda version: times[version])
        return out

    @property
    def rival(self) -> str:
        """The baseline that ratios are to."""
        return next((timing.baseline for timing in self.ordered if timing.baseline), "")


def rate_unit(timings: Sequence[Timing], work: Work = "flop") -> Unit:
    """Whether arithmetic or memory bounds the study: by the intensity of its largest problem.

    The problem's operations per byte of least traffic, against those at which the chip's
    float32 peak and its memory bandwidth meet.
    """
    arithmetic: Unit = "op/s" if work == "op" else "flop/s"
    largest = max(timings, key=lambda t: (t.flops, t.bytes), default=None)
    if largest is None or not largest.bytes:
        return arithmetic
    chip = chip_for(largest.device)
    ridge = chip.fp32_peak() / chip.memory_bandwidth if chip and chip.memory_bandwidth else 0.0
    return "byte/s" if largest.flops / largest.bytes < (ridge or _RIDGE) else arithmetic


def rate(timing: Timing, unit: Unit) -> float | None:
    """Work of the problem per second of this version; None where the study gives none."""
    work = timing.bytes if unit == "byte/s" else timing.flops
    return work / timing.time.value if work and timing.time.value else None


# --- cells -----------------------------------------------------------------------------


class _Block(NamedTuple):
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


def _blocks(sweep: Sweep) -> Iterator[_Block]:
    best = sweep.best
    holes = {key: _HOLE[gap.kind] for key, gap in sweep.gaps.items()}
    yield _Block(
        "time",
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
        yield _Block(f"{prefix}{symbol(unit)}", holes | dict.fromkeys(sweep.timings, "—") | cells)
    if sweep.rival:
        yield _Block(
            f"speed to {sweep.rival}", holes | {key: _speed(sweep, key) for key in sweep.timings}
        )


def _title(sweep: Sweep) -> str:
    captured = sorted(timing.captured for timing in sweep.ordered)
    dates = list(dict.fromkeys(when(date) for date in (captured[:1] + captured[-1:])))
    return f"study {sweep.study} on {sweep.device}, {' to '.join(dates)}, {sweep.cache} caches"


# --- below the table ---------------------------------------------------------------------


def _fastest(sweep: Sweep) -> str:
    """Which version is the fastest where, and how it stands to the baseline there."""
    best = sweep.best
    if not best:
        return ""
    parts = []
    for version in sorted(set(best.values()), key=sweep.versions.index):
        problems = [problem for problem in sweep.problems if best.get(problem) == version]
        where = problems[0] if len(problems) == 1 else f"{len(problems)} of {len(best)} problems"
        ratios = [t.ratio.value for p in problems if (t := sweep.timings[version, p]).ratio]
        text = f"{version} on {where}"
        if ratios:
            low, high = factor(min(ratios)), factor(max(ratios))
            span = low if low == high else f"{low} to {high}"
            text += f" ({span} the speed of {sweep.rival})"
        parts.append(text)
    return f"{_BEST} fastest version: {'; '.join(parts)}"


def _gap_lines(sweep: Sweep) -> list[str]:
    """A line for each version and reason: which problems have no time, and why."""
    grouped: dict[tuple[str, Gap], list[str]] = {}
    missing = 0
    for version in sweep.versions:
        for problem in sweep.problems:
            gap = sweep.gaps.get((version, problem))
            if gap is None:
                continue
            if gap.kind == "missing":
                missing += 1
                continue
            grouped.setdefault((version, gap), []).append(problem)
    lines = []
    for (version, gap), problems in grouped.items():
        every = len(problems) == len(sweep.problems) and len(problems) > 1
        where = "every problem" if every else ", ".join(problems)
        lines.append(f"{_HOLE[gap.kind]} {version} on {where}: {gap.why}")
    if missing:
        total = len(sweep.versions) * len(sweep.problems)
        lines.append(
            f"{_HOLE['missing']} {missing} of {total} are not recorded: "
            f"`workbench sweep {sweep.study}` on a machine with a GPU measures them."
        )
    return lines


def notes(sweep: Sweep) -> list[str]:
    """What stands below the table, without the warnings."""
    lines = [line for line in (_fastest(sweep),) if line]
    if any(not timing.converged for timing in sweep.ordered):
        lines.append(f"{_WIDE} the 95% interval stayed wider than asked for; --again samples anew")
    if sweep.stale:
        lines.append(f"{_STALE} measured on an older source of the version or its baseline")
    return lines + _gap_lines(sweep)


def warnings(sweep: Sweep) -> list[str]:
    """Times that do not grow with the size (`workbench.analysis.growth`)."""
    return growth.warnings(sweep.ordered)


# --- forms -------------------------------------------------------------------------------


class _Fitting:
    """One block, in as many tables as the width needs."""

    def __init__(self, sweep: Sweep, block: _Block) -> None:
        self._sweep = sweep
        self._block = block

    def _table(self, problems: Sequence[str]) -> Table:
        from rich.table import Table
        from rich.text import Text

        sweep = self._sweep
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column(Text(self._block.title, style="bold"), no_wrap=True)
        for problem in problems:
            table.add_column(Text(clean(problem)), justify="right", no_wrap=True)
        best = sweep.best
        for version in sweep.versions:
            style = "cyan" if version in sweep.baselines else ""
            row = [Text(version, style=style)]
            for problem in problems:
                text = Text(self._block.cells[version, problem])
                if best.get(problem) == version:
                    text.stylize("bold green")
                row.append(text)
            table.add_row(*row)
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        first = max(len(self._block.title), *(len(v) for v in self._sweep.versions)) + 2
        width, fitting = first, list[str]()
        for problem in self._sweep.problems:
            cells = [self._block.cells[v, problem] for v in self._sweep.versions]
            wide = max(len(problem), *(len(cell) for cell in cells)) + 2
            if fitting and width + wide - 2 > options.max_width:
                yield self._table(fitting)
                yield Text()
                width, fitting = first, []
            fitting.append(problem)
            width += wide
        yield self._table(fitting)


def sweep_view(sweep: Sweep) -> RenderableType:
    """The sweep for a terminal of any width: times, rates and ratios below each other."""
    from rich.console import Group
    from rich.text import Text

    from workbench.views.terminal.console import notes_block

    parts: list[RenderableType] = [Text(_title(sweep))]
    for block in _blocks(sweep):
        parts += [Text(), _Fitting(sweep, block)]
    lines = notes(sweep)
    parts += [Text()] if lines else []
    parts += [Text(clean(line)) for line in lines]
    parts += notes_block([f"WARNING: {line}" for line in warnings(sweep)])
    return Group(*parts)


def render(sweep: Sweep, format_: str) -> str:
    """The sweep as ``json``, ``csv`` or ``markdown`` text."""
    if format_ == "json":
        from workbench.views.text.documents import dumps

        return dumps(document(sweep))
    from workbench.views.text.tables import to_csv, to_markdown

    if format_ == "csv":
        return to_csv(("status", "reason", *COLUMNS), _rows(sweep))
    from workbench.views.text.escaping import inline

    table = to_markdown(("version", *sweep.problems), ())
    table += "".join(f"| {' | '.join(row)} |\n" for row in _markdown_rows(sweep))
    below = [*notes(sweep), *(f"WARNING: {line}" for line in warnings(sweep))]
    lines = "".join(f"- {inline(line)}\n" for line in below)
    return f"{inline(_title(sweep))}\n\n{table}" + (f"\n{lines}" if lines else "")


def _markdown_rows(sweep: Sweep) -> Iterator[list[str]]:
    """All quantities of a combination in one cell; the fastest in bold."""
    from workbench.views.text.escaping import inline

    blocks, best = list(_blocks(sweep)), sweep.best
    for version in sweep.versions:
        row = [inline(version)]
        for problem in sweep.problems:
            key = (version, problem)
            cells = [block.cells[key] for block in blocks]
            if key not in sweep.timings:
                row.append(inline(cells[0]))
                continue
            words = [
                f"{cell} {block.title}" if block.title.endswith("/s") and cell != "—" else cell
                for block, cell in zip(blocks, cells, strict=True)
            ]
            text = inline(" · ".join(words))
            row.append(f"**{text}**" if best.get(problem) == version else text)
        yield row


def _rows(sweep: Sweep) -> Iterator[tuple[Any, ...]]:
    for version in sweep.versions:
        for problem in sweep.problems:
            key = (version, problem)
            timing = sweep.timings.get(key)
            if timing is not None:
                yield ("stale" if key in sweep.stale else "ok", None, *columns_of(timing))
            else:
                gap = sweep.gaps[key]
                empty = (None,) * (len(COLUMNS) - 3)
                yield (gap.kind, gap.why, sweep.study, version, problem, *empty)


def document(sweep: Sweep) -> dict[str, Any]:
    """``workbench sweep --format json``."""
    problems = {timing.problem: timing for timing in sweep.ordered}
    return {
        "study": sweep.study,
        "device": sweep.device,
        "cache": sweep.cache,
        "problems": [
            {
                "name": name,
                "parameters": problems[name].parameters if name in problems else None,
                "flops": problems[name].flops if name in problems else None,
                "bytes": problems[name].bytes if name in problems else None,
            }
            for name in sweep.problems
        ],
        "versions": [{"id": v, "baseline": v in sweep.baselines} for v in sweep.versions],
        "times": [
            {**timing_document(timing), "stale": (timing.version, timing.problem) in sweep.stale}
            for timing in sweep.ordered
        ],
        "gaps": [
            {"version": key[0], "problem": key[1], "kind": gap.kind, "why": gap.why}
            for key, gap in sweep.gaps.items()
        ],
        "best": sweep.best,
        "warnings": warnings(sweep),
    }


def print_sweep(sweep: Sweep, format_: str) -> None:
    """Print on standard output."""
    import click

    if format_ != "table":
        click.echo(render(sweep, format_), nl=False)
        return
    from workbench.views.terminal.console import print_view

    print_view(sweep_view(sweep))
