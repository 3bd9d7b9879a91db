"""Tensor-core instructions of a warp: ``mma.sync``, ``ldmatrix`` and ``stmatrix``.

Products are exact and summed in float64 (integers exactly), then rounded once. The
chip aligns and truncates inside its sum, in a way that NVIDIA does not publish, so
floating-point results may differ from it in the last bits; integer results do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ptxemu.cost import matrix_cost
from ptxemu.ops.access import Access, cost_of, items_of, scatter
from ptxemu.ops.conversions import numbers_of, pack, unpack
from ptxemu.ops.warp import by_warp
from ptxemu.ptx.instructions import Instr, Operand
from ptxemu.state.context import CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import F32, F64, Array, Ints, Value, unsigned

# --- The register layouts of ``mma`` and ``ldmatrix``: each lane's matrix elements ---
# All layouts are those of the PTX manual's figures, with g = lane / 4 and t = lane % 4.
# A layout maps (lane, element) to a row and a column of the matrix.

_LANE = np.arange(32)
_G, _T = _LANE // 4, _LANE % 4


class Layout(NamedTuple):
    """`row` and `column`, shaped (32, elements per lane), of a matrix of `shape`."""

    row: Ints
    column: Ints
    shape: tuple[int, int]

    def matrix(self, fragment: Array) -> Array:
        """(…, 32, elements) registers -> (…, rows, columns) matrix."""
        out = np.zeros((*fragment.shape[:-2], *self.shape), fragment.dtype)
        out[..., self.row, self.column] = fragment
        return out

    def fragment(self, matrix: Array) -> Array:
        """(…, rows, columns) matrix -> (…, 32, elements) registers."""
        return np.asarray(matrix[..., self.row, self.column])


def _stack(parts: list[tuple[Ints, Ints]], shape: tuple[int, int]) -> Layout:
    return Layout(
        np.stack([row for row, _ in parts], axis=1),
        np.stack([column for _, column in parts], axis=1),
        shape,
    )


def a_layout(m: int, k: int, per: int) -> Layout:
    """A of ``m×k``; `per` elements share a 32-bit register."""
    parts = []
    halves = [0, 8] if m == 16 else [0]
    for block in range(max(k // (4 * per), 1)):
        for half in halves:
            for i in range(per):
                parts.append((_G + half, _T * per + i + block * 4 * per))
    return _stack(parts, (m, k))


def b_layout(k: int, n: int, per: int) -> Layout:
    """B of ``k×n`` (column-major fragments)."""
    parts = []
    for block in range(max(k // (4 * per), 1)):
        for i in range(per):
            parts.append((_T * per + i + block * 4 * per, _G))
    return _stack(parts, (k, n))


def c_layout(m: int, n: int) -> Layout:
    """C and D of ``m×n``: two neighbours per row, eight rows apart."""
    halves = [0, 8] if m == 16 else [0]
    parts = [(_G + half, _T * 2 + i) for half in halves for i in range(2)]
    return _stack(parts, (m, n))


#: Input type -> elements in a 32-bit register.
PER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "f64": 1, "e4m3": 4, "e5m2": 4}
#: Types in registers other than float32 and halves.
_NUMBERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32, "f64": F64}
_SHAPES = {
    ("m16n8k8", "f16"), ("m16n8k8", "bf16"), ("m16n8k16", "f16"), ("m16n8k16", "bf16"),
    ("m16n8k4", "tf32"), ("m16n8k8", "tf32"), ("m8n8k16", "s8"), ("m8n8k16", "u8"),
    ("m16n8k16", "s8"), ("m16n8k16", "u8"), ("m16n8k32", "s8"), ("m16n8k32", "u8"),
    ("m8n8k4", "f64"), ("m16n8k4", "f64"), ("m16n8k8", "f64"), ("m16n8k16", "f64"),
    ("m16n8k16", "e4m3"), ("m16n8k16", "e5m2"), ("m16n8k32", "e4m3"), ("m16n8k32", "e5m2"),
}  # fmt: skip


def fragment(R: Registers, slots: list[int], size: int, lanes: Lanes) -> Array:
    """The bits of registers of `size` bytes: (blocks or 1, warps, 32, registers)."""
    columns = [by_warp(unsigned(R[slot], size), lanes) for slot in slots]
    return np.ascontiguousarray(np.stack(np.broadcast_arrays(*columns), axis=-1))


def numbers(bits: Array, kind: str) -> Array:
    """Bits of any width as float64, the elements of a type along the last axis."""
    if kind in ("f16", "bf16"):
        return unpack(bits.view(np.uint16), kind)
    if kind in ("e4m3", "e5m2"):
        return np.asarray(numbers_of(f"{kind}x2")[bits.view(np.uint8)])
    if kind == "tf32":  # the chip uses the upper 19 bits only
        bits = bits & np.uint32(0xFFFFE000)
    return np.asarray(bits.view(_NUMBERS.get(kind, F32)).astype(F64))


def write(R: Registers, M: Mask, into: Accumulator, values: Array, lanes: Lanes) -> None:
    """Numbers (…, warps, 32, elements) into registers."""
    kind = into.kind
    if kind in ("f16", "bf16"):
        bits = np.ascontiguousarray(pack(values, kind)).view(np.uint32)
    elif kind == "s32":
        bits = values.astype(np.int64).astype(np.uint32)
    else:
        bits = values.view(np.uint64) if kind == "f64" else values.astype(F32).view(np.uint32)
    for at, slot in enumerate(into.slots):
        column = np.ascontiguousarray(bits[..., at]).reshape(bits.shape[0], lanes.T)
        put(R, M, slot, column, bits.itemsize)


def slots_of(operand: Operand, ctx: Context, size: int = 4) -> list[int]:
    """Register slots of a fragment that is read."""
    return [ctx.slot(item, size) for item in items_of(operand)]


def targets_of(operand: Operand, ctx: Context) -> list[int]:
    """Register slots of a fragment that is written."""
    return [ctx.target(item) for item in items_of(operand)]


class Accumulator(NamedTuple):
    """The destination of a product: register slots, the elements' type, their lanes."""

    slots: list[int]
    kind: str
    layout: Layout
    clamp: bool = False  # integers end at their type's limits instead of wrapping


