"""Tensor-core instructions of a warp: ``mma.sync``, ``ldmatrix``, ``stmatrix`` and ``wmma``.

Products are exact and summed in float64 (integers exactly), then rounded once. The
chip aligns and truncates inside its sum, in a way that NVIDIA does not publish, so
floating-point results may differ from it in the last bits; integer results do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ptxemu.cost import matrix_cost
from ptxemu.errors import Fault
from ptxemu.ops.access import Access, Located, cost_of, scatter, where_of
from ptxemu.ops.conversions import pack, unpack
from ptxemu.ops.warp import by_warp
from ptxemu.ptx.instructions import Instr, Operand, Reg, Vec, registers_of
from ptxemu.state.context import CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.spaces import SHARED_WINDOW, WINDOW
from ptxemu.state.values import F32, F64, UNSIGNED, Affine, Array, Base, Ints, Value, add, unsigned

# --- Which lane holds which matrix element: the register layouts of ``mma`` and ``ldmatrix`` ---
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
    """C and D of ``m×n``: two neighbours a row, eight rows apart."""
    halves = [0, 8] if m == 16 else [0]
    parts = [(_G + half, _T * 2 + i) for half in halves for i in range(2)]
    return _stack(parts, (m, n))


def wmma_layout(role: str) -> Layout:
    """A 16×16 fragment of ``wmma``: that of one ``mma`` (A) or of two side by side (B, C).

    PTX leaves it open. Read off ptxas 13.0 for sm_90, which makes two products of it.
    """
    if role == "a":
        return a_layout(16, 16, 2)
    low = b_layout(16, 8, 2) if role == "b" else c_layout(16, 8)
    return Layout(
        np.concatenate([low.row, low.row], axis=1),
        np.concatenate([low.column, low.column + 8], axis=1),
        (16, 16),
    )


#: Input type -> elements in a 32-bit register.
_PER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "f64": 1}
#: What registers hold, where it is not float32 or a half.
_NUMBERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32, "f64": F64}
_SHAPES = {
    ("m16n8k8", "f16"), ("m16n8k8", "bf16"), ("m16n8k16", "f16"), ("m16n8k16", "bf16"),
    ("m16n8k4", "tf32"), ("m16n8k8", "tf32"), ("m8n8k16", "s8"), ("m8n8k16", "u8"),
    ("m16n8k16", "s8"), ("m16n8k16", "u8"), ("m16n8k32", "s8"), ("m16n8k32", "u8"),
    ("m8n8k4", "f64"),
}  # fmt: skip


def read(R: Registers, slots: list[int], kind: str, lanes: Lanes) -> Array:
    """Registers as numbers: (blocks or 1, warps, 32, elements) in float64."""
    size = 8 if kind == "f64" else 4
    columns = [by_warp(unsigned(R[slot], size), lanes) for slot in slots]
    bits = np.ascontiguousarray(np.stack(np.broadcast_arrays(*columns), axis=-1))
    if kind in ("f16", "bf16"):
        return unpack(bits.view(np.uint16), kind)
    if kind == "tf32":  # the chip looks at the upper 19 bits only
        bits = bits & np.uint32(0xFFFFE000)
    numbers: Array = bits.view(_NUMBERS.get(kind, F32))
    return numbers.astype(F64)


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
    items = operand.items if isinstance(operand, Vec) else (operand,)
    return [ctx.slot(item, size) for item in items]


def targets_of(operand: Operand, ctx: Context) -> list[int]:
    """Register slots of a fragment that is written."""
    items = operand.items if isinstance(operand, Vec) else (operand,)
    return [ctx.target(item) for item in items]


class Accumulator(NamedTuple):
    """Where a product goes: register slots, the type of an element, which lane has which."""

    slots: list[int]
    kind: str
    layout: Layout
    clamp: bool = False  # integers end at their type's limits instead of wrapping


Fetch = Callable[[Registers], Array]


def operand(source: Operand, kind: str, layout: Layout, ctx: Context) -> Fetch:
    """What fetches a matrix from the registers of its fragment."""
    slots, rt = slots_of(source, ctx, 8 if kind == "f64" else 4), ctx.rt
    return lambda R: layout.matrix(read(R, slots, kind, rt.lanes))


def product(ctx: Context, a: Fetch, b: Fetch, c: Fetch, into: Accumulator) -> Run:
    """``D = A B + C``."""

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        total = np.matmul(a(R), b(R)) + c(R)
        if into.kind == "s32":
            if into.clamp:
                total = np.clip(total, -(2.0**31), 2.0**31 - 1)
            total = (total.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            total = total.astype(F64)
        write(R, M, into, into.layout.fragment(total), ctx.rt.lanes)

    return many


def mma(instr: Instr, ctx: Context) -> Run:
    """``mma.sync.aligned.shape.row.col.d.a.b.c``.

    Raises:
        Fault: a shape or type that is not supported.
    """
    shape = next(part for part in instr.parts if part[0] == "m" and part[1:2].isdigit())
    to, left, right, start = [p for p in instr.parts if p in (*_PER, "f32", "s32")][-4:]
    if (shape, left) not in _SHAPES or "row" not in instr.parts or instr.parts.count("col") != 1:
        raise ctx.unsupported(instr)
    m, n, k = (int(size) for size in re.split("[mnk]", shape)[1:])
    d, a, b, c = instr.operands
    layout = c_layout(m, n)
    return product(
        ctx,
        operand(a, left, a_layout(m, k, _PER[left]), ctx),
        operand(b, right, b_layout(k, n, _PER[left]), ctx),
        operand(c, start, layout, ctx),
        Accumulator(targets_of(d, ctx), to, layout, "satfinite" in instr.parts),
    )


def ldmatrix(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """Up to four 8×8 matrices of 16-bit elements; lane 8m + r gives row r of matrix m."""
    if "b16" not in instr.parts or "m8n8" not in instr.parts:
        raise ctx.unsupported(instr)
    count = int(next(p for p in instr.parts if p in ("x1", "x2", "x4"))[1:])
    turned = "trans" in instr.parts
    targets = targets_of(instr.operands[0], ctx)
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
        # Each matrix of 8 rows of 16 bytes is one pass.
        site.charge_shared(cost_of(matrix_cost, access.reach(R, rows), 16, lanes))
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


def stmatrix(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """`ldmatrix` the other way, at the same cost: up to four 8×8 matrices of 16-bit elements."""
    if "b16" not in instr.parts or "m8n8" not in instr.parts:
        raise ctx.unsupported(instr)
    count = int(next(p for p in instr.parts if p in ("x1", "x2", "x4"))[1:])
    turned = "trans" in instr.parts
    slots = slots_of(instr.operands[1], ctx)
    renamed = Instr(("st", "shared", "v4", "b32"), instr.operands, None, instr.loc, instr.ptx_line,
                    instr.text)  # fmt: skip
    access = Access(renamed, ctx, site, instr.operands[0], "store")
    access.charged = 0
    lane = np.arange(WARP)

    def run(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        rows = lanes.within(M, np.broadcast_to(np.tile(lane < 8 * count, lanes.W), lanes.shape))
        # Lane r of matrix m stores the four words of its row r.
        held = np.zeros((lanes.B, lanes.W, WARP, 4), np.uint32)
        for matrix, slot in enumerate(slots):
            words = np.broadcast_to(unsigned(R[slot], 4), lanes.shape)
            block = np.ascontiguousarray(words.reshape(lanes.B, lanes.W, 8, 4))
            if turned:
                halves = block.view(np.uint16)
                block = np.ascontiguousarray(np.swapaxes(halves, 2, 3)).view(np.uint32)
            held[:, :, 8 * matrix : 8 * matrix + 8] = block
        memory, index, _ = access.locate(R, rows)
        site.charge_shared(cost_of(matrix_cost, access.reach(R, rows), 16, lanes))
        for piece in range(4):
            values = held[..., piece].reshape(lanes.shape)
            scatter(memory[piece:], index, values, rows, lanes)

    return run


# --- ``wmma``: fragments of 16×16 matrices, loaded, multiplied and stored ---
# PTX leaves open how a fragment's elements lie in registers; ours lie as ptxas 13.0 has them
# on sm_90: as those of ``mma``, float16 of A and B twice, of which products take the first.
# What memory instructions a load or store becomes is not open: ptxas always makes the same
# ones, and their costs are counted.


class Pieces(NamedTuple):
    """The accesses of one load or store, `each` elements per lane.

    `row` and `column` are (accesses, 32): the lane's first element in memory, rows
    (columns, if the matrix lies by columns) being `stride` elements apart.
    """

    row: Ints
    column: Ints
    each: int


def pieces(role: str, kind: str, *, by_column: bool) -> Pieces:
    """The memory instructions that ptxas makes of one ``wmma.load`` or ``wmma.store``.

    16-bit elements come in four words whichever way the matrix lies (MOVM turns them),
    sums in float32 as four pairs along rows or as eight single words across columns.

    Args:
        role: ``a``, ``b`` or ``c``.
        kind: Type of an element.
        by_column: Whether the matrix lies by columns.
    """
    if kind == "f32" and by_column:
        parts = [(_T * 2 + e + 8 * j, _G + 8 * i) for j in (0, 1) for i in (0, 1) for e in (0, 1)]
        return Pieces(np.stack([r for r, _ in parts]), np.stack([c for _, c in parts]), 1)
    parts = [(_G + 8 * i, _T * 2 + 8 * j) for j in (0, 1) for i in (0, 1)]
    return Pieces(np.stack([r for r, _ in parts]), np.stack([c for _, c in parts]), 2)


def _held(ctx: Context, name: str) -> set[tuple[str, int]] | None:
    """What a register may hold of fragments: their roles and its place in them; None: unknown."""
    out: set[tuple[str, int]] = set()
    left, seen = [name], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for maker in ctx.makers.get(name, ()):
            source = maker.operands[1] if maker.op == "mov" else None
            if isinstance(source, Reg):
                left.append(source.name)
            elif maker.op == "wmma":
                role = maker.parts[2] if maker.parts[2] in ("a", "b") else "c"
                out.add((role, registers_of(maker.operands[0]).index(name)))
            else:
                return None
    return out


def _check_places(instr: Instr, ctx: Context, role: str, fragment: Operand) -> None:
    """Raise where a register certainly holds another part of a fragment than is taken from it."""
    for place, name in enumerate(registers_of(fragment)):
        held = _held(ctx, name)
        if held and (role, place) not in held:
            other, at = min(held)
            raise Fault(
                f"{ctx.where(instr)}: a fragment out of order: `{instr.op}` takes register {name} "
                f"as number {place + 1} of {role.upper()}, but it is number {at + 1} of a fragment "
                f"of {other.upper()}",
                "Which elements a fragment's registers hold depends on the chip: pass on whole "
                "fragments as they are.",
            )


def _checked(run: Run, instr: Instr, ctx: Context, fragments: dict[str, Operand]) -> Run:
    """The same; what is wrong with its fragments is told when it is run."""
    try:
        for role, fragment in fragments.items():
            _check_places(instr, ctx, role, fragment)
    except Fault as error:
        found = error

        @writes_itself
        def told(R: Registers, M: Mask) -> None:
            raise found

        return told
    return run


def _mma(instr: Instr, ctx: Context) -> Run:
    kinds = [p for p in instr.parts if p in ("f16", "bf16", "f32", "s32", "s8", "u8", "tf32")]
    if "m16n16k16" not in instr.parts or kinds[0] not in ("f16", "f32", "bf16"):
        raise ctx.unsupported(instr)
    inputs = "bf16" if "bf16" in kinds else "f16"
    to, start = (kinds[0], kinds[-1]) if inputs == "f16" else ("f32", "f32")
    # Fragments already hold the matrix itself, however it was stored.
    d, a, b, c = instr.operands
    layout = wmma_layout("c")
    run = product(
        ctx,
        operand(_first(a), inputs, wmma_layout("a"), ctx),
        operand(_first(b), inputs, wmma_layout("b"), ctx),
        operand(c, start, layout, ctx),
        Accumulator(targets_of(d, ctx), to, layout),
    )
    return _checked(run, instr, ctx, {"a": a, "b": b, "c": c})


def _first(fragment: Operand) -> Vec:
    """The registers of A or B that a product takes: the others hold the same once more."""
    assert isinstance(fragment, Vec)
    return Vec(fragment.items[:4])


def _loaded(role: str, kind: str) -> Layout:
    """What a load puts into the registers of a fragment: float16 of A and B twice."""
    layout = wmma_layout(role)
    if role == "c" or kind != "f16":
        return layout
    row, column = (np.concatenate([each, each], axis=1) for each in layout[:2])
    return Layout(row, column, layout.shape)


class _Fragment:
    """What loads and stores share: where the pieces of a fragment lie."""

    def __init__(self, instr: Instr, ctx: Context, site: CodeSite) -> None:
        self.load = instr.parts[1] == "load"
        kind = instr.parts[-1]
        if "m16n16k16" not in instr.parts or kind not in ("f16", "bf16", "f32"):
            raise ctx.unsupported(instr)
        self.ctx, self.site = ctx, site
        role = instr.parts[2] if instr.parts[2] in ("a", "b") else "c"
        self.by_column = "col" in instr.parts
        self.layout = _loaded(role, kind)
        self.pieces = pieces(role, kind, by_column=self.by_column)
        self.wide = 4 if kind == "f32" else 2
        space = [p for p in instr.parts if p.split("::")[0] in ("shared", "global")]
        bits = f"b{8 * self.wide * self.pieces.each}"
        operands = instr.operands[:2]
        plain = Instr(("ld" if self.load else "st", *space, bits), operands, None, instr.loc,
                      instr.ptx_line, instr.text)  # fmt: skip
        self.access = Access(
            plain, ctx, site, operands[1 if self.load else 0], "load" if self.load else "store"
        )
        self.access.dtype = UNSIGNED[self.access.width]
        #: A and B come from shared memory by one LDSM of four matrices.
        self.by_matrix = self.load and role != "c"
        self.fragment = operands[0 if self.load else 1]
        known = len(instr.operands) > 2
        self.stride = ctx.slot(instr.operands[2], 4) if known else ctx.constant(16)
        self._bases: dict[tuple[int, int, int], Base] = {}

    def offsets(self, R: Registers, row: Ints, column: Ints, number: int) -> Affine:
        """Bytes from the matrix's start to each lane's element."""
        lanes, size = self.ctx.rt.lanes, self.access.size
        stride = R[self.stride]
        if type(stride) is int:
            key = (stride, number, lanes.W)
            base = self._bases.get(key)
            if base is None:
                one = (row * stride + column) * self.wide
                base = Base(np.tile(one.astype(UNSIGNED[size]), lanes.W)[None, :])
                self._bases[key] = base
            return Affine(base, 0)
        step = by_warp(unsigned(stride, 4), lanes).astype(np.int64)
        flat = ((row * step + column) * self.wide).astype(UNSIGNED[size])
        return Affine(Base(np.ascontiguousarray(flat).reshape(flat.shape[0], lanes.T)), 0)

    def in_shared(self, R: Registers) -> bool:
        """Does a generic address lead to shared memory?"""
        if self.access.space:
            return self.access.space == "shared"
        base, off = where_of(R, self.access.slot, self.access.size)
        return SHARED_WINDOW <= base.bounds[0] + off + self.access.imm < SHARED_WINDOW + WINDOW

    def charge_matrix(self, R: Registers, M: Mask, kept: Value) -> None:
        """Count one LDSM: lane 8 m + r names row r of the m-th 8×8 matrix."""
        access, lanes = self.access, self.ctx.rt.lanes
        row, column = _LANE % 8 + _LANE // 8 % 2 * 8, _LANE // 16 * 8
        R[access.slot] = add(kept, self.offsets(R, row, column, -1), access.size)
        self.site.charge_shared(cost_of(matrix_cost, access.reach(R, M), 16, lanes))

    def accesses(self, R: Registers, M: Mask) -> Iterator[tuple[Ints, Ints, Located]]:
        """For every piece: rows and columns of the lanes' elements, and where they lie."""
        access = self.access
        kept: Value = R[access.slot]
        for number, (row, column) in enumerate(zip(*self.pieces[:2], strict=True)):
            R[access.slot] = add(kept, self.offsets(R, row, column, number), access.size)
            access.charged = 0 if self.by_matrix and self.in_shared(R) else access.width
            yield row, column, access.locate(R, M)
        if access.charged == 0:
            self.charge_matrix(R, M, kept)
        R[access.slot] = kept


