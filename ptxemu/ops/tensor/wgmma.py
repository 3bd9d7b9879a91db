"""``wgmma.mma_async``: products of a warpgroup, with matrices in shared memory.

A product is done when it is issued, exactly as `mma` does one: products summed in float64 and
rounded once. What an asynchronous product may not be used for before its wait is another
matter, which `ptxemu.faults` watches.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.cost.addresses import LINE, SharedCost
from ptxemu.errors import Fault
from ptxemu.faults.words import who
from ptxemu.ops.conversions import from_bf16
from ptxemu.ops.float8 import numbers_of
from ptxemu.ops.tensor.descriptors import addresses, descriptor
from ptxemu.ops.tensor.fragments import a_layout
from ptxemu.ops.tensor.mma import slots_of, targets_of
from ptxemu.ops.tensor.sums import GROUP, ROWS, SumShape
from ptxemu.ops.warp import by_warp
from ptxemu.ptx.instructions import Imm, Instr, Operand, Vec
from ptxemu.state.context import CodeSite, Context, Registers, Run, writes_itself
from ptxemu.state.lanes import WARP, Mask
from ptxemu.state.spaces import RESERVED
from ptxemu.state.values import F64, UNSIGNED, Array, truth, unsigned

Ints = NDArray[np.int64]
#: Input type -> bytes of an element. All matrices are 32 bytes long along K.
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_K_BYTES = 32
_WARPS = GROUP // WARP
_SUMS = ("f32", "f16", "s32")
#: Bytes of sums that are worked on at once: they stay in a core's second-level cache.
_PIECE = 1 << 18
_WARPS = GROUP // WARP


class Warpgroups(NamedTuple):
    """The warpgroups that run an instruction, one entry each: block, number in it; and a mask."""

    block: Ints
    group: Ints
    mask: Array


def numbers(bits: Array, kind: str) -> Array:
    """Elements of an input type, as unsigned integers of its size, in float64."""
    if kind in ("e4m3", "e5m2"):
        return np.asarray(numbers_of(f"{kind}x2")[bits])
    if kind == "bf16":
        return from_bf16(bits).astype(F64)
    if kind == "tf32":  # the chip looks at the upper 19 bits only
        cut: Array = bits & np.uint32(0xFFFFE000)
        return cut.view(np.float32).astype(F64)
    dtype: Any = {"f16": np.float16, "s8": np.int8, "u8": np.uint8}[kind]
    return np.asarray(bits.view(dtype).astype(F64))


#: What fetches the (warpgroups, rows, K) matrix of an operand.
Fetch = Callable[[Registers, Warpgroups], Array]


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``wgmma`` with its fence, commits and waits.

    Raises:
        Fault: a sparse product, or one of single bits.
    """
    rt, what = ctx.rt, instr.parts[1]
    if what == "mma_async":
        return _product(instr, ctx, site)
    if what == "fence":
        return lambda R, M: rt.order and rt.order.products.fence(M)
    if what == "commit_group":
        return lambda R, M: rt.order and rt.order.products.commit(M)
    if what == "wait_group":
        count = instr.operands[0]
        assert isinstance(count, Imm)
        keep = count.bits
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
        # As ncu counts: what is read once, in rows of 128 bytes, however it is laid out.
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
    """The warpgroups of a mask.

    Raises:
        Fault: some of a warpgroup's threads are not there.
    """
    lanes = ctx.rt.lanes
    whole = lanes.W // _WARPS
    on = lanes.full(M)
    here = on[:, : whole * GROUP].reshape(lanes.B, whole, GROUP)
    every, some = np.asarray(here.all(axis=2)), here.any(axis=2)
    bad = (every != some).any() or on[:, whole * GROUP :].any()
    if bad:
        row, thread = (int(axis[0]) for axis in np.nonzero(on))
        raise Fault(
            f"{ctx.where(instr)}: wgmma without its whole warpgroup: {who(lanes, row, thread)} "
            "runs it, but not all 128 threads of its four warps do",
            "All threads of four warps, the first warp's number a multiple of 4, must run it "
            "together.",
        )
    block, group = np.nonzero(every)
    return Warpgroups(block, group, every)


def _fragments(operand: Operand, kind: str, k: int, ctx: Context) -> Fetch:
    """What fetches A from the registers of its fragments."""
    slots, rt = slots_of(operand, ctx), ctx.rt
    layout = a_layout(16, k, 4 // SIZES[kind])

    def fetch(R: Registers, groups: Warpgroups) -> Array:
        lanes = rt.lanes
        columns = [by_warp(unsigned(R[slot], 4), lanes) for slot in slots]
        words = np.ascontiguousarray(np.stack(np.broadcast_arrays(*columns), axis=-1))
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
            raise Fault(
                f"{ctx.where(instr)}: out of bounds: the matrix descriptor {bits:#018x} reaches "
                f"shared address {low if low < RESERVED else high}; the block's shared memory goes "
                f"from {RESERVED} to {max(end, RESERVED)}",
                "Check the descriptor's start and offsets, which are in units of 16 bytes.",
            )
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
