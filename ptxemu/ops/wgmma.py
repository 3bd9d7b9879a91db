"""``wgmma.mma_async``: products of a warpgroup, with matrices in shared memory.

A product is computed when it is issued, exactly as by `mma`: products summed in float64 and rounded
once. `ptxemu.faults` checks that an asynchronous product is not used before its wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.cost import LINE, SharedCost
from ptxemu.faults.words import first_lane, who
from ptxemu.ops.mma import PER, a_layout, fragment, numbers, slots_of, targets_of
from ptxemu.ops.tiles import swizzled
from ptxemu.ptx.instructions import Imm, Instr, Operand, Vec
from ptxemu.state.context import CodeSite, Context, Registers, Run, writes_itself
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import RESERVED
from ptxemu.state.values import UNSIGNED, Array, Ints, truth, unsigned

# --- Matrix descriptors of ``wgmma``: the places of a matrix's elements in shared memory ---
# The formats and layouts are those of the PTX manual ("Asynchronous Warpgroup Level Matrix
# Shared Memory Layout"): matrices consist of cores of eight rows of 16 bytes, or of eight rows of
# 32, 64 or 128 bytes whose 16-byte chunks are exchanged as in a tensor map.

#: The two highest bits of a descriptor -> bytes within which chunks are exchanged.
_SWIZZLES = (0, 128, 64, 32)
#: Rows of a core, and bytes of one of its rows.
CORE, ROW = 8, 16


class MatrixDescriptor(NamedTuple):
    """A descriptor taken apart; all but `swizzle` and `base` in bytes."""

    start: int  # where the matrix starts
    leading: int  # the leading dimension's byte offset
    stride: int  # the stride dimension's byte offset
    base: int  # the base offset, 0 to 7
    swizzle: int  # 0, 32, 64 or 128


def descriptor(bits: int) -> MatrixDescriptor:
    """The fields of a descriptor's 64 bits."""
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, bits >> 49 & 7, _SWIZZLES[bits >> 62 & 3])


