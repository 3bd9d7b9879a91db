"""A tuning from its space to its winners: what falls away on the CPU, what races on the GPU.

On the CPU (`Sieve`) every choice is compiled, held against the chip's limits, verified on a small
problem and counted by a sample of blocks on its own; counts and the chip's peaks give a bound below
its time, and an estimate by which the rest is ordered. On the GPU each is checked and timed alone
and briefly (`_Runner.screen`), unless its bound already lies above the best time; those that may
be the best then race in turns, with the stopping rule of `workbench time` (`_Runner.race`).
Each trial is kept as it ends.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from workbench.analysis.limits.occupancy import Resources, occupancy
from workbench.analysis.timing import median_interval, minimum_samples
from workbench.engines import RunOptions, Subject, Verdict, now
from workbench.engines.emulated.emulation import built_of
from workbench.engines.emulated.engine import DEFAULT_ARCH, EmulatorEngine
from workbench.engines.emulated.record import device_of, launch_records
from workbench.engines.gpu.race import DRIFT
from workbench.engines.host.crew import Ending
from workbench.engines.host.job import TimeOptions
from workbench.engines.ncu.engine import GpuEngine
from workbench.errors import (
    HangError,
    InconclusiveError,
    KernelError,
    MissingError,
    UsageError,
    WorkbenchError,
)
from workbench.gpus import chip_for
from workbench.measure.experiment import Display, Experiment
from workbench.measure.plan import Combination, UnableError
from workbench.model import Launch, Problem
from workbench.processes.bounds import Deadline
from workbench.specs import Version
from workbench.study.sources import source_hash
from workbench.tune.record import (
    Fate,
    Reason,
    Trial,
    Tuning,
    TuningBegun,
    TuningEnded,
    Values,
    key_of,
    load,
    path_of,
    writing,
)
from workbench.tune.search import Everything, Sampled, Search
from workbench.tune.space import Space
from workbench.units import quantity, several

#: A space of which each choice has so many seconds of the budget is tried whole, and a small one.
_EACH_S, _SMALL = 1.0, 32
#: Parts of the budget after which the CPU counts no further choice, and the GPU tries none.
_COUNTING, _SCREENING = 0.4, 0.85
#: Seconds that the emulator has for one choice, and a GPU: more is taken for a hang.
EMULATOR_S, HANG_S = 20.0, 60.0
#: Blocks of a launch that are counted: edges of the grid, and some from within.
_BLOCKS = 8
#: Counting is slow from so many seconds on; a smaller problem has this part of the work at least.
_SLOW_S, _SMALLEST = 1.5, 300
#: Choices that are handed to the GPU together, and that a search proposes together.
_TOGETHER = 16
#: Rounds of a search in a row that find nothing better by this part, until it is over.
_PATIENCE, _BETTER = 4, 0.005
#: Most that race in turns.
_MOST_RACING = 12
#: A bound rests on an estimate of machine instructions, and on the clock of a data sheet.
_BOUND_SURE = 0.9
#: Warps below this part of those that an SM holds are too few to hide latency, as a rule of thumb.
_ENOUGH_WARPS = 0.25
#: Units that are all busy hinder each other; an SM asks the L2 for so many sectors a cycle.
_NORM, _SECTORS_A_CYCLE = 4, 2.0
#: A choice alone: as few samples as have an interval, and a graph where a launch is short.
_ALONE = TimeOptions(min_samples=8, max_samples=8, limit_s=2.0, graph_below_s=50e-6)
_ALONE_WHY = "slower than the best, timed alone"
#: Of those that may be the best; the width is that of `workbench time`.
_IN_TURNS = TimeOptions(limit_s=10.0, graph_below_s=50e-6)


class Plan(NamedTuple):
    """How a version is tuned.

    Attributes:
        problems: On which, in this order.
        budget_s: Seconds for all of it.
        restart: What is kept of earlier runs is thrown away.
    """

    problems: tuple[Problem, ...]
    budget_s: float
    restart: bool = False


class Sifted(NamedTuple):
    """A choice after the sieve; `subject` is None where it fell away for `trial`'s fate."""

    values: Values
    subject: Subject | None
    trial: Trial


