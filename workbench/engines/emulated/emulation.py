"""Run one version on one problem on the CPU, and check its result."""

from __future__ import annotations

import contextlib
import math
import os
import re
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

import ptxemu
from workbench.callers import foreign
from workbench.compile.build import BuildResult
from workbench.disk.limits import MEMORY_VARIABLE
from workbench.engines import Subject
from workbench.engines.emulated.diagnosis import Suspect, never_written, suspected, wrong_elements
from workbench.engines.emulated.record import resident
from workbench.engines.host.buffers import (
    Array,
    as_answer,
    check_copy,
    check_whole,
    compare,
    compare_with_version,
    dtype_of,
    linked,
    no_symbol,
    overwritten,
    poison_byte,
    random_places,
    repeated,
)
from workbench.engines.host.failures import UNPROVED, describe_check, differs
from workbench.engines.host.job import Check
from workbench.errors import DataError, HangError, InconclusiveError, KernelError, UsageError
from workbench.model import Build
from workbench.processes.bounds import Deadline, sharing
from workbench.specs import Version
from workbench.study.launches import (
    Argument,
    BufferArg,
    ResolvedLaunch,
    ScalarArg,
    TensorMapArg,
    TextureArg,
    defined_integers,
    format_of,
    members_of,
)
from workbench.study.mangling import own_name
from workbench.study.signatures import entry_text, launch_key, misread, shared_arrays

#: Outputs are compared in full below this many operations, by `reference_at` above it.
_FULL_BELOW_FLOPS = 1_000_000_000_000
_REPEATABLE = (
    "The emulator ran the version's own PTX; --seed with the seed shown repeats these inputs."
)
#: A second run explains wrong results of runs with fewer thread instructions.
_EXPLAINED_BELOW = 200_000_000
Defined = tuple[tuple[str, int], ...]
#: Words of the emulator's hints -> our options and pages.
_OURS = {
    "`Limits.within`": "--timeout SECONDS",
    "or allow the process more memory": f"or allow more with {MEMORY_VARIABLE}=N, in MiB",
    "`Limits.instructions`": "--instruction-limit",
    "run it on a GPU": "use --engine ncu on a machine with a GPU",
    "workbench docs ptxemu": "workbench docs emulator",
    "Launch with the bytes that": "Set dynamic_shared in [[launch]] to the bytes that",
    "a `TensorArgument`": "the name of a [[tensor_map]]",
    "a `TextureArgument`": "the name of a [[texture]]",
}


def in_our_words(hint: str) -> str:
    """A hint from the emulator, in terms of our options and pages."""
    for theirs, ours in _OURS.items():
        hint = hint.replace(theirs, ours)
    return hint


@contextlib.contextmanager
def as_ours() -> Iterator[None]:
    """Convert the emulator's errors to those of the program, which have an exit code.

    Raises:
        UsageError: the launch does not fit the kernel.
        InconclusiveError: the kernel needs an unsupported feature, and may be right.
        HangError: it ran out of time or memory, which says nothing about the kernel.
        KernelError: any other error of a kernel.
    """
    try:
        yield
    except ptxemu.EmulatorError as error:
        other = HangError if isinstance(error, ptxemu.ResourceError) else KernelError
        kinds = ((ptxemu.LaunchError, UsageError), (ptxemu.Unsupported, InconclusiveError))
        kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), other)
        raise kind(error.message, in_our_words(error.hint)) from error


class Emulation(NamedTuple):
    """One version on one problem, as it ran on the CPU."""

    counts: list[ptxemu.Counts]
    check: Check | None  # None: only a sample of the blocks ran
    module: ptxemu.Module
    seconds: float  # of its launches, without comparing results
    again: Callable[[int], Check]  # runs the loaded code again, on inputs from another seed
    kept: tuple[str, ...]  # variables that still hold values from the launches, with their lines
    #: Runs once more to find the cause of a wrong result; None if that is impossible.
    explain: Callable[[], Suspect | None] = lambda: None
    suspects: tuple[Suspect, ...] = ()


