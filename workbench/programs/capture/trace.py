"""Launches of a program: single ones as the tracer wrote them, and the survey made from them.

``data/tracer.c`` has the format; it is read process by process. A process that was killed leaves a
truncated file: its complete records are used, and a notice says that it was cut.

The size of a survey is bounded for any program: 20,000 launches of 300 kernels give some tens of
kilobytes. It holds totals, quantiles, the configurations that take the most time, the NVTX ranges
of that time, and the order of kernels.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from workbench.errors import DataError, UsageError
from workbench.model import Record
from workbench.ncurep.names import kernel_name
from workbench.programs.capture.periodicity import SHAPES, ranks_in, shapes_of, steady_of
from workbench.programs.capture.ranks import Ranks, union_ns
from workbench.programs.capture.records import (
    ProgramRun,
    Range,
    RangeShare,
    Survey,
    TracedLaunch,
    Way,
    Work,
    WorkKind,
)
from workbench.study.mangling import demangled
from workbench.units import listed

# --- NVTX ranges: those around a launch, and filters for them ---

#: The separator of ranges in the tracer's texts, and the mark of one started, not pushed.
_BETWEEN, _STARTED = "\x1f", "\x1e"
#: Syntax of ncu's filters that a survey does not support.
_FOREIGN = ("regex:", "[", "]", "+", ",")
#: The most ranges that are kept for a kernel.
MOST = 4


def read_ranges(text: str) -> tuple[Range, ...]:
    """The ranges of a thread, the outermost first, from the tracer's text."""
    out = []
    for word in filter(None, text.split(_BETWEEN)):
        domain, mark, name = word.removeprefix(_STARTED).partition("@")
        pushed = not word.startswith(_STARTED)
        out.append(Range(name if mark else domain, domain if mark else "", pushed))
    return tuple(out)


class WantedRange(Record, frozen=True):
    """Selects launches inside these ranges of a domain, each directly inside the one before.

    A single range without a slash may be of either kind (`either`).
    """

    text: str
    domain: str
    names: tuple[str, ...]
    either: bool

    def holds(self, ranges: Sequence[Range]) -> bool:
        """True if it selects a launch inside `ranges`."""
        own = [x.name for x in ranges if x.domain == self.domain and (x.pushed or self.either)]
        size = len(self.names)
        return any(tuple(own[at : at + size]) == self.names for at in range(len(own) - size + 1))

    @property
    def ncu_words(self) -> tuple[str, ...]:
        """The same for ncu, which combines several filters by "or"."""
        both = (self.text, f"{self.text}/") if self.either else (self.text,)
        return ("--nvtx", *(word for text in both for word in ("--nvtx-include", text)))


def wanted_range(text: str) -> WantedRange:
    """Parse ``step``, ``train@step``, ``train@step/forward/`` as a filter.

    Raises UsageError: no name, or an ncu filter that a survey cannot apply.
    """
    domain, mark, rest = text.partition("@") if "@" in text else ("", "", text)
    names = tuple(rest.removesuffix("/").split("/"))
    if not all(names) or (mark and not domain) or any(word in text for word in _FOREIGN):
        raise UsageError(
            f"--nvtx {text!r} is not a range",
            "Write NAME or DOMAIN@NAME, and OUTER/INNER/ for ranges pushed directly inside each "
            "other.",
        )
    either = "/" not in rest
    if not either and not rest.endswith("/"):
        text += "/"  # ncu's sign for ranges that nest
    return WantedRange(text=text, domain=domain, names=names, either=either)


def shares(launches: Iterable[tuple[Sequence[Range], int]]) -> tuple[tuple[RangeShare, ...], int]:
    """The ranges with most of a kernel's time, and the number of all ranges.

    Args:
        launches: The ranges and nanoseconds of each launch.
    """
    time: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for ranges, length in launches:
        if path := "/".join(map(str, ranges)):
            time[path] += length
            count[path] += 1
    order = sorted(time, key=lambda path: (-time[path], path))
    kept = (RangeShare(path=path, launches=count[path], total_ns=time[path]) for path in order)
    return tuple(kept)[:MOST], len(order)


def unknown_range(wanted: WantedRange, seen: Iterable[Sequence[Range]]) -> UsageError:
    """The error for a range without launches; it names the existing ranges."""
    found = Counter(str(one) for ranges in seen for one in ranges)
    there = [name for name, _ in found.most_common()]
    hint = (
        f"The ranges with launches are {listed(there, 8)}."
        if there
        else (
            "No range contains a launch: does the program use NVTX, and does the thread that "
            "launches push the range?"
        )
    )
    return UsageError(f"no launch of the program is inside --nvtx {wanted.text!r}", hint)


