"""Discard choices that cannot run, or are wrong, before they reach a GPU.

Each is compiled, compared with the chip's limits and verified on a small problem. A sample of its
blocks is counted; the counts and the chip's peaks give an estimate of its time. The estimate orders
the choices; it excludes none from the GPU.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from ptxemu import Counts
from workbench.analysis.limits.occupancy import of_block
from workbench.counters import Reading, read
from workbench.engines import RunOptions, Subject, Verdict
from workbench.engines.emulated.chips import chip, chips, device_of
from workbench.engines.emulated.emulation import built_of
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.engines.emulated.record import launch_records, resident
from workbench.engines.host.job import Check
from workbench.errors import (
    HangError,
    InconclusiveError,
    KernelError,
    MissingError,
    UnfitError,
    UsageError,
    WorkbenchError,
)
from workbench.gpus import WARP_SIZE, chip_for
from workbench.ladder.tunings import BUSY, Fate, Trial, Values
from workbench.measure.experiment import Experiment
from workbench.measure.plan import Combination, UnableError
from workbench.model import Launch, Problem
from workbench.processes.bounds import Deadline
from workbench.specs import Version
from workbench.store import device_slug
from workbench.tune.space import Space

#: Seconds that the emulator has for one choice.
EMULATOR_S = 20.0
#: Number of blocks of a launch that are counted: edges of the grid, and some inside it.
_BLOCKS = 8
#: Counting is slow beyond this many seconds; a smaller problem has at least 1/64 of the work.
_SLOW_S, _SMALLEST = 1.5, 64
#: Warps below this part of those that an SM holds are too few to hide latency, as a rule of thumb.
_ENOUGH_WARPS = 0.25
#: Counters that are kept.
_COUNTERS = ("shared_wavefronts", "shared_wavefronts_excess", "global_sectors", "instructions")
#: The norm that combines busy units, which hinder each other; an SM's L2 sectors per cycle.
_NORM, _SECTORS_A_CYCLE = 4, 2.0
#: The prefix of the metrics of units' cycles.
_CYCLES = "ptx__bound_cycles_"
#: Instructions whose results depend on memory or on other lanes.
_ANY = ("ld", "ldu", "atom", "tex", "shfl", "vote", "match", "activemask", "elect", "call")


class Sifted(NamedTuple):
    """A choice after the sieve; `subject` is None if it was dropped with `trial`'s fate."""

    values: Values
    subject: Subject | None
    trial: Trial


