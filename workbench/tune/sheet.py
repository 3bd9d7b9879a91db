"""The table of ``workbench tune``: the best choice of each problem, and what became of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.analysis.story import Step
from workbench.ladder.tunings import Trial, Tuning, score, shown_values
from workbench.language import N_, _
from workbench.tune.documents import TuneDocument, TunedVersion, TuneTrial, TuneWinner
from workbench.tune.effects import cliffs, effects, wrong_choices
from workbench.units import count, factor, quantity, several
from workbench.views.shapes import shaped
from workbench.views.sheets import Sheet
from workbench.views.text.documents import step_of

_ENDED = {
    "space": N_("all of the space was tried"),
    "converged": N_("the search found nothing better any more"),
    "budget": N_("the budget was over"),
    "interrupted": N_("it was interrupted; the same command goes on"),
    "failed": N_("it failed"),
}
#: What the emulator does not know: said under its table.
_UNKNOWN = N_(
    "ranked by counts alone: the emulator knows no latency, no caches and no clocks, so neighbours "
    "in this order may change places on a GPU; `workbench tune --engine gpu` times them"
)


def _choice(trial: Trial | None) -> str:
    return "—" if trial is None else shown_values(trial.values)


def _times(tuning: Tuning, other: Trial | None, best: Trial) -> float | None:
    """How many times the other's time the best one's goes into."""
    above, below = score(tuning, other), score(tuning, best)
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
        "median" if gpu else "estimate": quantity(score(tuning, best), "s"),
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
        text = _("{time} of the GPU; {runs} of it saved on the CPU")
        time, runs = quantity(tuning.gpu_s, "s"), several(tuning.saved, "run")
        notes.append(text.format(time=time, runs=runs))
    if tuning.ended != "space":
        notes.append(_(_ENDED[tuning.ended]))
    for problem in tuning.problems:
        if problem not in tuning.winners:
            notes.append(_("no choice was timed on {problem}").format(problem=problem))
    unknown = [_(_UNKNOWN)] * (tuning.engine == "emulator")
    return [f"{tuning.version}{_(': ')}{each}" for each in notes] + unknown


def tune_sheet(study: str, tunings: Sequence[Tuning], steps: Sequence[Mapping[str, Step]]) -> Sheet:
    """The table of ``workbench tune``.

    Args:
        study: The study's name.
        tunings: At least one, of one study and engine.
        steps: Of each, from the runner-up to the winner, by problem.
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
