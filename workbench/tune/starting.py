"""The next version of a ladder, made of a tuning's winner."""

from __future__ import annotations

import re

from msgspec.structs import replace

from workbench.errors import MissingError, UsageError, did_you_mean
from workbench.ladder.tunings import Trial, Tuning, find, key_of, load, shown_values
from workbench.language import _, told
from workbench.project import Project
from workbench.specs import Version
from workbench.store import means_device
from workbench.study.folder import Study, source_hash
from workbench.study.scaffold import start_version
from workbench.tune.space import with_values
from workbench.units import factor


def start_tuned(
    project: Project, study: Study, name: str, version: Version, problem: str, title: str
) -> tuple[str, str]:
    """Write a new version: a tuned one with the values of its winner, and without its space.

    `name` is ``v5`` or ``v5_some_name``. `problem`: whose winner is meant; empty: the only one.
    `title`: empty: made from the problem. Returns the path, and words on the copied version.

    Raises:
        MissingError: it was never tuned, or not on that problem.
        UsageError: it has changed since, winners differ and none is chosen, the winner was not
            verified, or its own values won.
        DataError: a tuning is damaged.
    """
    tuning = _tuning(project, study, version)
    problem = _problem(tuning, version, problem)
    best = tuning.winners[problem]
    if not best.verified and not best.why:
        raise UsageError(
            f"the winner of {version.id} on {problem} was not verified on every problem",
            f"`workbench tune {study.name}/{version.id}` does so, with the trials that are kept.",
        )
    moved = {
        parameter: (tuning.default.get(parameter), value)
        for parameter, value in best.values.items()
        if tuning.default.get(parameter) != value
    }
    if not moved:
        raise UsageError(
            f"{version.id} already has the best values of its space ({shown_values(best.values)})",
            "Nothing was written. Add values to [tune], or change the kernel.",
        )
    steps = ", ".join(f"{parameter} {old} → {new}" for parameter, (old, new) in moved.items())
    change = (
        _("Tuned for {problem} on {device}: {steps}.")
        if tuning.engine == "gpu"
        else _("Tuned for {problem} on {device}, ranked by the emulator's counts: {steps}.")
    )
    child = replace(with_values(version, best.values), id=version.id, tune=None)
    # A file has one name in every language.
    plain = "_".join(re.findall(r"[a-z0-9]+", problem.lower()))
    path = start_version(
        study,
        project,
        name if title or "_" in name else f"{name}_tuned_for_{plain}"[:40].rstrip("_"),
        child,
        title or _("Tuned for {problem}").format(problem=problem),
        change=change.format(problem=problem, device=tuning.gpu, steps=steps),
    )
    return path, _told(tuning, version, problem, best)


def _told(tuning: Tuning, version: Version, problem: str, best: Trial) -> str:
    said = _("{version} with {values}, which won on {problem}")
    default, times = tuning.default_trial(problem), 0.0
    if tuning.engine != "gpu":
        said += _(" by the emulator's estimate: no time was measured")
    elif default is not None and default.median_s and best.median_s:
        said += _(": {times} the speed of its own values")
        times = default.median_s / best.median_s
    values = shown_values(best.values)
    line = said.format(version=version.id, values=values, problem=problem, times=factor(times))
    return f"{line}; {told(best.why)}" if best.why else line


def _tuning(project: Project, study: Study, version: Version) -> Tuning:
    """The tuning to use: of these sources, preferably timed and on our device."""
    found = [load(path) for path in find(project.profiles, study.name, version.id)]
    again = f"`workbench tune {study.name}/{version.id}` tunes it."
    if not found:
        raise MissingError(f"{study.name}/{version.id} was never tuned", again)
    now = source_hash(project, version)
    sound = [each for each in found if each.source_hash == now and each.winners]
    if not sound:
        if any(each.source_hash == now for each in found):
            raise UsageError(f"the tuning of {version.id} has no winner", again)
        raise UsageError(f"{version.id} has changed since it was tuned", again)
    named = project.default_device

    def rank(each: Tuning) -> tuple[bool, bool, str]:
        return each.engine == "gpu", bool(named) and means_device(named, each.gpu), each.started

    return max(sound, key=rank)


def _problem(tuning: Tuning, version: Version, problem: str) -> str:
    winners = tuning.winners
    if problem:
        if problem not in winners:
            raise MissingError(
                f"{version.id} has no winner on {problem}",
                did_you_mean(problem, list(winners), "problems"),
            )
        return problem
    if len({key_of(each.values) for each in winners.values()}) > 1:
        listed = "; ".join(f"{name}: {shown_values(each.values)}" for name, each in winners.items())
        raise UsageError(
            f"the winners of {version.id} differ by problem",
            f"Choose one, as {version.id}:PROBLEM: {listed}.",
        )
    return next(iter(winners))
