"""The step from a tuning's runner-up to its winner, from the profiles kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench.analysis.story import Step
from workbench.errors import DataError
from workbench.ladder.tunings import Trial, Tuning
from workbench.model import Estimate, Profile, Timing
from workbench.store import Store

#: Problem -> the step from its runner-up to its winner.
Steps = dict[str, Step]


def tuned_steps(
    store: Store, tuning: Tuning, say: Callable[[str], None], problems: Iterable[str] = ()
) -> Steps:
    """The steps of problems, or of all, that have a runner-up and both profiles.

    `say` gets the reason why one of them cannot be read.
    """
    found: Steps = {}
    for problem in problems or tuning.winners:
        sides = tuning.sides(store, problem)
        if not sides or not all(path.is_file() for _, path in sides):
            continue
        try:
            (winner, new), (runner_up, old) = ((each, store.load(path)) for each, path in sides)
        except DataError as error:
            say(error.message)
        else:
            found[problem] = step_between(tuning, (runner_up, winner), (old, new))
    return found


def step_between(
    tuning: Tuning, trials: tuple[Trial, Trial], profiles: tuple[Profile, Profile]
) -> Step:
    """The step from one choice to another; each is named by the values in which they differ."""
    old, new = trials
    differ = [name for name in tuning.parameters if old.values[name] != new.values[name]]
    labels = [" ".join(f"{name}={each.values[name]}" for name in differ) for each in trials]
    times = _timing(tuning, old, profiles[0]), _timing(tuning, new, profiles[1])
    return Step(*profiles, (labels[0], labels[1]), times)


def _timing(tuning: Tuning, trial: Trial, profile: Profile) -> Timing | None:
    """A trial's times, in the form in which a version's times are recorded."""
    if trial.median_s is None or trial.low_s is None or trial.high_s is None:
        return None
    many = len(trial.samples_s)
    return Timing(
        study=tuning.study,
        version=profile.version,
        problem=trial.problem,
        device=profile.device,
        captured=tuning.stopped or tuning.started,
        time=Estimate(value=trial.median_s, low=trial.low_s, high=trial.high_s, n=many),
        source_hash=profile.source_hash,
    )
