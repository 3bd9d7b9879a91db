"""The part of a program that repeats itself: a training step, a request, a frame.

The program's work before that part (compiling, trying candidates, filling caches) is separated, as
it does not show how fast a step is. The period is the distance at which the stream of launches
equals itself for the longest time. An iteration begins at a launch that occurs once in a period, so
that a step with additional launches (every tenth one writes a log) is still one iteration.

A sweep is not periodic: a program that tries six block sizes, with a hundred launches each, spends
most of its time before the last hundred in the same kernels. Nor is a single repeated kernel: there
an iteration is a launch, and the durations of the launches are enough. The exception is a tuner,
which tries configurations first: it launches the chosen one repeatedly at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from operator import eq
from typing import NamedTuple

from workbench.model import Config
from workbench.programs.capture.ranks import Ranks, rank_of, waits, waits_for
from workbench.programs.capture.records import Rank, Shape, Steady, SteadyWork, TracedLaunch

#: The fewest iterations, and the number of last iterations that are kept.
FEWEST, KEPT = 3, 48
#: The most configurations of a kernel, and the most launches of the order, that are kept.
SHAPES, ORDER = 64, 400
#: Launches at the end of a program that are searched for a period.
_LOOKED = 200_000
#: The number of distances that are tried.
_TRIED = 24
#: The part of the period by which an iteration may be longer or shorter.
_SLACK = 0.5
#: The fewest calls in a row at the end after tuning, and the fewest other configurations tried.
_CALLS, _OTHERS = 20, 3
#: The largest part of the time outside of iterations that the iterations' kernels may take, unless
#: the iterations make as large a part of the whole.
_OUTSIDE = 0.5


class Rhythm(NamedTuple):
    """The iterations' `starts` as indices in a stream of tokens, and the `end` of the last one."""

    starts: tuple[int, ...]
    end: int
    period: int