@lru_cache(maxsize=4096)
def addresses(d: MatrixDescriptor, shape: tuple[int, int], size: int, *, by_k: bool) -> Ints:
    """Shared-memory address of each element, in the shape of the matrix.

    The shape is rows (of A; columns of B) by the length along K. `by_k`: neighbours along K are
    neighbours in memory (K-major).
    """
    outer = np.arange(shape[0], dtype=np.int64)[:, None]
    k = np.arange(shape[1], dtype=np.int64)[None, :]
    span = d.swizzle or ROW
    if by_k:
        chunk, rest = np.divmod(k * size, ROW)
        # Without exchange the two chunks of a row are `leading` apart, otherwise neighbours.
        along = chunk * (ROW if d.swizzle else d.leading) + rest
        plain = d.start + outer % CORE * span + outer // CORE * d.stride + along
    else:
        per = ROW // size
        chunk, rest = np.divmod(outer, per)
        inner, block = chunk % (span // ROW), chunk // (span // ROW)
        # Without exchange, swap the offsets.
        far, deep = (d.leading, d.stride) if d.swizzle else (d.stride, d.leading)
        plain = d.start + inner * ROW + block * far + rest * size
        plain = plain + k % CORE * span + k // CORE * deep
    found = swizzled(plain, d.swizzle)
    found.setflags(write=False)
    return found


# --- Running sums of ``wgmma``, kept as matrices as long as nothing else accesses them -------
# Each register of an accumulator is one array; as a matrix, one product per warpgroup can add to
# all of them. So a product leaves registers that are views of an array still to be written, and
# `settle` writes it before another instruction reads or writes one.

#: Threads and rows of a warpgroup's matrix.
GROUP, ROWS = 128, 64
_NAN32, _NAN16 = np.uint32(0x7FFFFFFF), np.uint16(0x7FFF)
#: The most accumulators that are cached as matrices.
_KNOWN = 8

_DTYPES: dict[str, Any] = {"f32": np.float32, "s32": np.int32, "f16": np.float16}
#: Elements that share a register.
_PER = {"f32": 1, "s32": 1, "f16": 2}


class SumShape(NamedTuple):
    """An accumulator of 64×`columns` elements of type `kind`."""

    columns: int
    kind: str


@lru_cache(maxsize=64)
def places(shape: SumShape) -> NDArray[np.intp]:
    """Each element's flat place in the matrix: (registers, 128 threads, elements per register).

    This is the manual's figure of the fragment D of ``wgmma``.
    """
    per = _PER[shape.kind]
    element = np.arange(shape.columns // 2).reshape(-1, 1, per)
    thread = np.arange(GROUP).reshape(1, -1, 1)
    lane = thread % 32
    row = thread // 32 * 16 + element // 2 % 2 * 8 + lane // 4
    column = element // 4 * 8 + lane % 4 * 2 + element % 2
    found: NDArray[np.intp] = (row * shape.columns + column).astype(np.intp)
    return found


@lru_cache(maxsize=64)
def sources(shape: SumShape) -> NDArray[np.intp]:
    """The inverse of `places`: for each element of the matrix, its place among registers."""
    return np.argsort(places(shape).reshape(-1)).astype(np.intp)


class Accumulated:
    """One accumulator of a batch.

    Attributes:
        stack: Its registers, (blocks, registers, threads); not all written.
        views: The registers as they are in the register file.
        matrix: The sums, (blocks, warpgroups, 64, columns).
        held: The warpgroups whose sums are in `matrix`, (blocks, warpgroups).
        settled: Whether `stack` holds all that `matrix` does.
    """

    def __init__(self, shape: SumShape, stack: Array, groups: int) -> None:
        self.shape, self.stack = shape, stack
        self.views = [stack[:, number] for number in range(stack.shape[1])]
        blocks = len(stack)
        self.matrix = np.zeros((blocks, groups, ROWS, shape.columns), _DTYPES[shape.kind])
        self.held = np.zeros((blocks, groups), np.bool_)
        self.settled = True

    def fetch(self, wanted: Array) -> None:
        """Bring these warpgroups' sums into the matrix."""
        missing = wanted & ~self.held
        for group in np.nonzero(missing.any(axis=0))[0]:
            rows = np.nonzero(missing[:, group])[0]
            part = self.stack[rows, :, group * GROUP : (group + 1) * GROUP]
            flat = np.ascontiguousarray(part).view(self.matrix.dtype).reshape(len(rows), -1)
            found = flat.take(sources(self.shape), axis=1)
            self.matrix[rows, group] = found.reshape(len(rows), ROWS, -1)
        self.held |= wanted

    def settle(self) -> None:
        """Write the registers."""
        if self.settled:
            return
        self.settled = True
        order = places(self.shape).reshape(-1)
        for group in np.nonzero(self.held.any(axis=0))[0]:
            rows = np.nonzero(self.held[:, group])[0]
            flat = self.matrix[rows, group].reshape(len(rows), -1)
            if self.shape.kind != "s32" and np.isnan(flat).any():
                bits = flat.view(np.uint32 if self.shape.kind == "f32" else np.uint16)
                bits[np.isnan(flat)] = _NAN32 if self.shape.kind == "f32" else _NAN16
            found = np.ascontiguousarray(flat.take(order, axis=1)).view(np.uint32)
            where = slice(group * GROUP, (group + 1) * GROUP)
            self.stack[rows, :, where] = found.reshape(len(rows), -1, GROUP)


class Sums:
    """All accumulators of one batch."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._groups = lanes.W * 32 // GROUP
        self._known: list[Accumulated] = []
        self.unsettled = False

    def settle(self) -> None:
        """Write all pending registers."""
        if self.unsettled:
            self.unsettled = False
            for each in self._known:
                each.settle()

    def take(
        self, R: Registers, slots: list[int], shape: SumShape, wanted: Array, *, fresh: bool
    ) -> Accumulated:
        """The accumulator in these registers, ready to be changed in the wanted warpgroups.

        The registers become views of it. `fresh`: their present content does not count.
        """
        known = self._find(R, slots)
        if known is None:
            self.settle()
            known = Accumulated(shape, self._stacked(R, slots), self._groups)
        elif known.settled:
            known = self._again(known, whole=bool(wanted.all()) and not self._rest)
        if fresh:
            known.held |= wanted
            known.matrix[wanted] = 0
        else:
            known.fetch(wanted)
        known.settled, self.unsettled = False, True
        self._known = [known, *(each for each in self._known if each is not known)]
        for gone in self._known[_KNOWN:]:
            gone.settle()
        del self._known[_KNOWN:]
        for slot, view in zip(slots, known.views, strict=True):
            R[slot] = view
        return known

    @property
    def _rest(self) -> int:
        """Threads beyond the last whole warpgroup."""
        return self._lanes.T % GROUP

    def _find(self, R: Registers, slots: list[int]) -> Accumulated | None:
        for each in self._known:
            if len(each.views) == len(slots) and all(
                R[slot] is view for slot, view in zip(slots, each.views, strict=True)
            ):
                return each
        return None

    def _stacked(self, R: Registers, slots: list[int]) -> Array:
        stack = np.zeros((self._lanes.B, len(slots), self._lanes.T), np.uint32)
        for number, slot in enumerate(slots):
            if R[slot] is not None:
                stack[:, number] = unsigned(R[slot], 4)
        return stack

    def _again(self, known: Accumulated, *, whole: bool) -> Accumulated:
        """The same sums in fresh registers: the old ones are kept."""
        stack = np.empty_like(known.stack) if whole else known.stack.copy()
        new = Accumulated.__new__(Accumulated)
        new.shape, new.stack = known.shape, stack
        new.views = [stack[:, number] for number in range(stack.shape[1])]
        new.matrix, new.held, new.settled = known.matrix, known.held, True
        self._known = [each for each in self._known if each is not known]
        return new


#: Input type -> bytes of an element. All matrices are 32 bytes long along K.
SIZES = {kind: 4 // per for kind, per in PER.items() if kind != "f64"}
_K_BYTES = 32
_SUMS = ("f32", "f16", "s32")
#: Bytes of sums that are processed at once: they stay in a core's second-level cache.
_PIECE = 1 << 18
_WARPS = GROUP // WARP


class Warpgroups(NamedTuple):
    """The warpgroups that run an instruction: block and number in it, one entry each; a mask."""

    block: Ints
    group: Ints
    mask: Array


#: Fetches the (warpgroups, rows, K) matrix of an operand.
Fetch = Callable[[Registers, Warpgroups], Array]


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``wgmma``, its fence, commits and waits; Fault: a sparse product, or one of single bits."""
    rt, what = ctx.rt, instr.parts[1]
    if what == "mma_async":
        return _product(instr, ctx, site)
    if what == "fence":
        return lambda R, M: rt.order and rt.order.products.fence(M)
    if what == "commit_group":
        return lambda R, M: rt.order and rt.order.products.commit(M)
    if what == "wait_group":
        keep = instr.number()
        return lambda R, M: rt.order and rt.order.products.wait(M, keep)
    raise ctx.unsupported(instr)


def _product(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    rt, parts = ctx.rt, instr.parts
    at, size = next((n, p) for n, p in enumerate(parts) if re.fullmatch(r"m64n\d+k\d+", p))
    if "sp" in parts:
        raise ctx.unsupported(instr)
    columns, k = (int(number) for number in re.split("[nk]", size)[1:])
    to, left, right = [p for p in parts[at + 1 :] if p != "satfinite"]
    if to not in _SUMS or k * SIZES[left] != _K_BYTES or SIZES[left] != SIZES[right]:
        raise ctx.unsupported(instr)
    target, first, second, scale, *rest = instr.operands
    flags = [each.bits for each in rest if isinstance(each, Imm)]
    sign = flags[0] * flags[1] if len(flags) >= 2 else 1
    turned = flags[2:]
    from_registers = isinstance(first, Vec)
    turned_b = bool(turned[-1]) if turned else False
    turned_a = bool(turned[0]) if len(turned) == 2 else False
    shape, slots = SumShape(columns, to), targets_of(target, ctx)
    site.space = "shared"
    reading = (
        [] if from_registers else [StoredMatrix(instr, ctx, first, left, (ROWS, k), not turned_a)]
    )
    reading.append(StoredMatrix(instr, ctx, second, right, (columns, k), not turned_b))
    fetch_a = _fragments(first, left, k, ctx) if from_registers else reading[0].fetch
    fetch_b = reading[-1].fetch
    lines = -(-(columns + (0 if from_registers else ROWS)) * _K_BYTES // LINE)
    adds = ctx.slot(scale, 0)
    clamp = "satfinite" in parts
    settle = from_registers and not set(slots_of(first, ctx)).isdisjoint(slots)

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        groups = _groups(instr, ctx, M)
        # As ncu counts: data read once, in rows of 128 bytes, whatever the layout.
        waves = lines * len(groups.block)
        site.charge_shared(SharedCost(_WARPS * len(groups.block), waves, waves, 1))
        if rt.order is not None:
            rt.order.products.issue(instr, site, M, [each.spots(R, groups) for each in reading])
        if settle:
            rt.sums.settle()
        a, b = fetch_a(R, groups), fetch_b(R, groups)
        kept = np.broadcast_to(truth(R[adds]), rt.lanes.shape)[groups.block, groups.group * GROUP]
        if getattr(scale, "negated", False):
            kept = ~kept
        into = rt.sums.take(R, slots, shape, groups.mask, fresh=not kept.any())
        if kept.any() and not kept.all():
            into.matrix[groups.block[~kept], groups.group[~kept]] = 0
        _add(into.matrix, groups, (sign * a if sign != 1 else a, b), clamp=clamp)

    return many


def _add(matrix: Array, groups: Warpgroups, factors: tuple[Array, Array], *, clamp: bool) -> None:
    """Add the products of (warpgroups, 64, K) and (warpgroups, K, columns) to the sums."""
    a, b = factors
    step = max(1, _PIECE // (ROWS * b.shape[-1] * 8))
    sums = matrix.reshape(-1, *matrix.shape[2:])
    every = bool(groups.mask.all())
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        where = part if every else groups.block[part] * matrix.shape[1] + groups.group[part]
        total = np.matmul(a[part], b[part])
        total += sums[where]
        if matrix.dtype == np.int32:
            if clamp:
                total = np.clip(total, -(2.0**31), 2.0**31 - 1)
            total = total.astype(np.int64)
        sums[where] = total


def _groups(instr: Instr, ctx: Context, M: Mask) -> Warpgroups:
    """The warpgroups of a mask; Fault: some of a warpgroup's threads are not there."""
    lanes = ctx.rt.lanes
    whole = lanes.W // _WARPS
    on = lanes.full(M)
    here = on[:, : whole * GROUP].reshape(lanes.B, whole, GROUP)
    every, some = np.asarray(here.all(axis=2)), here.any(axis=2)
    bad = (every != some).any() or on[:, whole * GROUP :].any()
    if bad:
        lane = who(lanes, *first_lane(lanes, on))
        raise ctx.fault(
            instr, "other", f"wgmma without its whole warpgroup: {lane} "
            "runs it, but not all 128 threads of its four warps do",
            "All threads of four warps must run it together; the first warp's number must be a "
            "multiple of 4.",
        )  # fmt: skip
    block, group = np.nonzero(every)
    return Warpgroups(block, group, every)


def _fragments(operand: Operand, kind: str, k: int, ctx: Context) -> Fetch:
    """A function that fetches A from the registers of its fragments."""
    slots, rt = slots_of(operand, ctx), ctx.rt
    layout = a_layout(16, k, PER[kind])

    def fetch(R: Registers, groups: Warpgroups) -> Array:
        lanes = rt.lanes
        words = fragment(R, slots, 4, lanes)
        shape = (lanes.B, *words.shape[1:])
        warps = groups.group[:, None] * _WARPS + np.arange(_WARPS)
        mine = np.broadcast_to(words, shape)[groups.block[:, None], warps]
        found = numbers(np.ascontiguousarray(mine).view(UNSIGNED[SIZES[kind]]), kind)
        return layout.matrix(found).reshape(len(groups.block), ROWS, k)

    return fetch


class StoredMatrix:
    """A matrix operand in shared memory: A, or B with its columns as rows."""

    def __init__(
        self, instr: Instr, ctx: Context, operand: Operand, kind: str, shape: tuple[int, int],
        by_k: bool,
    ) -> None:  # fmt: skip
        self.instr, self.ctx, self.kind, self.shape, self.by_k = instr, ctx, kind, shape, by_k
        self._slot = ctx.slot(operand, 8)
        self._is_b = shape[0] != ROWS or operand is instr.operands[2]

    def _bits(self, R: Registers, groups: Warpgroups) -> Array:
        whole = np.broadcast_to(unsigned(R[self._slot], 8), self.ctx.rt.lanes.shape)
        return np.asarray(whole[groups.block, groups.group * GROUP])

    def _addresses(self, bits: int) -> Ints:
        instr, ctx = self.instr, self.ctx
        found = descriptor(bits)
        if found.base:
            raise ctx.unsupported(instr, "a matrix descriptor with a base offset")
        where = addresses(found, self.shape, SIZES[self.kind], by_k=self.by_k)
        low, high, end = int(where.min()), int(where.max()), ctx.rt.shared_limit
        if low < RESERVED or high + SIZES[self.kind] > end:
            raise ctx.fault(
                instr, "out-of-bounds",
                f"out of bounds: the matrix descriptor {bits:#018x} reaches "
                f"shared address {low if low < RESERVED else high}; the block's shared memory goes "
                f"from {RESERVED} to {max(end, RESERVED)}",
                "Check the descriptor's start and offsets, which are in units of 16 bytes.",
            )  # fmt: skip
        return where

    def spots(self, R: Registers, groups: Warpgroups) -> list[tuple[Ints, Ints, Ints]]:
        """For each descriptor: blocks, warpgroups, and the addresses that they read."""
        bits = self._bits(R, groups)
        return [
            (groups.block[bits == each], groups.group[bits == each], self._addresses(int(each)))
            for each in np.unique(bits)
        ]

    def fetch(self, R: Registers, groups: Warpgroups) -> Array:
        """The (warpgroups, rows, K) matrix, or (warpgroups, K, columns) of B."""
        size, rt = SIZES[self.kind], self.ctx.rt
        bits = self._bits(R, groups)
        memory = rt.memory("shared", UNSIGNED[size]).reshape(rt.lanes.B, -1)
        if (bits == bits[0]).all():
            return self._read(memory, groups.block, int(bits[0]))
        k, outer = self.shape[1], self.shape[0]
        out = np.empty((len(bits), k, outer) if self._is_b else (len(bits), outer, k))
        for each in np.unique(bits):
            mine = bits == each
            out[mine] = self._read(memory, groups.block[mine], int(each))
        return out

    def _read(self, memory: Array, blocks: Ints, bits: int) -> Array:
        index = self._addresses(bits) // SIZES[self.kind]
        index = index.T if self._is_b else index
        # Warpgroups of a block are neighbours and share what they read.
        new = np.diff(blocks, prepend=-1) != 0
        found = numbers(memory[blocks[new][:, None, None], index], self.kind)
        return found if new.all() else found[np.cumsum(new) - 1]
