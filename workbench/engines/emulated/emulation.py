"""Run one version on one problem on the CPU; check and explain its result.

It is one module because a second, followed run explains a wrong result.
"""

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
from typing import Any, NamedTuple, Unpack

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

import ptxemu
from workbench.callers import foreign
from workbench.compile.build import BuildResult
from workbench.disk.limits import MEMORY_VARIABLE
from workbench.engines import Subject
from workbench.engines.emulated.record import resident
from workbench.engines.host.buffers import (
    FAR_OFF,
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
    unwritten,
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
#: Wrong results of runs of fewer thread instructions are explained by a second run.
_EXPLAINED_BELOW = 200_000_000
Array = NDArray[Any]
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
    """A hint of the emulator's, with what it names by our options and pages."""
    for theirs, ours in _OURS.items():
        hint = hint.replace(theirs, ours)
    return hint


@contextlib.contextmanager
def as_ours() -> Iterator[None]:
    """Convert the emulator's errors to those of the program, which have an exit code.

    Raises:
        UsageError: the launch does not fit the kernel.
        InconclusiveError: the kernel needs an unsupported feature, and may be right.
        HangError: time or memory was over, which says nothing of the kernel.
        KernelError: everything else that a kernel does or needs.
    """
    try:
        yield
    except ptxemu.EmulatorError as error:
        other = HangError if isinstance(error, ptxemu.ResourceError) else KernelError
        kinds = ((ptxemu.LaunchError, UsageError), (ptxemu.Unsupported, InconclusiveError))
        kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), other)
        raise kind(error.message, in_our_words(error.hint)) from error


class Suspect(NamedTuple):
    """A likely mistake in a launch, reported where a version gives wrong results.

    One with a `place` comes first, and then only its hint is shown.
    """

    hint: str
    words: str = ""
    place: str = ""


def suspected(error: KernelError, suspects: Collection[Suspect]) -> KernelError:
    """An error with what is hardly meant so."""
    message, hints = error.message, [error.hint]
    for each in suspects:
        hints.insert(len(hints) - 1, each.hint)
        message += f"\n{each.words}" if each.words and not each.place else ""
    for each in suspects:
        if each.place:
            message, hints = f"{each.place}: {each.words}\n{message}", [each.hint]
    return KernelError(message, " ".join(hints))


