"""Programs that repeat themselves, as iterations with the same calls on both sides.

Each side's repeating part is found separately (`capture/periodicity`), so one side's iteration may
hold two calls and the other's one: for example, if a compiled function alternates between two
buffers. Such iterations are joined before they are compared.

A tuner may run before them: `tuning` names the kernels that it tried.
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

#: Both sides made equally many calls, within this part: calls before the first do not count.
_CALLS = Fraction(1, 10)
#: The most iterations that are joined.
_MOST = 8


def steadied(capture: ProgramCapture) -> ProgramCapture:
    """A capture as if each kept iteration were a run of its own.

    Works keep their indices; a work that an iteration does not launch has zero time.
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
    """Both with iterations that hold the same calls, and a sentence on it; "" if unchanged."""
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

    Two old iterations match one new iteration if each kernel, fill and copy that both have is
    launched twice as often in the new one, *and* the new program made half as many iterations.
    Without the second condition, the same call may do twice the work.
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
        return 1, 1  # shapes have only totals over all kept iterations: none can be left out
    return found


def _joined(capture: ProgramCapture, times: int) -> ProgramCapture:
    """Join every `times` iterations into one, in order; `times` divides the kept ones."""
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
    """Launches of an iteration by symbol, for works that an iteration launches."""
    found: dict[str, int] = {}
    for work in steady.repeated:
        symbol = survey.works[work.place].symbol
        found[symbol] = found.get(symbol, 0) + median_low(work.launches)
    return {symbol: launches for symbol, launches in found.items() if launches}


#: The least part of the time before the iterations for which a tuner is mentioned.
_WORTH = 0.1
#: The most kernels named; by how much the trials' mean may exceed the mean time before.
_NAMED, _ROUNDED = 2, 1.02


class Autotuning(Record, frozen=True):
    """Kernels that were tried before the iterations, in many configurations, each repeatedly.

    An iteration launches one of these or none. `tried` and `between` are indices in the survey,
    `between` of works that a tuner launches between two trials (to clear the cache, for example).
    Launches and nanoseconds are means of a run; `share` is the part (0-1) that both take of the
    time before the iterations.
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

    Launches of different sizes do not count as configurations: those differ in more than the grid.
    """
    steady, runs = survey.steady, len(survey.runs)
    warm = sum(steady.warm_ns) if steady is not None else 0
    if steady is None or not steady.kept or not warm:
        return None
    # Only the last iterations are kept.
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
