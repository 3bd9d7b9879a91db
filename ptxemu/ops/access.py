"""Loads and stores, and their costs.

An access is one NumPy gather or scatter for all lanes. The index array, the bounds and
the cost of an address pattern are kept with its base (`ptxemu.state.values.Base`):
a loop that moves an address by a uniform step pays for them once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxemu.cost import (
    LINE,
    GlobalCost,
    SharedCost,
    atomic_cost,
    global_cost,
    local_cost,
    shared_load_cost,
    shared_store_cost,
)
from ptxemu.faults.polled import Meetings
from ptxemu.faults.stores import orders_blocks
from ptxemu.faults.watching import check_written
from ptxemu.faults.words import check_access, check_home
from ptxemu.ops.cluster import RANK, Spots, check_spots, ended, owner_of
from ptxemu.ptx.instructions import SIZES, Instr, Operand, Vec, space_of
from ptxemu.state.context import CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import (
    KINDS,
    LOCAL_WINDOW,
    RESERVED,
    SHARED_WINDOW,
    WINDOW,
    Reach,
    flat_index,
    pattern_of,
)
from ptxemu.state.values import (
    SIGNED,
    UNSIGNED,
    ZERO,
    Affine,
    Array,
    Base,
    Value,
    to_signed,
    unsigned,
)

Cost = Callable[[Any, Any, int], SharedCost | GlobalCost]
#: Memory from an access's first element, indices into it, and the space.
Located = tuple[Array, Array, str]
#: Kind of an access -> its cost in shared memory.
_SHARED_COST: dict[str, Cost] = {
    "load": shared_load_cost, "store": shared_store_cost, "atomic": atomic_cost,
    "copy": shared_store_cost,
}  # fmt: skip


def where_of(R: Registers, slot: int, size: int) -> tuple[Base, int]:
    """An address register as base and signed offset."""
    value = R[slot]
    if type(value) is Affine:
        off = value.off
        return value.base, off if off < 1 << 62 and size == 8 else to_signed(off, size)
    if type(value) is int:
        return ZERO[size], value if size == 8 else to_signed(value, size)
    # Kept as an affine value, so that the next access finds what this one derives.
    base = Base(unsigned(value, size))
    R[slot] = Affine(base, 0)
    return base, 0


def _rows(array: Array, lanes: Lanes) -> tuple[Array, int]:
    """An address array as (warps, 32), and its number of repetitions over the batch."""
    rows, columns = array.shape
    if columns == 1:
        if rows == 1:
            return np.broadcast_to(array, (1, WARP)), lanes.B * lanes.W
        return np.broadcast_to(array, (rows, WARP)), lanes.W
    return array.reshape(-1, WARP), lanes.B if rows == 1 else 1


def cost_of(
    function: Cost, reach: Reach, width: int, lanes: Lanes, period: int = 4
) -> tuple[int, ...]:
    """The cost of a request over the batch; moving all lanes by `period` bytes keeps it."""
    mask, low = reach.mask, reach.low % period
    key = (function, width, low, mask)
    known: tuple[int, ...] | None = reach.memo.get(key)
    if known is not None:
        return known
    rel = reach.pattern.rel
    if mask.arr is None:
        addresses, times = _rows(rel, lanes)
        cost = function(addresses + low, None, width)
    else:
        times = 1
        addresses = np.broadcast_to(rel, lanes.shape).reshape(-1, WARP) + low
        cost = function(addresses, mask.arr.reshape(-1, WARP), width)
    total = tuple(value * times for value in cost)
    if isinstance(cost, SharedCost):
        total = (*total[:3], cost.ways, total[4])
    reach.keep(key, total)
    return total


class Access:
    """One memory instruction, ready to resolve addresses in its space.

    `width` is that of one element, `count` the elements of the vector; `kind` is load, store or
    atomic.
    """

    def __init__(
        self, instr: Instr, ctx: Context, site: CodeSite, where: Operand, kind: str
    ) -> None:
        self.instr, self.ctx, self.site, self.rt = instr, ctx, site, ctx.rt
        self.slot, self.imm, known = ctx.address(where)
        self.type = next(p for p in reversed(instr.parts) if p in KINDS)
        self.width = SIZES[self.type]
        self.count = next((int(p[1:]) for p in instr.parts if p in ("v2", "v4", "v8")), 1)
        self.dtype = KINDS[self.type]
        self.kind = kind
        self.cost = _SHARED_COST[kind]
        space = space_of(instr) or known
        if space == "param" and known != "param":
            space = "global"
        #: Constants are in the arena, but reading them (LDC) does not access L1 and L2.
        self.constant = space == "const" or space_of(instr) == "param"
        self.space = {"const": "global", "param": "global"}.get(space, space)
        base = getattr(where, "base", None)
        self.size = ctx.size(base, 8 if self.space in ("", "global") else 4) if base else 8
        site.space = "const" if self.constant else self.space or "generic"
        site.store = kind != "load"
        site.width = self.width * self.count
        #: Bytes that are charged: ptxas may have merged the access with others.
        self.charged = ctx.widths.get(id(instr), site.width)
        site.joined = self.charged == 0
        self._more = self.charged if self.charged > site.width else 0
        #: The array to which its address belongs, if it may be one in shared memory.
        self.home = ctx.home(where) if self.space in ("", "shared") else None
        #: Bytes requested from global memory.
        self.asked = self.charged or site.width
        self.settles = False  # `put` reports a store's changes to the watcher
        self.start = 0  # the first element of the memory that was located last

    def reach(self, R: Registers, M: Mask) -> Reach:
        """The addresses of the lanes of a mask."""
        base, off = where_of(R, self.slot, self.size)
        known = base.memo.get(("pattern", self.width, M))  # `pattern_of` looks this up first
        pattern = known or pattern_of(base, self.width, M, self.rt.lanes)
        off += self.imm
        return Reach(base, pattern, pattern.low + off, pattern.high + off, M)

    def locate(self, R: Registers, M: Mask) -> Located:
        """Memory from the access's first element on, indices into it, and the space."""
        reach, space = self.reach(R, M), self.space
        if not space:
            space, start = self._window(reach)
            reach = reach.back(start)
        return self._global(reach) if space == "global" else self._own(reach, space)

    def _window(self, reach: Reach) -> tuple[str, int]:
        for space, start in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if start <= reach.low < start + WINDOW:
                if reach.high >= start + WINDOW:
                    raise self.ctx.unsupported(self.instr, "lanes point to different spaces")
                return space, start
        return "global", 0

    def _aligned(self, reach: Reach) -> bool:
        total = self.site.width
        if reach.pattern.cells is None or reach.low % total:
            return False
        if self.count == 1:
            return True
        return pattern_of(reach.base, total, reach.mask, self.rt.lanes).cells is not None

    def _global(self, reach: Reach) -> Located:
        rt, site, mask = self.rt, self.site, reach.mask
        if not self._aligned(reach) or not rt.arena.holds(reach.low, reach.high + site.width - 1):
            check_access(self.ctx, self.instr, reach, site.width, "global")
        if self.charged and not self.constant:
            whole, asked = self._whole(reach), max(self.asked, self._more)
            site.charge_spread(cost_of(global_cost, whole, asked, rt.lanes, LINE))
        start, cells = (reach.low - rt.arena.base) // self.width, reach.pattern.cells
        assert cells is not None
        self.start = start
        if rt.arena.written is not None:
            self._follow(reach, start, cells)
        if rt.origins is not None:
            rt.origins.touch(self.kind, "global", (cells + start) * self.width, site.width, mask)
        return rt.arena.view(self.dtype)[start:], cells, "global"

    def _follow(self, reach: Reach, start: int, cells: Array) -> None:
        """Note writes, and refuse reads of memory that was never written."""
        rt = self.rt
        dtype = UNSIGNED[self.width]
        marks = rt.arena.marks(dtype)[start:]
        full = dtype.type(int.from_bytes(b"\1" * self.width, "little"))
        if rt.meetings is not None:
            self._met(
                rt.meetings, start + cells, marks.take(cells, mode="wrap") != full, reach.mask
            )
        for at in range(self.count):
            if self.kind == "store":
                scatter(marks[at:], cells, np.full((1, 1), full), reach.mask, rt.lanes)
                continue
            bad = marks[at:].take(cells, mode="wrap") != full
            if bad.any() and (bad := rt.lanes.full(reach.mask) & bad).any():
                check_written(self.ctx, self.site, bad, reach.pattern.rel + reach.low)

    def _met(self, meetings: Meetings, cells: Array, fresh: Array, mask: Mask) -> None:
        """Note first writers, and the blocks whose work each block may know of."""
        first, on = cells * self.width, self.rt.lanes.full(mask)
        if self.kind != "store":
            meetings.look(self.site, first, on)
        elif fresh.any():
            meetings.first(self.site, first, on & fresh)
        if orders_blocks(self.instr):
            meetings.meet(self.instr, first, on)

    def _whole(self, reach: Reach) -> Reach:
        """The start of an access that ptxas merged from several: a multiple of its size."""
        return reach.back(reach.low % self._more) if self._more else reach

    def _own(self, reach: Reach, space: str) -> Located:
        """Shared memory of each block, or local memory of each thread."""
        rt, site, shared = self.rt, self.site, space == "shared"
        if shared and reach.high >> RANK:
            return self._of_cluster(reach)
        begin, limit = (RESERVED, rt.shared_limit) if shared else (0, rt.local_limit)
        aligned, home = self._aligned(reach), self.home if shared else None
        if aligned and home is not None:
            if reach.low < home.start or reach.high + site.width > home.start + home.size:
                check_home(self.ctx, self.instr, reach, site.width, home)
        elif not aligned or reach.low < begin or reach.high + site.width > limit:
            check_access(self.ctx, self.instr, reach, site.width, space)
        if shared:
            if self.charged:
                whole = self._whole(reach)
                site.charge_shared(cost_of(self.cost, whole, self.charged, rt.lanes))
            if rt.watcher is not None:
                rt.watcher.access(
                    site, reach, "plain" if self.settles and rt.order is None else self.kind
                )
        elif self.charged:
            site.charge_spread(cost_of(local_cost, self._whole(reach), self.charged, rt.lanes))
        stride = (rt.shared_bytes if shared else rt.local_bytes) // self.width
        each = "block" if shared else "thread"
        index = flat_index(reach, self.width, rt.lanes, stride, each)
        start = self.start = reach.low // self.width
        if rt.origins is not None:
            first = (index + start) * self.width
            rt.origins.touch(self.kind, space, first, site.width, reach.mask)
        return rt.memory(space, self.dtype)[start:], index, space

    def _of_cluster(self, reach: Reach) -> Located:
        """Shared memory of any block of the cluster; the cost is unknown."""
        rt, lanes, width = self.rt, self.rt.lanes, self.site.width
        row, thread = np.nonzero(lanes.full(reach.mask))
        address = np.broadcast_to(reach.pattern.rel + reach.low, lanes.shape)[row, thread]
        spots = Spots(row, thread, *owner_of(lanes, row, address))
        check_spots(self.instr, self.ctx, spots, width, width)
        living = np.asarray(lanes.full(rt.alive()).any(axis=1))
        gone = ~living[spots.owner]
        if gone.any():
            raise ended(self.ctx, self.instr, spots, int(np.argmax(gone)))
        if rt.watcher is not None:
            rt.watcher.access(self.site, reach, self.kind)
        self.start, index = 0, np.zeros(lanes.shape, np.intp)
        index[row, thread] = (spots.owner * rt.shared_bytes + spots.address) // self.width
        if rt.origins is not None:
            rt.origins.touch(self.kind, "shared", index * self.width, width, reach.mask)
        return rt.memory("shared", self.dtype), index, "shared"

    def first(self, index: Array, at: int = 0) -> Array:
        """Bytes from the start of all memory to the located elements, or `at` after them."""
        return (index + (self.start + at)) * self.width

    def put(self, place: Located, value: Array, M: Mask, at: int = 0) -> None:
        """Store to located elements, or to those `at` bytes after them."""
        memory, index, space = place
        memory, stores, lanes = memory[at:] if at else memory, self.rt.stores, self.rt.lanes
        if stores is None or space == "local":
            scatter(memory, index, value, M, lanes)
            return
        first = self.first(index, at)
        if space == "shared":
            before = memory.take(index, mode="wrap")
            scatter(memory, index, value, M, lanes)
            lost = memory.take(index, mode="wrap") != value
        else:
            with self.rt.lock:  # another process's stores do not belong to this instruction
                before = memory.take(index, mode="wrap")
                stores.store(self.site, first, before != value, self.width, M)
                scatter(memory, index, value, M, lanes)
                lost = memory.take(index, mode="wrap") != value
        if space == "shared" and self.settles and self.rt.watcher is not None:
            self.rt.watcher.settle(before != value, lost)
        stores.together(self.site, space, first, lost, M)


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The registers of a vector operand, or the one that it is."""
    return operand.items if isinstance(operand, Vec) else (operand,)


def _param_load(instr: Instr, ctx: Context) -> Run | None:
    """A kernel parameter at a fixed place acts as a constant."""
    slot, offset, known = ctx.address(instr.operands[1])
    if known != "param" or slot not in ctx.constants:
        return None
    kind = instr.parts[-1]
    width = SIZES[kind]
    start = ctx.constants[slot] - ctx.placement.param_base + offset
    targets = [ctx.target(item) for item in items_of(instr.operands[0])]
    sizes = [max(ctx.size(item), width) for item in items_of(instr.operands[0])]
    slots = [
        ctx.parameter(start + index * width, width, size, kind[0] == "s")
        for index, size in enumerate(sizes)
    ]
    if len(targets) == 1:
        slot = slots[0]
        return lambda R, M: R[slot]

    @writes_itself
    def run(R: Registers, M: Mask) -> None:
        for target, each, size in zip(targets, slots, sizes, strict=True):
            put(R, M, target, R[each], size)

    return run


def _read_of(names: list[str], ctx: Context) -> int:
    """Elements of a vector that ptxas loads: without the last half, if no instruction reads it."""
    count = len(names)
    while count > 1 and not any(name in ctx.read for name in names[count // 2 : count]):
        count //= 2
    return count


def load(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``ld`` in every space, vectors included."""
    if space_of(instr) == "param":
        found = _param_load(instr, ctx)
        if found is not None:
            return found
    access = Access(instr, ctx, site, instr.operands[1], "load")
    items = items_of(instr.operands[0])
    if "volatile" not in instr.parts:
        access.asked = access.width * _read_of([getattr(item, "name", "") for item in items], ctx)
    targets = [ctx.target(item) for item in items]
    sizes = [max(ctx.size(item), access.width) for item in items]
    width = access.width
    extends = SIGNED if access.type[0] == "s" else UNSIGNED

    def fit(value: Array, size: int) -> Value:
        if size != width:
            value = value.astype(extends[size]).view(UNSIGNED[size])
        if value.size == 1 and value.dtype.kind != "f":
            return int(value.view(UNSIGNED[size]).item())
        return value

    if len(targets) == 1:
        size = sizes[0]

        def one(R: Registers, M: Mask) -> Value:
            memory, index, _ = access.locate(R, M)
            return fit(memory.take(index, mode="wrap"), size)

        return one

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        memory, index, _ = access.locate(R, M)
        for at, (target, size) in enumerate(zip(targets, sizes, strict=True)):
            put(R, M, target, fit(memory[at:].take(index, mode="wrap"), size), size)

    return many


