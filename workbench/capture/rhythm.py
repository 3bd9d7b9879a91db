"""The part of a program that repeats itself: a training step, a request, a frame.

What a program does before that (it compiles, it tries candidates, it fills caches) is told apart,
for it says nothing of how fast a step is. The period is the distance at which the stream of
launches is equal to itself for the longest time; an iteration begins at a launch that occurs once
in a period, so that a step which launches something more (every tenth one writes a log) is one
iteration all the same.

A sweep is no rhythm: who tries six block sizes, a hundred launches of each, spends most of the
time before the last hundred in the same kernels. Nor is one kernel launched again and again: there
an iteration is a launch, and their durations say it all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from operator import eq
from typing import NamedTuple, Protocol

from workbench.capture.records import Shape, Steady, SteadyWork
from workbench.model import Dim3

#: Iterations that there must be, and that are kept: the last ones.
FEWEST, KEPT = 3, 48
#: Configurations of a kernel that are kept, and launches of the order in which it all happens.
SHAPES, ORDER = 64, 400
#: Launches of the end of a program that are looked at.
_LOOKED = 200_000
#: Distances that are tried.
_TRIED = 24
#: How much longer or shorter than the period an iteration may be.
_SLACK = 0.5
#: Part of the time outside of iterations that their kernels may have, unless the iterations make
#: as large a part of the whole.
_OUTSIDE = 0.5


class Launched(Protocol):
    """What is read of a launch."""

    @property
    def symbol(self) -> str:
        """The function."""

    @property
    def process(self) -> int:
        """Of which process."""

    @property
    def device(self) -> int:
        """On which device."""

    @property
    def stream(self) -> int:
        """On which of its streams."""

    @property
    def start(self) -> int:
        """Nanoseconds of one clock."""

    @property
    def end(self) -> int:
        """The same."""

    @property
    def grid(self) -> Dim3:
        """Blocks; zeros where it is no kernel."""

    @property
    def block(self) -> Dim3:
        """Threads of a block."""

    @property
    def dynamic_shared(self) -> int:
        """Bytes of a block's dynamic shared memory."""


class Rhythm(NamedTuple):
    """`starts` of the iterations as places in a stream of tokens, and where the last ends."""

    starts: tuple[int, ...]
    end: int
    period: int