class Arrays(NamedTuple):
    """The arrays of a run, and the names of those that a kernel must fill."""

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
    """Draw inputs from the seed as on a GPU; poison outputs and scratch.

    Raises UsageError: outputs and scratch exceed this machine's memory.
    """
    study, problem = subject.study, subject.problem
    outputs = study.outputs(problem)
    scratch = {each.name: (each.shape, each.dtype) for each in subject.scratch}
    _check_memory({**outputs, **scratch}, problem.name)
    return Arrays(
        dict(study.inputs(problem, np.random.default_rng(seed))),
        {name: _poisoned(shape, dtype) for name, (shape, dtype) in outputs.items()},
        {name: _poisoned(shape, dtype) for name, (shape, dtype) in scratch.items()},
    )


def _check_memory(arrays: Mapping[str, tuple[tuple[int, ...], str]], problem: str) -> None:
    sizes = {
        name: math.prod(shape) * dtype_of(dtype).itemsize for name, (shape, dtype) in arrays.items()
    }
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (total := sum(sizes.values())) > there:
        name = max(sizes, key=lambda each: sizes[each])
        raise UsageError(
            f"outputs and scratch take {total:,} bytes on problem {problem}, most of them "
            f"`{name}` with {sizes[name]:,}; this machine's memory is {there:,}",
            "Choose a smaller problem, or run it on a GPU (--engine ncu).",
        )


def launched(
    module: ptxemu.Module,
    resolved: ResolvedLaunch,
    build: Build,
    memory: ptxemu.GlobalMemory,
    **options: Unpack[ptxemu.Options],
) -> ptxemu.Counts:
    """Run a study's launch on its arrays in memory.

    Raises:
        UsageError: the launch does not fit the kernel, or a tensor map or texture reaches beyond
            its array.
        KernelError: the kernel has an error.
        InconclusiveError: it needs an unsupported feature.
    """
    shape: ptxemu.Options = {
        "cluster": resolved.cluster or (1, 1, 1),
        "cooperative": resolved.cooperative,
        "resident": resident(resolved, build),
        **options,
    }
    with as_ours():
        ran = ptxemu.Kernel(module, resolved.kernel).run(
            resolved.grid,
            resolved.block,
            [_given(each, memory) for each in resolved.args],
            resolved.dynamic_shared,
            memory=memory,
            **shape,
        )
        return ran.counts


def _run(
    subject: Subject, memory: ptxemu.GlobalMemory, **options: Unpack[ptxemu.Options]
) -> list[ptxemu.Counts]:
    module, build = _module_of(subject), built_of(subject).build
    with sharing(memory.bytes.nbytes):
        return [launched(module, each, build, memory, **options) for each in subject.launches]


def _given(argument: Argument, memory: ptxemu.GlobalMemory) -> ptxemu.Given:
    if isinstance(argument, TensorMapArg):
        argument.check(memory.read(argument.buffer).nbytes)
        return ptxemu.TensorArgument(argument.buffer, argument.map)
    if isinstance(argument, TextureArg):
        argument.check(memory.read(argument.buffer).nbytes)
        return ptxemu.TextureArgument(argument.buffer, argument.texture)
    if isinstance(argument, BufferArg) and not argument.offset:
        return argument.name
    members = members_of(argument)
    values = [
        each.value if isinstance(each, ScalarArg) else memory.address(each.name) + each.offset
        for each in members
    ]
    return struct.pack(f"@{format_of([each.ctype for each in members])}", *values)


def memory_of(
    subject: Subject, arrays: Arrays, module: ptxemu.Module, unwritten: Collection[str] = ()
) -> ptxemu.GlobalMemory:
    """Arrays in the emulator's memory, with the version's fills as the GPU's worker does them.

    Raises:
        UsageError: a name that is not in the build, or an input that does not fit.
        KernelError: there is no memory for the arrays and the variables of the code.
    """
    with as_ours():
        memory = module.memory(arrays.all, unwritten)
    memory.compiled = {}  # a second run recompiles nothing
    _fill(subject, arrays, memory, module.variables)
    return memory