Fetch = Callable[[Registers], Array]


def operand(source: Operand, kind: str, layout: Layout, ctx: Context) -> Fetch:
    """A function that fetches a matrix from the registers of its fragment."""
    size, rt = 8 if kind == "f64" else 4, ctx.rt
    slots = slots_of(source, ctx, size)
    return lambda R: layout.matrix(numbers(fragment(R, slots, size, rt.lanes), kind))


def product(ctx: Context, a: Fetch, b: Fetch, c: Fetch, into: Accumulator) -> Run:
    """``D = A B + C``."""

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        total = np.matmul(a(R), b(R)) + c(R)
        if into.clamp and into.kind == "s32":
            total = np.clip(total, -(2.0**31), 2.0**31 - 1)
        write(R, M, into, into.layout.fragment(total), ctx.rt.lanes)

    return many


def mma(instr: Instr, ctx: Context) -> Run:
    """``mma.sync.aligned.shape.row.col.d.a.b.c``; Fault: a shape or type that is not supported."""
    shape = next(part for part in instr.parts if part[0] == "m" and part[1:2].isdigit())
    to, left, right, start = [p for p in instr.parts if p in (*PER, "f32", "s32")][-4:]
    if (shape, left) not in _SHAPES or "row" not in instr.parts or instr.parts.count("col") != 1:
        raise ctx.unsupported(instr)
    m, n, k = (int(size) for size in re.split("[mnk]", shape)[1:])
    d, a, b, c = instr.operands
    layout = c_layout(m, n)
    return product(
        ctx,
        operand(a, left, a_layout(m, k, PER[left]), ctx),
        operand(b, right, b_layout(k, n, PER[left]), ctx),
        operand(c, start, layout, ctx),
        Accumulator(targets_of(d, ctx), to, layout, "satfinite" in instr.parts),
    )