def rhythm(tokens: Sequence[Hashable]) -> Rhythm | None:
    """The part of a stream that repeats itself to (nearly) its end, or None."""
    first = max(0, len(tokens) - _LOOKED)
    stream = list(tokens[first:])
    # The end of a program counts: a tuner's candidates before it repeat themselves as well.
    for part in (8, 4, 2, 1):
        begin = len(stream) - len(stream) // part
        best = _period(stream[begin:])
        if best is not None and (part == 1 or best[0] > len(stream) // part // 2):
            break
    if best is None:
        return None
    at, period = begin + best[1], best[2]
    pattern = Counter(stream[at : at + period])
    # The equal part's first launch that occurs once: an iteration may begin anywhere.
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


def settled(tokens: Sequence[tuple[Hashable, ...]]) -> Rhythm | None:
    """The calls of the chosen configuration at the end of a stream; None: there are none.

    It was launched before as well, separated by launches of others (or of a kernel that flushes the
    cache). Each other one was tried once: a sweep that launches all of them again chose none.
    """
    end = len(tokens)
    for token, group in groupby(reversed(tokens)):
        length = sum(1 for _ in group)
        if length < _CALLS:
            end -= length
            continue
        begin = end - length
        own = (x for x in islice(tokens, begin) if x[0] == token[0])
        tried = Counter(x for x, _ in groupby(own))
        once = tried.pop(token, 0) and len(tried) >= _OTHERS and set(tried.values()) == {1}
        after = len(tokens) - end
        return Rhythm(tuple(range(begin, end)), end, 1) if once and after < length else None
    return None


def _period(stream: Sequence[Hashable]) -> tuple[int, int, int] | None:
    """How many launches equal those a period later, where the longest run starts, the period."""
    best: tuple[int, int, int] | None = None
    for period in _distances(stream):
        equal, at = _equal(stream, period)
        # A multiple of the period has nearly as many equal launches; the first one is the shortest.
        if equal >= (FEWEST - 1) * period and (best is None or equal > 1.2 * best[0]):
            best = equal, at, period
    return best


def _alike(iteration: Sequence[Hashable], pattern: Counter[Hashable]) -> bool:
    """True if an iteration launches the pattern's kernels, give or take `_SLACK` of them."""
    size = pattern.total()
    if not (1 - _SLACK) * size <= len(iteration) <= (1 + _SLACK) * size:
        return False
    return (pattern - Counter(iteration)).total() < _SLACK * size


def _distances(stream: Sequence[Hashable]) -> list[int]:
    """The likeliest distances at which tokens recur in the last half, the shortest first.

    A token that occurs once in an iteration recurs at its length; one that occurs k times, at the
    sum of k distances.
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
    """The number of launches equal to those a period later, and the start of the longest part.

    Parts with only one kernel equal themselves at any distance, and do not count.
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
    runs: Sequence[Sequence[TracedLaunch]], ranks: Sequence[Ranks], places: Mapping[str, int]
) -> tuple[Steady | None, tuple[int, ...]]:
    """The steady state of a program, and the works in the order of their launches.

    Each rank has its own iterations, which begin at their own times.

    Returns:
        None if a run has none, or the runs have different ones; and `Survey.sequence`.
    """
    found = [_of_ranks(launches, own) for launches, own in zip(runs, ranks, strict=True)]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(runs) or len({one[0].period for one in known}) > 1:
        return None, _order(_first(runs[0], ranks[0]) if runs else (), places)
    kept: list[list[TracedLaunch]] = []  # of each iteration
    spans: list[int] = []
    for launches, own, sides in zip(runs, ranks, known, strict=True):
        each: list[list[TracedLaunch]] = [[] for _ in sides[0].begins]
        for place, side in enumerate(sides):
            mine = [x for x in launches if max(own.place(x), 0) == place]
            for number, launch in _inside(mine, side):
                each[number].append(launch)
        most = max(FEWEST, KEPT // len(runs))
        kept += [sorted(iteration, key=lambda x: x.start) for iteration in each[-most:]]
        spans += [then - here for here, then in pairwise((*sides[0].begins, sides[0].end))][-most:]
    by_place: list[dict[int, list[TracedLaunch]]] = []
    for iteration in kept:
        by_place.append(defaultdict(list))
        for launch in iteration:
            by_place[-1][places[launch.symbol]].append(launch)
    there = sorted({place for iteration in by_place for place in iteration})
    steady = Steady(
        period=known[0][0].period,
        iterations=tuple(len(sides[0].begins) for sides in known),
        warm_ns=tuple(sum(side.warm_ns for side in sides) for sides in known),
        works=tuple(
            SteadyWork(
                place=place,
                launches=tuple(len(iteration.get(place, ())) for iteration in by_place),
                total_ns=tuple(
                    sum(x.end - x.start for x in iteration.get(place, ())) for iteration in by_place
                ),
                shapes=tuple(
                    shapes_of([x for each in by_place for x in each.get(place, ()) if x.grid[0]])
                )[:SHAPES],
            )
            for place in there
        ),
        spans_ns=tuple(spans),
        ranks=ranks_in(runs, kept, ranks),
    )
    return steady, _order(_first(kept[-1], ranks[-1]), places)


def ranks_in(
    runs: Sequence[Sequence[TracedLaunch]],
    parts: Sequence[Sequence[TracedLaunch]],
    ranks: Sequence[Ranks],
) -> tuple[Rank, ...]:
    """The time of every rank in each part; empty if the runs have no ranks, or different ones."""
    labels = {tuple(zip(own.numbers, own.devices, strict=True)) for own in ranks}
    if len(labels) != 1:
        return ()
    waited: dict[int, int] = {}
    of: dict[int, int] = {}  # the rank of each launch
    for launches, own in zip(runs, ranks, strict=True):
        waited |= waits(launches, own)
        of |= {id(launch): own.place(launch) for launch in launches}
    return tuple(
        rank_of(key, [[x for x in part if of[id(x)] == place] for part in parts], waited)
        for place, key in enumerate(labels.pop())
    )


def _of_ranks(launches: Sequence[TracedLaunch], ranks: Ranks) -> tuple[_Iterations, ...] | None:
    """The iterations of each rank (or of the program); None: their numbers differ too much."""
    sides: list[list[TracedLaunch]] = [[] for _ in range(max(1, len(ranks.keys)))]
    for launch in launches:
        sides[max(ranks.place(launch), 0)].append(launch)
    found = [_iterations(side) for side in sides]
    known = tuple(one for one in found if one is not None)
    least = min((len(one.begins) for one in known), default=0)
    if len(known) < len(sides) or any(len(one.begins) > least + 1 for one in known):
        return None
    # The last ones correspond: a rank may have begun to repeat itself one iteration earlier.
    return tuple(one._replace(begins=one.begins[-least:]) for one in known)


def _first(launches: Sequence[TracedLaunch], ranks: Ranks) -> Iterator[TracedLaunch]:
    """The launches of the first rank, which have one order."""
    return (launch for launch in launches if ranks.place(launch) == 0)


def shapes_of(launches: Sequence[TracedLaunch]) -> list[Shape]:
    """The configurations of some launches of a kernel, the longest total time first."""
    groups: dict[Config, list[TracedLaunch]] = defaultdict(list)
    for launch in launches:
        groups[launch.config].append(launch)
    found = [
        Shape(*config, launches=len(own), total_ns=sum(launch.duration for launch in own))
        for config, own in groups.items()
    ]
    return sorted(found, key=lambda shape: (-shape.total_ns, shape.grid, shape.block))


def _order(launches: Iterable[TracedLaunch], places: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(islice((place for place, _ in groupby(places[x.symbol] for x in launches)), ORDER))


class _Iterations(NamedTuple):
    """The start of each iteration, the end of the last, and the work before the first."""

    begins: tuple[int, ...]
    end: int
    warm_ns: int
    period: int


def _iterations(launches: Sequence[TracedLaunch]) -> _Iterations | None:
    # The duration of a kernel that communicates depends on the other ranks.
    kernels = [launch for launch in launches if launch.grid[0] and not waits_for(launch.symbol)]
    time: Counter[tuple[int, int, int]] = Counter()
    for launch in kernels:
        time[launch.process, launch.device, launch.stream] += launch.end - launch.start
    if not time:
        return None
    # Streams overlap differently each time; a single stream has one order.
    busiest = time.most_common(1)[0][0]
    own = [x for x in kernels if (x.process, x.device, x.stream) == busiest]
    calls = settled([(x.symbol, x.config) for x in own])
    found = calls or rhythm([(x.symbol, x.grid, x.block) for x in own])
    if found is None:
        return None
    begins = tuple(own[place].start for place in found.starts)
    end = own[found.end].start if found.end < len(own) else own[-1].end
    inside = {own[place].symbol for place in range(found.starts[0], found.end)}
    outside = [x for x in kernels if not begins[0] <= x.start < end]
    rest = sum(x.end - x.start for x in outside)
    alike = sum(x.end - x.start for x in outside if x.symbol in inside)
    whole = sum(x.end - x.start for x in kernels)
    if calls is None and alike > _OUTSIDE * rest and whole - rest < _OUTSIDE * whole:
        return None
    every = sum(x.end - x.start for x in launches if x.start < begins[0])
    return _Iterations(begins, end, every, found.period)


def _inside(
    launches: Sequence[TracedLaunch], of: _Iterations
) -> Iterator[tuple[int, TracedLaunch]]:
    """The launches of all streams inside of iterations, by the iteration's number."""
    number = -1
    for launch in launches:
        while number + 1 < len(of.begins) and launch.start >= of.begins[number + 1]:
            number += 1
        if number >= 0 and launch.start < of.end:
            yield number, launch