def _fill(
    subject: Subject, arrays: Arrays, memory: ptxemu.GlobalMemory, own: Mapping[str, int]
) -> None:
    """Do the version's fills and set the pointers in inputs; `own`: the code's variables."""
    pointers = subject.study.pointers(subject.problem, arrays.inputs)
    for name, values in linked(arrays.inputs, pointers, memory.address):
        memory.fill(name, values.reshape(-1).view(np.uint8))
    for each in subject.fills:
        if each.symbol and each.name not in own and each.restores:
            continue  # the code holds only what it uses
        if each.symbol and each.name not in own:
            raise no_symbol(each, sorted({*own, *arrays.outputs, *arrays.scratch}))
        size = own[each.name] if each.symbol else arrays.all[each.name].nbytes
        if each.input:
            content = memory.read(each.input).reshape(-1).view(np.uint8)
            check_copy(each, content.nbytes, size)
        else:
            check_whole(each, size)
            content = repeated(each, size)
        memory.fill(each.name, content)


@lru_cache(maxsize=4)
def _parsed(text: str, cubin: Path, arch: str, code: str, defined: Defined) -> ptxemu.Module:
    """Parse PTX once for all problems, with ptxas's results; DataError if it is malformed."""
    try:
        shapes = shared_arrays(code, dict(defined))
        return ptxemu.load(text, cubin, arch=arch, foreign=foreign, shapes=shapes)
    except ptxemu.PtxError as error:
        raise DataError(error.message, error.hint) from error


def built_of(subject: Subject) -> BuildResult:
    """Return the build of a version in CUDA C++."""
    assert subject.built is not None, "EmulatorEngine.build refuses Python versions"
    return subject.built


def _module_of(subject: Subject) -> ptxemu.Module:
    built, version = built_of(subject), subject.version
    defined = tuple(defined_integers(version).items())
    return _parsed(built.build.ptx, built.cubin, built.build.arch, version.text, defined)