class _Rows:
    """Up to four 8×8 matrices of 16-bit elements; lane 8m + r names row r of matrix m."""

    def __init__(self, instr: Instr, ctx: Context, site: CodeSite, op: str, place: int) -> None:
        if "b16" not in instr.parts or "m8n8" not in instr.parts:
            raise ctx.unsupported(instr)
        count = int(next(p for p in instr.parts if p in ("x1", "x2", "x4"))[1:])
        self.turned, self.used = "trans" in instr.parts, np.arange(WARP) < 8 * count
        plain, kind = instr.turned(op, "shared", "v4", "b32"), "load" if op == "ld" else "store"
        self.access = Access(plain, ctx, site, instr.operands[place], kind)
        self.access.charged = 0

    def locate(self, R: Registers, M: Mask) -> tuple[Mask, Array, Array]:
        """The lanes that name rows, and the rows' addresses; each matrix of 8 rows is one pass."""
        access, lanes = self.access, self.access.rt.lanes
        rows = lanes.within(M, np.broadcast_to(np.tile(self.used, lanes.W), lanes.shape))
        memory, index, _ = access.locate(R, rows)
        cost = cost_of(matrix_cost, access.reach(R, rows), 16, lanes)
        access.site.charge_shared(cost)
        return rows, memory, index


def ldmatrix(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """Matrices of shared memory into registers."""
    named, lane = _Rows(instr, ctx, site, "ld", 1), np.arange(WARP)
    targets = targets_of(instr.operands[0], ctx)

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        _, memory, index = named.locate(R, M)
        words = [
            np.broadcast_to(memory[piece:].take(index, mode="wrap"), lanes.shape)
            for piece in range(4)
        ]
        # (blocks, warps, 32 rows, 8 halves)
        held = np.stack(words, axis=-1).reshape(lanes.B, lanes.W, WARP, 4)
        halves = np.ascontiguousarray(held).view(np.uint16)
        for matrix, target in enumerate(targets):
            block = halves[:, :, 8 * matrix : 8 * matrix + 8, :]
            if named.turned:
                block = np.swapaxes(block, 2, 3)
            pairs = np.ascontiguousarray(block).view(np.uint32)  # (…, 8 rows, 4 words)
            out = pairs[:, :, lane // 4, lane % 4]
            put(R, M, target, np.ascontiguousarray(out).reshape(lanes.shape), 4)

    return many


def stmatrix(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """The reverse of `ldmatrix`, at the same cost."""
    named, slots = _Rows(instr, ctx, site, "st", 0), slots_of(instr.operands[1], ctx)

    def run(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        # Lane r of matrix m stores the four words of its row r.
        held = np.zeros((lanes.B, lanes.W, WARP, 4), np.uint32)
        for matrix, slot in enumerate(slots):
            words = np.broadcast_to(unsigned(R[slot], 4), lanes.shape)
            block = np.ascontiguousarray(words.reshape(lanes.B, lanes.W, 8, 4))
            if named.turned:
                halves = block.view(np.uint16)
                block = np.ascontiguousarray(np.swapaxes(halves, 2, 3)).view(np.uint32)
            held[:, :, 8 * matrix : 8 * matrix + 8] = block
        rows, memory, index = named.locate(R, M)
        for piece in range(4):
            values = held[..., piece].reshape(lanes.shape)
            scatter(memory[piece:], index, values, rows, lanes)

    return run


def movmatrix(instr: Instr, ctx: Context) -> Run:
    """Transpose a matrix of 8×8 elements of 16 bits between the registers of a warp."""
    if "trans" not in instr.parts:
        raise ctx.unsupported(instr)
    (slot,), layout = ctx.sources(instr, 1, 4), c_layout(8, 8)

    def run(R: Registers, M: Mask) -> Value:
        lanes = ctx.rt.lanes
        bits = np.ascontiguousarray(by_warp(unsigned(R[slot], 4), lanes))[..., None]
        turned = np.swapaxes(layout.matrix(bits.view(np.uint16)), -1, -2)
        out = np.ascontiguousarray(layout.fragment(turned)).view(np.uint32)
        return out.reshape(out.shape[0], lanes.T)

    return run
