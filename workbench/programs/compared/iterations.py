"""Programs that repeat themselves, as their iterations, which hold the same on both sides.

The repeating part of a stream of launches is found for each side by itself (`capture/periodicity`),
so that one side's may hold two calls where the other's holds one: a compiled function that takes
turns between two buffers, say. Such iterations are put together before they are compared.

What comes before them may be a tuner's: `tuning` says which kernels were tried.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median_low

from msgspec.structs import replace

from workbench.analysis.naming import shortened
from workbench.language import _
from workbench.model import Record
from workbench.programs.capture.records import (
    ProgramCapture,
    ProgramRun,
    Steady,
    SteadyWork,
    Survey,
)
from workbench.programs.compared.counterparts import OFTEN, TRIED
from workbench.units import listed, quantity, several

#: As many calls were made by both sides, up to this part: those before the first are not counted.
_CALLS = Fraction(1, 10)
#: More iterations than these are not put together.
_MOST = 8


def steadied(capture: ProgramCapture) -> ProgramCapture:
    """A capture as if each of the iterations that are kept were a run of its own.

    Works keep their places; what an iteration does not launch has none of it.
    """
    steady = capture.survey.steady
    if steady is None:
        return capture
    own = {work.place: work for work in steady.repeated}
    nothing = SteadyWork(place=-1, launches=(0,) * steady.kept, total_ns=(0,) * steady.kept)
    works = tuple(
        replace(work, launches=x.launches, total_ns=x.total_ns, shapes=x.shapes)
        for place, work in enumerate(capture.survey.works)
        for x in (own.get(place, nothing),)
    )
    runs = (ProgramRun(wall_s=0.0, busy_ns=0, span_ns=0),) * steady.kept
    survey = replace(capture.survey, works=works, runs=runs, ranks=steady.ranks)
    return replace(capture, survey=survey)


def alike(
    old: ProgramCapture, new: ProgramCapture
) -> tuple[tuple[ProgramCapture, ProgramCapture], str]:
    """Both with iterations that hold the same calls, and what was done for it; "" where nothing."""
    times = together(old.survey, new.survey)
    sides = tuple(_joined(side, each) for side, each in zip((old, new), times, strict=True))
    said = ""
    if times != (1, 1):
        counts = [several(each, "iteration") for each in times]
        said = _(
            "{counts_0} of @{name} and {counts_1} of @{name2} hold the same calls, "
            "and are compared as one"
        ).format(counts_0=counts[0], name=old.name, counts_1=counts[1], name2=new.name)
    return (sides[0], sides[1]), said


def together(old: Survey, new: Survey) -> tuple[int, int]:
    """The numbers of iterations of both sides with the same calls; (1, 1) if unknown.

    Two of the old one go with one of the new one where every kernel, fill and copy that both have
    is launched twice as often in the new one, *and* the program made half as many iterations of
    them. Without the second it would be the same call that does twice the work.
    """
    if old.steady is None or new.steady is None or old.steady.ranks or new.steady.ranks:
        return 1, 1
    before, after = _launches(old, old.steady), _launches(new, new.steady)
    ratios = {Fraction(after[name], before[name]) for name in before.keys() & after.keys()}
    if len(ratios) != 1:
        return 1, 1
    times = ratios.pop()
    calls = sum(old.steady.iterations), sum(new.steady.iterations) * times
    found = times.numerator, times.denominator
    if max(found) > _MOST or abs(calls[0] - calls[1]) > calls[0] * _CALLS:
        return 1, 1
    if old.steady.kept % found[0] or new.steady.kept % found[1]:
        return 1, 1  # totals of shapes are of all that are kept: none of them can be left out
    return found


def _joined(capture: ProgramCapture, times: int) -> ProgramCapture:
    """Every `times` iterations as one, in their order; what is kept is a multiple of it."""
    steady = capture.survey.steady
    if steady is None or times == 1:
        return capture
    works = tuple(
        replace(work, launches=_sums(work.launches, times), total_ns=_sums(work.total_ns, times))
        for work in steady.works
    )
    steady = replace(
        steady,
        period=steady.period * times,
        iterations=tuple(count // times for count in steady.iterations),
        works=works,
        spans_ns=_sums(steady.spans_ns, times),
    )
    return replace(capture, survey=replace(capture.survey, steady=steady))


def _sums(values: tuple[int, ...], times: int) -> tuple[int, ...]:
    return tuple(sum(values[at : at + times]) for at in range(0, len(values), times))


def _launches(survey: Survey, steady: Steady) -> dict[str, int]:
    """Launches of an iteration by the symbol; of works that an iteration launches."""
    found: dict[str, int] = {}
    for work in steady.repeated:
        symbol = survey.works[work.place].symbol
        found[symbol] = found.get(symbol, 0) + median_low(work.launches)
    return {symbol: launches for symbol, launches in found.items() if launches}


#: Part of the time before the iterations from which a tuner is worth a word.
_WORTH = 0.1
#: Kernels that are named; how far what was tried may exceed the time before: both are means.
_NAMED, _ROUNDED = 2, 1.02


class Autotuning(Record, frozen=True):
    """Kernels that were tried before the iterations, in many configurations, each again and again.

    An iteration launches one of these or none. `tried` and `between` are places in the survey,
    `between` of what a tuner launches from one try to the next (it clears the cache, say). Launches
    and nanoseconds are means of a run; `share` is the part (0-1) that both take of the time before
    the iterations.
    """

    tried: tuple[int, ...]
    configurations: int
    launches: float
    tried_ns: float
    between: tuple[int, ...]
    between_ns: float
    share: float


def tuning(survey: Survey) -> Autotuning | None:
    """Configurations tried before the iterations; None without evidence, or if it is negligible.

    Kernels of unlike sizes are not unlike configurations: those differ in more than the grid.
    """
    steady, runs = survey.steady, len(survey.runs)
    warm = sum(steady.warm_ns) if steady is not None else 0
    if steady is None or not steady.kept or not warm:
        return None
    # Of all iterations the last ones are kept.
    scale = sum(steady.iterations) / steady.kept
    own = {work.place: work for work in steady.repeated}
    tried: dict[int, tuple[int, float, float]] = {}
    for place, work in enumerate(survey.works):
        called = own.get(place)
        calls = {x.config: x for x in called.shapes} if called else {}
        often = {
            x.config: x.launches - (scale * calls[x.config].launches if x.config in calls else 0.0)
            for x in work.shapes
        }
        many = [key for key, launches in often.items() if launches >= OFTEN * runs]
        if len(many) >= TRIED and len(calls) <= 1 and len({key[1:] for key in many}) > 1:
            inside = scale * sum(called.total_ns) if called else 0.0
            tried[place] = len(many), sum(often.values()), sum(work.total_ns) - inside
    around = {*tried, -1}
    between = [
        place
        for place, work in enumerate(survey.works)
        if place not in tried
        and place not in own
        and work.kind != "copy"
        and {work.before, work.after} <= {*around, place}
        and {work.before, work.after} & tried.keys()
        and sum(work.launches) >= OFTEN * TRIED * runs
    ]
    spent = sum(ns for _, __, ns in tried.values())
    beside = sum(sum(survey.works[place].total_ns) for place in between)
    if not tried or not _WORTH * warm <= spent + beside <= _ROUNDED * warm:
        return None
    return Autotuning(
        tried=tuple(sorted(tried, key=lambda place: -tried[place][2])),
        configurations=sum(configurations for configurations, __, _ in tried.values()),
        launches=sum(launches for _, launches, __ in tried.values()) / runs,
        tried_ns=spent / runs,
        between=tuple(between),
        between_ns=beside / runs,
        share=min((spent + beside) / warm, 1.0),
    )


def tuning_words(survey: Survey) -> str:
    """``100% is tuning: 8 launch shapes of matmul_kernel in 2,782 launches``; "" for none."""
    found = tuning(survey)
    if found is None:
        return ""
    tried, between = (
        listed(list(dict.fromkeys(shortened(survey.works[x].name) for x in places)), _NAMED + 1)
        for places in (found.tried, found.between)
    )
    text = _(
        "{share} is tuning: {shapes} launch shapes of {tried} in {launches} ({tried_ns})"
    ).format(
        share=quantity(100 * found.share, "%"),
        shapes=found.configurations,
        tried=tried,
        launches=several(round(found.launches), "launch", "launches"),
        tried_ns=quantity(1e-9 * found.tried_ns, "s"),
    )
    if between:
        text += _(", {between} between them ({between_ns})").format(
            between=between, between_ns=quantity(1e-9 * found.between_ns, "s")
        )
    return text