class Emulation(NamedTuple):
    """One version on one problem, as it ran on the CPU."""

    counts: list[ptxemu.Counts]
    check: Check | None  # None: only a sample of the blocks ran
    module: ptxemu.Module
    seconds: float  # of its launches; comparing results comes on top
    again: Callable[[int], Check]  # runs the loaded code again, on the inputs of another seed
    kept: tuple[str, ...]  # variables that hold what the launches left, with their lines
    #: Runs once more to say what made a result wrong; None where that cannot be said.
    explain: Callable[[], Suspect | None] = lambda: None
    suspects: tuple[Suspect, ...] = ()


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
    """Draw inputs from the seed as on a GPU; poison outputs and scratch.

    Raises UsageError: outputs and scratch alone are more than this machine's memory.
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
            "Choose a smaller problem (--problem), or run it on a GPU (--engine ncu).",
        )


def launched(
    module: ptxemu.Module,
    resolved: ResolvedLaunch,
    build: Build,
    memory: ptxemu.GlobalMemory,
    **options: Unpack[ptxemu.Options],
) -> ptxemu.Counts:
    """Run a study's launch over its arrays in memory.

    Raises:
        UsageError: the launch does not fit the kernel, or a tensor map or texture reaches
            beyond its array.
        KernelError: the kernel does wrong.
        InconclusiveError: it needs what is not supported.
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
    """Run all launches of a version."""
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
        UsageError: a name that the build lacks, or an input that does not fit.
        KernelError: there is no memory for the arrays and the variables of the code.
    """
    with as_ours():
        memory = module.memory(arrays.all, unwritten)
    memory.compiled = {}  # a second run compiles nothing anew
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
            continue  # what the code does not use it does not hold
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
    """Parse PTX once for all problems, with what ptxas made of it; DataError if it is malformed."""
    try:
        shapes = shared_arrays(code, dict(defined))
        return ptxemu.load(text, cubin, arch=arch, foreign=foreign, shapes=shapes)
    except ptxemu.PtxError as error:
        raise DataError(error.message, error.hint) from error


def built_of(subject: Subject) -> BuildResult:
    """The build of a version in CUDA C++."""
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
    blocks of each launch, for counters alone; 0: all. `instructions`: when to give a batch of
    blocks up; None: the emulator's own limit. `limit`: when to give everything up.

    Raises:
        KernelError: it does wrong.
        InconclusiveError: it needs an unsupported feature.
        UsageError: a fill that does not fit into the build.
    """
    limits = ptxemu.Limits.within(limit.left(), instructions)
    limits.seconds = limit.seconds  # as it was asked for
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
        fresh = arrays_of(subject, other)
        if any(fresh.all[name].nbytes != array.nbytes for name, array in arrays.all.items()):
            fresh, other = arrays_of(subject, seed), seed  # sizes that depend on the seed
        for name, array in fresh.all.items():
            memory.fill(name, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        _fill(subject, fresh, memory, module.variables)
        run()
        # The version that gives the right answer is compared with itself, loaded anew.
        judged = replace(subject, answering=subject) if subject.itself else subject
        return _check(judged, fresh, memory, other, limits)

    def explain() -> Suspect | None:
        if sum(each.thread_instructions for each in counts) > _EXPLAINED_BELOW:
            return None
        try:
            return _blame(subject, module, seed, limits)
        except (KernelError, InconclusiveError, MemoryError):
            return None  # no time is left for it, or no memory

    doubts = tuple(Suspect(f"{words}.") for each in counts for words in each.doubts)
    return Emulation(counts, check, module, seconds, again, kept, explain, suspects + doubts)


#: A kernel's registers of its place: CUDA's name, and PTX's.
_PLACES = {"blockIdx": "ctaid", "threadIdx": "tid"}


def _suspects(
    subject: Subject, module: ptxemu.Module, dtypes: Mapping[str, str]
) -> Iterator[Suspect]:
    """Yield arguments, coordinates and constants that a kernel mistakes for others.

    Raises UsageError where it takes NumPy's float64 or int64 as a narrower type.
    """
    version, ptx = subject.version, built_of(subject).build.ptx
    for each in misread(version.text, subject.launches, dtypes):
        each.refuse(version)
        yield Suspect(f"{each.words}: give both one type.")
    filled = {each.name for each in subject.fills}
    for launch in subject.launches:
        body = entry_text(ptx, launch.kernel)
        name, asked = own_name(launch.kernel), set(re.findall(r"%(n?tid|ctaid)\.([xyz])", body))
        threads = launch.block[0]
        if launch.block[1:] == (1, 1) and ("tid", "y") in asked and ("ntid", "y") not in asked:
            wide = 1 << (threads.bit_length() // 2)
            yield Suspect(
                f"Give the block two dimensions, like block = [{wide}, {threads // wide}].",
                f"the block has one dimension, [{threads}], and {name} asks for threadIdx.y, which "
                "is 0 in all of its threads",
                launch_key(version, launch, "block").where,
            )
        for (cuda, register), extents in zip(
            _PLACES.items(), (launch.grid, launch.block), strict=True
        ):
            for axis, extent in zip("xyz", extents, strict=True):
                # The value of an atomic or a function may replace it.
                if extent == 1 or (register, axis) in asked or re.search(r"\b(atom|call)\b", body):
                    continue
                what = "blocks" if cuda == "blockIdx" else "threads of each block"
                yield Suspect(
                    f"Use {cuda}.{axis} in the index.",
                    f"{extent:,} {what} lie along {axis}, and {name} never asks for {cuda}.{axis}",
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
    """The line on which a variable is declared, as ``file:line``; empty where it is not found."""
    found = re.search(rf"{space}[^;]*\b{re.escape(own_name(name))}\b", version.text)
    return f"{version.path}:{version.text[: found.end()].count(chr(10)) + 1}" if found else ""


def _blame(
    subject: Subject, module: ptxemu.Module, seed: int, limits: ptxemu.Limits
) -> Suspect | None:
    """The version once more, with the lines behind every value followed."""
    arrays = arrays_of(subject, seed)
    memory = memory_of(subject, arrays, module)
    origins = module.origins(memory)
    _run(subject, memory, limits=limits, check=False, origins=origins)
    outputs = {name: memory.read(name) for name in arrays.outputs}
    if (found := _never_written(subject, module, origins, outputs)) or subject.itself:
        return found
    reference = (
        _answer(subject.answering, seed, limits)
        if subject.answering is not None
        else subject.study.reference(subject.problem, arrays.inputs)
    )
    tolerance = subject.study.tolerance_of(subject.version.id)
    return _wrong_elements(module, origins, outputs, reference, tolerance)


def _answer(of: Subject, seed: int, limits: ptxemu.Limits) -> dict[str, NDArray[np.float64]]:
    """Compute the answer that other versions are compared with; InconclusiveError if that fails."""
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
    subject: Subject,
    arrays: Arrays,
    memory: ptxemu.GlobalMemory,
    seed: int,
    limits: ptxemu.Limits,
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
                f"{version} gives another result than {other} on {problem}: "
                f"{describe_check(check)}{words}"
            )
            hint = UNPROVED.format(version=version, other=other)
        error = KernelError(f"{found.place}: {message}" if found and found.place else message, hint)
        raise suspected(error, emulation.suspects)
    return check


# --- A wrong result, explained: the element, its writer, and the suspicious line ---
# The kernel runs once more with the lines behind every value followed
# (`ptxemu.Origins`). A line stands out if it takes part in the wrong elements
# more than in the right ones, by Ochiai's measure, and no other line does so as much.

#: Elements of each kind that are looked at.
_LOOKED_AT = 4096


def _shown(name: str, shape: tuple[int, ...], flat: int) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(flat, shape))
    return f"{name}[{place}]"


def _distance(got: Array, want: Array) -> tuple[NDArray[np.float64], ...]:
    """Each element's error, its value and the value that it should have."""
    exact, right = (each.astype(np.float64).reshape(-1) for each in (got, np.asarray(want)))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(exact - right), exact, right


def _wrong(got: Array, want: Array, tolerance: float) -> NDArray[np.bool_]:
    """Elements that are far off by the rules of `engines.host.correctness`; else the worst ones."""
    distance, exact, right = _distance(got, want)
    distance[np.isnan(exact)] = np.inf
    rms = float(np.sqrt(np.mean(right**2))) if right.size else 0.0
    far: NDArray[np.bool_] = distance > FAR_OFF * tolerance * np.maximum(np.abs(right), rms)
    if not far.any():
        far = distance > tolerance * max(rms, np.finfo(np.float64).tiny)
    return far


#: Lines that a message names at most.
_NAMED = 3


def _never_written(
    subject: Subject,
    module: ptxemu.Module,
    origins: ptxemu.Origins,
    outputs: Mapping[str, Array],
) -> Suspect | None:
    """Outputs with elements that were never written."""
    for name, got in outputs.items():
        left = unwritten(got).reshape(-1)
        if not left.any():
            continue
        flat = int(np.argmax(left))
        first, count = _shown(name, got.shape, flat), int(left.sum())
        more = f" and {count - 1:,} more of its {left.size:,} elements" if count > 1 else ""
        verb = "were" if count > 1 else "was"
        stores = list(dict.fromkeys(module.where(instr) for instr in origins.stores[name]))
        if not stores:
            none = f"{first}{more} {verb} never written: no instruction stores to {name}"
            return Suspect("", none)
        # The line that wrote the element before the first one, or else behind the gap.
        beside = flat - 1 if flat else int(np.argmin(left))
        writer = None if left.all() else origins.writer(name, beside, got.dtype.itemsize)
        place = stores[0] if writer is None else module.where(writer.instr)
        others = [each for each in stores if each != place]
        named = "".join(f", {each}" for each in others[: _NAMED - 1])
        unnamed = f" and {len(others) - _NAMED + 1} more" if len(others) >= _NAMED else ""
        grid = _too_small(subject, name, left.reshape(got.shape))
        said = (
            f"{first}{more} {verb} never written; {name} is stored to by "
            f"{place if grid else 'this line'}{named}{unnamed}"
        )
        return grid._replace(words=f"{said}. {grid.words}") if grid else Suspect("", said, place)
    return None


def _too_small(subject: Subject, name: str, left: NDArray[np.bool_]) -> Suspect | None:
    """A grid that ends before an output does: every thread wrote, and as many elements."""
    launches = [
        each
        for each in subject.launches
        if any(isinstance(arg, BufferArg) and arg.name == name for arg in each.args)
    ]
    places = np.argwhere(~left)
    if len(launches) != 1 or not len(places):
        return None
    blocks, threads = math.prod(launches[0].grid), math.prod(launches[0].block)
    each, rest = divmod(len(places), blocks * threads)
    ends, whole = tuple(places.max(axis=0) + 1), left.shape
    if len(places) != math.prod(ends) and not left.reshape(-1)[: len(places)].any():
        ends, whole = (len(places),), (left.size,)  # not rows and columns, but one after the other
    if rest or len(places) != math.prod(ends):  # it is no corner of the output that was written
        return None
    reached, all_ = (", ".join(f":{int(end)}" for end in at) for at in (ends, whole))
    return Suspect(
        f"Round the grid up, cdiv(size, block), so that it covers all of {name}.",
        f"Is the grid too small? {blocks:,} {'blocks' if blocks > 1 else 'block'} of {threads:,} "
        f"threads wrote {each:,} {'elements' if each > 1 else 'element'} each: {name}[{reached}] "
        f"of {name}[{all_}]",
        launch_key(subject.version, launches[0], "grid").where,
    )


def _standing_out(
    origins: ptxemu.Origins, name: str, wrong: NDArray[np.bool_], size: int
) -> tuple[int, int, int, int, int] | None:
    """Find the line whose part in wrong elements exceeds its part in right ones the most.

    Returns index of the line, wrong elements with it, wrong elements, right ones with it, right
    ones.
    """
    bad, good = np.nonzero(wrong)[0], np.nonzero(~wrong)[0]
    if not len(bad) or not len(good):
        return None
    rng = np.random.default_rng(0)
    bad, good = (
        np.sort(rng.choice(each, min(len(each), _LOOKED_AT), replace=False)) for each in (bad, good)
    )
    with_bad = origins.of(name, bad, size).sum(axis=0)
    with_good = origins.of(name, good, size).sum(axis=0)
    score = with_bad / np.sqrt(len(bad) * np.maximum(with_bad + with_good, 1))
    # A line that is behind everything explains nothing.
    common = len(bad) / np.sqrt(len(bad) * (len(bad) + len(good)))
    best = int(np.argmax(score))
    if score[best] <= common or np.count_nonzero(score == score[best]) > 1:
        return None
    return best, int(with_bad[best]), len(bad), int(with_good[best]), len(good)


def _wrong_elements(
    module: ptxemu.Module,
    origins: ptxemu.Origins,
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    tolerance: float,
) -> Suspect | None:
    """The first output with wrong elements."""
    for name, got in outputs.items():
        off = _wrong(got, reference[name], tolerance)
        if not off.any():
            continue
        flat, size = int(np.argmax(off)), got.dtype.itemsize
        value, want = got.reshape(-1)[flat], np.asarray(reference[name]).reshape(-1)[flat]
        place = ""
        written = ""
        part = ""
        writer = origins.writer(name, flat, size)
        if writer is not None:
            place = module.where(writer.instr)
            written = f", last written at {place} by {writer.who}"
        found = _standing_out(origins, name, off, size)
        if found is not None:
            line, bad, all_bad, good, all_good = found
            file, number = origins.lines[line]
            place = f"{module.files.get(file, '?')}:{number}"
            part = (
                f"; {place} takes part in {bad:,} of {all_bad:,} such elements and in {good:,} "
                f"of {all_good:,} right ones"
            )
        words = (
            f"{_off(got, reference[name], tolerance, name)}; the first is "
            f"{_shown(name, got.shape, flat)}: {value:.9g}, not {want:.9g}"
            f"{written}{part}"
        )
        like = _likeness(got, np.asarray(reference[name], np.float64), tolerance, name)
        words += f"\n{like.words}" if like else ""
        return Suspect(like.hint if like else "", words, place)
    return None


def _off(got: Array, want: Array, tolerance: float, name: str) -> str:
    """Say how many elements are off by more than the tolerance, and how many by less."""
    distance, _, right = _distance(got, want)
    scale = np.maximum(np.abs(right), float(np.sqrt(np.mean(right**2))))
    over = ~(distance <= tolerance * scale)
    rounding = 64 * float(np.finfo(got.dtype).eps) if got.dtype.kind == "f" else 0.0
    less = int((~over & (distance > rounding * scale)).sum())
    more = f", {less:,} more by less" if less and tolerance > rounding else ""
    count = int(over.sum())
    return (
        f"{count:,} of {right.size:,} elements of {name} are off by more than the tolerance{more}"
    )


#: Types to which a result may have been rounded on its way.
_NARROW = ("float16", "bfloat16")
#: The least share of elements of which that holds; the others lie between two such numbers.
_ROUNDED = 0.95


def _likeness(got: Array, want: NDArray[np.float64], tolerance: float, name: str) -> Suspect | None:
    """Recognize a wrong output as another form of the reference, and say what to do then."""
    exact = got.astype(np.float64)
    rms = max(float(np.sqrt(np.mean(want**2))), np.finfo(np.float64).tiny)
    near = min(max(10 * tolerance, 1e-5), 1e-2) * rms

    def same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
        with np.errstate(invalid="ignore", over="ignore"):
            return one.size > 1 and bool(np.all(np.abs(one - other) <= near))

    if same(exact, -want):
        words = f"{name} is the reference with its sign turned"
        return Suspect("Turn the sign of what is stored.", words)
    if want.ndim > 1:
        *_, rows, columns = want.shape
        turned = np.swapaxes(want, -1, -2).reshape(want.shape)
        back = np.swapaxes(want.reshape(*want.shape[:-2], columns, rows), -1, -2)
        if same(exact, turned) or same(exact, back):
            hint = "Exchange row and column in the index of the load or of the store."
            return Suspect(hint, f"{name} is the reference transposed")
    flat, right = exact.reshape(-1), want.reshape(-1)
    if same(flat[:-1], right[1:]):
        return Suspect(
            "Take one from the index of the load, or add it to that of the store.",
            f"{name} is the reference shifted by one: each element is the one after it",
        )
    if same(flat[1:], right[:-1]):
        return Suspect(
            "Add one to the index of the load, or take it from that of the store.",
            f"{name} is the reference shifted by one: each element is the one before it",
        )
    large = np.abs(right) > near
    if large.sum() > 1:
        factor = float(np.median(flat[large] / right[large]))
        if np.isfinite(factor) and factor and same(flat, factor * right):
            return Suspect(
                f"Look for a factor of {factor:.6g}: a sum that is added twice, or is of one warp "
                "alone; a missing scale.",
                f"{name} is {factor:.6g} times the reference",
            )
    for narrow in _NARROW:
        with np.errstate(over="ignore"):  # what is too large for it is its infinity
            rounded = right.astype(dtype_of(narrow)).astype(np.float64)
        told = rounded != right  # what is exact in both says nothing
        equal = told.any() and np.mean(flat[told] == rounded[told]) > _ROUNDED
        if got.dtype.itemsize > dtype_of(narrow).itemsize and equal:
            return Suspect(
                f"Keep the value in {got.dtype.name} up to the store, or allow for {narrow} in "
                "`tolerance`.",
                f"{name} is the reference rounded to {narrow}",
            )
    return None