SUFFIX = ".trace"
MAGIC = b"WBTRACE2"
HEADER = struct.Struct("<8sII")
#: kind, then the number of a name and its length.
NAME = struct.Struct("<III")
KIND = struct.Struct("<I")
#: kind; name, device, stream, graph; start, end; grid, block; static, dynamic; bytes; correlation.
WORK = struct.Struct("<IIIIIQQ3I3IIIQII")
END = struct.Struct("<IIQ")
#: kind, correlation, name: the NVTX ranges of the launch with that correlation. The ranges noted at
#: the call take precedence over those from CUPTI.
INSIDE = struct.Struct("<III")
#: kind, the process's number from its launcher.
RANK = struct.Struct("<II")
_NAMED, _WORKED, _ENDED, _INSIDE, _RANKED, _CALLED = 1, 2, 3, 4, 5, 6
#: Bits of a launch's `graph`: in a CUDA graph; a cooperative launch on several GPUs.
_IN_GRAPH, _MULTI_DEVICE = 1, 2


class Trace(Record, frozen=True):
    """One run of a program: all launches by their start. `cut` processes were killed.

    `dropped` is the number of launches that CUPTI lost; `ranks` are the numbers of processes that
    have one from their launcher.
    """

    launches: tuple[TracedLaunch, ...]
    processes: int
    cut: int = 0
    dropped: int = 0
    ranks: dict[int, int] = msgspec.field(default_factory=dict)

    @property
    def who(self) -> Ranks:
        """The ranks of the launches."""
        return Ranks(self.launches, self.ranks)


def read_traces(folder: Path) -> Trace:
    """All processes that wrote into `folder`; DataError: a file that the tracer did not write."""
    launches: list[TracedLaunch] = []
    ranks: dict[int, int] = {}
    processes = cut = dropped = 0
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        data = path.read_bytes()
        if len(data) < HEADER.size:
            continue  # killed before it wrote anything
        found, lost, rank = _read(data, path)
        processes += 1
        if lost is None:
            cut += bool(found)  # a process without launches lost nothing
        else:
            dropped += lost
        if rank >= 0 and found:
            ranks[found[0].process] = rank
        launches += found
    launches.sort(key=lambda launch: (launch.start, launch.end))
    return Trace(
        launches=tuple(launches), processes=processes, cut=cut, dropped=dropped, ranks=ranks
    )


def _read(data: bytes, path: Path) -> tuple[list[TracedLaunch], int | None, int]:
    """The launches of one process, how many CUPTI lost, and its rank.

    None if the file is truncated; -1 without a number from a launcher.
    """
    magic, process, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DataError(f"{path} is not a trace (it starts with {magic!r})", "Capture again.")
    names: dict[int, str] = {}
    inside: dict[int, int] = {}  # correlation -> name
    called: dict[int, int] = {}  # the same, noted at the call
    out: list[TracedLaunch] = []
    correlations: list[int] = []
    lost: int | None = None
    ranked = -1
    at, size = HEADER.size, len(data)
    while at + KIND.size <= size:
        (kind,) = KIND.unpack_from(data, at)
        if kind == _WORKED and at + WORK.size <= size:
            values = WORK.unpack_from(data, at)
            _, name, device, stream, graph, start, end, *rest = values
            if name not in names or end < start:
                raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
            shared, moved = rest[7], rest[8]
            correlations.append(rest[9])
            grid, block = (rest[0], rest[1], rest[2]), (rest[3], rest[4], rest[5])
            out.append(
                TracedLaunch(
                    names[name], process, device, stream, bool(graph & _IN_GRAPH),
                    start, end, grid, block, shared, moved, (), bool(graph & _MULTI_DEVICE),
                )
            )  # fmt: skip
            at += WORK.size
        elif kind == _NAMED and at + NAME.size <= size:
            _, number, length = NAME.unpack_from(data, at)
            at += NAME.size
            if at + length > size:
                break
            names[number] = data[at : at + length].decode("utf-8", "replace")
            at += length
        elif kind in (_INSIDE, _CALLED) and at + INSIDE.size <= size:
            _, correlation, name = INSIDE.unpack_from(data, at)
            if name not in names:
                raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
            (inside if kind == _INSIDE else called)[correlation] = name
            at += INSIDE.size
        elif kind == _RANKED and at + RANK.size <= size:
            ranked = int(RANK.unpack_from(data, at)[1])
            at += RANK.size
        elif kind == _ENDED and at + END.size <= size:
            lost = int(END.unpack_from(data, at)[2])
            break
        elif kind in (_NAMED, _WORKED, _ENDED, _INSIDE, _RANKED, _CALLED):
            break
        else:
            raise DataError(f"{path} is damaged at byte {at:,}", "Capture again.")
    inside |= called
    if inside:  # a launch may be read before its ranges are
        paths = {name: read_ranges(names[name]) for name in set(inside.values())}
        for place, correlation in enumerate(correlations):
            if correlation in inside:
                out[place] = out[place]._replace(ranges=paths[inside[correlation]])
    return out, lost, ranked


# --- names: the functions of the machine code as their author wrote them ---

_OPERATOR = re.compile(r"\boperator\b\s*(\(\)|[^\s(\w]+)?")


