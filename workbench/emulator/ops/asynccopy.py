"""``cp.async``: copies from global to shared memory that land when they are waited for.

The source is read at once; the destination is written when a wait for the copy's group
is executed. A kernel that forgets the wait reads what was there before, as it may on
the chip.
"""

from __future__ import annotations

import numpy as np

from workbench.emulator.cost.addresses import LINE
from workbench.emulator.cost.transfers import bypass_cost, copy_cost
from workbench.emulator.ops.access import Access, add_shared, scatter, where_of
from workbench.emulator.ptx.instructions import Imm, Instr, Operand, Reg
from workbench.emulator.state.context import CodeSite, Context, Registers, Run, Runtime
from workbench.emulator.state.lanes import WARP, Mask
from workbench.emulator.state.spaces import pattern_of
from workbench.emulator.state.values import Array, unsigned

Write = tuple[Array, Array, Array, Mask]


class Pipeline:
    """Copies of one batch: not yet committed, and committed groups, oldest first."""

    def __init__(self) -> None:
        self.open: list[Write] = []
        self.groups: list[list[Write]] = []

    def commit(self) -> None:
        """Close a group (it may be empty)."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, keep: int, rt: Runtime) -> None:
        """Land all groups but the newest `keep`."""
        while len(self.groups) > keep:
            for memory, index, value, mask in self.groups.pop(0):
                scatter(memory, index, value, mask, rt.lanes)


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``cp.async`` with its commits and waits.

    Raises:
        KernelError: a bulk copy or tensor map.
    """
    rt = ctx.rt
    if "bulk" in instr.parts or "mbarrier" in instr.parts:
        raise ctx.unsupported(instr)
    if "commit_group" in instr.parts:
        return lambda R, M: rt.copies.commit()
    if "wait_all" in instr.parts:

        def wait_all(R: Registers, M: Mask) -> None:
            rt.copies.commit()
            rt.copies.wait(0, rt)

        return wait_all
    if "wait_group" in instr.parts:
        count = instr.operands[0]
        assert isinstance(count, Imm)
        keep = count.bits
        return lambda R, M: rt.copies.wait(keep, rt)
    return _copy(instr, ctx, site)


def _copy(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    target, source, size = instr.operands[:3]
    assert isinstance(size, Imm)
    width = size.bits
    word = min(width, 8)
    count = width // word
    kind = f"b{8 * word}"
    vector = () if count == 1 else (f"v{count}",)
    read = Instr(("ld", "global", *vector, kind), (target, source), None, instr.loc,
                 instr.ptx_line, instr.text)  # fmt: skip
    stored = Instr(("st", "shared", *vector, kind), (target, source), None, instr.loc,
                   instr.ptx_line, instr.text)  # fmt: skip
    write = Access(stored, ctx, site, target, "store")
    load = Access(read, ctx, site, source, "load")
    site.space = "global"
    past = "cg" in instr.parts
    write.charged = 0  # `_charge` knows what a copy costs
    limit = ctx.slot(instr.operands[3], 4) if len(instr.operands) > 3 else -1
    sized = limit >= 0 and not _all_or_nothing(instr.operands[3], width, ctx, set())
    rt = ctx.rt

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
        _charge(load, write, R, reading, M, past=past, sized=sized)
        for at, piece in enumerate(pieces):
            value = piece
            if fill is not None:
                value = _kept(np.broadcast_to(piece, rt.lanes.shape), fill, at * word, word)
            rt.copies.open.append((memory[at:], index, value, M))

    return run


def _all_or_nothing(size: Operand, width: int, ctx: Context, seen: set[str]) -> bool:
    """Whether a source size can be seen to be 0 or the copy's width.

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


def _charge(
    load: Access,
    write: Access,
    R: Registers,
    reading: Mask,
    writing: Mask,
    *,
    past: bool,
    sized: bool,
) -> None:
    """Add what follows from both of a copy's addresses.

    That is its wavefronts and, if it goes `past` the first-level cache, its sectors;
    `sized`: see `bypass_cost`.
    """
    lanes, width = write.rt.lanes, write.site.width
    source, offset = where_of(R, load.slot, load.size)
    target, shift = where_of(R, write.slot, write.size)
    low = 0
    if reading.count:
        low = (pattern_of(source, load.width, reading, lanes).low + offset + load.imm) % LINE
    high = (pattern_of(target, write.width, writing, lanes).low + shift + write.imm) % LINE
    key = ("copy", past, sized, source, low, high, reading, writing, width)
    cost = target.memo.get(key)
    if cost is None:
        places: list[Array] = []
        for base, mask in ((source, reading), (target, writing)):
            if mask.count:
                rel = pattern_of(base, load.width, mask, lanes).rel
            else:
                rel = np.zeros((1, 1), np.int64)
            places.append(np.broadcast_to(rel, lanes.shape).reshape(-1, WARP))
        took, gave = (lanes.full(mask).reshape(-1, WARP) for mask in (reading, writing))
        if past:
            found = bypass_cost(places[0] + low, places[1] + high, took, gave, sized=sized)
            cost = (*found.shared, found.sectors, found.ideal)
        else:
            cost = (*copy_cost(places[0] + low, places[1] + high, took, gave, width), 0, 0)
        target.remember(key, cost)
    add_shared(write.site, cost[:4])
    if past and reading.count:
        write.site.sectors += cost[4]
        write.site.ideal += cost[5]


def _kept(value: Array, limit: Array, start: int, word: int) -> Array:
    """The bytes of a word that lie below the source size."""
    octets = np.ascontiguousarray(value).view(np.uint8).reshape(*value.shape, word)
    inside = (np.arange(word) + start) < limit[..., None]
    return np.ascontiguousarray(np.where(inside, octets, 0).astype(np.uint8)).view(value.dtype)[
        ..., 0
    ]