class Sieve:
    """Discards choices before they reach a GPU. It compiles for the `arch` of their `device`.

    It verifies and counts no choice after `until`, by `time.monotonic`.
    """

    def __init__(
        self,
        runner: Experiment,
        space: Space,
        options: RunOptions,
        arch: str,
        device: str,
        until: float,
    ) -> None:
        self._runner, self._space, self._until = runner, space, until
        part = max(1.0, min(EMULATOR_S, (until - time.monotonic()) / 4))
        short = replace(options, arch=arch, seed=runner.engine.seed, limit=Deadline(part))
        self._emulator = EmulatorEngine(runner.project, short)
        self._smaller: Problem | None = None  # choices are counted on it; None: on their own
        self._slow = False  # the smallest problem takes the emulator too long
        same = [each.device for each in map(chip, chips()) if device_slug(each.name) == device]
        self._device = same[0] if same else device_of(arch)
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
            return Sifted(values, None, replace(trial, fate=fate, why=first_line(why)))

        trial = Trial(values=values, fate="not run", problem=self._space.problem.name)
        if error is not None:
            if isinstance(error, MissingError):
                raise error
            return gone("does not fit" if isinstance(error, UnfitError) else "not compiled", error)
        study, problem = self._runner.study, self._space.problem
        try:
            subject = self._runner.subject(*Combination.of(study, version, problem))
        except UnableError as refusal:
            return gone("not run", refusal)
        except UsageError as refusal:
            return gone("does not fit", refusal)
        trial = self._fits(trial, subject)
        if subject.built and subject.built.build.ptx and time.monotonic() < self._until:
            wrong = None if self._slow else self._verified(version)
            if wrong is not None:
                return gone(*wrong)
            trial = self._counted(trial, subject, version)
        return Sifted(values, subject, trial)

    def _fits(self, trial: Trial, subject: Subject) -> Trial:
        """The trial with the resources that its launches take."""
        built = subject.built
        known = {each.name: each for each in built.build.resources} if built else {}
        registers, shared, least = 0, 0, None
        facts: dict[str, float] = {}
        most = 0
        for launch in subject.launches:
            kernel = known.get(launch.kernel)
            if kernel is None or self._chip is None:
                continue
            threads = launch.block[0] * launch.block[1] * launch.block[2]
            taken = kernel.static_shared + launch.dynamic_shared
            registers, shared = max(registers, kernel.registers), max(shared, taken)
            fits = of_block(self._chip, kernel, threads, launch.dynamic_shared)
            least = min(fits.percent / 100, 1.0 if least is None else least)
            if (work := threads * math.prod(launch.grid)) > most:
                most = work
                facts = {
                    "spill_bytes": float(kernel.spill_stores),
                    "stack_bytes": float(kernel.stack),
                } | {
                    f"occupancy_limit_{name.removesuffix(' memory')}": float(limit)
                    for name, limit in fits.limits.items()
                }
                if sms := self._device.sms:
                    facts["waves"] = math.prod(launch.grid) / (fits.blocks * sms)
        if least is None:
            return trial
        return replace(trial, registers=registers, shared=shared, occupancy=least, facts=facts)

    def _verified(self, version: Version) -> tuple[Fate, WorkbenchError] | None:
        """Verify on the smallest problem; None: right, or it cannot be verified."""
        study = self._runner.study
        for problem in sorted(study.problems_for("verify"), key=study.flops):
            try:
                small = self._runner.subject(*Combination.of(study, version, problem))
            except UsageError:
                continue
            verdicts: list[Verdict] = []
            self._emulator.verify([small], verdicts.insert, lambda _: None)
            check, error = verdicts[0].check, verdicts[0].error
            self._slow = isinstance(error, HangError)
            if error is None or untold(error):
                return None
            return fate_of(error, check), error
        return None

    def _counted(self, trial: Trial, subject: Subject, version: Version) -> Trial:
        """The trial with its estimate, if the emulator can count it.

        If that takes long, choices are counted on a smaller problem instead, and the estimate is
        scaled by the work.
        """
        study, problem = self._runner.study, subject.problem
        loss = self._loss(subject)
        if self._smaller is None:
            begin = time.monotonic()
            trial = self._estimated(trial, subject, loss, 1.0)
            if time.monotonic() - begin > _SLOW_S:
                self._smaller = self._sibling(version)
        if self._smaller is None:
            return trial
        with contextlib.suppress(UsageError):
            small = self._runner.subject(*Combination.of(study, version, self._smaller))
            work = study.flops(problem) / max(study.flops(self._smaller), 1)
            return self._estimated(replace(trial, estimate=None), small, loss, work)
        return replace(trial, estimate=None)

    def _loss(self, subject: Subject) -> list[float]:
        """The factor of each launch's time over a full chip's, by its shape alone.

        The SM with the most blocks decides; few warps hide less latency.
        """
        build, sms = built_of(subject).build, max(self._device.sms, 1)
        found = []
        for launch in subject.launches:
            blocks = math.prod(launch.grid)
            most = math.ceil(blocks / sms)
            at_once = min(most, max(1, resident(launch, build) // sms))
            warps = at_once * math.ceil(math.prod(launch.block) / WARP_SIZE)
            few = _ENOUGH_WARPS * (self._chip.warps_per_sm if self._chip else 0) / warps
            found.append(most * sms / blocks * max(1.0, few))
        return found

    def _estimated(
        self, trial: Trial, subject: Subject, loss: Sequence[float], work: float
    ) -> Trial:
        """Add `Trial.estimate` and counts from a subject to the trial.

        `loss` is `_loss` of each counted launch, `work` the factor from the subject's work to the
        trial's.
        """
        limit = Deadline(max(1.0, min(EMULATOR_S, self._until - time.monotonic())))
        try:
            with limit.kept(lambda: HangError("counting took too long")):
                done = self._emulator.emulate(subject, limit, blocks=_BLOCKS)
        except (KernelError, InconclusiveError, UsageError) as error:
            return replace(trial, why=f"not counted: {first_line(error)}")
        except MemoryError:
            return trial
        built, sms, clock = built_of(subject), self._device.sms, self._device.sm_clock
        moved = subject.study.bytes(subject.problem)
        launches = launch_records(done.counts, built, done.module, self._device, moved)
        estimate = longest = 0.0
        facts = trial.facts
        for place, launch in enumerate(launches):
            known = _number(launch, "ptx__bound_cycles") is not None
            if not known or not clock or len(loss) != len(launches):
                return trial
            units = _units(launch)
            units["atomics"] = _meeting(done.counts[place])
            took = _together(launch, units, sms) / clock * loss[place] * work
            if took > longest:
                longest, facts = took, trial.facts | _counts(launch, units, work, clock)
            estimate += took
        return replace(trial, estimate=estimate or None, facts=facts)

    def _sibling(self, version: Version) -> Problem | None:
        """A smaller problem that is large enough to distinguish choices; None: no such problem."""
        study, problem = self._runner.study, self._space.problem
        for each in sorted(study.problems.values(), key=study.flops):
            if study.flops(problem) / _SMALLEST <= study.flops(each) < study.flops(problem) / 2:
                with contextlib.suppress(UsageError):
                    study.check_requirements(version, each)
                    return each
        return None


def _units(launch: Launch) -> dict[str, float]:
    """The cycles that each unit is busy with a launch at its peak rate."""
    names = (name for name in launch.metrics if name.startswith(_CYCLES))
    return {name.removeprefix(_CYCLES): _number(launch, name) or 0.0 for name in names}


def _counts(
    launch: Launch, units: Mapping[str, float], work: float, clock: float
) -> dict[str, float]:
    """Counters of a launch that distinguish choices, scaled by `work`."""
    found = {name: read(launch, name) for name in _COUNTERS}
    return {
        name: float(each.value) * work for name, each in found.items() if isinstance(each, Reading)
    } | {
        "atomics": units["atomics"] * work,
        **{name: units[name[:-2]] / clock * work for name in BUSY.values() if name[:-2] in units},
    }


def _meeting(counts: Counts) -> float:
    """Turns of atomics at one address in global memory that all lanes of a launch use.

    The address serves one turn a cycle. A warp's integer atomics take one turn.
    """
    makers = defaultdict(list)
    for row in counts.rows:
        for name in row.instr.writes:
            makers[name].append(row.instr)

    @cache
    def one(name: str) -> bool:
        """True if a register has one value in all lanes, whenever it is read."""
        made = makers[name]
        known = len(made) == 1 and (made[0].op not in _ANY or "param" in made[0].parts)
        return known and all(one(each) for each in made[0].reads)

    turns = 0
    for row in counts.rows:
        if row.instr.op in ("atom", "red") and row.site.space in ("global", "generic"):
            base = getattr(row.instr.operands[row.instr.op == "atom"], "base", None)
            name = getattr(base, "name", "")
            if one(name) if name.startswith("%") else name:
                whole = row.instr.parts[-1] in ("u32", "s32", "b32")
                turns += row.warps if whole else row.on
    return float(turns)


def _together(launch: Launch, units: Mapping[str, float], sms: int) -> float:
    """Cycles of a launch whose units hinder each other: the norm over all units' cycles."""
    sectors = _number(launch, "memory_l2_theoretical_sectors_global") or 0.0
    every = [*units.values(), sectors / _SECTORS_A_CYCLE / max(sms, 1)]
    return float(sum(each**_NORM for each in every) ** (1 / _NORM))


def _number(launch: Launch, name: str) -> float | None:
    metric = launch.metrics.get(name)
    return None if metric is None or isinstance(metric.value, str) else float(metric.value)


def untold(error: WorkbenchError) -> bool:
    """True if an error is not the kernel's: the emulator is too slow, or lacks a feature."""
    return isinstance(error, HangError | InconclusiveError | UsageError)


def fate_of(error: WorkbenchError | None, check: Check | None) -> Fate:
    """The fate of a choice whose run ended with an error, or with a compared result."""
    if isinstance(error, HangError):
        return "hung"
    return "wrong" if check is not None and not check.ok else "failed"


def first_line(error: WorkbenchError) -> str:
    """The line that describes a trial that an error ended."""
    return error.message.split("\n")[0]
