"""The emulator engine: a version's PTX on the CPU, checked, counted, as a `Profile`.

Needs a compiler (nvcc, or NVRTC from PyPI) and no GPU. What it cannot know, above all
time, is absent from its profiles and never estimated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench import __version__
from workbench.compile.build import BuildResult, build
from workbench.emulator.faults.origins import Origins
from workbench.emulator.launch import Argument, Buffer, KernelLaunch, Scalar, arena_for
from workbench.emulator.ptx.instructions import Module
from workbench.emulator.ptx.parser import parse
from workbench.emulator.run import Outcome, run, sample
from workbench.emulator.state.context import Limits
from workbench.emulator.state.spaces import Arena
from workbench.engines import (
    Engine,
    ProfileOptions,
    RunOptions,
    Say,
    Subject,
    Verdict,
    fresh_seed,
    now,
    silent,
)
from workbench.engines.emulated import blame
from workbench.engines.emulated.blame import Blame
from workbench.engines.emulated.record import device_of, launch_records, sources_of
from workbench.engines.host.correctness import compare, poison_byte, random_places
from workbench.engines.host.failures import describe_check
from workbench.engines.host.job import Check
from workbench.engines.ncu.collection import Collection
from workbench.errors import KernelError, MissingError, UsageError, WorkbenchError
from workbench.model import Capture, EngineName, Notice, Problem, Profile, Version
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import Study
from workbench.study.launches import BufferArg, ResolvedLaunch
from workbench.study.sources import source_hash
from workbench.units import quantity

#: What versions are compiled for where nothing else is said: Hopper.
DEFAULT_ARCH = "sm_90"
#: Outputs are compared in full below this many operations, by `reference_at` above it.
_FULL_BELOW_FLOPS = 1_000_000_000_000
#: Wrong results of runs of fewer thread instructions are explained by a second run.
_EXPLAINED_BELOW = 200_000_000
#: Problems of more operations than this are profiled by a sample of this many blocks.
SAMPLE_ABOVE_FLOPS = 16_000_000_000
SAMPLE_BLOCKS = 64
_ERROR_WORDS = {
    "sectors": "sectors",
    "wavefronts": "shared wavefronts",
    "warps": "instructions",
}

Array = NDArray[Any]


class EmulatorEngine(Engine):
    """Runs versions in CUDA C++ on this machine's CPU.

    Args:
        project: Where the studies lie.
        options: Of these the seed, the architecture and the instruction limit.
        say: Called with one line of progress at a time.
    """

    name: EngineName = "emulator"
    verify_line = (
        "engine: emulator, on this machine's CPU, watching for races, accesses out of bounds "
        "and uninitialised memory"
    )
    profile_line = (
        "engine: emulator, on this machine's CPU; it cannot know time, stalls, cache hits, "
        "achieved occupancy or SASS"
    )
    under = "in the emulator"

    def __init__(self, project: Project, options: RunOptions, say: Say = silent) -> None:
        limit = options.instruction_limit
        self.seed = fresh_seed() if options.seed is None else options.seed
        self._project = project
        self._arch = options.arch or DEFAULT_ARCH
        self._limits = None if limit is None else Limits(limit)
        self._say = say

    def refuses(self, version: Version) -> str:
        """See `Engine.refuses`."""
        return "" if version.kind == "cuda" else "its library needs a GPU"

    def unheard(self, options: ProfileOptions) -> list[str]:
        """See `Engine.unheard`: what means something to ncu alone."""
        asked = options.collection or Collection()
        given = {
            "--set": asked.sets,
            "--section": asked.sections,
            "--metrics": asked.metrics,
            "--clock-control": asked.clock_control != "none",
            "--cache-control": asked.cache_control != "all",
            "--replay-mode": asked.replay_mode != "kernel",
            "--repeat": options.repeats > 1,
            "--raw": options.keep_raw == "always",
        }
        return [option for option, value in given.items() if value]

    def build(self, version: Version) -> BuildResult:
        """Compile; without a compiler, the PTX of a recorded profile of the same source.

        Raises:
            KernelError: it does not compile.
            MissingError: a Python version; or neither a compiler nor such a profile.
        """
        if version.kind != "cuda":
            raise MissingError(
                f"{version.id} is a Python version: the emulator runs CUDA C++ only",
                "Its library needs a GPU: run this command on a machine with a GPU.",
            )
        try:
            return build(self._project, version, self._arch)
        except MissingError:
            store = Store(self._project.profiles)
            for entry in store.find(study=version.study, version=version.id):
                profile = store.load(entry.path)
                if profile.source_hash == source_hash(self._project, version):
                    found = recorded_build(profile)
                    if found is not None and found.build.arch == self._arch:
                        return found
            raise

    def emulate(self, subject: Subject, *, watch: bool = False, blocks: int = 0) -> Emulation:
        """Run a subject with this engine's seed and limits; see `emulate`."""
        return emulate(subject, self.seed, watch=watch, blocks=blocks, limits=self._limits)

    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        begin: Callable[[int], None],
    ) -> None:
        """See `Engine.verify`: races and uninitialised reads are looked for as well."""
        for place, subject in enumerate(subjects):
            begin(place)
            check, error = None, None
            try:
                done = self.emulate(subject, watch=True)
                check = done.check
                verified(done, subject)
            except WorkbenchError as found:
                error = found
            tell(place, Verdict(subject.problem, check, error))

    def profile(self, subject: Subject, options: ProfileOptions) -> tuple[Profile, None]:
        """See `Engine.profile`; a sampled profile is verified on a verify problem instead."""
        study, version, problem = subject.study, subject.version, subject.problem
        blocks = options.blocks
        if blocks is None:
            blocks = SAMPLE_BLOCKS if study.flops(problem) > SAMPLE_ABOVE_FLOPS else 0
        counted = whole = self.emulate(subject, blocks=blocks)
        judged = subject
        if counted.check is None:
            judged = Subject.of(study, version, _small_problem(study, version), subject.built)
            self._say(f"verify {version.id} on {judged.problem.name}")
            whole = self.emulate(judged)
        check = verified(whole, judged)
        built = _built(subject)
        profile = Profile(
            engine=self.name,
            device=device_of(self._arch),
            captured=now(),
            launches=launch_records(
                counted.outcomes, built, counted.module, self._arch, study.bytes(problem)
            ),
            study=study.name,
            version=version.id,
            problem=problem.name,
            parameters=study.parameters(problem),
            tools={"workbench": __version__, "compiler": built.build.compiler},
            capture=Capture(wall_s=counted.seconds),
            sources=sources_of(counted.module, built),
            source_hash=source_hash(self._project, version),
            build=built.build,
            verification=check.verification(judged.problem.name, self.seed),
            notices=_notices(counted),
        )
        return profile, None


