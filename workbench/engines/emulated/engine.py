"""The emulator engine: a version's PTX on the CPU, checked, counted, as a `Profile`.

Needs a compiler (nvcc, or NVRTC from PyPI) and no GPU. What it cannot know, above all
time, is absent from its profiles and never estimated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
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
from workbench.engines.emulated import blame
from workbench.engines.emulated.blame import Blame
from workbench.engines.emulated.record import device_of, launch_record, sources_of
from workbench.engines.host.correctness import compare, poison_byte
from workbench.engines.host.job import Check
from workbench.errors import KernelError, MissingError, UsageError
from workbench.model import Capture, Notice, Problem, Profile, Verification, Version
from workbench.project import Project
from workbench.store import Store
from workbench.study.folder import Study
from workbench.study.launches import BufferArg, ResolvedLaunch, resolve_launches, resolve_scratch
from workbench.study.sources import source_hash
from workbench.units import quantity

#: What versions are compiled for where nothing else is said: Hopper.
DEFAULT_ARCH = "sm_90"
#: Outputs are compared in full below this many operations, by `reference_at` above it.
_FULL_BELOW_FLOPS = 1_000_000_000_000
#: Wrong results of runs of fewer thread instructions are explained by a second run.
_EXPLAINED_BELOW = 200_000_000
#: What the first line of a profile run says.
CANNOT_KNOW = "it cannot know time, stalls, cache hits, achieved occupancy or SASS"

#: Problems of more operations than this are profiled by a sample of this many blocks.
SAMPLE_ABOVE_FLOPS = 16_000_000_000
SAMPLE_BLOCKS = 64
_ERROR_WORDS = {
    "sectors": "sectors",
    "wavefronts": "shared wavefronts",
    "warps": "instructions",
}

Array = NDArray[Any]
Say = Callable[[str], None]


class Emulation(NamedTuple):
    """One version on one problem, as it ran on the CPU."""

    outcomes: list[Outcome]
    check: Check | None  # None: only a sample of the blocks ran
    built: BuildResult
    module: Module
    seconds: float
    #: Runs once more to say what made a result wrong; None where that cannot be said.
    explain: Callable[[], Blame | None] = lambda: None


class Memory(NamedTuple):
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


def memory_of(study: Study, version: Version, problem: Problem, seed: int) -> Memory:
    """Inputs drawn from the seed as on a GPU; outputs and scratch poisoned."""
    rng = np.random.default_rng(seed)
    return Memory(
        dict(study.inputs(problem, rng)),
        {name: _poisoned(shape, dtype) for name, (shape, dtype) in study.outputs(problem).items()},
        {
            each.name: _poisoned(each.shape, each.dtype)
            for each in resolve_scratch(study, version, problem)
        },
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


def compiled(project: Project, study: Study, version: Version, arch: str) -> BuildResult:
    """Compile; without a compiler, the PTX of a recorded profile of the same source.

    Raises:
        KernelError: it does not compile.
        MissingError: a Python version; or neither a compiler nor such a profile.
    """
    _refuse_python(version)
    try:
        return build(project, version, arch)
    except MissingError:
        store = Store(project.profiles)
        for entry in store.find(study=study.name, version=version.id):
            profile = store.load(entry.path)
            if profile.source_hash == source_hash(project, version):
                found = recorded_build(profile)
                if found is not None and found.build.arch == arch:
                    return found
        raise


def _refuse_python(version: Version) -> None:
    if version.kind != "cuda":
        raise MissingError(
            f"{version.id} is a Python version: the emulator runs CUDA C++ only",
            "Its library needs a GPU: run this command on a machine with a GPU.",
        )


@lru_cache(maxsize=4)
def _parsed(text: str) -> Module:
    """The same PTX is run on one problem after another."""
    return parse(text)


def emulate(
    project: Project,
    study: Study,
    version: Version,
    problem: Problem,
    *,
    seed: int,
    arch: str = DEFAULT_ARCH,
    watch: bool = False,
    blocks: int = 0,
    limits: Limits | None = None,
    workers: int | None = None,
    built: BuildResult | None = None,
) -> Emulation:
    """Run one version on one problem.

    Args:
        project: Where the study lies.
        study: The study.
        version: A version in CUDA C++.
        problem: The problem.
        seed: Seed of the inputs.
        arch: What to compile for.
        watch: Look for races and uninitialised reads as well (slower).
        blocks: Run about this many blocks of each launch, for counters alone; 0: all.
        limits: When to give up.
        workers: Processes; None: one for each core.
        built: What to run instead of compiling, such as `recorded_build`.

    Raises:
        KernelError: it does not compile, does wrong, or needs what is not supported.
        UsageError: a problem that the version cannot do.
        MissingError: no compiler, or a Python version.
    """
    _refuse_python(version)
    study.check_requirements(version, problem)
    built = built or compiled(project, study, version, arch)
    module = _parsed(built.build.ptx)
    memory = memory_of(study, version, problem, seed)
    blank = {*memory.outputs, *memory.scratch} if watch else set()
    arena = arena_for(module, memory.all, blank)
    begin = time.perf_counter()
    outcomes = []
    for resolved in resolve_launches(study, version, problem):
        launch = launch_of(resolved, limits or Limits())
        chosen = sample(launch.geometry, blocks, seed) if blocks else None
        outcomes.append(run(module, launch, arena, blocks=chosen, check=watch, workers=workers))
    whole = all(outcome.sampled == 1 for outcome in outcomes)
    check = _check(study, version, problem, memory, arena, seed) if whole else None
    seconds = time.perf_counter() - begin

    def explain() -> Blame | None:
        if sum(outcome.thread_instructions for outcome in outcomes) > _EXPLAINED_BELOW:
            return None
        return _blame(study, version, problem, module, seed, limits or Limits())

    return Emulation(outcomes, check, built, module, seconds, explain)


def _blame(
    study: Study, version: Version, problem: Problem, module: Module, seed: int, limits: Limits
) -> Blame | None:
    """The version once more, with the lines behind every value followed."""
    memory = memory_of(study, version, problem, seed)
    arena = arena_for(module, memory.all)
    origins = Origins(module, arena)
    for resolved in resolve_launches(study, version, problem):
        run(module, launch_of(resolved, limits), arena, origins=origins)
    outputs = {name: arena.read(name, like) for name, like in memory.outputs.items()}
    reference = study.reference(problem, memory.inputs)
    tolerance = study.tolerance_of(version.id)
    return blame.missing(module, origins, outputs) or blame.wrong(
        module, origins, outputs, reference, tolerance
    )


def _check(
    study: Study, version: Version, problem: Problem, memory: Memory, arena: Arena, seed: int
) -> Check:
    tolerance = study.tolerance_of(version.id)
    outputs = {name: arena.read(name, like) for name, like in memory.outputs.items()}
    if study.can_sample and study.flops(problem) >= _FULL_BELOW_FLOPS:
        rng = np.random.default_rng(seed)
        places: Mapping[str, Array] = {
            name: np.sort(rng.choice(like.size, min(4096, like.size), replace=False))
            for name, like in outputs.items()
        }
        reference = study.reference_at(problem, memory.inputs, places)
        return compare(outputs, reference, tolerance, sample=places)
    return compare(outputs, study.reference(problem, memory.inputs), tolerance)


def verified(emulation: Emulation, version: Version, problem: Problem) -> Check:
    """The check of a whole run, if it passed.

    Raises:
        KernelError: the result is wrong.
    """
    from workbench.engines.host.failures import describe_check

    check = emulation.check
    assert check is not None
    if not check.ok:
        found = emulation.explain()
        place = f"{found.place}: " if found and found.place else ""
        words = f"\n{found.words}" if found else ""
        raise KernelError(
            f"{place}{version.id} gives a wrong result on {problem.name}: "
            f"{describe_check(check)}{words}",
            "The emulator ran the version's own PTX; the same inputs again with --seed.",
        )
    return check


def profile(
    project: Project,
    study: Study,
    version: Version,
    problem: Problem,
    *,
    seed: int,
    arch: str = DEFAULT_ARCH,
    blocks: int | None = None,
    limits: Limits | None = None,
    say: Say = lambda _line: None,
) -> Profile:
    """Verify a version, count, and give the profile (not yet saved).

    Args:
        project: Where the study lies.
        study: The study.
        version: A version in CUDA C++.
        problem: The problem.
        seed: Seed of the inputs.
        arch: What to compile for.
        blocks: Run about this many blocks of each launch; 0: all; None: all unless the
            problem is large. A sampled profile is verified on a verify problem instead.
        limits: When to give up.
        say: Called with lines of progress.

    Raises:
        KernelError, UsageError, MissingError: as `emulate`; a wrong result is a KernelError.
    """
    if blocks is None:
        blocks = SAMPLE_BLOCKS if study.flops(problem) > SAMPLE_ABOVE_FLOPS else 0
    emulation = emulate(
        project, study, version, problem, seed=seed, arch=arch, blocks=blocks, limits=limits
    )
    where = problem
    if emulation.check is not None:
        check = verified(emulation, version, problem)
    else:
        where = _small_problem(study, version)
        say(f"verify {version.id} on {where.name}")
        whole = emulate(project, study, version, where, seed=seed, arch=arch, limits=limits)
        check = verified(whole, version, where)
    device = device_of(arch)
    least = study.bytes(problem)
    launches = tuple(
        launch_record(outcome, index, emulation.built, emulation.module, device, least)
        for index, outcome in enumerate(emulation.outcomes)
    )
    return Profile(
        engine="emulator",
        device=device,
        captured=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        launches=launches,
        study=study.name,
        version=version.id,
        problem=problem.name,
        parameters=study.parameters(problem),
        tools={"workbench": __version__, "compiler": emulation.built.build.compiler},
        capture=Capture(wall_s=emulation.seconds),
        sources=sources_of(emulation.module, emulation.built),
        source_hash=source_hash(project, version),
        build=emulation.built.build,
        verification=Verification(
            problem=where.name,
            error=check.error or 0.0,
            worst=check.largest or 0.0,
            tolerance=check.tolerance,
            seed=seed,
            sampled=check.sampled,
        ),
        notices=_notices(emulation),
    )


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
