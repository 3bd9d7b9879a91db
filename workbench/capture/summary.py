"""From single launches to what is kept of a survey: bounded, whatever the program launched.

Of 20,000 launches of 300 kernels some tens of kilobytes stay: totals, quantiles, the
configurations that take most time, and who follows whom.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from workbench.capture.names import demangled, name_of
from workbench.capture.ranges import shares
from workbench.capture.trace import Trace, TracedLaunch, busy_ns
from workbench.captures.records import ProgramRun, Shape, Survey, Way, Work, WorkKind

#: Order statistics and configurations that are kept of a kernel.
QUANTILES, SHAPES = 33, 8


def kind_of(symbol: str) -> WorkKind:
    """What a name of the tracer's stands for."""
    if symbol.startswith("[copy"):
        return "copy"
    return "fill" if symbol == "[fill]" else "kernel"


def quantiles(values: Sequence[int], most: int = QUANTILES) -> tuple[int, ...]:
    """Evenly spaced order statistics, first and last included; all values where they are few."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return tuple(ordered)
    last = len(ordered) - 1
    return tuple(ordered[round(step * last / (most - 1))] for step in range(most))


def survey_of(
    traces: Sequence[Trace], walls_s: Sequence[float], way: Way = "trace", nvtx: str = ""
) -> Survey:
    """The survey of one or several runs.

    Args:
        traces: One a run; each has its launches by their start.
        walls_s: How long each run took, in seconds.
        way: How they were taken.
        nvtx: The range whose launches the traces hold; empty: they hold all.
    """
    by_symbol: dict[str, list[list[TracedLaunch]]] = {}
    for run, trace in enumerate(traces):
        for launch in trace.launches:
            runs = by_symbol.setdefault(launch.symbol, [[] for _ in traces])
            runs[run].append(launch)
    totals = {
        symbol: sum(launch.duration for run in runs for launch in run)
        for symbol, runs in by_symbol.items()
    }
    order = sorted(by_symbol, key=lambda symbol: (-totals[symbol], symbol))
    places = {symbol: place for place, symbol in enumerate(order)}
    before, after = _neighbours(traces)
    works = tuple(
        _work(
            symbol,
            by_symbol[symbol],
            (_most(before[symbol], places), _most(after[symbol], places)),
        )
        for symbol in order
    )
    return Survey(
        way=way,
        nvtx=nvtx,
        works=works,
        runs=tuple(_run(trace, wall_s) for trace, wall_s in zip(traces, walls_s, strict=True)),
    )


def _run(trace: Trace, wall_s: float) -> ProgramRun:
    launches = trace.launches
    span = max((x.end for x in launches), default=0) - min((x.start for x in launches), default=0)
    return ProgramRun(
        wall_s=wall_s,
        busy_ns=busy_ns(launches),
        span_ns=span,
        processes=trace.processes,
        cut=trace.cut,
    )


def _work(symbol: str, runs: list[list[TracedLaunch]], beside: tuple[int, int]) -> Work:
    every = [launch for run in runs for launch in run]
    kind = kind_of(symbol)
    signature = demangled(symbol) if kind == "kernel" else symbol
    name = name_of(symbol, signature) if kind == "kernel" else symbol
    shapes: dict[tuple[object, ...], list[TracedLaunch]] = defaultdict(list)
    for launch in every if kind == "kernel" else ():
        shapes[launch.grid, launch.block, launch.dynamic_shared].append(launch)
    known = [
        Shape(
            grid=own[0].grid,
            block=own[0].block,
            dynamic_shared=own[0].dynamic_shared,
            launches=len(own),
            total_ns=sum(launch.duration for launch in own),
        )
        for own in shapes.values()
    ]
    ranges, count = shares((launch.ranges, launch.duration) for launch in every)
    known.sort(key=lambda shape: (-shape.total_ns, shape.grid, shape.block))
    return Work(
        symbol=symbol,
        name=name,
        signature=signature if signature != name else "",
        kind=kind,
        launches=tuple(len(run) for run in runs),
        total_ns=tuple(sum(launch.duration for launch in run) for run in runs),
        quantiles_ns=quantiles([launch.duration for launch in every]),
        shapes=tuple(known[:SHAPES]),
        devices=tuple(sorted({launch.device for launch in every})),
        before=beside[0],
        after=beside[1],
        graph=any(launch.graph for launch in every),
        bytes=sum(launch.bytes for launch in every),
        ranges=ranges,
        range_count=count,
    )


_Counts = dict[str, Counter[str]]


def _neighbours(traces: Sequence[Trace]) -> tuple[_Counts, _Counts]:
    """How often each is launched just before, and just after, each other on its stream.

    A repetition of the same kernel is no neighbour: it would hide who calls whom.
    """
    before: _Counts = defaultdict(Counter)
    after: _Counts = defaultdict(Counter)
    for trace in traces:
        last: dict[tuple[int, int, int], str] = {}
        for launch in trace.launches:
            stream = launch.process, launch.device, launch.stream
            previous = last.get(stream)
            if previous is not None and previous != launch.symbol:
                before[launch.symbol][previous] += 1
                after[previous][launch.symbol] += 1
            last[stream] = launch.symbol
    return before, after


def _most(counts: Counter[str], places: Mapping[str, int]) -> int:
    if not counts:
        return -1
    return places[min(counts, key=lambda symbol: (-counts[symbol], places[symbol]))]