class Emulation(NamedTuple):
    """One version on one problem, as it ran on the CPU."""

    outcomes: list[Outcome]
    check: Check | None  # None: only a sample of the blocks ran
    module: Module
    seconds: float
    #: Runs once more to say what made a result wrong; None where that cannot be said.
    explain: Callable[[], Blame | None] = lambda: None


class Arrays(NamedTuple):
    """The arrays of a run, and which of them a kernel must fill."""

    inputs: dict[str, Array]
    outputs: dict[str, Array]
    scratch: dict[str, Array]

    @property
    def all(self) -> dict[str, Array]:
        """Every array by name."""
        return {**self.inputs, **self.outputs, **self.scratch}


def _poisoned(shape: tuple[int, ...], dtype: str) -> Array:
    out = np.empty(shape, np.dtype(dtype))
    out.reshape(-1).view(np.uint8)[:] = poison_byte(dtype)
    return out


def arrays_of(subject: Subject, seed: int) -> Arrays:
    """Inputs drawn from the seed as on a GPU; outputs and scratch poisoned."""
    study, problem = subject.study, subject.problem
    return Arrays(
        dict(study.inputs(problem, np.random.default_rng(seed))),
        {name: _poisoned(shape, dtype) for name, (shape, dtype) in study.outputs(problem).items()},
        {each.name: _poisoned(each.shape, each.dtype) for each in subject.scratch},
    )


def launch_of(resolved: ResolvedLaunch, limits: Limits) -> KernelLaunch:
    """A study's launch as the emulator takes it.

    Raises:
        KernelError: blocks in clusters, which it does not run.
    """
    arguments: list[Argument] = [
        Buffer(each.name) if isinstance(each, BufferArg) else Scalar(each.value, each.ctype)
        for each in resolved.args
    ]
    if resolved.cluster is not None and resolved.cluster != (1, 1, 1):
        raise KernelError(
            f"kernel {resolved.kernel}: the emulator does not run clusters of blocks",
            "Use --engine ncu on a GPU machine.",
        )
    return KernelLaunch(
        resolved.kernel, resolved.grid, resolved.block, arguments, resolved.dynamic_shared, limits
    )


def recorded_build(profile: Profile) -> BuildResult | None:
    """The PTX and resources that a recorded profile holds; None where it has no PTX."""
    if profile.build is None or not profile.build.ptx:
        return None
    return BuildResult(cubin=Path(), build=profile.build, sources=profile.sources, cached=True)


@lru_cache(maxsize=4)
def _parsed(text: str) -> Module:
    """The same PTX is run on one problem after another."""
    return parse(text)


def _built(subject: Subject) -> BuildResult:
    assert subject.built is not None, "EmulatorEngine.build refuses Python versions"
    return subject.built