def emulate(
    subject: Subject,
    seed: int,
    *,
    watch: bool = False,
    blocks: int = 0,
    instructions: int | None = None,
    limit: Deadline = Deadline(math.inf),  # noqa: B008 - frozen
) -> Emulation:
    """Run one version on one problem.

    `watch`: look for races and uninitialized reads as well (slower). `blocks`: run about this many
    blocks of each launch, for counters only; 0: all. `instructions`: when to stop a batch of
    blocks; None: the emulator's own limit. `limit`: when to stop everything.

    Raises:
        KernelError: it has an error.
        InconclusiveError: it needs an unsupported feature.
        UsageError: a fill that does not fit into the build.
    """
    limits = ptxemu.Limits.within(limit.left(), instructions)
    limits.seconds = limit.seconds  # as requested
    module = _module_of(subject)
    arrays = arrays_of(subject, seed)
    with as_ours():
        unwritten_ = {*arrays.outputs, *arrays.scratch} if watch else set()
        memory = memory_of(subject, arrays, module, unwritten_)
    before = {name: memory.read(name) for name in module.variables}
    dtypes = {name: array.dtype.name for name, array in arrays.all.items()}
    suspects = tuple(_suspects(subject, module, dtypes))
    options: ptxemu.Options = {"limits": limits, "blocks": blocks, "seed": seed, "check": watch}

    def run() -> list[ptxemu.Counts]:
        try:
            return _run(subject, memory, **options)
        except KernelError as error:
            raise suspected(error, suspects) from error

    begin = time.perf_counter()
    counts = run()
    seconds = time.perf_counter() - begin
    whole = all(each.sampled == 1 for each in counts)
    check = _check(subject, arrays, memory, seed, limits) if whole else None
    filled = {each.name for each in subject.fills}
    kept = tuple(
        f"`{own_name(name)}` ({_declared(subject.version, '__device__', name)})"
        for name, was in before.items()
        if name not in filled and was.tobytes() != memory.read(name).tobytes()
    )

    def again(other: int) -> Check:
        nonlocal memory
        fresh, first = arrays_of(subject, other), memory
        if any(fresh.all[name].shape != array.shape for name, array in arrays.all.items()):
            memory = memory_of(subject, fresh, module)  # the sizes depend on the seed
            for name in before.keys() - filled:
                memory.fill(name, first.read(name).reshape(-1).view(np.uint8))
        else:
            for name, array in fresh.all.items():
                memory.fill(name, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            _fill(subject, fresh, memory, module.variables)
        run()
        # The version that gives the right answer is compared with a reloaded copy of itself.
        judged = replace(subject, answering=subject) if subject.itself else subject
        fixed = not overwritten(arrays.inputs, (), (), fresh.inputs.__getitem__)
        return replace(_check(judged, fresh, memory, other, limits), fixed=fixed)

    def explain() -> Suspect | None:
        if sum(each.thread_instructions for each in counts) > _EXPLAINED_BELOW:
            return None
        try:
            return _blame(subject, module, seed, limits)
        except (KernelError, InconclusiveError, MemoryError):
            return None  # no time or memory is left for this

    doubts = tuple(Suspect(f"{words}.") for each in counts for words in each.doubts)
    return Emulation(counts, check, module, seconds, again, kept, explain, suspects + doubts)


#: A thread's coordinates: CUDA's name, and the PTX register.
_PLACES = {"blockIdx": "ctaid", "threadIdx": "tid"}


def _suspects(
    subject: Subject, module: ptxemu.Module, dtypes: Mapping[str, str]
) -> Iterator[Suspect]:
    """Yield arguments, coordinates and constants that a kernel mistakes for others.

    Raises UsageError: it takes NumPy's float64 or int64 as a narrower type.
    """
    version, ptx = subject.version, built_of(subject).build.ptx
    for each in misread(version.text, subject.launches, dtypes):
        each.refuse(version)
        yield Suspect(f"{each.words}: give both the same type.")
    filled = {each.name for each in subject.fills}
    for launch in subject.launches:
        body = entry_text(ptx, launch.kernel)
        name, asked = own_name(launch.kernel), set(re.findall(r"%(n?tid|ctaid)\.([xyz])", body))
        threads = launch.block[0]
        if launch.block[1:] == (1, 1) and ("tid", "y") in asked and ("ntid", "y") not in asked:
            wide = 1 << (threads.bit_length() // 2)
            yield Suspect(
                f"Give the block two dimensions, like block = [{wide}, {threads // wide}].",
                f"the block has one dimension, [{threads}], but {name} uses threadIdx.y, which is "
                "0 in all of its threads",
                launch_key(version, launch, "block").where,
            )
        for (cuda, register), extents in zip(
            _PLACES.items(), (launch.grid, launch.block), strict=True
        ):
            for axis, extent in zip("xyz", extents, strict=True):
                # The value of an atomic or of a function may replace it.
                if extent == 1 or (register, axis) in asked or re.search(r"\b(atom|call)\b", body):
                    continue
                what = "blocks" if cuda == "blockIdx" else "threads of each block"
                yield Suspect(
                    f"Use {cuda}.{axis} in the index.",
                    f"{extent:,} {what} lie along {axis}, but {name} never uses {cuda}.{axis}",
                )
        for variable in module.ptx.variables.values():
            found = _declared(version, "__constant__", variable.name)
            empty = variable.space == "const" and not any(variable.init) and not variable.symbols
            if found and empty and variable.name in body and variable.name not in filled:
                yield Suspect(
                    f'Add a [[fill]] with name = "{variable.name}" and input = the buffer that it '
                    "is a copy of.",
                    f"nothing fills `{variable.name}`, which is __constant__: it holds zeros",
                    found,
                )


def _declared(version: Version, space: str, name: str) -> str:
    """The line on which a variable is declared, as ``file:line``; empty if not found."""
    found = re.search(rf"{space}[^;]*\b{re.escape(own_name(name))}\b", version.text)
    return f"{version.path}:{version.text[: found.end()].count(chr(10)) + 1}" if found else ""


def _blame(
    subject: Subject, module: ptxemu.Module, seed: int, limits: ptxemu.Limits
) -> Suspect | None:
    """Run the version once more, following the lines behind every value."""
    arrays = arrays_of(subject, seed)
    memory = memory_of(subject, arrays, module)
    origins = module.origins(memory)
    _run(subject, memory, limits=limits, check=False, origins=origins)
    outputs = {name: memory.read(name) for name in arrays.outputs}
    if (found := never_written(subject, module, origins, outputs)) or subject.itself:
        return found
    reference = (
        _answer(subject.answering, seed, limits)
        if subject.answering is not None
        else subject.study.reference(subject.problem, arrays.inputs)
    )
    tolerance = subject.study.tolerance_of(subject.version.id)
    return wrong_elements(module, origins, outputs, reference, tolerance)


def _answer(of: Subject, seed: int, limits: ptxemu.Limits) -> dict[str, NDArray[np.float64]]:
    """Compute the answer for comparison with other versions; InconclusiveError if that fails."""
    try:
        arrays = arrays_of(of, seed)
        memory = memory_of(of, arrays, _module_of(of))
        _run(of, memory, limits=limits)
    except (KernelError, UsageError) as error:
        raise InconclusiveError(
            f"{of.version.id}, the study's reference, gives no result on "
            f"{of.problem.name}: {error.message}",
            f"Correct {of.version.id} first. {error.hint}",
        ) from error
    return as_answer({name: memory.read(name) for name in arrays.outputs})


def _check(
    subject: Subject, arrays: Arrays, memory: ptxemu.GlobalMemory, seed: int, limits: ptxemu.Limits
) -> Check:
    study, problem, inputs = subject.study, subject.problem, arrays.inputs
    tolerance = study.tolerance_of(subject.version.id)
    strayed = overwritten(inputs, study.pointers(problem, inputs), subject.fills, memory.read)
    outputs = {name: memory.read(name) for name in arrays.outputs}
    if subject.itself or subject.answering is not None:
        of = subject.answering
        answer = as_answer(outputs) if of is None else _answer(of, seed, limits)
        own = subject.itself
        return compare_with_version(outputs, answer, tolerance, itself=own, strayed=strayed)
    places = None
    if study.can_sample and study.flops(problem) >= _FULL_BELOW_FLOPS:
        sizes = {name: output.size for name, output in outputs.items()}
        places = random_places(np.random.default_rng(seed), sizes)
        reference = study.reference_at(problem, inputs, places)
    else:
        reference = study.reference(problem, inputs)
    special = study.not_finite
    return compare(outputs, reference, tolerance, sample=places, strayed=strayed, special=special)


def verified(emulation: Emulation, subject: Subject) -> Check:
    """Return the check of a whole run, if it passed; KernelError: the result is wrong."""
    check = emulation.check
    assert check is not None
    if not check.ok:
        found = emulation.explain()
        words = f"\n{found.words}" if found else ""
        version, problem, of = subject.version.id, subject.problem.name, subject.answering
        message = f"{version} gives a wrong result on {problem}: {describe_check(check)}{words}"
        hint = " ".join((found.hint, _REPEATABLE)) if found and found.hint else _REPEATABLE
        if of is not None and differs(check):
            other = of.version.id
            message = (
                f"{version} gives a different result from {other} on {problem}: "
                f"{describe_check(check)}{words}"
            )
            hint = UNPROVED.format(version=version, other=other)
        error = KernelError(f"{found.place}: {message}" if found and found.place else message, hint)
        raise suspected(error, emulation.suspects)
    return check
