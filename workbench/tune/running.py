"""A tuning from its space to its winners: sieve on the CPU, race on the GPU.

Choices that pass the sieve run on the GPU in the order of their estimate: timed alone and briefly,
and compared with the reference if they may be the best. Those then race, taking turns, with the
stopping rule of `workbench time`. Each trial is kept as it ends.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from workbench.analysis.times.timing import median_interval, minimum_samples
from workbench.engines import Engine, ProfileOptions, RunOptions, Say, now, silent
from workbench.engines.choice import choose, on_gpus
from workbench.engines.emulated.chips import device_of
from workbench.engines.emulated.engine import DEFAULT_ARCH
from workbench.engines.gpu.race import DRIFT
from workbench.engines.host.job import TimeOptions
from workbench.engines.host.worker_pool import Ending
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import (
    DataError,
    HangError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.ladder.tunings import (
    Fate,
    Reason,
    Trial,
    Tuning,
    TuningBegun,
    TuningEnded,
    TuningEngine,
    Values,
    forget_profiles,
    key_of,
    load,
    path_of,
    ranked,
    score,
    shown_values,
    writing,
)
from workbench.measure.experiment import Display, Experiment
from workbench.measure.plan import Combination, UnableError, by_work
from workbench.model import Problem
from workbench.processes.bounds import Deadline
from workbench.project import Project
from workbench.specs import Version
from workbench.study.sources import source_hash
from workbench.tune.prefilter import EMULATOR_S, Sieve, Sifted, fate_of, first_line, untold
from workbench.tune.search import Everything, Sampled, Search
from workbench.tune.space import Space
from workbench.units import quantity, several

#: A space of at most this many choices is tried whole: a sampler would save nothing.
_SMALL = 32
#: Parts of the budget after which the CPU counts no further choices, and the GPU tries none.
_COUNTING, _SCREENING = 0.4, 0.85
#: Seconds that a GPU has for one choice; a longer run counts as a hang.
HANG_S = 60.0
#: Choices that go to the GPU together. A search proposes as many, or a tenth of a small space, but
#: at least a few: it saves by learning from earlier choices.
_TOGETHER, _TENTH, _FEW = 16, 10, 4
#: A search ends after this many rounds in a row that each gain less than this part.
_PATIENCE, _BETTER = 4, 0.01
#: The most choices in one race.
_MOST_RACING = 12
#: A choice alone: the fewest samples that have an interval, and a graph if a launch is short. It
#: waits briefly for the clock: choices with similar times take turns afterwards.
_ALONE = TimeOptions(min_samples=8, max_samples=8, limit_s=2.0, settle_s=1.0, graph_below_s=50e-6)
_ALONE_WHY = "slower than the best, timed alone"
#: Choices that may be the best, until none can be faster than the first by more than the width.
_IN_TURNS = replace(_ALONE, min_samples=20, max_samples=2560, limit_s=10.0)


class TuneManner(NamedTuple):
    """Options of tuning a version, for at most `budget_s` seconds.

    Attributes:
        restart: Discard the records of earlier runs.
        profile: Profile winner and runner-up afterwards.
        since: When this run was first begun (ISO 8601), if it was cut short since: its records
            are not discarded, and a search that had ended is not begun again.
    """

    budget_s: float
    restart: bool = False
    profile: bool = True
    since: str = ""


class Tuner:
    """One run over a version's space."""

    def __init__(
        self, runner: Experiment, version: Version, options: RunOptions, display: Display
    ) -> None:
        self._runner, self._version = runner, version
        self._options, self._display = options, display
        engine = runner.engine
        where = engine.where if isinstance(engine, GpuEngine) else None
        self._timing = where is not None
        self._engine: TuningEngine = "gpu" if self._timing else "emulator"
        self._arch = where.arch if where else options.arch or DEFAULT_ARCH
        self._device = device_of(self._arch).slug
        self._hang_s = where.limit.seconds if where else EMULATOR_S
        self._gpu_s: float | None = None
        self._lock = threading.Lock()
        self._trials: dict[tuple[str, str], Trial] = {}
        self._fault: WorkbenchError | None = None

    def tune(self, problems: Sequence[Problem], manner: TuneManner) -> Tuning:
        """Search for `problems` (at least one, in order), and keep every trial as it ends.

        Raises:
            BusyError: the version is being tuned by another process.
            UsageError: it has no ``[tune]``.
            MissingError: nothing can run here; Optuna is needed and not installed; no space.
            DataError: the record of earlier runs is damaged.
        """
        runner, version = self._runner, self._version
        spaces = [Space(runner.study, version, problem) for problem in problems]
        first, engine = spaces[0], runner.engine
        end = time.monotonic() + manner.budget_s
        whole = first.many <= _SMALL
        if self._timing:
            self._device = runner.device
        begun = TuningBegun(
            study=runner.study.name,
            version=version.id,
            source_hash=source_hash(runner.project, version),
            problems=tuple(each.name for each in problems),
            gpu=self._device,
            engine=self._engine,
            parameters=dict(first.parameters),
            default=first.default,
            requires=first.requires,
            strategy=Everything.name if whole else Sampled.name,
            seed=engine.seed,
            budget_s=manner.budget_s,
            started=now(),
        )
        root = runner.store.root
        path = path_of(root, begun.gpu, begun.study, begun.version, begun.engine)
        kept = load(path) if manner.since and path.is_file() else None
        anew = manner.restart and not (kept and kept.started >= manner.since)
        if kept and not anew and _over(kept, begun, manner.since):
            return kept
        workers = (
            engine.staying(runner.study.name) if isinstance(engine, GpuEngine) else nullcontext()
        )
        with workers, writing(root, begun, anew=anew) as (self._log, earlier):
            self._trials = {each.key: each for each in earlier.trials}
            self._say_earlier(earlier)
            reason: Reason = "failed"
            try:
                reasons = []
                for place, space in enumerate(spaces):
                    left = (end - time.monotonic()) / (len(spaces) - place)
                    reasons.append(self._tuned(space, whole, max(0.0, left)))
                reason = "budget" if "budget" in reasons else reasons[-1]
            except (KeyboardInterrupt, SystemExit):
                reason = "interrupted"
                raise
            finally:
                if self._fault is None:
                    self._log.add(TuningEnded(ended=reason, stopped=now(), gpu_s=self._gpu_s))
        return load(path)

    def profile(self, done: Tuning) -> None:
        """Profile winner and runner-up; if that fails, say so and keep the tuning."""
        runner, version, say = self._runner, self._version, self._display.say
        options = replace(self._options, seed=runner.engine.seed, gpus="")
        wanted = "gpu" if done.engine == "gpu" else "emulator"
        say(f"profile winner and runner-up of {version.id}")
        try:
            engine = choose(wanted, runner.project, options, silent, profiling=True)
            profiler = Experiment(runner.project, runner.study, engine, self._display)
            profile_sides(profiler, version, done)
        except WorkbenchError as error:
            say(
                f"note: winner and runner-up of {version.id} are not profiled, so no counters "
                f"explain the tuning, which is still valid: {error.message}. {error.hint}"
            )

    def _say_earlier(self, earlier: Tuning) -> None:
        if earlier.torn:
            self._display.say("note: the last kept line is incomplete and was left out")
        if earlier.trials:
            self._display.say(
                f"{several(len(earlier.trials), 'trial')} of the same sources and space are "
                "already kept; --restart drops them"
            )

    # --- one problem -----------------------------------------------------------------------

    def _tuned(self, space: Space, whole: bool, budget_s: float) -> Reason:
        """Tune on one problem, within a time in seconds."""
        begin = time.monotonic()
        until = begin + budget_s
        counting = begin + (_COUNTING if self._timing else 1.0) * budget_s
        sieve = Sieve(self._runner, space, self._options, self._arch, self._device, counting)
        search = self._search(space, whole)
        say = self._display.say
        what = f"{several(space.many, 'choice')} of {space.words}"
        how = "all of them" if whole else "as Optuna's TPE proposes them"
        say(f"tune {self._version.id} on {space.problem.name}: {what}; {how}")
        last = begin + _SCREENING * budget_s if self._timing else until
        done = self._screened(space, search, sieve, last)
        self._raced(space, until)
        while not self._proved(space):
            self._reopen(space)
            self._raced(space, until)
        return done

    def _search(self, space: Space, whole: bool) -> Search:
        if whole:
            every = [values for values in space.every() if values != space.default]
            random.Random(self._runner.engine.seed).shuffle(every)
            return Everything([space.default] * space.holds(space.default) + every)
        search = Sampled(space, self._runner.engine.seed, [space.default])
        for trial in self._of(space):
            if trial.fate != "not run":
                search.tell(trial.values, score(self._engine, trial))
        return search

    def _asked(self, space: Space, search: Search, most: int) -> list[Values]:
        """Choices that have not been tried yet."""
        found: list[Values] = []
        while len(found) < most and (asked := search.ask(most - len(found))):
            for values in asked:
                known = self._trials.get((key_of(values), space.problem.name))
                if known is None or known.fate == "not run":
                    found.append(values)
                else:
                    search.tell(values, score(self._engine, known))
        return found

    def _sift(self, space: Space, sieve: Sieve, choices: Sequence[Values]) -> list[Sifted]:
        """Sift choices, record those that were dropped, and return the others, the best first."""
        name = space.problem.name
        kept, gone = [], 0
        with self._display.counting(len(choices)):
            self._display.doing(f"compile {several(len(choices), 'choice')} for {name}")
            for each in sieve.sift(choices, self._display.done):
                if each.subject is None:
                    gone += 1
                    self._keep(each.trial)
                else:
                    kept.append(each)
        if gone:
            self._display.say(f"{name}: {gone} of {several(len(choices), 'choice')} were dropped")
        known = [each for each in kept if each.trial.estimate]
        known.sort(key=lambda each: each.trial.estimate or 0.0, reverse=True)
        # Choices without counts keep their places: they may not be slower.
        return [known.pop() if each.trial.estimate else each for each in kept]

    def _screened(self, space: Space, search: Search, sieve: Sieve, until: float) -> Reason:
        """Time choices (count them without a GPU), each alone, until none is left or time is up."""
        patience = _Patience(self._best(space))
        whole = isinstance(search, Everything)
        together = 10**9 if whole and self._timing else _a_round(space)
        while time.monotonic() < until:
            asked = self._asked(space, search, together)
            if not asked:
                return "space"
            sifted = self._sift(space, sieve, asked)
            for first in range(0, len(sifted), _TOGETHER):
                if not self._timing:
                    self._count(sifted[first : first + _TOGETHER])
                elif time.monotonic() < until:
                    self._screen(space, sifted[first : first + _TOGETHER])
                else:
                    self._not_run(sifted[first:], "the budget was used up")
                    return "budget"
            for values in asked:
                trial = self._trials.get((key_of(values), space.problem.name))
                search.tell(values, score(self._engine, trial))
            if patience.over(self._best(space)) and not whole:
                return "converged"
        return "budget"

    def _count(self, sifted: Iterable[Sifted]) -> None:
        for each in sifted:
            if each.trial.estimate is None:
                self._not_run([each], each.trial.why or "no time was left to count it")
            else:
                self._keep(replace(each.trial, fate="counted", why=""))

    def _best(self, space: Space) -> float | None:
        known = ranked(self._of(space))
        sure = [each.high_s if self._timing else each.estimate for each in known]
        return min(filter(None, sure), default=None)

    def _not_run(self, sifted: Iterable[Sifted], why: str) -> None:
        for each in sifted:
            self._keep(replace(each.trial, fate="not run", why=why))

    def _screen(self, space: Space, sifted: Sequence[Sifted]) -> None:
        """Check and time choices, each alone."""
        self._on_gpu(
            [[each] for each in sifted],
            replace(_ALONE, ceiling_s=self._best(space)),
            lambda field, ending: self._alone(field[0], ending),
        )
        self._say_best(space)

    def _say_best(self, space: Space) -> None:
        own = [each for each in self._of(space) if each.median_s]
        for best in ranked(own)[:1]:
            self._display.say(
                f"{space.problem.name}: {len(own)} timed, best {quantity(best.median_s, 's')} with "
                f"{key_of(best.values)}"
            )

    def _alone(self, sifted: Sifted, ending: Ending) -> None:
        """Keep the result of a choice alone on the GPU."""
        trial, result, error = sifted.trial, ending.result, ending.error
        seconds = self._spend(result.seconds if result is not None else self._hang_s)
        trial = replace(trial, gpu_s=seconds)
        check = result.check if result is not None else None
        if error is None and result is not None and result.raced:
            fate: Fate
            fate, why = ("timed", "") if check else ("dropped", f"{_ALONE_WHY}; not compared")
            trial = replace(trial, why=why, verified=(trial.problem,) if check else ())
            self._keep(_timed(trial, fate, result.raced[0].samples))
            return
        why = first_line(error) if error else ""
        self._keep(replace(trial, fate=fate_of(error, check), why=why))

    # --- those that may be the best -----------------------------------------------------

    def _raced(self, space: Space, until: float) -> None:
        """Let those that may be the best race; the others are dropped."""
        name, timed = space.problem.name, ranked(self._of(space), "timed")
        if not timed:
            return
        limit = (timed[0].high_s or 0.0) * (1 + DRIFT)
        racing = [each for each in timed if (each.low_s or 0.0) <= limit][:_MOST_RACING]
        for each in timed:
            if all(each is not one for one in racing):
                self._keep(replace(each, fate="dropped", why=_ALONE_WHY))
        if len(racing) > 1:
            self._display.say(f"{name}: {len(racing)} are timed alternately")
        sifted = self._again(space, racing)
        left = max(2.0, until - time.monotonic())
        options = replace(_IN_TURNS, limit_s=min(_IN_TURNS.limit_s, left))
        if sifted:
            self._on_gpu([sifted], options, self._ran)

    def _again(self, space: Space, trials: Sequence[Trial]) -> list[Sifted]:
        """Trials with their subjects, compiled now or taken from the cache."""
        found = []
        for trial in trials:
            version = space.candidate(trial.values)
            subject = self._runner.subject(
                *Combination.of(self._runner.study, version, space.problem)
            )
            found.append(Sifted(trial.values, subject, trial))
        return found

    def _ran(self, field: Sequence[Sifted], ending: Ending) -> None:
        """Keep the times of a race; if it broke off, the times that each had alone remain."""
        result, error = ending.result, ending.error
        seconds = self._spend(result.seconds if result is not None else self._hang_s)
        if error is not None or result is None:
            words = first_line(error) if error else "it printed no times"
            self._display.say(f"note: alternate timing was stopped; single times are kept: {words}")
            return
        for sifted, raced in zip(field, result.raced, strict=True):
            trial = sifted.trial
            spent = (trial.gpu_s or 0.0) + seconds / len(field)
            why = "slower than the best, measured alternately" if raced.dropped else ""
            fate: Fate = "dropped" if raced.dropped else "timed"
            self._keep(_timed(replace(trial, gpu_s=spent, why=why), fate, raced.samples))

    # --- verifying the winner -----------------------------------------------------------

    def _proved(self, space: Space) -> bool:
        """Verify the best choice on every problem of the study, and keep the result.

        False: it is wrong, and another one is now the best.
        """
        study, name = self._runner.study, space.problem.name
        best = next(iter(ranked(self._of(space))), None)
        if best is None:
            return True
        alike = [each for each in self._trials.values() if each.values == best.values]
        right = {problem for each in alike for problem in each.verified}
        version, doubts = space.candidate(best.values), []
        every = {each.name: each for each in (*study.problems_for("verify"), space.problem)}
        for each in by_work(study, every.values()):
            if each.name in right:
                continue
            try:
                subject = self._runner.subject(*Combination.of(study, version, each))
                _, check, error = self._runner.verify([subject])[0]
            except UnableError:
                continue
            except UsageError as refused:  # the launch exceeds the chip's limits
                check, error = None, KernelError(refused.message, refused.hint)
            if error is None:
                right.add(each.name)
            elif untold(error) and not (self._timing and isinstance(error, HangError)):
                doubts.append(f"not verified on {each.name}: {first_line(error)}")
            else:
                fate, line = fate_of(error, check), first_line(error)
                lost = replace(best, fate=fate, why=f"it is wrong on {each.name}: {line}")
                self._keep(lost)
                choice = shown_values(best.values)
                self._display.say(f"{choice} does not win on {name}: {lost.why}")
                return False
        self._keep(replace(best, verified=tuple(sorted(right)), why="; ".join(doubts)))
        return True

    def _reopen(self, space: Space) -> None:
        """Give choices that lost to a wrong one their turn."""
        again = []
        for each in self._of(space):
            if each.fate == "dropped" and each.verified:
                self._keep(replace(each, fate="timed", why=""))
            elif each.fate == "dropped":
                again.append(each)
        self._screen(space, self._again(space, again))

    def _of(self, space: Space) -> list[Trial]:
        return [each for each in self._trials.values() if each.problem == space.problem.name]

    # --- on the GPU, and on the disk --------------------------------------------------------

    def _on_gpu(
        self,
        fields: Sequence[Sequence[Sifted]],
        options: TimeOptions,
        tell: Callable[[Sequence[Sifted], Ending], None],
    ) -> None:
        if not fields:
            return

        def one(place: int, ending: Ending) -> None:
            try:
                with self._lock:
                    tell(fields[place], ending)
            except WorkbenchError as error:
                self._fault = self._fault or error

        subjects = [[each.subject for each in field if each.subject] for field in fields]
        self._runner.gpu.race(
            subjects, options, one, lambda place: self._display.doing(_words(fields[place]))
        )
        if self._fault is not None:
            raise self._fault

    def _spend(self, seconds: float) -> float:
        self._gpu_s = (self._gpu_s or 0.0) + seconds
        return seconds

    def _keep(self, trial: Trial) -> None:
        self._trials[trial.key] = trial
        try:
            self._log.add(trial)
        except WorkbenchError as error:
            self._fault = self._fault or error
            raise


