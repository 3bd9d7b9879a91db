"""Run whole launches: all blocks or a sample of them, on all cores, with counters.

Blocks are independent, so batches of them go to forked processes that share the arena;
each returns its counters. Global atomics are serialized by a lock.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.batch import Batch, run_batch
from ptxemu.compiled import CompiledKernel
from ptxemu.counts import Counts, Executed
from ptxemu.errors import Fault, Kind, ResourceError, Unset
from ptxemu.faults.origins import Origins
from ptxemu.faults.polled import MOST_BLOCKS, Meetings
from ptxemu.launch import BATCH_LANES, KernelLaunch, clustered, prepare
from ptxemu.ops.exact import floating_state
from ptxemu.ops.moves import end_line
from ptxemu.pool import deal, workers_here
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptxas import in_pieces
from ptxemu.state.context import CodeSite
from ptxemu.state.lanes import WARP, Geometry, Lanes
from ptxemu.state.spaces import GlobalMemory

Blocks = NDArray[np.int64]


def sample(geometry: Geometry, wanted: int, seed: int = 0) -> Blocks:
    """Blocks to run for counters: corners and edges of the grid, and inner ones at random.

    The grid is cut into strata by whether a block lies at the first or last place of
    each axis; every stratum contributes at least two blocks (or all it has).
    """
    total = geometry.blocks
    if wanted >= total:
        return np.arange(total, dtype=np.int64)
    rng = np.random.default_rng(seed)
    chosen = []
    groups = strata(geometry)
    for group in np.unique(groups):
        members = np.nonzero(groups == group)[0]
        count = min(len(members), max(2, round(wanted * len(members) / total)))
        chosen.append(rng.choice(members, count, replace=False))
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def strata(geometry: Geometry) -> NDArray[np.int64]:
    """The stratum of each block: 0, 1, 2 for first, inner and last along each axis."""
    out = np.zeros(geometry.blocks, np.int64)
    places = np.unravel_index(np.arange(geometry.blocks), geometry.grid, order="F")
    for axis, (place, extent) in enumerate(zip(places, geometry.grid, strict=True)):
        by = geometry.cluster[axis]  # blocks of a cluster are in one stratum
        out += np.select([place // by == 0, place // by == extent // by - 1], [0, 2], 1) * 3**axis
    return out


#: The fewest batches for each stratum of a sample.
_PIECES = 8
#: The most bytes of a batch's registers and local memory, unless one block needs more.
_BATCH_BYTES = 1 << 30
#: Counters for which a sample's error is stated.
ERRORS = ("sectors", "wavefronts", "warps")


@dataclass(slots=True)
class _Portion:
    """A batch of blocks in one stratum. `weight`: blocks of the grid that each represents."""

    blocks: Blocks
    stratum: int = 0
    weight: float = 1.0


def _portions(
    geometry: Geometry, chosen: Blocks, workers: int, whole: bool, lane_bytes: int
) -> list[_Portion]:
    if whole:
        return [_Portion(blocks) for blocks in batches(geometry, chosen, workers, lane_bytes)]
    groups = strata(geometry)
    out = []
    for group in np.unique(groups):
        mine = chosen[groups[chosen] == group]
        if not len(mine):
            continue
        weight = float(np.count_nonzero(groups == group)) / len(mine)
        # At least some batches, so that the differences between blocks can be seen.
        pieces = max(len(batches(geometry, mine, 1, lane_bytes)), min(_PIECES, len(mine)))
        out += [_Portion(part, int(group), weight) for part in _cut(geometry, mine, pieces)]
    return out


def batches(geometry: Geometry, blocks: Blocks, workers: int, lane_bytes: int = 0) -> list[Blocks]:
    """Blocks in batches of about `BATCH_LANES` lanes, at least one for each worker.

    `lane_bytes`: a lane's bytes in registers and local memory; if these are many, there are fewer
    lanes.
    """
    lanes_at_once = min(BATCH_LANES, _BATCH_BYTES // max(lane_bytes, 1))
    each = max(1, lanes_at_once // (geometry.warps * 32))
    count = -(-len(blocks) // each)
    lanes = len(blocks) * geometry.warps * 32
    if count < workers and lanes >= workers * 2048:
        count = workers
    return _cut(geometry, blocks, count)


def _cut(geometry: Geometry, blocks: Blocks, count: int) -> list[Blocks]:
    """Blocks in about equal pieces, clusters whole."""
    clusters = blocks.reshape(-1, geometry.blocks_of_cluster)
    return [part.reshape(-1) for part in np.array_split(clusters, count) if len(part)]


class _Tally(NamedTuple):
    """The counts of a batch."""

    codes: NDArray[np.int64]  # warps and lanes of each basic block, (blocks, 2)
    sites: NDArray[np.int64]  # `CodeSite.counts` of each instruction, (instructions, counters)
    warnings: frozenset[str]  # code that runs, but is likely a mistake
    apart: dict[str, str]  # by place: lanes that only their compiler orders
    doubts: frozenset[str]  # places where a chip may give any value
    #: Faults that apply if reads of unwritten shared memory change the result.
    undefined: dict[int, Fault]
    found: dict[tuple[Kind, int], Fault]  # faults after which the kernel continued
    printed: str  # the kernel's output, if the caller takes it


def _counts(compiled: CompiledKernel) -> _Tally:
    rt, printed = compiled.rt, compiled.rt.printed
    if printed is not None:
        rt.printed = []
    return _Tally(
        np.array([(code.warps_run, code.lanes_run) for code in compiled.codes], np.int64),
        np.array([site.counts() for site in compiled.sites], np.int64),
        frozenset(rt.warnings),
        rt.apart,
        frozenset(rt.doubts),
        rt.undefined,
        rt.found or {},
        "".join(text for _, text in sorted(printed or (), key=itemgetter(0))),
    )


def _reset(compiled: CompiledKernel) -> None:
    for code in compiled.codes:
        code.warps_run = code.lanes_run = 0
    for site in compiled.sites:
        site.reset()


def _work(compiled: CompiledKernel, geometry: Geometry, blocks: Blocks) -> _Tally:
    _reset(compiled)
    with (
        _enough_memory(compiled.ctx.kernel),
        _first_cause(compiled),
        contextlib.ExitStack() as at_end,
    ):
        at_end.callback(end_line, compiled.ctx)
        run_batch(compiled, Lanes(geometry, blocks))
    return _counts(compiled)


@contextlib.contextmanager
def _first_cause(compiled: CompiledKernel) -> Iterator[None]:
    """Attach earlier faults to the one that ends a kernel: they may have caused it."""
    try:
        yield
    except Fault as fault:
        rt = compiled.rt
        fault.others = (*(rt.found or {}).values(), *rt.undefined.values())
        raise


@contextlib.contextmanager
def _enough_memory(kernel: str) -> Iterator[None]:
    """Raise ResourceError if the block of code runs out of memory."""
    try:
        yield
    except MemoryError as error:
        why = f" ({error})" if str(error) else ""
        raise ResourceError(
            f"kernel {kernel}: the emulator ran out of memory{why}", "Choose a smaller problem."
        ) from None


# --- Blocks that wait for other blocks: batches of them in flight take turns ------
# A batch runs until all its threads have ended or rest in loops that only another block can end.
# Then the others have their turn. If no batch makes progress, the next blocks of the grid start, as
# many as a chip holds at once. If that does not help either, no GPU would reach an end.

#: Lanes of a batch: fewer than for blocks that do not wait, since a turn runs them all.
_LANES = 4096


class _Batches:
    """The batches in flight; the runtime holds the one that runs."""

    def __init__(self, compiled: CompiledKernel, geometry: Geometry) -> None:
        self.compiled, self.geometry = compiled, geometry
        self.batches: list[tuple[Batch, dict[str, Any]]] = []

    @property
    def blocks(self) -> int:
        """Blocks with a thread that has not ended."""
        return sum(batch.living for batch, _ in self.batches)

    def start(self, blocks: NDArray[np.int64]) -> None:
        batch = Batch(self.compiled, Lanes(self.geometry, blocks))
        if not batch.run(patient=True):
            self.batches.append((batch, self.compiled.rt.suspend()))

    def turn(self) -> bool:
        """Run every batch as far as it can go; False if none made progress."""
        moved, left = False, []
        for batch, held in self.batches:
            self.compiled.rt.resume(held)
            ended = batch.run(patient=True)
            moved |= ended or batch.moved
            if not ended:
                left.append((batch, self.compiled.rt.suspend()))
        self.batches = left
        return moved

    def expire(self) -> bool:
        """Let waits that may give up do so; False if all wait for other blocks."""
        found = False
        for at, (batch, held) in enumerate(self.batches):
            if batch.suspended:
                self.compiled.rt.resume(held)
                batch.suspended.expire(batch.push)
                found = True
                self.batches[at] = (batch, self.compiled.rt.suspend())
        return found


def run_interleaved(
    compiled: CompiledKernel, geometry: Geometry, blocks: NDArray[np.int64], resident: int = 0
) -> None:
    """Run blocks, which may wait for each other, in the order in which they start.

    `resident`: the most blocks in flight at once; 0: all. Raises Fault: the kernel's fault, or that
    its blocks wait for ever.
    """
    size = geometry.blocks_of_cluster
    each = max(1, _LANES // (geometry.warps * WARP * size)) * size
    waiting = deque(np.array_split(blocks, range(each, len(blocks), each)))
    flight = _Batches(compiled, geometry)
    with contextlib.ExitStack() as at_end, floating_state():
        at_end.callback(end_line, compiled.ctx)
        while waiting or flight.batches:
            if flight.batches and flight.turn():
                continue
            room = resident - flight.blocks if resident else len(blocks)
            room -= room % size
            if not waiting or room <= 0:
                if flight.expire() or compiled.rt.host():
                    continue
                batch, held = flight.batches[0]
                compiled.rt.resume(held)
                raise batch.forever(_no_room(resident) if waiting else "")
            part = waiting.popleft()
            if len(part) > room:
                waiting.appendleft(part[room:])
            flight.start(part[:room])


def _no_room(resident: int) -> str:
    return (
        f"the chip holds {resident:,} blocks at once, and the blocks that could end the wait start "
        "only after these have exited"
    )


class Hosted(NamedTuple):
    """The services of a running program for its launch."""

    go_on: bool = False  # collect faults that a GPU survives (`Counts.faults`)
    host: Callable[[], bool] | None = None  # called when threads wait and none can continue
    show: Callable[[str], None] | None = None  # gets the kernel's output


_ALONE = Hosted()


def run(
    module: Ptx,
    launch: KernelLaunch,
    memory: GlobalMemory,
    *,
    blocks: Blocks | None = None,
    check: bool = False,
    workers: int | None = None,
    origins: Origins | None = None,
    hosted: Hosted = _ALONE,
) -> Counts:
    """Run one launch and count; the options are those of `api.Options`, which explains them.

    With `check` a kernel that reads unwritten data (shared memory, a register) is run again with
    other values there, and is at fault if that changes a result. `blocks` are those to run; None:
    all, as if blocks may wait for each other.

    Raises:
        Fault: the kernel's fault.
        ResourceError: the emulator's time or memory is exceeded.
        LaunchError: the launch does not fit the kernel.
    """
    once = partial(_run_once, module, launch, memory, blocks)
    again = partial(prepare, module, launch, memory)
    with _enough_memory(launch.kernel):
        compiled = prepare(module, launch, memory, check=check, origins=origins)
        rt = compiled.rt
        rt.host, rt.printed = hosted.host or rt.host, None if hosted.show is None else []
        again_perhaps = bool(rt.shared_limit or compiled.unsure)
        if hosted.go_on:
            rt.found, rt.presumes = {}, True
            module.looks[launch.kernel] += 1
            again_perhaps = bool(rt.shared_limit) and module.looks[launch.kernel] <= _LOOKS
        small = memory.size <= _MOST_KEPT and not compiled.allocates
        kept = _Kept(memory) if check and again_perhaps and small else None
    if hosted.go_on:
        outcome, undefined = once(compiled, workers)
        outcome.faults += tuple(_matter(module, launch.kernel, undefined, lambda: (
            kept is None or _matters(once, again, kept, going_on=True))))  # fmt: skip
    else:
        outcome = _run_strictly(once, again, compiled, kept, workers)
    if hosted.show is not None and outcome.printed:
        hosted.show(outcome.printed)
    return outcome


#: The most launches of a kernel that are checked for the effect of unwritten data.
_LOOKS = 3


def _matter(
    module: Ptx, kernel: str, undefined: dict[int, Fault], matters: Callable[[], bool]
) -> list[Fault]:
    """The reads of shared memory that change a result; each is judged once."""
    judged = module.judged.setdefault(kernel, {})
    if new := undefined.keys() - judged.keys():
        judged |= dict.fromkeys(new, matters())
    return [fault for line, fault in undefined.items() if judged[line]]


def _run_strictly(
    once: _Once,
    again: Callable[..., CompiledKernel],
    compiled: CompiledKernel,
    kept: _Kept | None,
    workers: int | None,
) -> Counts:
    """Run a launch to its end, or to its first fault."""
    try:
        outcome, reads = once(compiled, workers)
        undefined = next(iter(reads.values()), None)
    except Fault as fault:
        first, fault.others = next(iter(fault.others), None), ()
        if kept is None or not (first or isinstance(fault, Unset)):
            raise first or fault from None
        kept.restore()
        undefined = fault
        told: Fault | None = first or fault
        with contextlib.suppress(Fault):
            if first is None:
                compiled = again(check=True)
                compiled.rt.presumes = True
                outcome, _ = once(compiled, workers)
                told = None
            else:
                once(again(), 1)
                told = first if _matters(once, again, kept) else fault
        if told is not None:
            raise told from None
    if undefined is None or kept is None:
        return outcome
    if any(site.instr.op == "printf" for site in compiled.sites) or _matters(once, again, kept):
        raise undefined
    if not isinstance(undefined, Unset):  # the compiler leaves bytes of words unwritten
        harmless = Fault(f"{undefined.message}; its value does not affect the result")
        outcome.warnings = (*outcome.warnings, harmless.message)
    return outcome


#: Bytes of global memory up to which a copy is kept; beyond, any unwritten read is a fault.
_MOST_KEPT = 1 << 28


class _Kept:
    """A copy of global memory before a launch."""

    def __init__(self, memory: GlobalMemory) -> None:
        marks = memory.written
        self.memory = memory
        self._parts = [
            (at, memory.bytes[at].copy(), None if marks is None else marks[at].copy())
            for at in memory.parts()
        ]

    def restore(self) -> None:
        for at, data, marks in self._parts:
            self.memory.bytes[at] = data
            if marks is not None and self.memory.written is not None:
                self.memory.written[at] = marks

    @property
    def same(self) -> bool:
        """Test whether memory is unchanged."""
        return all(np.array_equal(self.memory.bytes[at], data) for at, data, _ in self._parts)


#: Bytes that fill unwritten memory, to see if the result depends on it: NaNs, and large numbers of
#: either sign, in every type.
_FILLS = (0xFF, 0x7B, 0xFB)
_Once = Callable[[CompiledKernel, int | None], tuple[Counts, dict[int, Fault]]]


def _matters(
    once: _Once, again: Callable[..., CompiledKernel], kept: _Kept, *, going_on: bool = False
) -> bool:
    """True if the result depends on unwritten memory; memory is restored afterwards."""
    after = _Kept(kept.memory)
    try:
        for fill in _FILLS:
            kept.restore()
            compiled = again()
            rt = compiled.rt
            rt.fill, rt.presumes, rt.found = fill, True, {} if going_on else None
            once(compiled, 1)
            if not after.same:
                return True
    except Fault:
        return True
    finally:
        after.restore()
    return False


def _run_once(
    module: Ptx,
    launch: KernelLaunch,
    memory: GlobalMemory,
    blocks: Blocks | None,
    compiled: CompiledKernel,
    workers: int | None,
) -> tuple[Counts, dict[int, Fault]]:
    """Run a compiled launch; also return faults that apply if reads of unwritten memory matter."""
    if not compiled.cut:
        in_pieces(compiled, module.assembled.functions.get(launch.kernel, ()))
        compiled.cut = True
    launch = clustered(module, launch)
    geometry = launch.geometry
    # Blocks that wait for others need all of them.
    whole = blocks is None or compiled.polls.others
    chosen = np.arange(geometry.blocks, dtype=np.int64) if whole else blocks
    assert chosen is not None
    chosen = geometry.by_cluster(chosen)
    if len(chosen) < geometry.blocks:
        compiled.in_part()
    workers = workers_here() if workers is None else workers
    # The order of blocks decides the results of atomics: if verdicts depend on it, it is fixed.
    ledger = compiled.ledger
    ordered = compiled.allocates or (ledger is not None and ledger.atomics is not None)
    if compiled.rt.origins is not None or ordered:
        workers = 1
    lane_bytes = compiled.rt.local_bytes + 8 * compiled.slots
    parts = _portions(geometry, chosen, workers, len(chosen) == geometry.blocks, lane_bytes)
    lists = [part.blocks for part in parts]
    work = partial(_work, compiled, geometry)
    few = geometry.blocks <= MOST_BLOCKS and geometry.blocks_of_cluster == 1
    if compiled.rt.check and compiled.polls.others and few and memory.written is not None:
        compiled.rt.meetings = Meetings(compiled.ctx, geometry.blocks, compiled.polls.looks)
    if compiled.polls.others and len(parts) > 1:
        _reset(compiled)
        with _first_cause(compiled):
            run_interleaved(compiled, geometry, chosen, launch.resident)
        parts, answers = [_Portion(chosen)], [_counts(compiled)]
    elif workers == 1 or len(parts) == 1:
        answers = [work(blocks) for blocks in lists]
    else:
        compiled.rt.lock = multiprocessing.get_context("fork").Lock()
        answers = deal(work, lists, workers)
    functions = module.assembled.functions
    outcome = Counts(launch, compiled, functions, blocks_run=len(chosen))
    warnings = {words for each in answers for words in each.warnings}
    if apart := [item for each in answers for item in each.apart.items()]:
        place, what = apart[0]
        warnings.add(
            f"{place}: {what}, with no __syncwarp() between (such lines: {len(dict(apart))}): "
            "the value is right while lanes run in step, which the architecture does not "
            "guarantee; put a __syncwarp() between"
        )
    outcome.warnings = tuple(sorted(warnings))
    outcome.doubts = tuple(sorted({words for each in answers for words in each.doubts}))
    outcome.printed = "".join(each.printed for each in answers)
    _gather(outcome, answers, parts)
    found = {key: each for one in reversed(answers) for key, each in one.found.items()}
    undefined = {key: each for one in reversed(answers) for key, each in one.undefined.items()}
    outcome.faults = tuple(found.values())
    return outcome, undefined


def _gather(outcome: Counts, answers: list[_Tally], parts: list[_Portion]) -> None:
    compiled = outcome.compiled
    weights = [part.weight for part in parts]
    codes = sum(weight * each.codes for weight, each in zip(weights, answers, strict=True))
    sites = sum(weight * each.sites for weight, each in zip(weights, answers, strict=True))
    ways = np.max([each.sites[:, -1] for each in answers], axis=0).tolist()
    counted = [
        site.counting([*totals[:-1], worst])  # a copy: the next launch restarts its counters
        for site, totals, worst in zip(compiled.sites, _whole(sites), ways, strict=True)
    ]
    if any(weight != 1 for weight in weights):
        outcome.error = _errors(compiled, answers, parts)
        each = np.array([answer.sites for answer in answers], np.float64)
        for site, row in zip(counted, np.sqrt(_variances(each, parts)), strict=True):
            if row.any():
                outcome.margins[id(site)] = row.tolist()
    found = iter(counted)
    outcome.rows += [
        Executed(instr, code.block.index, warps, lanes, next(found))
        for code, (warps, lanes) in zip(compiled.codes, _whole(codes), strict=True)
        if code.block.rank >= 0
        for instr in code.block.every
    ]


def _whole(sums: NDArray[np.floating[Any]] | int) -> list[list[int]]:
    counts: list[list[int]] = np.rint(sums).astype(np.int64).tolist()
    return counts


def _variances(values: NDArray[np.float64], parts: list[_Portion]) -> NDArray[np.float64]:
    """Variances of a stratified sample's totals, batches as its units.

    `values` are (batches, …); for each stratum it is N² (1 - n/N) s² / n, where s² is the variance
    between the batches' means, each weighted by its blocks.
    """
    out = np.zeros(values.shape[1:])
    sizes = np.array([len(part.blocks) for part in parts], np.float64)
    strata_of = np.array([part.stratum for part in parts])
    for stratum in np.unique(strata_of):
        mine = np.nonzero(strata_of == stratum)[0]
        weight = parts[mine[0]].weight
        if len(mine) < 2 or weight <= 1:
            continue
        size = sizes[mine].reshape(-1, *([1] * (values.ndim - 1)))
        ran = sizes[mine].sum()
        mean = values[mine].sum(axis=0) / ran
        gaps = (size * (values[mine] / size - mean) ** 2).sum(axis=0) / (len(mine) - 1)
        out += (weight * ran) ** 2 * (1 - 1 / weight) * gaps / ran
    return out


def _errors(
    compiled: CompiledKernel, answers: list[_Tally], parts: list[_Portion]
) -> dict[str, float]:
    """Relative standard errors of a stratified sample's totals."""
    lengths = np.array([code.count for code in compiled.codes])
    weights = np.array([part.weight for part in parts])
    out = {}
    for name in ERRORS:
        if name == "warps":
            each = [answer.codes[:, 0] @ lengths for answer in answers]
        else:
            place = CodeSite.COUNTS.index(name)
            each = [answer.sites[:, place].sum() for answer in answers]
        values = np.array(each, np.float64)
        total = float((weights * values).sum())
        out[name] = float(np.sqrt(_variances(values, parts))) / total if total else 0.0
    return out