def scatter(memory: Array, index: Array, value: Array, M: Mask, lanes: Lanes) -> None:
    """Write the mask's lanes; where lanes collide, the highest thread wins."""
    if M.arr is None:
        if index.shape != lanes.shape:
            index = np.broadcast_to(index, lanes.shape)
        memory[index] = value
    else:
        chosen = np.broadcast_to(index, lanes.shape)[M.arr]
        memory[chosen] = np.broadcast_to(value, lanes.shape)[M.arr]


def store(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``st`` in every space, vectors included."""
    access = Access(instr, ctx, site, instr.operands[0], "store")
    access.settles = True
    items = items_of(instr.operands[1])
    width = access.width
    slots = [ctx.slot(item, width, access.type) for item in items]
    sizes = [max(ctx.size(item, width), width) for item in items]
    access.dtype = UNSIGNED[width]
    rt = ctx.rt

    def run(R: Registers, M: Mask) -> None:
        place = memory, index, _ = access.locate(R, M)
        for at, (slot, size) in enumerate(zip(slots, sizes, strict=True)):
            value = unsigned(R[slot], size)
            if size != width:
                value = value.astype(UNSIGNED[width])
            if rt.probing and not rt.lanes.holds(M, memory[at:].take(index, mode="wrap") == value):
                rt.changes += 1
            access.put(place, value, M, at)

    return run