def _load(memory: _Fragment) -> Run:
    ctx, layout = memory.ctx, memory.layout
    targets = targets_of(memory.fragment, ctx)
    element = UNSIGNED[memory.wide]

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes: Lanes = ctx.rt.lanes
        matrix = np.zeros((lanes.B, lanes.W, 16, 16), element)
        for row, column, (found, index, _) in memory.accesses(R, M):
            words = by_warp(found.take(index, mode="wrap"), lanes)
            parts = np.ascontiguousarray(words)[..., None].view(element)
            for e in range(memory.pieces.each):
                matrix[..., row, column + e] = parts[..., e]
        if memory.by_column:
            matrix = np.swapaxes(matrix, 2, 3)
        packed = np.ascontiguousarray(layout.fragment(matrix)).view(np.uint32)
        for at, slot in enumerate(targets):
            put(R, M, slot, np.ascontiguousarray(packed[..., at]).reshape(lanes.shape), 4)

    return many


def _store(memory: _Fragment) -> Run:
    access, ctx, layout = memory.access, memory.ctx, memory.layout
    slots = slots_of(memory.fragment, ctx)
    element = UNSIGNED[memory.wide]

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes: Lanes = ctx.rt.lanes
        columns = [by_warp(unsigned(R[slot], 4), lanes) for slot in slots]
        bits = np.ascontiguousarray(np.stack(np.broadcast_arrays(*columns), -1)).view(element)
        matrix = layout.matrix(bits[..., : layout.row.shape[1]])
        if memory.by_column:
            matrix = np.swapaxes(matrix, 2, 3)
        for row, column, place in memory.accesses(R, M):
            parts = [matrix[..., row, column + e] for e in range(memory.pieces.each)]
            words = np.ascontiguousarray(np.stack(parts, -1)).view(access.dtype)[..., 0]
            access.put(place, words.reshape(words.shape[0], lanes.T), M)

    return many


def wmma(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``wmma.load``, ``wmma.mma`` and ``wmma.store``.

    Raises:
        Fault: a shape or type that is not supported.
    """
    if instr.parts[1] == "mma":
        return _mma(instr, ctx)
    memory = _Fragment(instr, ctx, site)
    assert isinstance(memory.fragment, Vec)
    if memory.load:
        return _load(memory)
    return _checked(_store(memory), instr, ctx, {"c": memory.fragment})
