"""Programs that repeat themselves, as their iterations, which hold the same on both sides.

The repeating part of a stream of launches is found for each side by itself (`capture/rhythm`), so
that one side's may hold two calls where the other's holds one: a compiled function that takes
turns between two buffers, say. Such iterations are put together before they are compared.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median_low

from msgspec.structs import replace

from workbench.capture.records import ProgramCapture, ProgramRun, Steady, Survey
from workbench.units import several

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
    nothing = (0,) * steady.kept
    works = tuple(
        replace(
            work,
            launches=own[place].launches if place in own else nothing,
            total_ns=own[place].total_ns if place in own else nothing,
            shapes=own[place].shapes if place in own else (),
        )
        for place, work in enumerate(capture.survey.works)
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
        said = (
            f"{counts[0]} of @{old.name} and {counts[1]} of @{new.name} hold the same calls, "
            "and are compared as one"
        )
    return (sides[0], sides[1]), said


def together(old: Survey, new: Survey) -> tuple[int, int]:
    """How many iterations of each side hold the same calls; (1, 1) where that is not known.

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
