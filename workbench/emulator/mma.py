"""Tensor-core instructions: ``mma.sync``, ``wmma`` and ``ldmatrix``.

Products are exact and summed in float64 (integers exactly), then rounded once. The
chip aligns and truncates inside its sum, in a way that NVIDIA does not publish, so
floating-point results may differ from it in the last bits; integer results do not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.emulator.access import Access, count_shared
from workbench.emulator.context import Context, Registers, Run, Site, put, writes_itself
from workbench.emulator.convert import pack, unpack
from workbench.emulator.fragments import (
    Layout,
    a_layout,
    b_layout,
    c_layout,
    gather,
    scatter,
    wmma_layout,
)
from workbench.emulator.ir import Instr, Operand, Vec
from workbench.emulator.lanes import WARP, Lanes, Mask
from workbench.emulator.values import F32, F64, UNSIGNED, Array, Value, unsigned
from workbench.emulator.warp import by_warp

#: Input type -> elements in a 32-bit register.
_PER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "f64": 1}
_SHAPES = {
    ("m16n8k8", "f16"), ("m16n8k8", "bf16"), ("m16n8k16", "f16"), ("m16n8k16", "bf16"),
    ("m16n8k4", "tf32"), ("m16n8k8", "tf32"), ("m8n8k16", "s8"), ("m8n8k16", "u8"),
    ("m16n8k16", "s8"), ("m16n8k16", "u8"), ("m16n8k32", "s8"), ("m16n8k32", "u8"),
    ("m8n8k4", "f64"),
}  # fmt: skip


def _sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def read(R: Registers, slots: list[int], kind: str, lanes: Lanes) -> Array:
    """Registers as numbers: (blocks or 1, warps, 32, elements) in float64."""
    size = 8 if kind == "f64" else 4
    columns = [by_warp(unsigned(R[slot], size), lanes) for slot in slots]
    bits = np.stack(np.broadcast_arrays(*columns), axis=-1)
    if kind in ("f16", "bf16"):
        return unpack(np.ascontiguousarray(bits).view(np.uint16), kind)
    if kind in ("s8", "u8"):
        view = np.ascontiguousarray(bits).view(np.int8 if kind == "s8" else np.uint8)
        return view.astype(F64)
    if kind == "s32":
        return bits.view(np.int32).astype(F64)
    if kind == "f64":
        return bits.view(F64)
    if kind == "tf32":  # the chip looks at the upper 19 bits only
        return (bits & np.uint32(0xFFFFE000)).view(F32).astype(F64)
    return bits.view(F32).astype(F64)


def write(
    R: Registers,
    M: Mask,
    slots: list[int],
    values: Array,
    kind: str,
    lanes: Lanes,
) -> None:
    """Numbers (…, warps, 32, elements) into registers."""
    if kind in ("f16", "bf16"):
        bits = np.ascontiguousarray(pack(values, kind)).view(np.uint32)
    elif kind == "s32":
        bits = values.astype(np.int64).astype(np.uint32)
    elif kind == "f64":
        bits = values.view(np.uint64)
    else:
        bits = values.astype(F32).view(np.uint32)
    for at, slot in enumerate(slots):
        column = np.ascontiguousarray(bits[..., at]).reshape(bits.shape[0], lanes.T)
        put(R, M, slot, column, bits.itemsize)


def _slots(operand: Operand, ctx: Context, size: int = 4) -> list[int]:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    return [ctx.slot(item, size) for item in items]


def _targets(operand: Operand, ctx: Context) -> list[int]:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    return [ctx.target(item) for item in items]


def _product(
    ctx: Context, a: Callable[[Registers], Array], b: Callable[[Registers], Array],
    c: Callable[[Registers], Array], targets: list[int], to: str, layout: Layout, *, clamp: bool,
) -> Run:  # fmt: skip
    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        total = np.matmul(a(R), b(R)) + c(R)
        if to == "s32":
            if clamp:
                total = np.clip(total, -(2.0**31), 2.0**31 - 1)
            total = (total.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            total = total.astype(F64)
        write(R, M, targets, scatter(total, layout), to, ctx.rt.lanes)

    return many


def _mma(instr: Instr, ctx: Context) -> Run:
    """``mma.sync.aligned.shape.row.col.d.a.b.c``."""
    shape = next(part for part in instr.parts if part[0] == "m" and part[1:2].isdigit())
    to, left, right, start = [p for p in instr.parts if p in (*_PER, "f32", "s32")][-4:]
    if (shape, left) not in _SHAPES or "row" not in instr.parts or instr.parts.count("col") != 1:
        raise ctx.unsupported(instr)
    m, n, k = _sizes(shape)
    per = _PER[left]
    size = 8 if left == "f64" else 4
    d, a, b, c = instr.operands
    la, lb, lc = a_layout(m, k, per), b_layout(k, n, per), c_layout(m, n)
    sa, sb, sc = _slots(a, ctx, size), _slots(b, ctx, size), _slots(c, ctx, size)
    lanes = ctx.rt

    def matrix(slots: list[int], kind: str, layout: Layout) -> Callable[[Registers], Array]:
        return lambda R: gather(read(R, slots, kind, lanes.lanes), layout)

    return _product(
        ctx, matrix(sa, left, la), matrix(sb, right, lb), matrix(sc, start, lc),
        _targets(d, ctx), to, lc, clamp="satfinite" in instr.parts,
    )  # fmt: skip


# --- wmma ------------------------------------------------------------------------


def _wmma_mma(instr: Instr, ctx: Context) -> Run:
    kinds = [p for p in instr.parts if p in ("f16", "bf16", "f32", "s32", "s8", "u8", "tf32")]
    if "m16n16k16" not in instr.parts or kinds[0] not in ("f16", "f32", "bf16"):
        raise ctx.unsupported(instr)
    inputs = "bf16" if "bf16" in kinds else "f16"
    to, start = (kinds[0], kinds[-1]) if inputs == "f16" else ("f32", "f32")
    rows = [p for p in instr.parts if p in ("row", "col")]
    del rows  # fragments already hold the matrix itself, however it was stored
    d, a, b, c = instr.operands
    la, lb, lc = wmma_layout("a"), wmma_layout("b"), wmma_layout("c")
    if inputs == "bf16":  # half as many registers: nothing is held twice
        la, lb = (Layout(x.row[:, :8], x.column[:, :8], x.shape) for x in (la, lb))
    sa, sb, sc = _slots(a, ctx), _slots(b, ctx), _slots(c, ctx)
    rt = ctx.rt
    return _product(
        ctx,
        lambda R: gather(read(R, sa, inputs, rt.lanes), la),
        lambda R: gather(read(R, sb, inputs, rt.lanes), lb),
        lambda R: gather(read(R, sc, start, rt.lanes), lc),
        _targets(d, ctx), to, lc, clamp=False,
    )  # fmt: skip


def _wmma_memory(instr: Instr, ctx: Context, site: Site) -> Run:
    """``wmma.load`` and ``wmma.store``: a fragment from or to rows (columns) `stride` apart."""
    load = instr.parts[1] == "load"
    role = instr.parts[2]
    kind = instr.parts[-1]
    if "m16n16k16" not in instr.parts or kind not in ("f16", "bf16", "f32"):
        raise ctx.unsupported(instr)
    where = instr.operands[1 if load else 0]
    fragment = instr.operands[0 if load else 1]
    stride = ctx.slot(instr.operands[2], 4) if len(instr.operands) > 2 else ctx.constant(16)
    layout = wmma_layout({"a": "a", "b": "b"}.get(role, "c"))
    items = fragment.items if isinstance(fragment, Vec) else (fragment,)
    wide = 4 if kind == "f32" else 2
    count = len(items) * 4 // wide
    row, column = layout.row[:, :count], layout.column[:, :count]
    by_column = "col" in instr.parts
    slots = _targets(fragment, ctx) if load else _slots(fragment, ctx)
    access = Access(instr, ctx, site, where, "load" if load else "store")
    access.width, access.dtype, site.width = wide, UNSIGNED[wide], wide
    access.charged = wide
    from workbench.emulator.integers import add
    from workbench.emulator.values import Affine, Base

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        step = by_warp(unsigned(R[stride], 4), lanes).astype(np.int64)
        kept: Value = R[access.slot]
        pieces = []
        values = (
            None
            if load
            else np.stack(
                np.broadcast_arrays(*(by_warp(unsigned(R[s], 4), lanes) for s in slots)), -1
            )
        )
        halves = None if values is None else np.ascontiguousarray(values).view(UNSIGNED[wide])
        for element in range(count):
            major, minor = (column, row) if by_column else (row, column)
            offset = (major[:, element] * step + minor[:, element]) * wide
            flat = np.ascontiguousarray(offset).reshape(offset.shape[0], lanes.T)
            bits = flat.astype(UNSIGNED[access.size])
            R[access.slot] = add(kept, Affine(Base(bits), 0), access.size)
            memory, index, _ = access.locate(R, M)
            if load:
                pieces.append(np.broadcast_to(memory.take(index, mode="wrap"), lanes.shape))
            else:
                from workbench.emulator.access import scatter as put_lanes

                assert halves is not None
                piece = halves[..., element].reshape(halves.shape[0], lanes.T)
                put_lanes(memory, index, piece, M, lanes)
        R[access.slot] = kept
        if load:
            per = 4 // wide
            for at, slot in enumerate(slots):
                parts = np.stack(pieces[at * per : (at + 1) * per], axis=-1)
                put(R, M, slot, np.ascontiguousarray(parts).view(np.uint32)[..., 0], 4)

    return many


def _ldmatrix(instr: Instr, ctx: Context, site: Site) -> Run:
    """Up to four 8×8 matrices of 16-bit elements; lane 8m + r gives row r of matrix m."""
    if "b16" not in instr.parts or "m8n8" not in instr.parts:
        raise ctx.unsupported(instr)
    count = int(next(p for p in instr.parts if p in ("x1", "x2", "x4"))[1:])
    turned = "trans" in instr.parts
    targets = _targets(instr.operands[0], ctx)
    renamed = Instr(("ld", "shared", "v4", "b32"), instr.operands, None, instr.loc, instr.ptx_line,
                    instr.text)  # fmt: skip
    access = Access(renamed, ctx, site, instr.operands[1], "load")
    access.charged = 0
    lane = np.arange(WARP)

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        used = lane < 8 * count
        rows = lanes.within(M, np.broadcast_to(np.tile(used, lanes.W), lanes.shape))
        memory, index, _ = access.locate(R, rows)
        words = [
            np.broadcast_to(memory[piece:].take(index, mode="wrap"), lanes.shape)
            for piece in range(4)
        ]
        _charge(access, R, rows, site)
        # (blocks, warps, 32 rows, 8 halves)
        held = np.stack(words, axis=-1).reshape(lanes.B, lanes.W, WARP, 4)
        halves = np.ascontiguousarray(held).view(np.uint16)
        for matrix, target in enumerate(targets):
            block = halves[:, :, 8 * matrix : 8 * matrix + 8, :]
            if turned:
                block = np.swapaxes(block, 2, 3)
            pairs = np.ascontiguousarray(block).view(np.uint32)  # (…, 8 rows, 4 words)
            out = pairs[:, :, lane // 4, lane % 4]
            put(R, M, target, np.ascontiguousarray(out).reshape(lanes.shape), 4)

    return many


def _charge(access: Access, R: Registers, rows: Mask, site: Site) -> None:
    """Each matrix of 8 rows of 16 bytes is one pass."""
    from workbench.emulator.access import where_of
    from workbench.emulator.space import view_of

    base, off = where_of(R, access.slot, access.size)
    view = view_of(base, access.width, rows, access.rt.lanes)
    count_shared(site, base, view, view.low + off + access.imm, rows, access.rt, 128)


def build(instr: Instr, ctx: Context, site: Site) -> Run:
    """``mma``, ``wmma`` and ``ldmatrix``.

    Raises:
        KernelError: a shape or type that is not supported.
    """
    if instr.op == "mma":
        return _mma(instr, ctx)
    if instr.op == "ldmatrix":
        return _ldmatrix(instr, ctx, site)
    if instr.parts[1] == "mma":
        return _wmma_mma(instr, ctx)
    return _wmma_memory(instr, ctx, site)
