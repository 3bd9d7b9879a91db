"""What a tuning says besides its winner, as tables: effects, cliffs, other sizes.

A page and a terminal print the same rows, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from workbench.analysis.story import Step, telling
from workbench.ladder.tunings import Trial, Tuning, score, shown_values
from workbench.language import N_, _, told
from workbench.tune.effects import Cliff, Effect, cliffs, effects, wrong_choices
from workbench.units import factor, quantity, several
from workbench.views.sheets import Sheet

#: Cliffs that a table lists, and counters of a step besides those that its sentence names.
_CLIFFS, _COUNTERS = 12, 6
#: What is called otherwise where it stands alone: of the other name there is a number of.
_APART = {"global sectors": N_("sectors of global memory")}
_NO_STEPS: Mapping[str, Step] = MappingProxyType({})


def percent(share: float | None) -> str:
    """A share of the variance."""
    return "—" if share is None else quantity(round(100 * share, 1), "%")


def told_sheets(tuning: Tuning, steps: Mapping[str, Step] = _NO_STEPS) -> Iterator[Sheet]:
    """All tables of a tuning, those that say something: of each problem, then over problems.

    Args:
        tuning: The tuning.
        steps: From the runner-up to the winner, by problem.
    """
    for problem in tuning.winners:
        if problem in steps:
            yield step_sheet(steps[problem])
        yield effects_sheet(tuning, problem)
        if found := cliffs_sheet(tuning, problem):
            yield found
    if len(tuning.winners) > 1:
        yield sizes_sheet(tuning)


def effects_sheet(tuning: Tuning, problem: str) -> Sheet:
    """How much each parameter matters, and each two beyond that, the largest first."""
    found = effects(tuning, problem)
    title = _("which parameter matters on {problem}: share of the variance of the time's logarithm")
    many = several(found.tried, "choice")
    note = (
        _("of {choices}: every combination of the values that were timed").format(choices=many)
        if found.complete
        else _(
            "of {choices}, not of every combination: those that a search or a race took. "
            "Shares need not add up to 100%"
        ).format(choices=many)
    )
    notes = [note]
    if tuning.engine == "emulator":
        notes.append(_("of the emulator's estimates: no time was measured"))
    return Sheet(
        title=(title.format(problem=problem),),
        header=(_("parameter"), _("share"), _("time by value, over that of the best value")),
        shown=tuple(_effect(each) for each in (*found.mains, *found.pairs)),
        notes=tuple(notes),
    )


def _effect(effect: Effect) -> tuple[str, str, str]:
    costs = [
        f"{level.value}: {'—' if level.factor is None else factor(level.factor)}"
        for level in effect.levels
    ]
    said = _(effect.why) if effect.why else ", ".join(costs)
    return " × ".join(effect.parameters), percent(effect.share), said


def cliffs_sheet(tuning: Tuning, problem: str) -> Sheet | None:
    """Steps that cost much, and what moved on the way; None where there are none."""
    found = cliffs(tuning, problem)
    if not found:
        return None
    left = len(found) - _CLIFFS
    more = _("and {n} smaller ones").format(n=left)
    return Sheet(
        title=(_("cliffs on {problem}: one step of one parameter").format(problem=problem),),
        header=(_("step"), _("slower"), _("choices"), _("what moved"), _("from where to where")),
        shown=tuple(_cliff(each) for each in found[:_CLIFFS]),
        extra=(_("choices"),),
        notes=(more,) * (left > 0),
    )


def _cliff(cliff: Cliff) -> tuple[str, ...]:
    before, after = cliff.fast[cliff.parameter], cliff.slow[cliff.parameter]
    return (
        f"{cliff.parameter} {before} → {after}",
        factor(cliff.factor),
        str(cliff.cases),
        _limiter(cliff.limiter) if cliff.limiter else _("unknown"),
        _("; ").join(_told(each) for each in cliff.moved)
        or _("nothing that the compiler or the emulator say moved so far"),
    )


def _limiter(name: str) -> str:
    return " → ".join(_(_APART.get(each, each)) for each in name.split(" → "))


def _told(moved: str) -> str:
    """A fact that moved; one that names two is told in its parts."""
    said = told(moved)
    return said if said != moved else _(", ").join(map(told, moved.split(", ")))


def sizes_sheet(tuning: Tuning) -> Sheet:
    """The winners by problem, and what each costs on the others."""
    rows = wrong_choices(tuning)
    return Sheet(
        title=(_("what the winner of one problem costs on another"),),
        header=(_("winner of"), _("choice"), *(row.problem for row in rows)),
        shown=tuple(
            (
                row.problem,
                shown_values(row.values),
                *(
                    "—" if (cost := row.costs[other.problem]) is None else factor(cost)
                    for other in rows
                ),
            )
            for row in rows
        ),
        notes=(_("— that choice was not timed there"),)
        * any(cost is None for row in rows for cost in row.costs.values()),
    )


def step_sheet(step: Step) -> Sheet:
    """What moved from the runner-up to the winner, as `diff` has it: the sentence, and counters."""
    comparison, story = step.comparison, step.story
    title = _("from the runner-up to the winner on {problem}")
    said = (story.sentence, *comparison.refusals, *comparison.warnings)
    return Sheet(
        title=(title.format(problem=comparison.new.problem),),
        header=(_("counter"), *step.labels, _("change")),
        shown=tuple(
            (
                _(delta.title),
                quantity(delta.old, delta.unit),
                quantity(delta.new, delta.unit),
                f"{delta.difference} {delta.ratio}".rstrip(),
            )
            for delta in telling(comparison, story, step.scale, _COUNTERS)
        ),
        raw=(),
        document={},
        notes=tuple(each for each in said if each),
    )


def best_sheet(tuning: Tuning, problem: str) -> Sheet:
    """The best choices on a problem beside the version's own values."""
    ranked, default = tuning.ranked(problem), tuning.default_trial(problem)
    best = score(tuning, ranked[0])
    named: list[tuple[str, Trial | None]] = [(_("winner"), ranked[0])]
    if runner_up := tuning.runner_up(problem):
        named.append((_("runner-up"), runner_up))
    named.append((_("without tuning"), default))
    return Sheet(
        header=("", _("choice"), _("time"), _("over the best"), _("registers"), _("occupancy")),
        shown=tuple(_row(tuning, name, trial, best) for name, trial in named),
    )


def _row(tuning: Tuning, name: str, trial: Trial | None, best: float | None) -> tuple[str, ...]:
    if trial is None:
        return (name, shown_values(tuning.default), "—", "—", "—", "—")
    seconds = score(tuning, trial)
    occupancy = None if trial.occupancy is None else round(100 * trial.occupancy, 1)
    return (
        name,
        shown_values(trial.values),
        quantity(seconds, "s") if seconds else _(trial.fate),
        factor(seconds / best) if seconds and best else "—",
        quantity(trial.registers),
        quantity(occupancy, "%"),
    )
