"""Instructions in which the lanes of a warp exchange data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxemu.faults.words import who
from ptxemu.ptx.instructions import Instr, Pair
from ptxemu.state.context import ApartError, Context, Registers, Run, put, writes_both
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import UNSIGNED, Array, Value, boxed, signed, truth, unsigned

#: The result of a shuffle from an absent lane: a NaN in every float type, and a large integer.
_NOTHING = np.uint32(0xFFFFDEAD)
_LANE = np.arange(WARP, dtype=np.int64)
_ALL = np.uint32(0xFFFFFFFF)
_BIT = (np.uint64(1) << np.arange(WARP, dtype=np.uint64)).astype(np.uint32)


def by_warp(array: Array, lanes: Lanes) -> Array:
    """An array of the batch as (blocks or 1, warps, 32)."""
    rows = array.shape[0]
    return np.broadcast_to(array, (rows, lanes.T)).reshape(rows, lanes.W, WARP)


def active(M: Mask, lanes: Lanes) -> Array:
    """The mask as (blocks or 1, warps, 32)."""
    if M.arr is None:
        return np.ones((1, lanes.W, WARP), np.bool_)
    return M.arr.reshape(lanes.B, lanes.W, WARP)


def _bits(on: Array) -> Array:
    """Lanes of each warp as the bits of a word."""
    return np.asarray(np.bitwise_or.reduce(np.where(on, _BIT, np.uint32(0)), axis=-1))


def companions(R: Registers, slot: int, on: Array, lanes: Lanes) -> Array:
    """The active lanes in each lane's own ``.sync`` mask, as bits: (…, warps, 32 or 1).

    Tiles of one warp run one instruction with a mask each. The last axis is 1 if, in every warp,
    all active lanes name all of them.
    """
    here = _bits(on)[..., None]
    named: Array = by_warp(unsigned(R[slot], 4), lanes)
    if not np.where(on, here & ~named, np.uint32(0)).any():
        return here
    mine: Array = here & named
    return mine


def _flat(array: Array, lanes: Lanes) -> Array:
    return np.ascontiguousarray(array).reshape(array.shape[0], lanes.T)


def check_own(instr: Instr, ctx: Context, R: Registers, slot: int, M: Mask) -> None:
    """Raise if a lane's own ``.sync`` mask does not include it.

    On an H200 that is an illegal instruction, for shuffles, votes, matches and warp barriers alike.
    """
    lanes = ctx.rt.lanes
    members = by_warp(unsigned(R[slot], 4), lanes)
    if (members == _ALL).all():
        return
    lost = active(M, lanes) & (members & _BIT == 0)
    if lost.any():
        row, warp, lane = (int(each[0]) for each in np.nonzero(lost))
        mask = int(np.broadcast_to(members, lost.shape)[row, warp, lane])
        raise ctx.fault(
            instr, "other",
            f"{who(lanes, row, warp * WARP + lane)} is not in its own mask, 0x{mask:08x}",
            "The mask of a `_sync` function must name every lane that calls it.",
        )  # fmt: skip


def check_members(instr: Instr, ctx: Context, R: Registers, slot: int, M: Mask) -> None:
    """Raise if a ``.sync`` mask omits a lane that is here, or names one that is elsewhere.

    Raises:
        Fault: a lane is not in its own mask.
        ApartError: a named lane is alive, but not here.
    """
    check_own(instr, ctx, R, slot, M)
    if not M.partial or M.arr is None:
        return
    lanes = ctx.rt.lanes
    on = active(M, lanes)
    members = by_warp(unsigned(R[slot], 4), lanes)
    wanted = np.bitwise_or.reduce(np.where(on, members, np.uint32(0)), axis=-1)
    absent = by_warp(lanes.full(ctx.rt.alive()), lanes) & ~on
    missing = absent & ((wanted[..., None] & _BIT) != 0)
    if missing.any():
        raise ApartError(instr, _flat(missing, lanes))


def _shfl(instr: Instr, ctx: Context) -> Run:
    mode = instr.parts[2] if instr.parts[1] == "sync" else instr.parts[1]
    if mode not in ("up", "down", "bfly", "idx"):
        raise ctx.unsupported(instr)
    target = instr.operands[0]
    a, b, c = ctx.sources(instr, 3, 4)
    members = ctx.slot(instr.operands[4], 4) if len(instr.operands) > 4 else -1

    def shuffle(R: Registers, M: Mask) -> tuple[Value, Array]:
        lanes = ctx.rt.lanes
        if members >= 0:
            check_members(instr, ctx, R, members, M)
        source = by_warp(unsigned(R[a], 4), lanes)
        by = by_warp(unsigned(R[b], 4), lanes).astype(np.int64) & 31
        control = by_warp(unsigned(R[c], 4), lanes).astype(np.int64)
        segment, clamp = (control >> 8) & 31, control & 31
        top = (_LANE & segment) | (clamp & ~segment)
        j = {
            "up": _LANE - by, "down": _LANE + by, "bfly": _LANE ^ by,
            "idx": (_LANE & segment) | (by & ~segment),
        }[mode]  # fmt: skip
        inside = j >= top if mode == "up" else j <= top
        j = np.where(inside, j, _LANE)
        shape = np.broadcast_shapes(source.shape, j.shape)
        out = np.take_along_axis(np.broadcast_to(source, shape), np.broadcast_to(j, shape), -1)
        inside = np.broadcast_to(inside, shape)
        if M.arr is not None:
            out = _without_absent(instr, ctx, out, j, active(M, lanes))
        return boxed(_flat(out, lanes)), _flat(inside, lanes)

    if not isinstance(target, Pair):
        return lambda R, M: shuffle(R, M)[0]
    return writes_both(ctx, target, shuffle, 4)


def _without_absent(instr: Instr, ctx: Context, out: Array, j: Array, on: Array) -> Array:
    """The result of a shuffle, with a marker value where it reads from an absent lane.

    Such lanes have ended, never started or are not in its mask. A kernel may discard the value.
    """
    shape = np.broadcast_shapes(out.shape, on.shape)
    there = np.take_along_axis(np.broadcast_to(on, shape), np.broadcast_to(j, shape), -1)
    absent = np.broadcast_to(on, shape) & ~there
    if not absent.any():
        return out
    ctx.rt.doubts.add(
        f"{ctx.where(instr)}: a shuffle reads from threads of its warp that have ended or do not "
        "exist, which gives an arbitrary value on a GPU: let all 32 reach it, or give it a width"
    )
    return np.where(absent, _NOTHING, np.broadcast_to(out, shape))


def _spread(per_warp: Array, lanes: Lanes) -> Value:
    """Spread one value of each warp over all of its lanes."""
    return boxed(np.repeat(per_warp, WARP, axis=-1).reshape(per_warp.shape[0], lanes.T))


def _by_lane(words: Array, lanes: Lanes) -> Value:
    """Words for each lane, or one for each warp, (…, warps, 32 or 1)."""
    return boxed(_flat(np.broadcast_to(words, (*words.shape[:-1], WARP)), lanes))


def _vote(instr: Instr, ctx: Context) -> Run:
    mode = instr.parts[2] if instr.parts[1] == "sync" else instr.parts[1]
    if mode not in ("ballot", "all", "any", "uni"):
        raise ctx.unsupported(instr)
    p = ctx.slot(instr.operands[1], 0)
    negated = getattr(instr.operands[1], "negated", False)
    members = ctx.slot(instr.operands[2], 4) if len(instr.operands) > 2 else -1

    def run(R: Registers, M: Mask) -> Value:
        lanes = ctx.rt.lanes
        if members >= 0:
            check_members(instr, ctx, R, members, M)
        said = by_warp(truth(R[p]), lanes)
        on = active(M, lanes)
        yes = _bits((~said if negated else said) & on)[..., None]
        asked = companions(R, members, on, lanes) if members >= 0 else _bits(on)[..., None]
        yes = yes & asked
        if mode == "ballot":
            return _by_lane(yes, lanes)
        every, some = yes == asked, yes != 0
        result = {"all": every, "any": some, "uni": every | ~some}[mode]
        out = _flat(np.broadcast_to(result, (*result.shape[:-1], WARP)), lanes)
        return int(out.flat[0]) if (out == out.flat[0]).all() else out

    return run


def _match(instr: Instr, ctx: Context) -> Run:
    size = 8 if instr.parts[-1] == "b64" else 4
    a = ctx.slot(instr.operands[1], size)
    members = ctx.slot(instr.operands[2], 4)
    every = "all" in instr.parts

    def groups(R: Registers, M: Mask) -> tuple[Array, Array]:
        lanes = ctx.rt.lanes
        check_members(instr, ctx, R, members, M)
        value, on = np.broadcast_arrays(by_warp(unsigned(R[a], size), lanes), active(M, lanes))
        same = (value[..., :, None] == value[..., None, :]) & on[..., None, :]
        asked = companions(R, members, on, lanes)
        return _bits(same) & asked, asked

    if not every:
        return lambda R, M: boxed(_flat(groups(R, M)[0], ctx.rt.lanes))

    def agreed(R: Registers, M: Mask) -> tuple[Value, Array]:
        bits, here = groups(R, M)
        agree = bits == here
        value = boxed(_flat(np.where(agree, bits, np.uint32(0)), ctx.rt.lanes))
        return value, _flat(agree, ctx.rt.lanes)

    return writes_both(ctx, instr.operands[0], agreed, 4)


def _redux(instr: Instr, ctx: Context) -> Run:
    op, kind = instr.parts[2], instr.parts[-1]
    a, members = ctx.slot(instr.operands[1], 4), ctx.slot(instr.operands[2], 4)
    table: dict[str, tuple[np.ufunc, int]] = {
        "add": (np.add, 0), "and": (np.bitwise_and, -1), "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0), "min": (np.minimum, 1), "max": (np.maximum, -1),
    }  # fmt: skip
    function, neutral = table[op]
    get = signed if kind == "s32" else unsigned
    if op in ("min", "max"):
        info = np.iinfo(np.int32 if kind == "s32" else np.uint32)
        neutral = int(info.max if op == "min" else info.min)

    def run(R: Registers, M: Mask) -> Value:
        lanes = ctx.rt.lanes
        check_members(instr, ctx, R, members, M)
        value, on = by_warp(get(R[a], 4), lanes), active(M, lanes)
        fill = np.array(neutral & 0xFFFFFFFF, np.uint32).view(value.dtype)
        asked = companions(R, members, on, lanes)
        if asked.shape[-1] == WARP:  # each lane has its own companions
            value, on = value[..., None, :], (asked[..., None] & _BIT) != 0
        with np.errstate(over="ignore"):
            out = function.reduce(np.where(on, value, fill), axis=-1, dtype=value.dtype)
        out = out.view(UNSIGNED[4])
        return _by_lane(out if asked.shape[-1] == WARP else out[..., None], lanes)

    return run


class Reduction:
    """The result of ``bar.red`` for every thread of a block: the count, all, or any."""

    def __init__(self, op: str, target: int, said: int, *, negated: bool) -> None:
        self.op, self.target, self.said, self.negated = op, target, said, negated

    @classmethod
    def of(cls, instr: Instr, ctx: Context) -> Reduction:
        """The reduction of an instruction; Fault: it is unknown."""
        op = next((part for part in instr.parts if part in ("popc", "and", "or")), "")
        source = instr.operands[-1]
        if not op or len(instr.operands) < 3:
            raise ctx.unsupported(instr)
        negated = getattr(source, "negated", False)
        return cls(op, ctx.target(instr.operands[0]), ctx.slot(source, 0), negated=negated)

    def yes(self, R: Registers, on: Array) -> Array:
        """Those of the lanes `on`, (blocks, threads), whose predicate is true."""
        said = truth(R[self.said])
        return on & (~said if self.negated else said)

    def put(self, R: Registers, M: Mask, yes: Array, count: Array, lanes: Lanes) -> None:
        """Give the lanes of a mask the result of `yes` among `count` threads, by block."""
        truths: Array = yes == count if self.op == "and" else yes > 0
        value = yes.astype(np.uint32) if self.op == "popc" else truths
        M.partial = True
        size = 4 if self.op == "popc" else 0
        put(R, M, self.target, np.broadcast_to(value[:, None], lanes.shape), size)


def _activemask(instr: Instr, ctx: Context) -> Run:
    def run(R: Registers, M: Mask) -> Value:
        lanes = ctx.rt.lanes
        return _spread(_bits(active(M, lanes)), lanes)

    return run


def _elect(instr: Instr, ctx: Context) -> Run:
    """``elect.sync d|p``: the lowest active lane."""
    if not isinstance(instr.operands[0], Pair):
        raise ctx.unsupported(instr)

    def elected(R: Registers, M: Mask) -> tuple[Value, Array]:
        lanes = ctx.rt.lanes
        first = active(M, lanes).argmax(axis=-1)
        return _spread(first.astype(np.uint32), lanes), _flat(first[..., None] == _LANE, lanes)

    return writes_both(ctx, instr.operands[0], elected, 4)


def _warp_barrier(instr: Instr, ctx: Context) -> Run:
    members = ctx.slot(instr.operands[0], 4)
    # Lanes run in lock step: there is nothing to wait for.
    return lambda R, M: check_own(instr, ctx, R, members, M)


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "activemask": _activemask,
    "elect": _elect, "bar": _warp_barrier, "barrier": _warp_barrier,
}  # fmt: skip
