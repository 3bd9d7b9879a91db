"""``wmma``: fragments of matrices, loaded, multiplied and stored.

PTX does not define the layout of a fragment's elements in registers; ours is that of ptxas 13.0 on
sm_90: as for ``mma``, with float16 of A and B repeated; products use the first copy. The memory
instructions of a load or store are fixed: ptxas always makes the same ones, and their costs are
counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ptxemu.cost import matrix_cost
from ptxemu.errors import Fault
from ptxemu.ops.access import Access, Located, cost_of
from ptxemu.ops.mma import (
    PER,
    Accumulator,
    Fetch,
    Layout,
    a_layout,
    b_layout,
    c_layout,
    fragment,
    operand,
    product,
    slots_of,
    targets_of,
)
from ptxemu.ops.warp import by_warp
from ptxemu.ptx.instructions import SIZES, Instr, Operand, Reg, Vec, registers_of
from ptxemu.state.context import CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import UNSIGNED, Affine, Base, Ints, Value, add, unsigned

#: Shape -> the types of its matrices.
_SHAPES = {
    **dict.fromkeys(
        ("m16n16k16", "m32n8k16", "m8n32k16"), ("f16", "bf16", "s8", "u8", "f32", "s32")
    ),
    "m16n16k8": ("tf32", "f32"),
    "m8n8k4": ("f64",),
}
_LANE = np.arange(WARP)
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


def _shape(instr: Instr, ctx: Context, kind: str) -> tuple[int, int, int]:
    """Rows of A, columns of B, and their common side; Unsupported: no such shape for this type."""
    found = next(found for part in instr.parts if (found := _SHAPE.match(part)))
    if kind not in _SHAPES.get(found[0], ()):
        raise ctx.unsupported(instr)
    m, n, k = (int(each) for each in found.groups())
    return m, n, k


def _twice(one: Layout, *, below: bool) -> Layout:
    """The layout of two matrices, side by side or one below the other, from that of each."""
    (row, column), (rows, columns) = one[:2], one.shape
    more = (row + rows, column) if below else (row, column + columns)
    return Layout(
        np.concatenate([row, more[0]], axis=1),
        np.concatenate([column, more[1]], axis=1),
        (2 * rows, columns) if below else (rows, 2 * columns),
    )


def wmma_layout(role: str, shape: tuple[int, int, int], per: int) -> Layout:
    """The fragment of a matrix, ``a``, ``b`` or ``c`` of a product; `per` elements per register.

    PTX does not define it. It was read from ptxas 13.0 for sm_90, which splits a product in two,
    the second to the right of the first or below it; eight rows are like eight columns, transposed.
    """
    m, n, k = shape
    if (m, n) == (8, 32):
        other = wmma_layout({"a": "b", "b": "a"}.get(role, role), (n, m, k), per)
        return Layout(other.column, other.row, other.shape[::-1])
    if role == "a":
        one = a_layout(min(m, 16), k, per)
        return _twice(one, below=True) if m == 32 else one
    one = b_layout(k, 8, per) if role == "b" else c_layout(min(m, 16), 8)
    if n == 16:
        return _twice(one, below=False)
    return _twice(one, below=True) if m == 32 and role == "c" else one


# --- Memory ---


class Pieces(NamedTuple):
    """The accesses of one load or store, `each` elements per lane.

    `row` and `column` are (accesses, 32): the lane's first element in memory, rows
    (columns, if the matrix is column-major) being `stride` elements apart.
    """

    row: Ints
    column: Ints
    each: int


def pieces(layout: Layout, wide: int, *, by_column: bool) -> Pieces:
    """The memory instructions that ptxas makes of one ``wmma.load`` or ``wmma.store``.

    16-bit elements come in words of two in either major order (MOVM transposes them), others (of
    `wide` bytes) with their neighbours in memory if these are next in the fragment too.
    """
    row, column = layout[:2]
    rows, columns = layout.shape
    if by_column:
        row, column, rows, columns = column, row, columns, rows
    if wide == 2:
        blocks = [(i, j) for j in range(0, columns, 8) for i in range(0, rows, 8)]
        return Pieces(
            np.stack([_LANE // 4 + i for i, _ in blocks]),
            np.stack([_LANE % 4 * 2 + j for _, j in blocks]),
            2,
        )
    each = 4 if wide == 1 else min(2, row.shape[1])
    first = np.arange(row.shape[1]) // each * each
    near = (row == row[:, first]) & (column == column[:, first] + np.arange(len(first)) % each)
    each = each if near.all() else 1
    return Pieces(row.T[::each], column.T[::each], each)


def _held(ctx: Context, name: str) -> set[tuple[str, int]] | None:
    """Fragments that a register may be part of: role and its place in each; None: unknown."""
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
    """Raise if a register certainly holds another part of a fragment than is taken from it."""
    for place, name in enumerate(registers_of(fragment)):
        held = _held(ctx, name)
        if held and (role, place) not in held:
            other, at = min(held)
            raise ctx.fault(
                instr, "other", f"a fragment out of order: `{instr.op}` takes register {name} "
                f"as number {place + 1} of {role.upper()}, but it is number {at + 1} of a fragment "
                f"of {other.upper()}",
                "Which elements a fragment's registers hold depends on the chip: pass on whole "
                "fragments as they are.",
            )  # fmt: skip


def _checked(run: Run, instr: Instr, ctx: Context, fragments: dict[str, Operand]) -> Run:
    """The same; faults of its fragments are reported when it runs."""
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
    kinds = [p for p in instr.parts if p in (*PER, "f32", "s32")]
    inputs = kinds[1] if len(kinds) == 4 else "f16"
    shape, per = _shape(instr, ctx, inputs), PER[inputs]
    # Fragments already hold the matrix itself, however it was stored.
    d, a, b, c = instr.operands
    layout = wmma_layout("c", shape, per)

    def factor(fragment: Operand, role: str) -> Fetch:
        """A or B: the first of the registers for float16 hold all of it."""
        assert isinstance(fragment, Vec)
        held = wmma_layout(role, shape, per)
        return operand(Vec(fragment.items[: held.row.shape[1] // per]), inputs, held, ctx)

    run = product(
        ctx,
        factor(a, "a"),
        factor(b, "b"),
        operand(c, kinds[-1], layout, ctx),
        Accumulator(targets_of(d, ctx), kinds[0], layout, "satfinite" in instr.parts),
    )
    return _checked(run, instr, ctx, {"a": a, "b": b, "c": c})


class _Fragment:
    """The places of a fragment's pieces, for loads and stores."""

    def __init__(self, instr: Instr, ctx: Context, site: CodeSite) -> None:
        self.load, kind = instr.parts[1] == "load", instr.parts[-1]
        self.ctx, self.site, self.wide = ctx, site, SIZES[kind]
        role = instr.parts[2] if instr.parts[2] in ("a", "b") else "c"
        self.by_column = "col" in instr.parts
        self.layout = wmma_layout(role, _shape(instr, ctx, kind), PER.get(kind, 1))
        self.pieces = pieces(self.layout, self.wide, by_column=self.by_column)
        #: Rows and columns in their order in memory.
        self.shape = self.layout.shape[::-1] if self.by_column else self.layout.shape
        size = self.wide * self.pieces.each
        space = [p for p in instr.parts if p.split("::")[0] in ("shared", "global")]
        bits = ("v2", "b64") if size == 16 else (f"b{8 * size}",)
        operands = instr.operands[:2]
        plain = instr.turned("ld" if self.load else "st", *space, *bits, operands=operands)
        self.access = Access(
            plain, ctx, site, operands[1 if self.load else 0], "load" if self.load else "store"
        )
        self.access.dtype = UNSIGNED[self.access.width]
        # LDSM loads neighbours of A and B from shared memory, unless the address is generic.
        self.matrices: list[tuple[Ints, Ints]] = []
        if self.load and role != "c" and self.pieces.each > 1 and self.access.space == "shared":
            self.access.charged = 0
            self.matrices = self._matrices()
        self.fragment = operands[0 if self.load else 1]
        known = len(instr.operands) > 2
        self.stride = ctx.slot(instr.operands[2], 4) if known else ctx.constant(self.shape[1])
        self._bases: dict[tuple[int, int, int], Base] = {}

    def _matrices(self) -> list[tuple[Ints, Ints]]:
        """The rows of 16 bytes that each LDSM's first lanes name: up to four times eight."""
        rows, columns = self.shape
        each, together = 16 // self.wide, 2 * self.wide
        corners = [(i, j) for j in range(0, columns, each) for i in range(0, rows, 8)]
        groups = [corners[at : at + together] for at in range(0, len(corners), together)]
        return [
            (
                np.concatenate([np.arange(8) + i for i, _ in group]),
                np.repeat([j for _, j in group], 8),
            )
            for group in groups
        ]

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

    def _charge_matrices(self, R: Registers, M: Mask, kept: Value) -> None:
        access, lanes = self.access, self.ctx.rt.lanes
        for number, (row, column) in enumerate(self.matrices, 1):
            used = np.tile(np.arange(WARP) < len(row), lanes.W)
            named = lanes.within(M, np.broadcast_to(used, lanes.shape))
            rows, columns = np.resize(row, WARP), np.resize(column, WARP)
            R[access.slot] = add(kept, self.offsets(R, rows, columns, -number), access.size)
            self.site.charge_shared(cost_of(matrix_cost, access.reach(R, named), 16, lanes))

    def accesses(self, R: Registers, M: Mask) -> Iterator[tuple[Ints, Ints, Located]]:
        """For every piece: rows and columns of the lanes' elements, and their addresses."""
        access = self.access
        kept: Value = R[access.slot]
        for number, (row, column) in enumerate(zip(*self.pieces[:2], strict=True)):
            R[access.slot] = add(kept, self.offsets(R, row, column, number), access.size)
            yield row, column, access.locate(R, M)
        self._charge_matrices(R, M, kept)
        R[access.slot] = kept