def rhythm(tokens: Sequence[Hashable]) -> Rhythm | None:
    """Where a stream repeats itself to (nearly) its end; None: nowhere.

    Args:
        tokens: What is launched, one after the other.
    """
    first = max(0, len(tokens) - _LOOKED)
    stream = list(tokens[first:])
    # What a program ends in counts: a compiler's candidates repeat themselves as well, before it.
    for part in (8, 4, 2, 1):
        begin = len(stream) - len(stream) // part
        best = _period(stream[begin:])
        if best is not None and (part == 1 or best[0] > len(stream) // part // 2):
            break
    if best is None:
        return None
    at, period = begin + best[1], best[2]
    pattern = Counter(stream[at : at + period])
    # The first launch of the equal part that occurs once: an iteration may begin anywhere.
    anchor = next((token for token in stream[at : at + period] if pattern[token] == 1), None)
    if anchor is None:
        places = list(range(at, len(stream), period))
    else:
        places = [place for place, token in enumerate(stream) if token == anchor]
    starts: list[int] = []
    for here, then in pairwise(places):
        if _alike(stream[here:then], pattern):
            starts.append(here)
        elif here > at:
            break
        else:
            starts.clear()
    if len(starts) < FEWEST:
        return None
    end = next(place for place in places if place > starts[-1])
    return Rhythm(tuple(first + place for place in starts), first + end, period)


def _period(stream: Sequence[Hashable]) -> tuple[int, int, int] | None:
    """How many launches are equal to those a period later, where most of them are, the period."""
    best: tuple[int, int, int] | None = None
    for period in _distances(stream):
        equal, at = _equal(stream, period)
        # A multiple of the period is equal nearly as often; the first one is the shortest.
        if equal >= (FEWEST - 1) * period and (best is None or equal > 1.2 * best[0]):
            best = equal, at, period
    return best


def _alike(iteration: Sequence[Hashable], pattern: Counter[Hashable]) -> bool:
    """Whether an iteration launches what the pattern does, give or take `_SLACK` of it."""
    size = pattern.total()
    if not (1 - _SLACK) * size <= len(iteration) <= (1 + _SLACK) * size:
        return False
    return (pattern - Counter(iteration)).total() < _SLACK * size


def _distances(stream: Sequence[Hashable]) -> list[int]:
    """Distances at which something recurs in the last half, the likeliest ones, short ones first.

    What occurs once an iteration recurs at just its length; what occurs k times at the sum of k
    distances.
    """
    half = stream[len(stream) // 2 :]
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, token in enumerate(half):
        places[token].append(place)
    votes: Counter[int] = Counter()
    rare = sorted((own for own in places.values() if len(own) >= FEWEST - 1), key=len)
    for own in rare[:64]:
        for steps in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            gaps = Counter(b - a for a, b in zip(own, own[steps:], strict=False))
            for gap, count in gaps.most_common(2):
                if count > 1 or len(own) < 4:
                    votes[gap] += count * gap
    return sorted(gap for gap, _ in votes.most_common(_TRIED) if gap > 1)


def _equal(stream: Sequence[Hashable], period: int) -> tuple[int, int]:
    """How many launches are those of a period later, in parts as long as one; the longest's start.

    Parts of one kernel alone are equal to themselves at any distance, and do not count.
    """
    total, longest, start, at = 0, 0, 0, 0
    for value, group in groupby(map(eq, stream, stream[period:])):
        length = sum(1 for _ in group)
        if value and length >= period and len(set(stream[at : at + period])) > 1:
            total += length
            if length > longest:
                longest, start = length, at
        at += length
    return total, start


def steady_of(
    runs: Sequence[Sequence[Launched]], places: Mapping[str, int]
) -> tuple[Steady | None, tuple[int, ...]]:
    """The steady state of a program, and the works in the order of their launches.

    Args:
        runs: The launches of each run, by their start.
        places: The place of a symbol in the survey.

    Returns:
        None where a run has none, or the runs have different ones; and `Survey.sequence`.
    """
    found = [_iterations(launches) for launches in runs]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(runs) or len({one.period for one in known}) > 1:
        return None, _order(runs[0] if runs else (), places)
    kept: list[dict[int, list[Launched]]] = []  # of each iteration, by place
    spans: list[int] = []
    for launches, one in zip(runs, known, strict=True):
        own: list[dict[int, list[Launched]]] = [defaultdict(list) for _ in one.begins]
        for number, launch in _inside(launches, one):
            own[number][places[launch.symbol]].append(launch)
        most = max(FEWEST, KEPT // len(runs))
        kept += own[-most:]
        spans += [then - here for here, then in pairwise((*one.begins, one.end))][-most:]
    there = sorted({place for iteration in kept for place in iteration})
    steady = Steady(
        period=known[0].period,
        iterations=tuple(len(one.begins) for one in known),
        warm_ns=tuple(one.warm_ns for one in known),
        works=tuple(
            SteadyWork(
                place=place,
                launches=tuple(len(iteration.get(place, ())) for iteration in kept),
                total_ns=tuple(
                    sum(x.end - x.start for x in iteration.get(place, ())) for iteration in kept
                ),
                shapes=tuple(
                    shapes_of([x for each in kept for x in each.get(place, ()) if x.grid[0]])
                )[:SHAPES],
            )
            for place in there
        ),
        spans_ns=tuple(spans),
    )
    last = sorted((x for own in kept[-1].values() for x in own), key=lambda x: x.start)
    return steady, _order(last, places)


def shapes_of(launches: Sequence[Launched]) -> list[Shape]:
    """The configurations of some launches of a kernel, in the order of their time, down."""
    groups: dict[tuple[object, ...], list[Launched]] = defaultdict(list)
    for launch in launches:
        groups[launch.grid, launch.block, launch.dynamic_shared].append(launch)
    found = [
        Shape(
            grid=own[0].grid,
            block=own[0].block,
            dynamic_shared=own[0].dynamic_shared,
            launches=len(own),
            total_ns=sum(launch.end - launch.start for launch in own),
        )
        for own in groups.values()
    ]
    return sorted(found, key=lambda shape: (-shape.total_ns, shape.grid, shape.block))


def _order(launches: Iterable[Launched], places: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(islice((place for place, _ in groupby(places[x.symbol] for x in launches)), ORDER))


class _Iterations(NamedTuple):
    """When each iteration begins, when the last ends, and the work before the first."""

    begins: tuple[int, ...]
    end: int
    warm_ns: int
    period: int


def _iterations(launches: Sequence[Launched]) -> _Iterations | None:
    kernels = [launch for launch in launches if launch.grid[0]]
    time: Counter[tuple[int, int, int]] = Counter()
    for launch in kernels:
        time[launch.process, launch.device, launch.stream] += launch.end - launch.start
    if not time:
        return None
    # Streams overlap, each time otherwise; one alone has an order.
    busiest = time.most_common(1)[0][0]
    own = [x for x in kernels if (x.process, x.device, x.stream) == busiest]
    found = rhythm([(x.symbol, x.grid, x.block) for x in own])
    if found is None:
        return None
    begins = tuple(own[place].start for place in found.starts)
    end = own[found.end].start if found.end < len(own) else own[-1].end
    inside = {own[place].symbol for place in range(found.starts[0], found.end)}
    outside = [x for x in kernels if not begins[0] <= x.start < end]
    rest = sum(x.end - x.start for x in outside)
    alike = sum(x.end - x.start for x in outside if x.symbol in inside)
    whole = sum(x.end - x.start for x in kernels)
    if alike > _OUTSIDE * rest and whole - rest < _OUTSIDE * whole:
        return None
    every = sum(x.end - x.start for x in launches if x.start < begins[0])
    return _Iterations(begins, end, every, found.period)


def _inside(launches: Sequence[Launched], of: _Iterations) -> Iterator[tuple[int, Launched]]:
    """The launches of all streams inside of iterations, by the iteration's number."""
    number = -1
    for launch in launches:
        while number + 1 < len(of.begins) and launch.start >= of.begins[number + 1]:
            number += 1
        if number >= 0 and launch.start < of.end:
            yield number, launch
