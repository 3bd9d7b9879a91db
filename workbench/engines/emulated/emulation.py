"""One version on one problem on the CPU: its launches run, its result checked and explained."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.counts import Counts
from ptxemu.errors import EmulatorError, LaunchError, PtxError
from ptxemu.faults.origins import Origins
from ptxemu.launch import (
    Argument,
    Buffer,
    KernelLaunch,
    Scalar,
    Struct,
    TensorArgument,
    arena_for,
)
from ptxemu.ptx.instructions import Module
from ptxemu.ptx.parser import parse
from ptxemu.run import run, sample
from ptxemu.sass import functions_of
from ptxemu.state.context import Limits
from ptxemu.state.spaces import Arena
from workbench.callers import foreign
from workbench.compile.build import BuildResult
from workbench.engines import (
    Subject,
)
from workbench.engines.emulated import blame
from workbench.engines.emulated.blame import Blame
from workbench.engines.emulated.record import resident
from workbench.engines.host.buffers import (
    check_copy,
    check_whole,
    compare,
    dtype_of,
    no_symbol,
    poison_byte,
    random_places,
    repeated,
)
from workbench.engines.host.failures import describe_check
from workbench.engines.host.job import Check
from workbench.errors import DataError, KernelError, UsageError
from workbench.model import Build
from workbench.study.launches import BufferArg, ResolvedLaunch, ScalarArg, StructArg, TensorMapArg
from workbench.study.signatures import misread

#: Outputs are compared in full below this many operations, by `reference_at` above it.
_FULL_BELOW_FLOPS = 1_000_000_000_000
_REPEATABLE = (
    "The emulator ran the version's own PTX; --seed with the seed shown repeats these inputs."
)
#: Wrong results of runs of fewer thread instructions are explained by a second run.
_EXPLAINED_BELOW = 200_000_000
Array = NDArray[Any]


@contextlib.contextmanager
def in_our_words() -> Iterator[None]:
    """The emulator's errors as those of the program, which have an exit code.

    Raises:
        UsageError: the launch does not fit the kernel.
        KernelError: everything else that a kernel does or needs.
    """
    try:
        yield
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from error
    except EmulatorError as error:
        raise KernelError(error.message, error.hint) from error


class Emulation(NamedTuple):
    """One version on one problem, as it ran on the CPU."""

    outcomes: list[Counts]
    check: Check | None  # None: only a sample of the blocks ran
    module: Module
    seconds: float  # of its launches; comparing results comes on top
    #: Runs once more to say what made a result wrong; None where that cannot be said.
    explain: Callable[[], Blame | None] = lambda: None
    #: Arguments whose elements the kernels take for another type.
    misread: tuple[str, ...] = ()


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
    out = np.empty(shape, dtype_of(dtype))
    out.reshape(-1).view(np.uint8)[:] = poison_byte(out.dtype)
    return out


def arrays_of(subject: Subject, seed: int) -> Arrays:
    """Inputs drawn from the seed as on a GPU; outputs and scratch poisoned."""
    study, problem = subject.study, subject.problem
    return Arrays(
        dict(study.inputs(problem, np.random.default_rng(seed))),
        {name: _poisoned(shape, dtype) for name, (shape, dtype) in study.outputs(problem).items()},
        {each.name: _poisoned(each.shape, each.dtype) for each in subject.scratch},
    )


def launch_of(
    resolved: ResolvedLaunch, build: Build, limits: Limits, memory: Arrays
) -> KernelLaunch:
    """A study's launch as the emulator takes it.

    Raises:
        UsageError: a tensor map that reaches beyond its array.
    """
    arguments: list[Argument] = []
    for each in resolved.args:
        if isinstance(each, TensorMapArg):
            each.check(memory.all[each.buffer].nbytes)
            arguments.append(TensorArgument(each.buffer, each.map))
        elif isinstance(each, StructArg):
            arguments.append(Struct(tuple(map(_plain, each.members))))
        else:
            arguments.append(_plain(each))
    return KernelLaunch(
        resolved.kernel,
        resolved.grid,
        resolved.block,
        arguments,
        resolved.dynamic_shared,
        limits,
        resident(resolved, build),
        resolved.cooperative,
        resolved.cluster or (1, 1, 1),
    )


def _plain(argument: BufferArg | ScalarArg) -> Buffer | Scalar:
    if isinstance(argument, BufferArg):
        return Buffer(argument.name)
    return Scalar(argument.value, argument.ctype)


def fill(subject: Subject, memory: Arrays, module: Module, arena: Arena) -> None:
    """Carry out the version's fills, as the GPU's worker does before every run.

    Raises:
        UsageError: a name that the build lacks, or an input that does not fit.
    """
    own = {name for name, each in module.variables.items() if each.space in ("global", "const")}
    for each in subject.fills:
        if each.symbol and each.name not in own:
            raise no_symbol(each, sorted({*own, *memory.outputs, *memory.scratch}))
        size = module.variables[each.name].size if each.symbol else memory.all[each.name].nbytes
        if each.input:
            content = np.ascontiguousarray(memory.inputs[each.input]).reshape(-1).view(np.uint8)
            check_copy(each, content.nbytes, size)
        else:
            check_whole(each, size)
            content = repeated(each, size)
        arena.fill(each.name, content)


@lru_cache(maxsize=4)
def _parsed(text: str, cubin: Path, arch: str) -> Module:
    """The same PTX is run on one problem after another, with what ptxas made of it.

    Where that is not there, or in a form that a later ptxas may write, PTX is run all the same.
    """
    functions = None
    if cubin.is_file():
        with contextlib.suppress(ValueError):
            functions = functions_of(cubin.read_bytes(), arch)
    try:
        return parse(text, functions, foreign)
    except PtxError as error:
        raise DataError(error.message, error.hint) from error


def built_of(subject: Subject) -> BuildResult:
    """The build of a version in CUDA C++."""
    assert subject.built is not None, "EmulatorEngine.build refuses Python versions"
    return subject.built


def emulate(
    subject: Subject,
    seed: int,
    *,
    watch: bool = False,
    blocks: int = 0,
    instructions: int | None = None,
    seconds: float = math.inf,
) -> Emulation:
    """Run one version on one problem.

    Args:
        subject: A version in CUDA C++, compiled.
        seed: Seed of the inputs.
        watch: Look for races and uninitialized reads as well (slower).
        blocks: Run about this many blocks of each launch, for counters alone; 0: all.
        instructions: When to give a batch of blocks up; None: the emulator's own limit.
        seconds: When to give everything up.

    Raises:
        KernelError: it does wrong, or needs what is not supported.
        UsageError: a fill that the build has no room for.
    """
    limits = Limits.within(seconds, instructions)
    built = built_of(subject)
    module = _parsed(built.build.ptx, built.cubin, built.build.arch)
    memory = arrays_of(subject, seed)
    blank = {*memory.outputs, *memory.scratch} if watch else set()
    arena = arena_for(module, memory.all, blank)
    fill(subject, memory, module, arena)
    begin = time.perf_counter()
    outcomes = []
    dtypes = {name: array.dtype.name for name, array in memory.all.items()}
    misread_ = misread(subject.version.text, subject.launches, dtypes)
    for resolved in subject.launches:
        try:
            with in_our_words():
                launch = launch_of(resolved, built.build, limits, memory)
                chosen = sample(launch.geometry, blocks, seed) if blocks else None
                outcomes.append(run(module, launch, arena, blocks=chosen, check=watch))
        except KernelError as error:
            error.hint = " ".join((*misread_, error.hint))
            raise
    seconds = time.perf_counter() - begin
    whole = all(outcome.sampled == 1 for outcome in outcomes)
    check = _check(subject, memory, arena, seed) if whole else None

    def explain() -> Blame | None:
        if sum(outcome.thread_instructions for outcome in outcomes) > _EXPLAINED_BELOW:
            return None
        try:
            return _blame(subject, module, seed, limits)
        except KernelError:
            return None  # no time is left for it

    return Emulation(outcomes, check, module, seconds, explain, misread_)


def _blame(subject: Subject, module: Module, seed: int, limits: Limits) -> Blame | None:
    """The version once more, with the lines behind every value followed."""
    memory = arrays_of(subject, seed)
    arena = arena_for(module, memory.all)
    fill(subject, memory, module, arena)
    origins = Origins(module, arena)
    for resolved in subject.launches:
        with in_our_words():
            launch = launch_of(resolved, built_of(subject).build, limits, memory)
            run(module, launch, arena, origins=origins)
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
            " ".join((*emulation.misread, _REPEATABLE)),
        )
    return check