def emulate(
    subject: Subject,
    seed: int,
    *,
    watch: bool = False,
    blocks: int = 0,
    limits: Limits | None = None,
) -> Emulation:
    """Run one version on one problem.

    Args:
        subject: A version in CUDA C++, compiled.
        seed: Seed of the inputs.
        watch: Look for races and uninitialised reads as well (slower).
        blocks: Run about this many blocks of each launch, for counters alone; 0: all.
        limits: When to give up; None: the emulator's own.

    Raises:
        KernelError: it does wrong, or needs what is not supported.
    """
    limits = limits or Limits()
    module = _parsed(_built(subject).build.ptx)
    memory = arrays_of(subject, seed)
    blank = {*memory.outputs, *memory.scratch} if watch else set()
    arena = arena_for(module, memory.all, blank)
    begin = time.perf_counter()
    outcomes = []
    for resolved in subject.launches:
        launch = launch_of(resolved, limits)
        chosen = sample(launch.geometry, blocks, seed) if blocks else None
        outcomes.append(run(module, launch, arena, blocks=chosen, check=watch))
    whole = all(outcome.sampled == 1 for outcome in outcomes)
    check = _check(subject, memory, arena, seed) if whole else None
    seconds = time.perf_counter() - begin

    def explain() -> Blame | None:
        if sum(outcome.thread_instructions for outcome in outcomes) > _EXPLAINED_BELOW:
            return None
        return _blame(subject, module, seed, limits)

    return Emulation(outcomes, check, module, seconds, explain)


def _blame(subject: Subject, module: Module, seed: int, limits: Limits) -> Blame | None:
    """The version once more, with the lines behind every value followed."""
    memory = arrays_of(subject, seed)
    arena = arena_for(module, memory.all)
    origins = Origins(module, arena)
    for resolved in subject.launches:
        run(module, launch_of(resolved, limits), arena, origins=origins)
    outputs = {name: arena.read(name, like) for name, like in memory.outputs.items()}
    reference = subject.study.reference(subject.problem, memory.inputs)
    tolerance = subject.study.tolerance_of(subject.version.id)
    return blame.missing(module, origins, outputs) or blame.wrong(
        module, origins, outputs, reference, tolerance
    )


def _check(subject: Subject, memory: Arrays, arena: Arena, seed: int) -> Check:
    study, problem = subject.study, subject.problem
    tolerance = study.tolerance_of(subject.version.id)
    outputs = {name: arena.read(name, like) for name, like in memory.outputs.items()}
    if study.can_sample and study.flops(problem) >= _FULL_BELOW_FLOPS:
        sizes = {name: like.size for name, like in outputs.items()}
        places = random_places(np.random.default_rng(seed), sizes)
        reference = study.reference_at(problem, memory.inputs, places)
        return compare(outputs, reference, tolerance, sample=places)
    return compare(outputs, study.reference(problem, memory.inputs), tolerance)


def verified(emulation: Emulation, subject: Subject) -> Check:
    """The check of a whole run, if it passed.

    Raises:
        KernelError: the result is wrong.
    """
    check = emulation.check
    assert check is not None
    if not check.ok:
        found = emulation.explain()
        place = f"{found.place}: " if found and found.place else ""
        words = f"\n{found.words}" if found else ""
        raise KernelError(
            f"{place}{subject.version.id} gives a wrong result on {subject.problem.name}: "
            f"{describe_check(check)}{words}",
            "The emulator ran the version's own PTX; the same inputs again with --seed.",
        )
    return check


def _small_problem(study: Study, version: Version) -> Problem:
    for problem in sorted(study.problems_for("verify"), key=study.flops, reverse=True):
        try:
            study.check_requirements(version, problem)
        except UsageError:
            continue
        return problem
    raise UsageError(
        f"study {study.name} has no problem on which {version.id} can be verified",
        "Run all blocks (--blocks 0), or mark a problem for `verify`.",
    )


def _notices(emulation: Emulation) -> tuple[Notice, ...]:
    notices = [
        Notice(
            code="emulated",
            message="Counted on a CPU from the version's PTX: exact where it follows from "
            "addresses; nothing is known of time, stalls and caches. Names with ptx__ count "
            "PTX instructions, not machine instructions.",
        )
    ]
    for outcome in emulation.outcomes:
        if outcome.sampled < 1:
            notices.append(
                Notice(
                    code="sampled",
                    message=f"{outcome.launch.kernel}: {outcome.blocks_run} of "
                    f"{outcome.launch.geometry.blocks} blocks were run, every edge of the grid "
                    "included, and counters scaled up from them; standard error "
                    + ", ".join(
                        f"{quantity(100 * outcome.error[name], '%')} of {words}"
                        for name, words in _ERROR_WORDS.items()
                    )
                    + ".",
                )
            )
    return tuple(notices)