def name_of(symbol: str, signature: str) -> str:
    """A function's name without namespaces, template arguments and parameters."""
    if signature == symbol:
        return kernel_name(symbol)
    return kernel_name(_function(signature) or symbol)


def _function(signature: str) -> str:
    """``void a::b<c::d>(e)`` -> ``b``: the name outside of brackets, before the parameters."""
    depth, flat = 0, []
    text = signature.replace("(anonymous namespace)", "{anonymous}")
    text = _OPERATOR.sub("operator", text)
    for letter in text:
        if letter in "<[":
            depth += 1
        elif letter in ">]":
            depth -= 1
        elif letter == "(" and not depth:
            break
        elif not depth:
            flat.append(letter)
    return "".join(flat).split(" ")[-1].rpartition("::")[2]


# --- from launches to a survey ---

#: The number of order statistics that are kept for a kernel.
QUANTILES = 33


def kind_of(symbol: str) -> WorkKind:
    """The kind of work, by the tracer's name."""
    if symbol.startswith("[copy"):
        return "copy"
    return "fill" if symbol == "[fill]" else "kernel"


def quantiles(values: Sequence[int], most: int = QUANTILES) -> tuple[int, ...]:
    """Evenly spaced order statistics, first and last included; all values if they are few."""
    return tuple(spaced(sorted(values), most))


def spaced(values: Sequence[int], most: int) -> list[int]:
    """All values, or `most` evenly spaced ones, first and last included."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(number * last / (most - 1))] for number in range(most)]


def survey_of(
    traces: Sequence[Trace], walls_s: Sequence[float], way: Way = "trace", nvtx: str = ""
) -> Survey:
    """The survey of one or several runs.

    Args:
        traces: One per run; each has its launches by their start.
        walls_s: The duration of each run, in seconds.
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
    ranks = [trace.who for trace in traces]
    every = [trace.launches for trace in traces]
    steady, sequence = steady_of(every, ranks, places)
    works = tuple(
        _work(
            symbol,
            by_symbol[symbol],
            (_most(before[symbol], places), _most(after[symbol], places)),
            ranks,
        )
        for symbol in order
    )
    return Survey(
        way=way,
        nvtx=nvtx,
        works=works,
        steady=steady,
        sequence=sequence,
        runs=tuple(
            _run(trace, own, wall_s)
            for trace, own, wall_s in zip(traces, ranks, walls_s, strict=True)
        ),
        ranks=ranks_in(every, every, ranks),
    )


def _run(trace: Trace, ranks: Ranks, wall_s: float) -> ProgramRun:
    launches = trace.launches
    span = max((x.end for x in launches), default=0) - min((x.start for x in launches), default=0)
    return ProgramRun(
        wall_s=wall_s,
        # The first GPUs of two processes may be different GPUs.
        busy_ns=union_ns(launches, lambda launch: (ranks.place(launch), launch.device)),
        span_ns=span,
        processes=trace.processes,
        cut=trace.cut,
    )


def _work(
    symbol: str,
    runs: list[list[TracedLaunch]],
    beside: tuple[int, int],
    ranks: Sequence[Ranks],
) -> Work:
    every = [launch for run in runs for launch in run]
    kind = kind_of(symbol)
    signature = demangled(symbol) if kind == "kernel" else symbol
    name = name_of(symbol, signature) if kind == "kernel" else symbol
    known = shapes_of(every) if kind == "kernel" else []
    of_ranks = [0] * len(ranks[0].keys if ranks else ())
    for run, own in zip(runs, ranks, strict=True):
        for launch in run if len(own.keys) == len(of_ranks) else ():
            if of_ranks and (at := own.place(launch)) >= 0:
                of_ranks[at] += launch.duration
    ranges, count = shares((launch.ranges, launch.duration) for launch in every)
    return Work(
        symbol=symbol,
        name=name,
        signature=signature if signature != name else "",
        kind=kind,
        launches=tuple(len(run) for run in runs),
        total_ns=tuple(sum(launch.duration for launch in run) for run in runs),
        quantiles_ns=quantiles([launch.duration for launch in every]),
        shapes=tuple(known[:SHAPES]),
        shape_count=len(known),
        devices=tuple(sorted({launch.device for launch in every})),
        before=beside[0],
        after=beside[1],
        graph=any(launch.graph for launch in every),
        bytes=sum(launch.bytes for launch in every),
        ranges=ranges,
        range_count=count,
        multi_device=any(launch.multi_device for launch in every),
        ranks_ns=tuple(of_ranks),
    )


_Counts = dict[str, Counter[str]]


def _neighbours(traces: Sequence[Trace]) -> tuple[_Counts, _Counts]:
    """Count how often each kernel is just before, and just after, each other on its stream.

    A repetition of the same kernel does not count: it would hide the order of calls.
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
    found = min(counts, key=lambda symbol: (-counts[symbol], places[symbol]), default="")
    return places.get(found, -1)
