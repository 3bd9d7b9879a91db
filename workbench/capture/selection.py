"""Which kernels are looked at closely, and which of their launches.

ncu takes one filter for all kernels of a run: their names, and the numbers of their
invocations. So the same few numbers serve every kernel, chosen so that together they stand as
close as can be to the durations of all launches: with k numbers, the k-medians of the
durations, each kernel weighed by its time (chosen greedily, which comes within a constant
factor of the best choice: Nemhauser, Wolsey, Fisher, Mathematical Programming 14, 1978).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from workbench.capture.trace import TracedLaunch
from workbench.captures.records import Survey, Work
from workbench.errors import UsageError
from workbench.model import Record

#: Kernels that are profiled unless told otherwise: so many, or fewer if they make this part.
TOP, ENOUGH = 5, 0.9
#: Launches of each.
LAUNCHES = 3
#: Invocation numbers that are weighed against each other, and durations of a kernel that are.
_CANDIDATES, _SAMPLE = 300, 65


class Wish(Record, frozen=True):
    """What a user asked to look at closely. `top` None: as many as make `ENOUGH`, up to `TOP`."""

    kernel: str | None = None
    top: int | None = None
    launches: int = LAUNCHES
    nvtx: str | None = None


class Picked(Record, frozen=True):
    """The kernels (places in the survey), and the numbers of their invocations, from 1."""

    works: tuple[int, ...]
    invocations: tuple[int, ...]


def pick(survey: Survey, launches: Iterable[TracedLaunch], wish: Wish) -> Picked:
    """What ncu is to collect.

    Args:
        survey: Of the same runs.
        launches: Of one of these runs, by their start.
        wish: What a user asked for.

    Raises:
        UsageError: no kernel is called as `wish` says, or it is no regular expression.
    """
    works = _kernels(survey.works, wish)
    own: dict[str, list[int]] = defaultdict(list)
    chosen = {survey.works[place].symbol for place in works}
    for launch in launches:
        if launch.symbol in chosen:
            own[launch.symbol].append(launch.duration)
    return Picked(works=works, invocations=invocations(own, wish.launches))


def _kernels(works: Sequence[Work], wish: Wish) -> tuple[int, ...]:
    kernels = [place for place, work in enumerate(works) if work.kind == "kernel"]
    if wish.kernel is not None:
        try:
            pattern = re.compile(wish.kernel)
        except re.error as error:
            raise UsageError(
                f"--kernel {wish.kernel!r} is no regular expression: {error}", "Correct it."
            ) from error
        found = [x for x in kernels if pattern.search(works[x].signature or works[x].name)]
        if not found:
            names = ", ".join(dict.fromkeys(works[place].name[:60] for place in kernels[:8]))
            raise UsageError(
                f"no kernel of the program matches --kernel {wish.kernel!r}",
                f"Those that take most time: {names}.",
            )
        kernels = found
    if wish.top is not None:
        return tuple(kernels[: wish.top])
    whole = sum(sum(works[place].total_ns) for place in kernels)
    taken, out = 0, []
    for place in kernels[:TOP]:
        out.append(place)
        taken += sum(works[place].total_ns)
        if taken >= ENOUGH * whole:
            break
    return tuple(out)


def invocations(durations: Mapping[str, Sequence[int]], most: int) -> tuple[int, ...]:
    """Up to `most` numbers of invocations that stand for the durations of every kernel.

    Each kernel has at least one of them, though that may take more numbers than `most`.

    Args:
        durations: Of each kernel, in the order of its launches, in any unit.
        most: How many launches of a kernel are wanted.
    """
    kernels = [list(values) for values in durations.values() if values]
    if not kernels:
        return ()
    counts = sorted({len(values) for values in kernels})
    numbers = _spaced(range(1, counts[-1] + 1), _CANDIDATES)
    numbers = sorted({*numbers, *counts, *range(1, min(counts[0], _CANDIDATES) + 1)})
    samples = [_spaced(sorted(values), _SAMPLE) for values in kernels]
    # What a kernel is off by as long as nothing stands for it: all of its duration.
    nearest = [[float(value) for value in sample] for sample in samples]
    chosen: list[int] = []
    while len(chosen) < most or any(len(values) < min(chosen) for values in kernels):
        best, gain = 0, 0.0
        for number in numbers:
            won = 0.0
            for values, sample, near in zip(kernels, samples, nearest, strict=True):
                if number <= len(values):
                    own = values[number - 1]
                    scale = len(values) / len(sample)
                    won += scale * sum(
                        max(0.0, off - abs(value - own))
                        for value, off in zip(sample, near, strict=True)
                    )
            if won > gain:
                best, gain = number, won
        if not best:
            best = next((x for x in numbers if x not in chosen), 0)
            if not best:
                break
        chosen.append(best)
        numbers.remove(best)
        for values, sample, near in zip(kernels, samples, nearest, strict=True):
            if best <= len(values):
                own = values[best - 1]
                near[:] = [
                    min(off, abs(value - own)) for value, off in zip(sample, near, strict=True)
                ]
    return tuple(sorted(chosen))


def _spaced(values: Sequence[int], most: int) -> list[int]:
    """All of them, or `most` that are evenly spaced, first and last included."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(step * last / (most - 1))] for step in range(most)]


def matched(profile_symbols: Sequence[str], survey: Survey) -> tuple[int, ...]:
    """The work of each launch of a report, by its function in the machine code; -1: none."""
    places = {work.symbol: place for place, work in enumerate(survey.works)}
    return tuple(places.get(symbol, -1) for symbol in profile_symbols)
