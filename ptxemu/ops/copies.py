"""``cp.async.bulk`` and ``cp.async.bulk.tensor``, with reductions, multicast and groups.

A copy into shared memory completes at the wait for its mbarrier. A copy out of shared memory is
done at once; its group's wait only marks when the source may be written again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ptxemu.faults.watching import check_written
from ptxemu.faults.words import missed
from ptxemu.ops.atomics import Operation, apply
from ptxemu.ops.cluster import Spots, check_spots, lanes_of, shared_operand
from ptxemu.ops.mbarrier import Change, barrier_operand, change, check_barriers, keys_of
from ptxemu.ops.tiles import CHUNK
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite, Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import F32, F64, SIGNED, UNSIGNED, Array, Ints

# --- Bulk copies in flight: each completes at a wait for the mbarrier to which it reports ---
# The source is read at once and the destination written late, so that a kernel that forgets to wait
# finds the old data, as it may on the chip.


class BulkCopy(NamedTuple):
    """Copies of one instruction, one row each."""

    instr: Instr  # the operations that started them
    arrive: Callable[[], None]  # writes their data
    barriers: Spots  # the mbarrier to which each reports
    bytes: Ints  # the number of bytes that it reports


class Flights:
    """All copies of one batch that have not completed."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._up: list[tuple[Ints, BulkCopy]] = []

    def launch(self, flight: BulkCopy) -> None:
        """Start copies."""
        self._up.append((keys_of(self._ctx, flight.barriers), flight))

    def land(self, keys: Ints) -> None:
        """Complete the copies that report to any of these mbarriers, in their order."""
        wanted = [np.isin(mine, keys).any() for mine, _ in self._up]
        if not any(wanted):
            return
        landing = [up for up, now in zip(self._up, wanted, strict=True) if now]
        self._up = [up for up, now in zip(self._up, wanted, strict=True) if not now]
        for _, flight in landing:
            flight.arrive()
            nobody = np.zeros_like(flight.bytes)
            change(flight.instr, self._ctx, flight.barriers, Change(nobody, -flight.bytes))


#: The type of a unit of copied data, by its bytes.
UNITS: dict[int, np.dtype[Any]] = {**UNSIGNED, CHUNK: np.dtype(np.complex128)}
#: Type names in instructions -> the types that copies reduce.
REDUCED: dict[str, np.dtype[Any]] = {
    "f16": UNSIGNED[2], "bf16": UNSIGNED[2], "f32": F32, "f64": F64,
    **{f"{sign}{8 * size}": UNSIGNED[size] for sign in "ub" for size in (4, 8)},
    **{f"s{8 * size}": SIGNED[size] for size in (4, 8)},
}  # fmt: skip
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


class Shared(NamedTuple):
    """Bytes of shared memory, one row per copy: its block, and the address of every unit."""

    owner: Ints
    address: Ints
    unit: int