class Sieve:
    """What falls away before a GPU is asked.

    Args:
        runner: Compiles, for the chip that is meant.
        space: The space.
        options: Where and how versions run.
        arch: What is compiled for.
        until: When it verifies and counts no further choice, by `time.monotonic`.
    """

    def __init__(
        self, runner: Experiment, space: Space, options: RunOptions, arch: str, until: float
    ) -> None:
        self._runner, self._space, self._until = runner, space, until
        short = replace(options, arch=arch, seed=runner.engine.seed, limit=Deadline(EMULATOR_S))
        self._emulator = EmulatorEngine(runner.project, short)
        self._smaller: Problem | None = None  # that choices are counted on, if not their own
        self._device = device_of(arch)
        self._chip = chip_for(self._device)

    def sift(
        self, choices: Sequence[Values], tell: Callable[[int], None] = lambda _count: None
    ) -> list[Sifted]:
        """Compile and judge choices; `tell` is called with how many are done."""
        versions = [self._space.candidate(values) for values in choices]
        broken = self._runner.build_all(versions)
        found = []
        for place, (values, version) in enumerate(zip(choices, versions, strict=True)):
            found.append(self._sifted(values, version, broken.get(version.id)))
            tell(place + 1)
        return found

    def _sifted(self, values: Values, version: Version, error: WorkbenchError | None) -> Sifted:
        def gone(fate: Fate, why: WorkbenchError) -> Sifted:
            return Sifted(values, None, replace(trial, fate=fate, why=_first_line(why)))

        trial = Trial(values=values, fate="not run", problem=self._space.problem.name)
        if error is not None:
            if isinstance(error, MissingError):
                raise error
            unfit = "uses too much shared data" in error.message
            return gone("does not fit" if unfit else "not compiled", error)
        study, problem = self._runner.study, self._space.problem
        try:
            subject = self._runner.subject(*Combination.of(study, version, problem))
        except UnableError as refusal:
            return gone("not run", refusal)
        except UsageError as refusal:
            return gone("does not fit", refusal)
        trial, why = self._fits(trial, subject)
        if why:
            return Sifted(values, None, replace(trial, fate="does not fit", why=why))
        if subject.built and subject.built.build.ptx and time.monotonic() < self._until:
            wrong = self._verified(version)
            if wrong is not None:
                return gone(*wrong)
            trial = self._counted(trial, subject, version)
        return Sifted(values, subject, trial)

    def _fits(self, trial: Trial, subject: Subject) -> tuple[Trial, str]:
        """The trial with what its launches take of the chip, and why one of them does not fit."""
        built = subject.built
        known = {each.name: each for each in built.build.resources} if built else {}
        registers, shared, least = 0, 0, None
        for launch in subject.launches:
            kernel = known.get(launch.kernel)
            if kernel is None or self._chip is None:
                continue
            threads = launch.block[0] * launch.block[1] * launch.block[2]
            taken = kernel.static_shared + launch.dynamic_shared
            registers, shared = max(registers, kernel.registers), max(shared, taken)
            fits = occupancy(
                self._chip,
                Resources(block_size=threads, registers=kernel.registers, shared=taken),
            )
            least = min(fits.percent / 100, 1.0 if least is None else least)
            if taken > self._chip.shared_per_block:
                return trial, (
                    f"{taken:,} bytes of shared memory a block; the chip has "
                    f"{self._chip.shared_per_block:,}"
                )
            if not fits.blocks:
                return trial, (
                    f"{threads} threads of {kernel.registers} registers: not one block fits "
                    "on an SM"
                )
        if least is None:
            return trial, ""
        return replace(trial, registers=registers, shared=shared, occupancy=least), ""

    def _verified(self, version: Version) -> tuple[Fate, WorkbenchError] | None:
        """What is wrong on the smallest problem; None where nothing is, or nobody can say."""
        study = self._runner.study
        for problem in sorted(study.problems_for("verify"), key=study.flops):
            try:
                small = self._runner.subject(*Combination.of(study, version, problem))
            except UsageError:
                continue
            verdicts: list[Verdict] = []
            self._emulator.verify([small], verdicts.insert, lambda _: None)
            check, error = verdicts[0].check, verdicts[0].error
            if error is None or isinstance(error, HangError | InconclusiveError | UsageError):
                return None  # that the emulator is too slow says nothing of the kernel
            return ("wrong" if check is not None else "failed"), error
        return None

    def _counted(self, trial: Trial, subject: Subject, version: Version) -> Trial:
        """The trial with its bound and the estimate, where the emulator can count it.

        Where that takes long, all but the first are counted on a smaller problem: then there is an
        estimate, as much larger as the problem is, and no bound.
        """
        study, problem = self._runner.study, subject.problem
        limit = Deadline(max(1.0, min(EMULATOR_S, self._until - time.monotonic())))
        begin = time.monotonic()
        try:
            if self._smaller is not None:
                subject = self._runner.subject(*Combination.of(study, version, self._smaller))
            with limit.kept(lambda: HangError("counting took too long")):
                done = self._emulator.emulate(subject, limit, blocks=_BLOCKS)
                built = built_of(subject)
        except (KernelError, InconclusiveError, UsageError, MemoryError):
            return trial
        finally:
            if self._smaller is None and time.monotonic() - begin > _SLOW_S:
                self._smaller = self._sibling(version)
        arch = built.build.arch
        least = subject.study.bytes(subject.problem)
        launches = launch_records(done.counts, built, done.module, arch, least)
        found = estimated(launches, self._device.sms, self._device.sm_clock)
        if subject.problem.name != problem.name and found:
            work = study.flops(problem) / max(study.flops(subject.problem), 1)
            found = {"estimate": (found["estimate"] or 0.0) * work or None}
        return replace(trial, **found)

    def _sibling(self, version: Version) -> Problem | None:
        """A smaller problem that is large enough to tell choices apart; None: there is none."""
        study, problem = self._runner.study, self._space.problem
        for each in sorted(study.problems.values(), key=study.flops):
            if study.flops(problem) / _SMALLEST <= study.flops(each) < study.flops(problem) / 2:
                with contextlib.suppress(UsageError):
                    study.check_requirements(version, each)
                    return each
        return None


