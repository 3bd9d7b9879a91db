"""Does a version's time grow with the problem? Pure functions.

A time that stays the same while the work grows is no time of the work. The classic case is
a stop watch around the first launch: loading the module and starting the library take
milliseconds whatever the size, and every size seems to cost the same. Two others look
alike: a host that cannot enqueue faster, and a grid too small to fill the device, where
more blocks cost nothing until all multiprocessors are busy.

The rule, for two problems that one version was timed on:

- *Same family*: every parameter of the larger problem is at least that of the smaller one.
  So a 3×3 filter is compared with a 3×3 filter or a larger one, and never a batch of 8
  with a batch of 1 of larger images.
- *More work*: operations and least traffic, as far as the study gives them, both grow by
  `WORK` or more. A kernel's time follows one of the two; where only one grows, the time
  may rightly stay.
- *No more time*: the median grows by less than `TIME`.
- *Well above a launch*: both medians are at least `FLOOR_S`. A launch costs the device some
  2 to 5 µs whatever it does, and small problems rightly stay there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from workbench.language import N_, _
from workbench.model import Record, Timing
from workbench.units import factor, quantity, span

#: Work must grow by this factor at least …
WORK = 4.0
#: … and time by less than this one, to be called out.
TIME = 1.10
#: Seconds: ten times the 5 µs that a launch can cost, for libraries that take several.
FLOOR_S = 50e-6
#: A median this close (as a factor, either way) to the first launch's cost is taken for it.
_LIKE_FIRST = 1.5
#: Notices of `workbench.engines.gpu.stopwatch` by which the host, not the device, set the pace.
_HOST_NOTICES = frozenset(("launch-overhead", "no-graph"))

Cause = Literal["first-launch", "host", "fixed"]


class Flat(Record, frozen=True):
    """A run of problems over which a version's time does not grow.

    `problems` go from the smallest to the largest by work, `seconds` are their medians in
    the same order, `growth` is by how much the work grows from the first to the last.
    """

    version: str
    problems: tuple[str, ...]
    seconds: tuple[float, ...]
    growth: float
    cause: Cause


def work_growth(small: Timing, large: Timing) -> float:
    """By what factor the work grows: the smaller of the factors of operations and bytes.

    1.0 where the problems are not of one family, or the study gives neither number.
    """
    if small.parameters.keys() != large.parameters.keys():
        return 1.0
    if any(large.parameters[name] < value for name, value in small.parameters.items()):
        return 1.0
    pairs = ((small.flops, large.flops), (small.bytes, large.bytes))
    return min((after / before for before, after in pairs if before and after), default=1.0)


def _stays(small: Timing, large: Timing) -> bool:
    times = (small.time.value, large.time.value)
    return min(times) >= FLOOR_S and times[1] < TIME * times[0]


def flat_times(timings: Iterable[Timing]) -> list[Flat]:
    """Where times do not grow with the work, the widest runs of each version first.

    `timings` are of one study and device, each problem once per version. The runs have no common
    problem, and are in the order in which versions first appear.
    """
    versions: dict[str, list[Timing]] = {}
    for timing in timings:
        versions.setdefault(timing.version, []).append(timing)
    return [flat for own in versions.values() for flat in _of_version(own)]


def _of_version(timings: Sequence[Timing]) -> list[Flat]:
    pairs = [
        (growth, small, large)
        for small in timings
        for large in timings
        if (growth := work_growth(small, large)) >= WORK and _stays(small, large)
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1].problem, pair[2].problem))
    taken: set[str] = set()
    found = []
    for growth, small, large in pairs:
        between = [
            timing
            for timing in timings
            if work_growth(small, timing) > 1.0
            and work_growth(timing, large) > 1.0
            and _stays(small, timing)
        ]
        run = [small, *sorted(between, key=lambda t: (t.flops, t.bytes)), large]
        names = [timing.problem for timing in run]
        if taken.intersection(names):
            continue
        taken.update(names)
        found.append(
            Flat(
                version=small.version,
                problems=tuple(names),
                seconds=tuple(timing.time.value for timing in run),
                growth=growth,
                cause=_cause(run),
            )
        )
    return found


def _cause(run: Sequence[Timing]) -> Cause:
    like = [
        timing.first_launch > 0
        and 1 / _LIKE_FIRST <= timing.time.value / timing.first_launch <= _LIKE_FIRST
        for timing in run
    ]
    if all(like):
        return "first-launch"
    codes = {notice.code for timing in run for notice in timing.notices}
    return "host" if codes & _HOST_NOTICES else "fixed"


_WHY: dict[Cause, str] = {
    "first-launch": N_(
        "That is what its first launch costs: it seems to load or set up "
        "something in every execution."
    ),
    "host": N_("The host could not enqueue it faster, so this is the host's time."),
    "fixed": N_(
        "Either its blocks are too few to fill the device at these sizes, or "
        "most of its time does not depend on the size; its profile tells which "
        "(occupancy, waves)."
    ),
}


def describe(flat: Flat) -> str:
    """One run as a sentence of what was seen and one of what it may mean."""
    low, high = (quantity(bound, "s") for bound in (min(flat.seconds), max(flat.seconds)))
    others = len(flat.problems) - 2
    between = _(" ({others} in between)").format(others=others) if others else ""
    return _(
        "the time of {version} does not grow with the size: {time} from {first} "
        "to {last}{between}, where the work grows {growth}. {why}"
    ).format(
        version=flat.version,
        time=span(low, high),
        first=flat.problems[0],
        last=flat.problems[-1],
        between=between,
        growth=factor(flat.growth),
        why=_(_WHY[flat.cause]),
    )


def warnings(timings: Iterable[Timing]) -> list[str]:
    """`flat_times` in words: one warning a version, its widest run in full."""
    said: dict[str, str] = {}
    for flat in flat_times(timings):
        if flat.version not in said:
            said[flat.version] = describe(flat)
        else:
            said[flat.version] += _(" Likewise from {problems_0} to {problems_last}.").format(
                problems_0=flat.problems[0], problems_last=flat.problems[-1]
            )
    return list(said.values())