class Global(NamedTuple):
    """Bytes of global memory: the address of every unit, and which of them are copied."""

    address: Ints
    inside: Array | None
    unit: int


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``cp.async.bulk`` for plain bytes, and the groups of all bulk copies.

    Raises:
        Fault: a form that compute capability 9.0 lacks.
    """
    if "commit_group" in instr.parts or "wait_group" in instr.parts:
        return _group(instr, ctx)
    if "prefetch" in instr.parts:
        return lambda R, M: None
    spaces = [part.partition("::")[0] for part in instr.parts if part[:6] in ("shared", "global")]
    if len(spaces) != 2 or "cp_mask" in instr.parts:
        raise ctx.unsupported(instr)
    to, _ = spaces
    return _into_shared(instr, ctx, site) if to == "shared" else into_global(instr, ctx, site)


def _group(instr: Instr, ctx: Context) -> Run:
    """Commit a group of bulk copies, or wait for all but the newest."""
    rt = ctx.rt
    if "commit_group" in instr.parts:
        return lambda R, M: rt.order and rt.order.bulk.commit(M)
    keep = instr.number()
    return lambda R, M: rt.order and rt.order.bulk.wait(M, keep)


def _into_shared(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    rt = ctx.rt
    site.space, site.store = "shared", True
    goal, size = shared_operand(instr, ctx, instr.operands[0], 0, CHUNK), instr.operands[2]
    barrier, bytes_ = barrier_operand(instr, ctx, 3), ctx.slot(size, 4)
    from_shared = sum(part[:6] == "shared" for part in instr.parts) == 2
    local = shared_operand(instr, ctx, instr.operands[1], 0, CHUNK) if from_shared else None
    slot, offset, _ = (0, 0, "") if from_shared else ctx.address(instr.operands[1])
    spread = multicast(instr, ctx, 4)
    reduce = reduction(instr)

    def run(R: Registers, M: Mask) -> None:
        lanes = rt.lanes
        ends, barriers = goal(R, M), barrier(R, M)
        check_barriers(instr, ctx, barriers)
        sizes = copied_bytes(instr, ctx, lanes_of(R, bytes_, 4, M, lanes), ends)
        starts = local(R, M) if local is not None else None
        froms = None if starts is not None else lanes_of(R, slot, 8, M, lanes).astype(np.int64)
        for count in np.unique(sizes):
            which = np.nonzero(sizes == count)[0]
            step = np.arange(0, count, CHUNK, dtype=np.int64)
            to, bars = pick(ends, which), pick(barriers, which)
            check_spots(instr, ctx, to, count)
            if starts is not None:
                start = pick(starts, which)
                check_spots(instr, ctx, start, count)
                source = Shared(start.owner, start.address[:, None] + step, CHUNK)
                data = read_shared(ctx, site, to, source)
            else:
                assert froms is not None
                addresses = froms[which, None] + offset + step
                data = read_global(ctx, site, to, Global(addresses, None, CHUNK))
            target = Shared(to.owner, to.address[:, None] + step, CHUNK)
            amounts = np.full(len(which), count, np.int64)
            landing = Landing(target, data, bars, amounts, reduce)
            land(ctx, site, landing, spread(R, M, which))

    return run


def into_global(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """A copy of bytes from shared to global memory."""
    rt = ctx.rt
    source = shared_operand(instr, ctx, instr.operands[1], 0, CHUNK)
    slot, offset, _ = ctx.address(instr.operands[0])
    bytes_, reduce = ctx.slot(instr.operands[2], 4), reduction(instr)
    site.space = "shared"

    def run(R: Registers, M: Mask) -> None:
        lanes, starts = rt.lanes, source(R, M)
        sizes = copied_bytes(instr, ctx, lanes_of(R, bytes_, 4, M, lanes), starts)
        goals = lanes_of(R, slot, 8, M, lanes).astype(np.int64) + offset
        for count in np.unique(sizes):
            which = np.nonzero(sizes == count)[0]
            step = np.arange(0, count, CHUNK, dtype=np.int64)
            start = pick(starts, which)
            check_spots(instr, ctx, start, count)
            data = read_shared(
                ctx, site, start, Shared(start.owner, start.address[:, None] + step, CHUNK)
            )
            goal = Global(goals[which, None] + step, None, CHUNK)
            write_global(ctx, site, start, Outgoing(goal, data, reduce))

    return run


def copied_bytes(instr: Instr, ctx: Context, sizes: Array, spots: Spots) -> Ints:
    """The bytes that each lane copies; Fault: not a multiple of 16."""
    sizes = sizes.astype(np.int64)
    if (sizes % CHUNK).any():
        size = int(sizes[np.argmax(sizes % CHUNK != 0)])
        raise ctx.fault(
            instr, "other", f"a bulk copy of {size} bytes, which is not a multiple of {CHUNK}",
            "Copy whole chunks of 16 bytes, and the rest with ordinary loads.",
        )  # fmt: skip
    return sizes


def pick(spots: Spots, which: Ints) -> Spots:
    """Some of the spots."""
    return Spots(*(each[which] for each in spots))


# --- multicast and reductions

Spread = Callable[[Registers, Mask, Ints], tuple[Ints, Ints] | None]


def multicast(instr: Instr, ctx: Context, place: int) -> Spread:
    """A function that multicasts copies: rows of the copies, and ranks; None: no multicast.

    Raises:
        Fault: a bit of the mask belongs to no block of the cluster.
    """
    if "multicast::cluster" not in instr.parts:
        return lambda R, M, which: None
    slot = ctx.slot(instr.operands[place], 2)

    def spread(R: Registers, M: Mask, which: Ints) -> tuple[Ints, Ints]:
        lanes = ctx.rt.lanes
        masks = lanes_of(R, slot, 2, M, lanes).astype(np.int64)[which]
        size = lanes.geometry.blocks_of_cluster
        if (masks >> size).any():
            raise ctx.fault(
                instr, "other", f"a multicast to ranks beyond the {size} blocks of a cluster",
                "Set one bit of the mask for each rank that is to receive the copy.",
            )  # fmt: skip
        row, rank = np.nonzero(masks[:, None] >> np.arange(size) & 1)
        return row, rank

    return spread


class CopyReduction(NamedTuple):
    """The reduction of a copy at its destination."""

    op: str
    kind: str
    dtype: np.dtype[Any]


def reduction(instr: Instr) -> CopyReduction | None:
    """The reduction of a copy at its destination; None: it overwrites.

    Raises:
        KeyError: a type that copies do not reduce.
    """
    if instr.parts[1] != "reduce":
        return None
    op = next(part for part in instr.parts if part in REDUCTIONS)
    kind = instr.parts[-1]
    return CopyReduction(op, kind, REDUCED[kind])


def reduced(memory: Array, index: Ints, data: Array, reduce: CopyReduction) -> None:
    """Reduce data into memory, both of units of the reduction's type."""
    values = np.ascontiguousarray(data).reshape(-1)
    operation = Operation(reduce.op, reduce.kind)
    apply(memory, index.reshape(-1), values, values, operation, wants_old=False)