def estimated(launches: Iterable[Launch], sms: int, clock: float) -> dict[str, float | None]:
    """`Trial.bound_s` and `Trial.estimate` of emulated launches; none where one has no bound.

    Args:
        launches: Of one version, as the emulator counted them.
        sms: The chip's.
        clock: The chip's, in hertz.
    """
    bound = estimate = 0.0
    for launch in launches:
        cycles = _number(launch, "ptx__bound_cycles")
        if cycles is None or not clock:
            return {}
        waves = _number(launch, "launch__waves_per_multiprocessor")
        warps = _number(launch, "sm__maximum_warps_per_active_cycle_pct")
        # The last wave takes as long as a full one, and few warps wait longer for each other.
        tail = -(-waves // 1) / waves if waves else 1.0
        starved = max(1.0, _ENOUGH_WARPS / (warps / 100)) if warps else 1.0
        bound += cycles / clock
        estimate += _together(launch, sms) / clock * tail * starved
    return {"bound_s": bound or None, "estimate": estimate or None}


def _together(launch: Launch, sms: int) -> float:
    """Cycles of a launch whose units hinder each other: their norm, from which none is left out."""
    units = [
        float(metric.value)
        for name, metric in launch.metrics.items()
        if name.startswith("ptx__bound_cycles_") and not isinstance(metric.value, str)
    ]
    sectors = _number(launch, "memory_l2_theoretical_sectors_global") or 0.0
    units.append(sectors / _SECTORS_A_CYCLE / max(sms, 1))
    return float(sum(each**_NORM for each in units) ** (1 / _NORM))


def _number(launch: Launch, name: str) -> float | None:
    metric = launch.metrics.get(name)
    return None if metric is None or isinstance(metric.value, str) else float(metric.value)


def _first_line(error: WorkbenchError) -> str:
    return error.message.split("\n")[0]


class Tuner:
    """One run over a version's space.

    Args:
        runner: Runs versions of the study under an engine.
        version: What is tuned.
        options: Where and how.
        display: Who is told how far it is.
    """

    def __init__(
        self, runner: Experiment, version: Version, options: RunOptions, display: Display
    ) -> None:
        self._runner, self._version = runner, version
        self._options, self._display = options, display
        engine = runner.engine
        where = engine.where if isinstance(engine, GpuEngine) else None
        self._arch = where.arch if where else options.arch or DEFAULT_ARCH
        self._hang_s = where.limit.seconds if where else EMULATOR_S
        self._gpu_s: float | None = None
        self._lock = threading.Lock()
        self._trials: dict[tuple[str, str], Trial] = {}
        self._fault: WorkbenchError | None = None

    def tune(self, plan: Plan) -> Tuning:
        """Search, and keep every trial as it ends.

        Raises:
            BusyError: the version is being tuned by another process.
            UsageError: it has no ``[tune]``.
            MissingError: nothing can run here; Optuna is needed and not installed; no space.
            DataError: what is kept of earlier runs is damaged.
        """
        runner, version = self._runner, self._version
        spaces = [Space(runner.study, version, problem) for problem in plan.problems]
        first, engine = spaces[0], runner.engine
        end = time.monotonic() + plan.budget_s
        whole = self._whole(first, plan)
        begun = TuningBegun(
            study=runner.study.name,
            version=version.id,
            source_hash=source_hash(runner.project, version),
            problems=tuple(each.name for each in plan.problems),
            gpu=runner.device if isinstance(engine, GpuEngine) else device_of(self._arch).slug,
            engine="gpu" if isinstance(engine, GpuEngine) else "emulator",
            parameters=dict(first.parameters),
            default=first.default,
            requires=first.requires,
            strategy=Everything.name if whole else Sampled.name,
            seed=engine.seed,
            budget_s=plan.budget_s,
            started=now(),
        )
        root = runner.store.root
        with writing(root, begun, anew=plan.restart) as (log, earlier):
            self._log = log
            self._trials = {each.key: each for each in earlier.trials}
            self._say_earlier(earlier)
            reason: Reason = "failed"
            try:
                reasons = []
                for place, space in enumerate(spaces):
                    left = (end - time.monotonic()) / (len(spaces) - place)
                    reasons.append(self._tuned(space, whole, max(0.0, left)))
                reason = next((each for each in reasons if each == "budget"), reasons[-1])
            except (KeyboardInterrupt, SystemExit):
                reason = "interrupted"
                raise
            finally:
                ended = TuningEnded(ended=reason, stopped=now(), gpu_s=self._gpu_s)
                if self._fault is None:
                    log.ended(ended)
        return load(path_of(root, begun.gpu, begun.study, begun.version, begun.engine))

    def _say_earlier(self, earlier: Tuning) -> None:
        if earlier.torn:
            self._display.say("note: the last line of what is kept was cut off; it is left out")
        if earlier.trials:
            self._display.say(
                f"{several(len(earlier.trials), 'trial')} of the same sources and space are kept "
                "already; --restart begins anew"
            )

    def _whole(self, space: Space, plan: Plan) -> bool:
        most = max(_SMALL, plan.budget_s / _EACH_S / len(plan.problems))
        if space.size <= most:
            return True
        return space.size <= 64 * most and sum(1 for _ in space.every()) <= most

    # --- one problem -----------------------------------------------------------------------

    def _tuned(self, space: Space, whole: bool, budget_s: float) -> Reason:
        """Tune on one problem, within so many seconds."""
        begin = time.monotonic()
        until = begin + budget_s
        gpu = isinstance(self._runner.engine, GpuEngine)
        counting = begin + (_COUNTING if gpu else 1.0) * budget_s
        sieve = Sieve(self._runner, space, self._options, self._arch, counting)
        search = self._search(space, whole)
        say = self._display.say
        many = sum(1 for _ in space.every()) if whole else space.size
        what = f"{several(many, 'choice')} of {space.words}"
        how = "all of them" if whole else "as Optuna's TPE proposes them"
        say(f"tune {self._version.id} on {space.problem.name}: {what}; {how}")
        last = begin + _SCREENING * budget_s
        if gpu:
            done = self._screened(space, search, sieve, last)
            self._raced(space, until)
        else:
            done = self._only_counted(space, search, sieve, until)
        return done

    def _search(self, space: Space, whole: bool) -> Search:
        if whole:
            every = [values for values in space.every() if values != space.default]
            random.Random(self._runner.engine.seed).shuffle(every)
            return Everything([space.default] * space.holds(space.default) + every)
        search = Sampled(space, self._runner.engine.seed, [space.default])
        for trial in self._trials.values():
            if trial.problem == space.problem.name and trial.fate != "not run":
                search.tell(trial.values, trial.median_s)
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
                    search.tell(values, known.median_s)
        return found

    def _sift(self, space: Space, sieve: Sieve, choices: Sequence[Values]) -> list[Sifted]:
        """Sift choices, keep those that fell away, and give the others from the best on."""
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
            self._display.say(f"{name}: {gone} of {several(len(choices), 'choice')} fell away")
        last = float("inf")
        return sorted(kept, key=lambda each: each.trial.estimate or last)

    def _screened(self, space: Space, search: Search, sieve: Sieve, until: float) -> Reason:
        """Try choices on the GPU, each alone, until none is left, or time is over."""
        best, vain = self._best(space), 0
        whole = isinstance(search, Everything)
        while time.monotonic() < until:
            asked = self._asked(space, search, 10**9 if whole else _TOGETHER)
            if not asked:
                return "space"
            sifted = self._sift(space, sieve, asked)
            for first in range(0, len(sifted), _TOGETHER):
                if time.monotonic() >= until:
                    self._not_run(sifted[first:], "the budget was over")
                    return "budget"
                self._screen(space, sifted[first : first + _TOGETHER])
            for values in asked:
                trial = self._trials.get((key_of(values), space.problem.name))
                search.tell(values, trial.median_s if trial else None)
            now_best = self._best(space)
            better = now_best is not None and (best is None or now_best < best * (1 - _BETTER))
            vain, best = (0 if better else vain + 1), now_best
            if not whole and vain >= _PATIENCE:
                return "converged"
        return "budget"

    def _best(self, space: Space) -> float | None:
        times = [
            each.high_s
            for each in self._trials.values()
            if each.problem == space.problem.name and each.fate == "timed" and each.high_s
        ]
        return min(times, default=None)

    def _not_run(self, sifted: Iterable[Sifted], why: str) -> None:
        for each in sifted:
            self._keep(replace(each.trial, fate="not run", why=why))

    def _screen(self, space: Space, sifted: Sequence[Sifted]) -> None:
        """Check and time choices, each alone; those whose bound is above the best are spared."""
        best = self._best(space)
        todo = []
        for each in sifted:
            bound = each.trial.bound_s
            if best is not None and bound is not None and bound * _BOUND_SURE > best:
                words = f"it takes at least {quantity(bound, 's')} by its counts; the best takes "
                self._not_run([each], f"{words}{quantity(best, 's')}")
            else:
                todo.append(each)
        self._on_gpu(
            [[each] for each in todo],
            replace(_ALONE, ceiling_s=best),
            lambda field, ending: self._alone(field[0], ending),
        )
        self._say_best(space)

    def _say_best(self, space: Space) -> None:
        name = space.problem.name
        own = [each for each in self._trials.values() if each.problem == name and each.median_s]
        right = [each for each in own if each.fate == "timed"]
        if right:
            best = min(right, key=lambda each: each.median_s or 0.0)
            self._display.say(
                f"{name}: {len(own)} timed, best {quantity(best.median_s, 's')} with "
                f"{key_of(best.values)}"
            )

    def _alone(self, sifted: Sifted, ending: Ending) -> None:
        """Keep what became of a choice alone on the GPU."""
        fate: Fate
        trial, result, error = sifted.trial, ending.result, ending.error
        seconds = result.seconds if result is not None else self._hang_s
        self._spend(seconds)
        trial = replace(trial, gpu_s=seconds)
        check = result.check if result is not None else None
        if error is None and result is not None and result.raced:
            fate, why = ("timed", "") if check else ("dropped", f"{_ALONE_WHY}; not compared")
            self._keep(_timed(replace(trial, why=why), fate, result.raced[0].samples))
            return
        fate = "failed"
        if isinstance(error, HangError):
            fate = "hung"
        elif check is not None and not check.ok:
            fate = "wrong"
        self._keep(replace(trial, fate=fate, why=_first_line(error) if error else ""))

    # --- those that may be the best -----------------------------------------------------

    def _raced(self, space: Space, until: float) -> None:
        """Let those that may be the best race in turns; the others are dropped."""
        name = space.problem.name
        timed = [
            each
            for each in self._trials.values()
            if each.problem == name and each.fate == "timed" and each.median_s and each.low_s
        ]
        if not timed:
            return
        timed.sort(key=lambda each: each.median_s or 0.0)
        limit = (timed[0].high_s or 0.0) * (1 + DRIFT)
        racing = [each for each in timed if (each.low_s or 0.0) <= limit][:_MOST_RACING]
        for each in timed:
            if all(each is not one for one in racing):
                self._keep(replace(each, fate="dropped", why=_ALONE_WHY))
        if len(racing) > 1:
            self._display.say(f"{name}: {len(racing)} race in turns")
        sifted = self._again(space, racing)
        left = max(2.0, until - time.monotonic())
        options = replace(_IN_TURNS, limit_s=min(_IN_TURNS.limit_s, left))
        if sifted:
            self._on_gpu([sifted], options, self._ran)

    def _again(self, space: Space, trials: Sequence[Trial]) -> list[Sifted]:
        """Trials with their subjects, compiled (or found so)."""
        found = []
        for trial in trials:
            version = space.candidate(trial.values)
            subject = self._runner.subject(
                *Combination.of(self._runner.study, version, space.problem)
            )
            found.append(Sifted(trial.values, subject, trial))
        return found

    def _ran(self, field: Sequence[Sifted], ending: Ending) -> None:
        """Keep the times of a race; where it broke, those that each had alone stand."""
        result, error = ending.result, ending.error
        seconds = result.seconds if result is not None else self._hang_s
        self._spend(seconds)
        if error is not None or result is None:
            words = _first_line(error) if error else "it gave no times"
            self._display.say(f"note: the race was broken off, times alone stand: {words}")
            return
        for sifted, raced in zip(field, result.raced, strict=True):
            trial = sifted.trial
            spent = (trial.gpu_s or 0.0) + seconds / len(field)
            why = "slower than the best, in turns with it" if raced.dropped else ""
            fate: Fate = "dropped" if raced.dropped else "timed"
            self._keep(_timed(replace(trial, gpu_s=spent, why=why), fate, raced.samples))

    def _only_counted(self, space: Space, search: Search, sieve: Sieve, until: float) -> Reason:
        """Without a GPU: the sieve alone, as long as time is left."""
        best, vain = None, 0
        while time.monotonic() < until:
            asked = self._asked(space, search, _TOGETHER)
            if not asked:
                return "space"
            for each in self._sift(space, sieve, asked):
                counted = each.trial.estimate is not None
                why = "" if counted else "the emulator cannot count it, or no time was left for it"
                self._keep(replace(each.trial, fate="counted" if counted else "not run", why=why))
            for values in asked:
                trial = self._trials.get((key_of(values), space.problem.name))
                search.tell(values, trial.estimate if trial else None)
            estimates = [x.estimate for x in self._trials.values() if x.estimate is not None]
            now_best = min(estimates, default=None)
            better = now_best is not None and (best is None or now_best < best * (1 - _BETTER))
            vain, best = (0 if better else vain + 1), now_best
            if isinstance(search, Sampled) and vain >= _PATIENCE:
                return "converged"
        return "budget"

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

    def _spend(self, seconds: float) -> None:
        self._gpu_s = (self._gpu_s or 0.0) + seconds

    def _keep(self, trial: Trial) -> None:
        self._trials[trial.key] = trial
        try:
            self._log.trial(trial)
        except WorkbenchError as error:
            self._fault = self._fault or error
            raise


def _words(field: Sequence[Sifted]) -> str:
    if len(field) > 1:
        return f"{len(field)} in turns"
    return f"{key_of(field[0].values)} on {field[0].trial.problem}"


def _timed(trial: Trial, fate: Fate, samples: tuple[float, ...]) -> Trial:
    """The trial with its times."""
    if len(samples) < minimum_samples():
        return replace(trial, fate="failed", why="too few times were taken")
    found = median_interval(samples)
    return replace(
        trial,
        fate=fate,
        samples_s=samples,
        low_s=found.low,
        median_s=found.value,
        high_s=found.high,
    )