def _load(memory: _Fragment, targets: list[int]) -> Run:
    access, ctx, layout = memory.access, memory.ctx, memory.layout
    element, size = UNSIGNED[memory.wide], max(4, memory.wide)
    # float16 of A and B is repeated until the registers are full.
    times = len(targets) * size // memory.wide // layout.row.shape[1]

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes: Lanes = ctx.rt.lanes
        matrix = np.zeros((lanes.B, lanes.W, *memory.shape), element)
        for row, column, (found, index, _) in memory.accesses(R, M):
            words = [found[at:].take(index, mode="wrap") for at in range(access.count)]
            held = np.stack([by_warp(word, lanes) for word in words], axis=-1)
            parts = np.ascontiguousarray(held).view(element)
            for e in range(memory.pieces.each):
                matrix[..., row, column + e] = parts[..., e]
        if memory.by_column:
            matrix = np.swapaxes(matrix, 2, 3)
        whole = np.tile(layout.fragment(matrix), times)
        packed = np.ascontiguousarray(whole).view(UNSIGNED[size])
        for at, slot in enumerate(targets):
            put(R, M, slot, np.ascontiguousarray(packed[..., at]).reshape(lanes.shape), size)

    return many


def _store(memory: _Fragment) -> Run:
    access, ctx, layout = memory.access, memory.ctx, memory.layout
    element, size = UNSIGNED[memory.wide], max(4, memory.wide)
    slots = slots_of(memory.fragment, ctx, size)

    @writes_itself
    def many(R: Registers, M: Mask) -> None:
        lanes: Lanes = ctx.rt.lanes
        matrix = layout.matrix(fragment(R, slots, size, lanes).view(element))
        if memory.by_column:
            matrix = np.swapaxes(matrix, 2, 3)
        for row, column, place in memory.accesses(R, M):
            parts = [matrix[..., row, column + e] for e in range(memory.pieces.each)]
            words = np.ascontiguousarray(np.stack(parts, -1)).view(access.dtype)
            for at in range(access.count):
                word = np.ascontiguousarray(words[..., at])
                access.put(place, word.reshape(word.shape[0], lanes.T), M, at)

    return many


def wmma(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``wmma.load``, ``wmma.mma``, ``wmma.store``; Fault: a shape or type that is not supported."""
    if instr.parts[1] == "mma":
        return _mma(instr, ctx)
    memory = _Fragment(instr, ctx, site)
    assert isinstance(memory.fragment, Vec)
    if memory.load:
        return _load(memory, targets_of(memory.fragment, ctx))
    return _checked(_store(memory), instr, ctx, {"c": memory.fragment})
