"""The tables of ``workbench tune``: winners and fates of the rest; effects, cliffs, sizes.

A page and a terminal print the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from workbench.analysis.story import Step, telling
from workbench.ladder.tunings import Trial, Tuning, score, shown_values
from workbench.language import N_, _, told
from workbench.tune.documents import TuneDocument, TunedVersion, TuneTrial, TuneWinner
from workbench.tune.effects import Cliff, Effect, cliffs, effects, wrong_choices
from workbench.units import count, factor, quantity, several
from workbench.views.shapes import shaped
from workbench.views.sheets import Sheet
from workbench.views.text.documents import step_of

_ENDED = {
    "space": N_("all of the space was tried"),
    "converged": N_("the search found nothing better"),
    "budget": N_("the budget was used up"),
    "interrupted": N_("it was interrupted; run the same command to continue"),
    "failed": N_("it failed"),
}
#: The note under the emulator's table.
_UNKNOWN = N_(
    "ranked by counts alone: the emulator does not model latency, caches or clocks, so neighbours "
    "in this order may change places on a GPU; `workbench tune --engine gpu` times them"
)
#: The most cliffs in a table, and the most counters of a step beyond those in its sentence.
_CLIFFS, _COUNTERS = 12, 6
#: Name -> the name when it is used without a number.
_APART = {"global sectors": N_("sectors of global memory")}


def _choice(trial: Trial | None) -> str:
    return "—" if trial is None else shown_values(trial.values)


def _times(tuning: Tuning, other: Trial | None, best: Trial) -> float | None:
    """The other's time over the best one's."""
    above, below = score(tuning.engine, other), score(tuning.engine, best)
    return above / below if above and below else None


def _winner(tuning: Tuning, problem: str) -> TuneWinner:
    best, runner_up = tuning.ranked(problem)[0], tuning.runner_up(problem)
    default = tuning.default_trial(problem)
    return TuneWinner(
        problem=problem,
        best=_trial(best),
        default=_trial(default) if default else None,
        times_default=_times(tuning, default, best),
        runner_up=_trial(runner_up) if runner_up else None,
    )


def _trial(trial: Trial) -> TuneTrial:
    return shaped(trial, TuneTrial, samples=len(trial.samples_s))


def _cells(tuning: Tuning, winner: TuneWinner) -> dict[str, str]:
    best, second = tuning.ranked(winner.problem)[0], tuning.runner_up(winner.problem)
    slower = _times(tuning, second, best)
    gpu, half = tuning.engine == "gpu", ""
    if best.low_s is not None and best.high_s is not None and best.median_s:
        half = f"±{quantity(round(50 * (best.high_s - best.low_s) / best.median_s, 2), '%')}"
    return {
        "version": tuning.version,
        "problem": winner.problem,
        "best": _choice(best),
        "median" if gpu else "estimate": quantity(score(tuning.engine, best), "s"),
        "±": half,
        "× default": factor(winner.times_default) if winner.times_default else "—",
        "runner-up": f"{_choice(second)} ({factor(slower)})" if slower else _choice(second),
    }


def _flat(tuning: Tuning, trial: Trial) -> dict[str, object]:
    """A row of ``--format csv``: every trial, raw numbers in base units."""
    return {
        "study": tuning.study,
        "version": tuning.version,
        "device": tuning.gpu,
        "engine": tuning.engine,
        "problem": trial.problem,
        **{name: trial.values.get(name) for name in tuning.parameters},
        "fate": trial.fate,
        "seconds": trial.median_s,
        "low": trial.low_s,
        "high": trial.high_s,
        "samples": len(trial.samples_s),
        "estimate": trial.estimate,
        "bound": trial.bound_s,
        "registers": trial.registers,
        "shared": trial.shared,
        "occupancy": trial.occupancy,
        "gpu_seconds": trial.gpu_s,
        "why": trial.why,
    }


def _notes(tuning: Tuning) -> list[str]:
    fates = (f"{count(many)} {_(fate)}" for fate, many in tuning.fates.items())
    trials = several(len(tuning.trials), "trial")
    notes = [_("{trials}: {fates}").format(trials=trials, fates=_(", ").join(fates))]
    if tuning.gpu_s is not None:
        text = _("{time} of GPU time; the CPU saved {runs}")
        time, runs = quantity(tuning.gpu_s, "s"), several(tuning.saved, "run")
        notes.append(text.format(time=time, runs=runs))
    if tuning.ended != "space":
        notes.append(_(_ENDED[tuning.ended]))
    for problem in tuning.problems:
        if problem not in tuning.winners:
            notes.append(_("no choice was timed on {problem}").format(problem=problem))
    for problem, best in tuning.winners.items():
        if best.why:
            said = _("the winner on {problem}: {why}")
            notes.append(said.format(problem=problem, why=told(best.why)))
    for each in tuning.trials:
        if each.fate in ("wrong", "failed", "hung") and (each.median_s or each.estimate):
            choice, name, why = shown_values(each.values), each.problem, told(each.why)
            said = _("{choice} does not win on {name}: {why}")
            notes.append(said.format(choice=choice, name=name, why=why))
    unknown = [_(_UNKNOWN)] * (tuning.engine == "emulator")
    return [f"{tuning.version}{_(': ')}{each}" for each in notes] + unknown


def tune_sheet(study: str, tunings: Sequence[Tuning], steps: Sequence[Mapping[str, Step]]) -> Sheet:
    """The table of ``workbench tune`` for one study and engine.

    `steps` holds, for each tuning, the step from runner-up to winner by problem.
    """
    rows, raw, documents, notes = [], [], [], list[str]()
    for tuning, own in zip(tunings, steps, strict=True):
        winners = [_winner(tuning, name) for name in tuning.problems if name in tuning.winners]
        rows += [_cells(tuning, each) for each in winners]
        raw += [_flat(tuning, trial) for trial in tuning.trials]
        documents.append(
            shaped(
                tuning,
                TunedVersion,
                device=tuning.gpu,
                fates=dict(tuning.fates),
                winners=winners,
                trials=[_trial(each) for each in tuning.trials],
                effects=[effects(tuning, problem) for problem in tuning.winners],
                cliffs=[each for problem in tuning.winners for each in cliffs(tuning, problem)],
                wrong_choices=wrong_choices(tuning),
                steps=[step_of(each.comparison, each.story) for each in own.values()],
            )
        )
        notes += _notes(tuning)
    first = tunings[0]
    timed = N_("median") if first.engine == "gpu" else N_("estimate")
    columns = (
        N_("version"),
        N_("problem"),
        N_("best"),
        timed,
        "±",
        N_("× default"),
        N_("runner-up"),
    )
    header = tuple(each for each in columns if (timed, each) != ("estimate", "±"))
    return Sheet(
        title=(_("study {study} on {device}, tuned").format(study=study, device=first.gpu),),
        header=header,
        shown=tuple(tuple(row[name] for name in header) for row in rows),
        extra=("runner-up", "±"),
        raw=tuple(raw),
        document=TuneDocument(study=study, tunings=documents).plain(),
        notes=tuple(notes),
    )


# --- tables below the winner's ---


def percent(share: float | None) -> str:
    """A share of the variance."""
    return "—" if share is None else quantity(round(100 * share, 1), "%")


def told_sheets(tuning: Tuning, steps: Mapping[str, Step]) -> Iterator[Sheet]:
    """All tables of a tuning that are not empty: for each problem, then over problems.

    `steps` go from the runner-up to the winner, by problem.
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
    """The effects of each parameter, and of each pair beyond those, the largest first."""
    found = effects(tuning, problem)
    title = _("which parameter matters on {problem}: share of the variance of the time's logarithm")
    many = several(found.tried, "choice")
    note = (
        _("of {choices}: every combination of the values that were timed").format(choices=many)
        if found.complete
        else _(
            "of {choices}, not of every combination: only those that a search or a race tried. "
            "Shares need not add up to 100%"
        ).format(choices=many)
    )
    notes = [note]
    if tuning.engine == "emulator":
        notes.append(_("of the emulator's estimates: no time was measured"))
    return Sheet(
        title=(title.format(problem=problem),),
        header=(_("parameter"), _("share"), _("time by value, relative to the best one")),
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
    """Steps that cost much, and the facts that moved; None without any."""
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
        " → ".join(_(_APART.get(each, each)) for each in cliff.limiter.split(" → ")),
        _("; ").join(_told(each) for each in cliff.moved),
    )


def _told(moved: str) -> str:
    """A fact that moved; one about two counters is shown in parts."""
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
    """Changes from runner-up to winner, as `diff` shows them: the sentence, and counters."""
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
    best = score(tuning.engine, ranked[0])
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
    seconds = score(tuning.engine, trial)
    occupancy = None if trial.occupancy is None else round(100 * trial.occupancy, 1)
    return (
        name,
        shown_values(trial.values),
        quantity(seconds, "s") if seconds else _(trial.fate),
        factor(seconds / best) if seconds and best else "—",
        quantity(trial.registers),
        quantity(occupancy, "%"),
    )
