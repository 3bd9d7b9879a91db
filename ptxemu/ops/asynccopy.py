"""``cp.async``: copies from global to shared memory that complete at the wait for them.

The source is read at once; the destination is written when the thread waits for the copy's group,
and until then no thread may access it (`faults.watching.InFlight`). A kernel that forgets the wait
reads the old data, as it may on the chip.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ptxemu.cost import LINE, bypass_cost, copy_cost
from ptxemu.ops.access import Access, scatter
from ptxemu.ptx.instructions import Imm, Instr, Operand, Reg
from ptxemu.state.context import CodeSite, Context, Registers, Run, Runtime
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import Reach
from ptxemu.state.values import Array, unsigned


class _Copy(NamedTuple):
    """A copy in flight. `mask`: the lanes that have not waited for it."""

    site: CodeSite
    reach: Reach  # the target
    pieces: list[tuple[Array, Array, Array]]  # memory, index and value
    group: int | Array  # of each lane
    mask: Mask


class Pipeline:
    """Copies of one batch in flight, oldest first."""

    def __init__(self, rt: Runtime) -> None:
        self._rt, self._lanes = rt, rt.lanes
        self._copies: list[_Copy] = []
        self._groups: int | Array = 0  # groups that each lane has closed

    def begin(self, site: CodeSite, reach: Reach, pieces: list[tuple[Array, Array, Array]]) -> None:
        """Lanes start copies."""
        self._copies.append(_Copy(site, reach, pieces, self._groups, reach.mask))

    def commit(self, mask: Mask) -> None:
        """Lanes close a group (it may be empty)."""
        self._groups = self._groups + (1 if mask.arr is None else mask.arr.astype(np.int32))

    def wait(self, mask: Mask, keep: int) -> None:
        """Lanes wait for all of their groups but the newest `keep`: the copies complete."""
        lanes, left = self._lanes, []
        over = self._groups - keep
        for copy in self._copies:
            over_ = np.broadcast_to(copy.group < over, lanes.shape)
            go = lanes.within(copy.mask, over_ & lanes.full(mask))
            if go.count:
                for memory, index, value in copy.pieces:
                    scatter(memory, index, value, go, lanes)
                if self._rt.watcher is not None:
                    self._rt.watcher.access(copy.site, copy.reach._replace(mask=go), "landed")
            stay = lanes.without(copy.mask, go)
            if stay.count:
                left.append(copy._replace(mask=stay))
        self._copies = left

    def wait_all(self, mask: Mask) -> None:
        """Lanes wait for all copies that they have started."""
        self.commit(mask)
        self.wait(mask, 0)


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``cp.async`` with its commits and waits."""
    rt = ctx.rt
    if "commit_group" in instr.parts:
        return lambda R, M: rt.copies.commit(M)
    if "wait_all" in instr.parts:
        return lambda R, M: rt.copies.wait_all(M)
    if "wait_group" in instr.parts:
        keep = instr.number()
        return lambda R, M: rt.copies.wait(M, keep)
    return _copy(instr, ctx, site)


def _copy(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    target, source, *_ = instr.operands
    width = instr.number(2)
    word = min(width, 8)
    count = width // word
    kind = f"b{8 * word}"
    vector = () if count == 1 else (f"v{count}",)
    write = Access(instr.turned("st", "shared", *vector, kind), ctx, site, target, "copy")
    load = Access(instr.turned("ld", "global", *vector, kind), ctx, site, source, "load")
    site.space = "global"
    write.charged = 0  # `_charge` computes a copy's cost
    limit = ctx.slot(instr.operands[3], 4) if len(instr.operands) > 3 else -1
    sized = limit >= 0 and not _all_or_nothing(instr.operands[3], width, ctx, set())
    past, rt = "cg" in instr.parts, ctx.rt

    def run(R: Registers, M: Mask) -> None:
        fill = None
        reading = M
        if limit >= 0:
            # Bytes beyond the source size are zeros; a size of 0 reads nothing at all.
            known = R[limit]
            if type(known) is not int or known < width:
                fill = np.broadcast_to(unsigned(known, 4), rt.lanes.shape)
                reading = rt.lanes.within(M, fill > 0)
        memory, index, _ = write.locate(R, M)
        pieces = [np.zeros((1, 1), write.dtype)] * count
        if reading.count:
            counted = site.sectors, site.ideal
            origin, where, _ = load.locate(R, reading)
            if past:
                site.sectors, site.ideal = counted
            pieces = [origin[at:].take(where, mode="wrap") for at in range(count)]
        source = load.reach(R, reading) if reading.count else None
        goal, into = write.reach(R, M), []
        _charge(write, source, goal, past=past, sized=sized)
        for at, piece in enumerate(pieces):
            value = piece
            if fill is not None:
                value = _kept(np.broadcast_to(piece, rt.lanes.shape), fill, at * word, word)
            into.append((memory[at:], index, value))
        rt.copies.begin(site, goal, into)

    return run


def _all_or_nothing(size: Operand, width: int, ctx: Context, seen: set[str]) -> bool:
    """True if a source size is known to be 0 or the copy's width.

    ptxas then makes it a condition.
    """
    if isinstance(size, Imm):
        return size.bits in (0, width)
    if not isinstance(size, Reg):
        return False
    if size.name in seen:
        return True
    seen.add(size.name)
    makers = ctx.makers.get(size.name, [])
    for maker in makers:
        if maker.op == "and":
            if not any(isinstance(each, Imm) and each.bits == width for each in maker.operands):
                return False
        elif maker.op not in ("selp", "mov") or not all(
            _all_or_nothing(each, width, ctx, seen)
            for each in maker.operands[1 : 3 if maker.op == "selp" else 2]
        ):
            return False
    return bool(makers)


def _charge(write: Access, source: Reach | None, target: Reach, *, past: bool, sized: bool) -> None:
    """Add the costs that depend on both of a copy's addresses; `source` None: it is not read.

    That is its wavefronts and, if it goes past the first-level cache, its sectors (`bypass_cost`).
    """
    lanes, site = write.rt.lanes, write.site
    low, high = source.low % LINE if source else 0, target.low % LINE
    where = (source.base, source.mask) if source else None
    key = ("copy", past, sized, where, low, high, target.mask, site.width)
    cost = target.base.memo.get(key)
    if cost is None:
        give = _by_warp(source.pattern.rel if source else np.zeros((1, 1), np.int64), lanes) + low
        take = _by_warp(target.pattern.rel, lanes) + high
        reading = _by_warp(lanes.full(source.mask if source else lanes.empty), lanes)
        writing = _by_warp(lanes.full(target.mask), lanes)
        if past:
            found = bypass_cost(give, take, reading, writing, sized=sized)
            cost = (*found.shared[:4], found.sectors, found.ideal)
        else:
            cost = (*copy_cost(give, take, reading, writing, site.width)[:4], 0, 0)
        target.base.remember(key, cost)
    site.charge_shared(cost[:4])
    if source:
        site.sectors += cost[4]
        site.ideal += cost[5]


def _by_warp(array: Array, lanes: Lanes) -> Array:
    return np.broadcast_to(array, lanes.shape).reshape(-1, WARP)


def _kept(value: Array, limit: Array, start: int, word: int) -> Array:
    """The bytes of a word that are below the source size."""
    octets = np.ascontiguousarray(value).view(np.uint8).reshape(*value.shape, word)
    inside = (np.arange(word) + start) < limit[..., None]
    return np.ascontiguousarray(np.where(inside, octets, 0).astype(np.uint8)).view(value.dtype)[
        ..., 0
    ]