# --- reading and writing


def read_shared(ctx: Context, site: CodeSite, spots: Spots, source: Shared) -> Array:
    """Units of shared memory, (copies, units)."""
    rt = ctx.rt
    if rt.order is not None and site.instr.op == "cp":
        rt.order.bulk.reads(site, spots, source)
    memory = rt.memory("shared", UNITS[source.unit])
    start = source.owner[:, None] * (rt.shared_bytes // source.unit)
    found: Array = memory[start + source.address // source.unit]
    return found


def read_global(ctx: Context, site: CodeSite, spots: Spots, source: Global) -> Array:
    """Units of global memory, (copies, units); uncopied units are 0."""
    address, inside, unit = source
    _check(ctx, site, spots, source, "reads")
    arena = ctx.rt.arena
    index = (address - arena.base) // unit
    memory = arena.view(UNITS[unit])
    if inside is None or inside.all():
        data: Array = memory[index]
        return data
    data = memory[np.where(inside, index, 0)]
    data[~inside] = 0
    return data


class Outgoing(NamedTuple):
    """Copies out of shared memory: their targets and their data."""

    goal: Global
    data: Array
    reduce: CopyReduction | None = None


def write_global(ctx: Context, site: CodeSite, spots: Spots, out: Outgoing) -> None:
    """Write (or reduce) units to global memory, as far as they are inside."""
    (address, inside, unit), data, reduce = out
    _check(ctx, site, spots, out.goal, "writes")
    arena = ctx.rt.arena
    where = address if inside is None else address[inside]
    values = data if inside is None else data[inside]
    index = (where - arena.base) // unit
    if arena.written is not None:
        _marks(arena.written, unit)[index.reshape(-1)] = 1
    if ctx.rt.stores is not None:
        ctx.rt.stores.forget(index.reshape(-1) * unit, unit)
    if reduce is None:
        arena.view(UNITS[unit])[index] = values
        return
    per = unit // reduce.dtype.itemsize
    fine = index.reshape(-1, 1) * per + np.arange(per)
    with ctx.rt.lock:
        pieces = np.ascontiguousarray(values).view(reduce.dtype)
        reduced(arena.view(reduce.dtype), fine, pieces, reduce)


def _marks(written: Array, unit: int) -> Array:
    return written[: len(written) // unit * unit].reshape(-1, unit)


def _check(ctx: Context, site: CodeSite, spots: Spots, span: Global, verb: str) -> None:
    """Raise a fault if a copy misses its array; note its reads of unwritten memory."""
    address, inside, unit = span
    low, high = address, address
    if inside is not None:
        if not inside.any():
            return
        some = address[np.arange(len(address)), inside.argmax(axis=1)][:, None]
        low = high = np.where(inside, address, some)
        keep = inside.any(axis=1)
        low, high, spots = low[keep], high[keep], pick(spots, np.nonzero(keep)[0])
    low, high = low.min(axis=1), high.max(axis=1)
    _check_span(ctx, site.instr, spots, (low, high + unit), verb)
    written = ctx.rt.arena.written
    if written is None or verb == "writes":
        return
    index = (address - ctx.rt.arena.base) // unit
    marks = _marks(written, unit)[index if inside is None else np.where(inside, index, 0)]
    unset = ~marks.all(axis=2) if inside is None else inside & ~marks.all(axis=2)
    if unset.any():
        copy, at = (int(axis[0]) for axis in np.nonzero(unset))
        lanes = ctx.rt.lanes
        bad, where = np.zeros(lanes.shape, np.bool_), np.zeros(lanes.shape, np.int64)
        place = spots.row[copy], spots.thread[copy]
        bad[place], where[place] = True, address[copy, at]
        check_written(ctx, site, bad, where)


def _check_span(
    ctx: Context, instr: Instr, spots: Spots, span: tuple[Array, Array], verb: str
) -> None:
    """Raise if a lane's bytes, from the first of `span` to the second, miss every array."""
    arena, (low, end) = ctx.rt.arena, span
    good = arena.inside(low, 1) & arena.inside(end - 1, 1)
    if good.all() and arena.holds(int(low.min()), int(end.max()) - 1):
        return
    for at, (start, stop) in enumerate(zip(low.tolist(), end.tolist(), strict=True)):
        if not arena.holds(start, stop - 1):
            raise ctx.fault(
                instr, "out-of-bounds", f"out of bounds: a copy by "
                f"{spots.who(ctx.rt.lanes, at)} {verb} {missed(arena, start, stop - start)}",
                "Check the copy's address and size against the array's size.",
            )  # fmt: skip


class Landing(NamedTuple):
    """Copies into shared memory: targets, data, and the bytes reported to which mbarriers."""

    target: Shared
    data: Array
    barriers: Spots
    bytes: Ints
    reduce: CopyReduction | None = None


def land(ctx: Context, site: CodeSite, landing: Landing, spread: tuple[Ints, Ints] | None) -> None:
    """Start copies into shared memory."""
    rt = ctx.rt
    (owner, address, unit), data, barriers, bytes_, reduce = landing
    if spread is not None:
        # The same places in each of the blocks that the mask names.
        row, rank = spread
        size = rt.lanes.geometry.blocks_of_cluster
        owner = owner[row] // size * size + rank
        address, data, bytes_ = address[row], data[row], bytes_[row]
        barriers = pick(barriers, row)._replace(owner=owner)
    if rt.order is not None:
        rt.order.bulk.writes(site, barriers, Shared(owner, address, unit))
    index = owner[:, None] * (rt.shared_bytes // unit) + address // unit
    memory = rt.memory("shared", UNITS[unit])
    arrive = partial(_written, memory, index, data)
    if reduce is not None:
        per = unit // reduce.dtype.itemsize
        fine = (index[:, :, None] * per + np.arange(per)).reshape(len(index), -1)
        pieces = np.ascontiguousarray(data).view(reduce.dtype)
        arrive = partial(reduced, rt.memory("shared", reduce.dtype), fine, pieces, reduce)
    rt.flights.launch(BulkCopy(site.instr, arrive, barriers, bytes_))


def _written(memory: Array, index: Ints, data: Array) -> None:
    memory[index] = data