def _a_round(space: Space) -> int:
    """The number of choices that a search proposes before it gets results."""
    return min(_TOGETHER, max(_FEW, space.many // _TENTH))


def _over(kept: Tuning, begun: TuningBegun, since: str) -> bool:
    """True if the kept tuning is complete, for this space and problems, and ended after `since`."""
    ended = kept.stopped >= since and kept.ended in ("space", "converged", "budget")
    return ended and begun.goes_on(kept) and set(begun.problems) <= set(kept.problems)


def tuning_engine(project: Project, wanted: str, run: RunOptions, say: Say) -> Engine:
    """Choose the engine for the choices, with a shorter limit for hangs than trusted versions have.

    `wanted` is ``auto``, ``gpu`` or ``emulator``; `say` gets the choice.

    Raises:
        MissingError: nothing can run here.
        UsageError: the GPUs are not here, or are of several models.
    """
    short = replace(run, limit=Deadline(HANG_S, run.limit.end))
    if run.gpus:
        engines = on_gpus(project, short)
        if len(engines) > 1:
            raise UsageError(
                f"the GPUs are of {len(engines)} models, whose times are not comparable",
                "Use --gpus to name the GPUs of one model.",
            )
        return engines[0]
    taken = choose(wanted, project, short, silent)
    name = "emulator, which ranks by counts and measures no times" if not taken.times else "gpu"
    say(f"engine: {name}")
    return taken


def tune_version(
    tuner: Tuner,
    problems: Sequence[Problem],
    manner: TuneManner,
    found: Callable[[Tuning], None],
) -> None:
    """Tune a version, and profile the winner and the runner-up of each problem.

    `found` gets the tuning before they are profiled.

    Raises:
        KernelError: no choice of the version can run.
        WorkbenchError: as `Tuner.tune`.
    """
    done = tuner.tune(problems, manner)
    found(done)
    if not done.winners and done.ended != "budget":
        why = next((each.why for each in done.trials if each.why), "")
        raise KernelError(
            f"no choice of {done.version} can run" + (f": {why}" if why else ""),
            "Each trial is kept with its outcome: `--format json` shows them.",
        )
    if manner.profile:
        tuner.profile(done)


def profile_sides(runner: Experiment, version: Version, tuning: Tuning) -> None:
    """Profile winner and runner-up of each problem, so that counters explain the step between them.

    Profiles of the same two choices and sources stay; others are removed. The version's sources
    must be those of `tuning`. Raises KernelError, MissingError, UsageError, DataError: the first
    that cannot be profiled.
    """
    store, kept = runner.store, list[Path]()
    for name in tuning.winners:
        space = Space(runner.study, version, runner.study.problem(name))
        sides = [(space.candidate(each.values), path) for each, path in tuning.sides(store, name)]
        kept += [path for _, path in sides]
        if all(_profiled(runner, *each) for each in sides):
            continue
        for each, _ in sides:  # both of them, on the same inputs
            subject = runner.subject(*Combination.of(runner.study, each, space.problem))
            profile, raw = runner.engine.profile(subject, ProfileOptions())
            if profile.device.slug != tuning.gpu:
                raise MissingError(
                    f"{version.id} was tuned on {tuning.gpu}; the profiler's is "
                    f"{profile.device.slug}",
                    "Profile on the same device.",
                )
            store.save(profile, raw)
    forget_profiles(store.root, tuning, kept)


def _profiled(runner: Experiment, candidate: Version, path: Path) -> bool:
    """True if a profile of a choice with its present sources is kept."""
    if not path.is_file():
        return False
    try:
        known = runner.store.totals(path).source_hash
    except DataError:
        return False  # it is taken again
    return known == source_hash(runner.project, candidate)


class _Patience:
    """Counts rounds of a search in a row without a gain on `best`, a time.

    A gain is measured from the time at the last gain, so that small ones add up.
    """

    def __init__(self, best: float | None) -> None:
        self._best, self._vain = best, 0

    def over(self, best: float | None) -> bool:
        """True after too many rounds in a row without a gain."""
        known = self._best
        if best is not None and (known is None or best < known * (1 - _BETTER)):
            self._vain, self._best = 0, best
        else:
            self._vain += 1
        return self._vain >= _PATIENCE


def _words(field: Sequence[Sifted]) -> str:
    if len(field) > 1:
        return f"{len(field)} alternately"
    return f"{key_of(field[0].values)} on {field[0].trial.problem}"


def _timed(trial: Trial, fate: Fate, samples: tuple[float, ...]) -> Trial:
    """The trial with its times."""
    if len(samples) < minimum_samples():
        return replace(trial, fate="failed", why="too few timings were made")
    found = median_interval(samples)
    return replace(
        trial,
        fate=fate,
        samples_s=samples,
        low_s=found.low,
        median_s=found.value,
        high_s=found.high,
    )
