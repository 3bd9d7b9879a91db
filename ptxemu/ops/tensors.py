"""``cp.async.bulk.tensor``: tiles of tensors, described by a tensor map (TMA)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptxemu.errors import DescriptorError
from ptxemu.ops import copies
from ptxemu.ops.access import Access, items_of
from ptxemu.ops.cluster import Spots, check_spots, lanes_of, shared_operand
from ptxemu.ops.copies import Global, Landing, Outgoing, Shared, pick
from ptxemu.ops.mbarrier import barrier_operand, check_barriers
from ptxemu.ops.tiles import TileUnits, swizzled, tile
from ptxemu.ptx.instructions import Addr, Imm, Instr, Operand, Vec, space_of
from ptxemu.state.context import CodeSite, Context, Registers, Run
from ptxemu.state.lanes import Mask
from ptxemu.state.values import UNSIGNED, Array, Ints, unsigned
from ptxemu.tensormap import BYTES, FIELDS, MARK, TensorMap, decode

#: Alignment of a tile in shared memory, in bytes.
_ALIGN = 128
_NANS = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
#: Type of a map's elements -> its name in reductions.
_KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
          "int32": "s32", "int64": "s64"}  # fmt: skip


class _Request(NamedTuple):
    """Copies with one map: the active lanes that make them, and the units that they move."""

    map: TensorMap
    lanes: Ints
    tile: TileUnits
    base: int

    @property
    def bytes(self) -> int:
        """Bytes of each copy, including those outside the tensor."""
        units: int = self.tile.source.shape[1]
        return units * self.tile.unit

    def elements(self) -> Global:
        """The places of its units in global memory."""
        inside = None if self.tile.inside.all() else self.tile.inside
        return Global(self.tile.source + self.base, inside, self.tile.unit)

    def places(self, spots: Spots) -> Shared:
        """The places of its units in shared memory; `spots` are those of all active lanes."""
        starts = spots.address[self.lanes, None]
        plain = starts + np.arange(0, self.bytes, self.tile.unit, dtype=np.int64)
        return Shared(spots.owner[self.lanes], swizzled(plain, self.map.swizzle), self.tile.unit)


Ask = Callable[[Registers, Mask], list[_Request]]


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """A load, store, reduction or prefetch of a tile; Fault: a form that capability 9.0 lacks."""
    # Stores call `im2col_no_offs` the mode that loads call `im2col`.
    modes = {"gather4", "scatter4", "im2col::w", "im2col::w::128", "cta_group::1", "cta_group::2"}
    if modes & set(instr.parts) or any("gather4" in p or "scatter4" in p for p in instr.parts):
        raise ctx.unsupported(instr)
    if "prefetch" in instr.parts:
        return lambda R, M: None
    spaces = [part.partition("::")[0] for part in instr.parts if part[:6] in ("shared", "global")]
    return (_load if spaces[0] == "shared" else _store)(instr, ctx, site)


def _load(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    site.space, site.store = "shared", True
    goal = shared_operand(instr, ctx, instr.operands[0])
    barrier = barrier_operand(instr, ctx, 2)
    ask = _asked(instr, ctx, instr.operands[1], stores=False)
    spread = copies.multicast(instr, ctx, 3 + _is_im2col(instr))

    def run(R: Registers, M: Mask) -> None:
        ends, barriers = goal(R, M), barrier(R, M)
        check_barriers(instr, ctx, barriers)
        for request in ask(R, M):
            to = _aligned(instr, ctx, ends, request)
            data = copies.read_global(ctx, site, to, request.elements())
            if request.map.fill_nan:
                _fill(data, request)
            bars = pick(barriers, request.lanes)
            amounts = np.full(len(request.lanes), request.bytes, np.int64)
            landing = Landing(request.places(ends), data, bars, amounts)
            copies.land(ctx, site, landing, spread(R, M, request.lanes))

    return run


def _fill(data: Array, request: _Request) -> None:
    size, outside = request.map.size, ~request.tile.inside
    octets = np.full(request.tile.unit // size, _NANS[size], UNSIGNED[size])
    data[outside] = octets.view(data.dtype)[0]


def _store(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    site.space = "shared"
    source = shared_operand(instr, ctx, instr.operands[1])
    ask = _asked(instr, ctx, instr.operands[0], stores=True)
    op = next((part for part in instr.parts if part in copies.REDUCTIONS), "")

    def run(R: Registers, M: Mask) -> None:
        starts = source(R, M)
        for request in ask(R, M):
            start = _aligned(instr, ctx, starts, request)
            data = copies.read_shared(ctx, site, start, request.places(starts))
            reduce = _reduction(op, request.map) if instr.parts[1] == "reduce" else None
            out = Outgoing(request.elements(), data, reduce)
            copies.write_global(ctx, site, start, out)

    return run


def _reduction(op: str, m: TensorMap) -> copies.CopyReduction:
    kind = _KINDS.get(m.dtype.partition("_")[0], f"u{8 * m.size}")
    return copies.CopyReduction(op, kind, copies.REDUCED[kind])


def _aligned(instr: Instr, ctx: Context, spots: Spots, request: _Request) -> Spots:
    """The spots of a request, which must hold a whole tile and be aligned to it."""
    mine = pick(spots, request.lanes)
    check_spots(instr, ctx, mine, request.bytes, _ALIGN)
    return mine


def _is_im2col(instr: Instr) -> bool:
    return any(part.startswith("im2col") for part in instr.parts)


def _asked(instr: Instr, ctx: Context, operand: Operand, *, stores: bool) -> Ask:
    """A function that finds the maps of active lanes, and the tiles at their coordinates."""
    if not isinstance(operand, Vec) or not isinstance(operand.items[1], Vec):
        raise ctx.unsupported(instr)
    slot, offset, _ = ctx.address(operand.items[0])
    places = [ctx.slot(item, 4) for item in operand.items[1].items]
    im2col = _is_im2col(instr)
    offsets = items_of(instr.operands[3]) if im2col and not stores else ()
    shifts = [ctx.slot(item, 2) for item in offsets]
    known: dict[bytes, tuple[TensorMap, int]] = {}

    def ask(R: Registers, M: Mask) -> list[_Request]:
        lanes = ctx.rt.lanes
        addresses = lanes_of(R, slot, 8, M, lanes).astype(np.int64) + offset
        where = np.stack([lanes_of(R, at, 4, M, lanes).view(np.int32) for at in places], axis=1)
        by = [lanes_of(R, at, 2, M, lanes).astype(np.int64) for at in shifts]
        out = []
        for address in np.unique(addresses).tolist():
            chosen = np.nonzero(addresses == address)[0]
            data = _bytes_at(instr, ctx, address)
            if data not in known:
                known[data] = _decoded(instr, ctx, data, len(places), im2col)
            found, base = known[data]
            corner = where[chosen].astype(np.int64)
            _check_corners(instr, ctx, found, corner, stores=stores)
            moved = np.stack(by, axis=1)[chosen] if by else np.zeros_like(corner[:, 2:])
            out.append(_Request(found, chosen, tile(found, corner, moved), base))
        return out

    return ask


def _check_corners(
    instr: Instr, ctx: Context, m: TensorMap, corners: Ints, *, stores: bool
) -> None:
    """Refuse coordinates at which an H200 reports an illegal instruction, as probes showed."""
    text = hint = ""
    if (cut := corners[:, 0] * m.size % 16 != 0).any():
        element = int(corners[cut][0, 0])
        text = f"a tile starts at element {element} of a row, {element * m.size} bytes into it"
        hint = "The innermost coordinate times the element's size must be a multiple of 16 bytes."
    elif stores:
        if (before := (corners < 0).any(axis=1)).any():
            place = tuple(corners[before][0].tolist())
            text = f"a store of a tile at {place}, before the tensor's start"
            hint = "Only loads may start at negative coordinates; store only inside the tensor."
        elif m.im2col is not None and any((*m.im2col.lower, *m.im2col.upper)):
            text = "an im2col store through a map whose bounding box is not the whole image"
            hint = "A map that stores use must have corners that are all 0."
    elif m.im2col is not None:
        low = np.array(m.im2col.lower)
        high = np.array(m.dims[1:-1]) - 1 + np.array(m.im2col.upper)
        first = corners[:, 1:-1]
        if (away := ((first < low) | (first > high)).any(axis=1)).any():
            place = tuple(first[away][0].tolist())
            text = f"an im2col copy starts at pixel {place} (W first), outside of its bounding box"
            hint = f"The box spans {tuple(low.tolist())} to {tuple(high.tolist())}, both inclusive."
    if text:
        raise ctx.fault(instr, "other", f"{text}", hint)


def _bytes_at(instr: Instr, ctx: Context, address: int) -> bytes:
    arena = ctx.rt.arena
    if address % 64 or not arena.holds(address, address + BYTES - 1):
        raise ctx.fault(
            instr, "other", f"no tensor map at address {hex(address)}",
            "Pass it as a `const __grid_constant__` parameter, aligned to 64 bytes.",
        )  # fmt: skip
    return arena.bytes[address - arena.base :][:BYTES].tobytes()


def _decoded(
    instr: Instr, ctx: Context, data: bytes, rank: int, im2col: bool
) -> tuple[TensorMap, int]:
    try:
        m, base = decode(data)
    except DescriptorError as error:
        raise ctx.fault(instr, "other", error.message, error.hint) from error
    if m.rank != rank or (m.im2col is not None) != im2col:
        mode = "im2col" if m.im2col is not None else "tiled"
        raise ctx.fault(
            instr, "other", f"the tensor map is {mode} with {m.rank} axes, and "
            f"`{'.'.join(instr.parts)}` needs another",
            "The instruction's mode and number of coordinates must be those of the map.",
        )  # fmt: skip
    if m.interleave or (m.swizzle and m.shape[0] * m.size != m.swizzle):
        raise ctx.unsupported(
            instr, "interleaved channels, or rows shorter than the swizzle: their layout in "
            "memory is not documented",
        )  # fmt: skip
    return m, base


def change(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``tensormap``: a field of a map is replaced, or a map goes from shared to global memory."""
    if instr.parts[1] == "cp_fenceproxy":
        return copies.into_global(instr, ctx, site)
    field, (place, *axis, value) = FIELDS[instr.parts[3]], instr.operands
    assert isinstance(place, Addr)
    stores = []
    at = field[instr.number(1) if axis else 0]
    for start, width, operand in ((8, 8, Imm(MARK)), (at, field.step, value)):
        stored = instr.turned("st", space_of(instr), f"b{8 * width}")
        where = replace(place, offset=place.offset + start)
        size = max(ctx.size(operand, width), width)
        stores.append((Access(stored, ctx, site, where, "store"), ctx.slot(operand, size), size))
    stores[0][0].charged = 0  # the warp runs it once

    def run(R: Registers, M: Mask) -> None:
        for access, slot, size in stores:
            site.width = access.width
            value = unsigned(R[slot], size).astype(UNSIGNED[access.width])
            access.put(access.locate(R, M), value, M)

    return run
