"""Moves, address conversions and bit manipulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.emulator.ptx.instructions import SIZES, Instr, Operand, Sym, Vec
from workbench.emulator.state.context import Context, Registers, Run, put
from workbench.emulator.state.integers import add, boxed
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.spaces import LOCAL_WINDOW, SHARED_WINDOW
from workbench.emulator.state.values import MASK, UNSIGNED, Array, Value, signed, unsigned

_WORD = UNSIGNED[4]


def _mov(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = 0 if kind == "pred" else SIZES[kind]
    target, source = instr.operands
    if isinstance(target, Vec):
        return _unpack(instr, ctx, target.items, source, size)
    if isinstance(source, Vec):
        return _pack(ctx, source.items, size)
    if isinstance(source, Sym) and source.name in ctx.symbols:
        a = ctx.slot(source, size)
    else:
        a = ctx.slot(source, size, kind)
    return lambda R, M: R[a]


def _unpack(
    instr: Instr, ctx: Context, targets: tuple[Operand, ...], source: Operand, size: int
) -> Run:
    a = ctx.slot(source, size)
    part = size // len(targets)
    if part not in UNSIGNED:
        raise ctx.unsupported(instr)
    slots = [ctx.target(item) for item in targets]

    def run(R: Registers, M: Mask) -> None:
        value = R[a]
        if type(value) is int:
            for at, slot in enumerate(slots):
                put(R, M, slot, (value >> (8 * part * at)) & MASK[part], part)
            return
        bits = np.ascontiguousarray(unsigned(value, size))
        pieces = bits.view(UNSIGNED[part]).reshape(*bits.shape, len(slots))
        for at, slot in enumerate(slots):
            put(R, M, slot, np.ascontiguousarray(pieces[..., at]), part)

    return run


def _pack(ctx: Context, sources: tuple[Operand, ...], size: int) -> Run:
    part = size // len(sources)
    slots = [ctx.slot(item, part) for item in sources]

    def run(R: Registers, M: Mask) -> Value:
        values = [R[slot] for slot in slots]
        if all(type(value) is int for value in values):
            total: int = sum(value << (8 * part * at) for at, value in enumerate(values))
            return total
        pieces = np.broadcast_arrays(*(unsigned(value, part) for value in values))
        return np.stack(pieces, axis=-1).view(UNSIGNED[size])[..., 0]

    return run


def _cvta(instr: Instr, ctx: Context) -> Run:
    """Generic addresses: shared and local memory have a window, global memory is itself."""
    space = next(p for p in instr.parts if p.split("::")[0] in
                 ("global", "shared", "local", "const", "param")).split("::")[0]  # fmt: skip
    size = SIZES[instr.parts[-1]]
    a = ctx.slot(instr.operands[1], size)
    shift = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    if "to" in instr.parts:
        shift = -shift
    shift &= MASK[size]
    return lambda R, M: add(R[a], shift, size)


def _isspacep(instr: Instr, ctx: Context) -> Run:
    space = instr.parts[1].split("::")[0]
    a = ctx.slot(instr.operands[1], 8)
    start = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space)

    def run(R: Registers, M: Mask) -> Value:
        window = unsigned(R[a], 8) >> np.uint64(32)
        if start is not None:
            return np.asarray(window == np.uint64(start >> 32))
        ours = (window == np.uint64(SHARED_WINDOW >> 32)) | (
            window == np.uint64(LOCAL_WINDOW >> 32)
        )
        return np.asarray(~ours)

    return run


def _bits(instr: Instr, ctx: Context) -> Run:
    """``popc``, ``clz``, ``brev``, ``bfind``."""
    kind, op = instr.parts[-1], instr.op
    size = SIZES[kind]
    bits = 8 * size
    a = ctx.slot(instr.operands[1], size)

    def leading(x: Array) -> Array:
        """Index of the highest set bit; -1 for 0."""
        out = np.full(x.shape, -1, np.int32)
        left = x.copy()
        for step in (32, 16, 8, 4, 2, 1):
            if step >= bits:
                continue
            big = left >> x.dtype.type(step)
            high = big != 0
            out = np.where(high, out + step, out)
            left = np.where(high, big, left)
        return np.where(x == 0, np.int32(-1), out + 1)

    def run(R: Registers, M: Mask) -> Value:
        x = unsigned(R[a], size)
        if op == "popc":
            return boxed(np.bitwise_count(x).astype(_WORD))
        if op == "clz":
            return boxed((bits - 1 - leading(x)).astype(_WORD))
        if op == "brev":
            octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, size)
            turned = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1],
                                 axis=-1, bitorder="little")  # fmt: skip
            return boxed(np.ascontiguousarray(turned).view(UNSIGNED[size])[..., 0])
        if kind[0] == "s":
            x = np.where(signed(R[a], size) < 0, ~x, x)
        top = leading(x)
        if "shiftamt" in instr.parts:
            top = np.where(top < 0, np.int32(-1), bits - 1 - top)
        return boxed(top.astype(np.int32).view(_WORD))

    return run


def _field(instr: Instr, ctx: Context) -> Run:
    """``bfe`` and ``bfi``."""
    kind = instr.parts[-1]
    size = SIZES[kind]
    bits = 8 * size
    word: Any = UNSIGNED[size].type
    if instr.op == "bfe":
        a = ctx.slot(instr.operands[1], size)
        b, c = (ctx.slot(operand, 4) for operand in instr.operands[2:4])

        def extract(R: Registers, M: Mask) -> Value:
            x = unsigned(R[a], size)
            start, length = unsigned(R[b], 4) & 0xFF, unsigned(R[c], 4) & 0xFF
            inside = start < bits
            shift = np.minimum(start, bits - 1).astype(x.dtype)
            keep = _low_ones(length, word, bits)
            out = np.where(inside, (x >> shift) & keep, word(0))
            if kind[0] == "s":
                last = np.minimum(start.astype(np.int64) + length - 1, bits - 1)
                sign = (x >> np.maximum(last, 0).astype(x.dtype)) & word(1)
                fill = np.where(inside, ~(keep & (word(MASK[size]) >> shift)), word(MASK[size]))
                negative = (sign != 0) & (length > 0)
                out = np.where(negative, out | fill, out)
            return boxed(out)

        return extract
    a, b = (ctx.slot(operand, size) for operand in instr.operands[1:3])
    c, d = (ctx.slot(operand, 4) for operand in instr.operands[3:5])

    def insert(R: Registers, M: Mask) -> Value:
        x, y = unsigned(R[a], size), unsigned(R[b], size)
        start, length = unsigned(R[c], 4) & 0xFF, unsigned(R[d], 4) & 0xFF
        shift = np.minimum(start, bits - 1).astype(y.dtype)
        keep = np.where(start < bits, _low_ones(length, word, bits) << shift, word(0))
        return boxed((y & ~keep) | ((x << shift) & keep))

    return insert


def _low_ones(length: Array, word: Any, bits: int) -> Array:
    some = np.minimum(length, bits - 1).astype(word)
    ones = (word(1) << some) - word(1)
    return np.asarray(np.where(length >= bits, ~word(0), ones))


def _prmt(instr: Instr, ctx: Context) -> Run:
    """Byte permutation; the default mode and the five special ones."""
    a, b, c = (ctx.slot(operand, 4) for operand in instr.operands[1:4])
    mode = instr.parts[-1] if instr.parts[-1] != "b32" else ""
    picks = {
        "f4e": lambda s, i: s + i, "b4e": lambda s, i: (s - i) % 8,
        "rc8": lambda s, i: s, "ecl": lambda s, i: np.maximum(s, i),
        "ecr": lambda s, i: np.minimum(s, i), "rc16": lambda s, i: (s & 1) * 2 + (i & 1),
    }  # fmt: skip

    def run(R: Registers, M: Mask) -> Value:
        x, y, control = np.broadcast_arrays(*(unsigned(R[s], 4) for s in (a, b, c)))
        both = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
        out = np.zeros(x.shape, np.uint32)
        for i in range(4):
            if mode:
                pick = np.asarray(picks[mode]((control & 3).astype(np.int64), i))
                sign = np.zeros(x.shape, np.bool_)
            else:
                nibble = (control >> np.uint32(4 * i)) & np.uint32(15)
                pick, sign = nibble & np.uint32(7), nibble > 7
            octet = ((both >> (pick.astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)).astype(
                np.uint32
            )
            octet = np.where(sign, np.where(octet > 127, 0xFF, 0).astype(np.uint32), octet)
            out |= octet << np.uint32(8 * i)
        return boxed(out)

    return run


def _lop3(instr: Instr, ctx: Context) -> Run:
    a, b, c = (ctx.slot(operand, 4) for operand in instr.operands[1:4])
    table = ctx.constants[ctx.slot(instr.operands[4], 4)]

    def run(R: Registers, M: Mask) -> Value:
        x, y, z = (unsigned(R[s], 4) for s in (a, b, c))
        out: Array = np.zeros(1, np.uint32)
        for row in range(8):
            if table >> row & 1:
                term = x if row & 4 else ~x
                term = term & (y if row & 2 else ~y)
                out = out | (term & (z if row & 1 else ~z))
        return boxed(np.atleast_2d(out))

    return run


def _shf(instr: Instr, ctx: Context) -> Run:
    """Funnel shift of {b, a}."""
    a, b, c = (ctx.slot(operand, 4) for operand in instr.operands[1:4])
    left, clamp = "l" in instr.parts, "clamp" in instr.parts

    def run(R: Registers, M: Mask) -> Value:
        low, up, n = (unsigned(R[s], 4).astype(np.uint64) for s in (a, b, c))
        n = np.minimum(n, np.uint64(32)) if clamp else n & np.uint64(31)
        both = low | (up << np.uint64(32))
        shifted = np.where(n == 32, low, (both << n) >> np.uint64(32))
        out = shifted if left else both >> n
        return boxed((out & np.uint64(0xFFFFFFFF)).astype(np.uint32))

    return run


def _dot(instr: Instr, ctx: Context) -> Run:
    """``dp4a`` and ``dp2a``: dot products of packed integers, modulo 2^32."""
    first, second = instr.parts[-2], instr.parts[-1]
    a, b, c = (ctx.slot(operand, 4) for operand in instr.operands[1:4])
    types: dict[str, Any] = {"s32": np.int8, "u32": np.uint8}
    wide: dict[str, Any] = {"s32": np.int16, "u32": np.uint16}
    four = instr.op == "dp4a"

    def run(R: Registers, M: Mask) -> Value:
        x, y = np.broadcast_arrays(unsigned(R[a], 4), unsigned(R[b], 4))
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        ys = y.view(types[second]).reshape(*y.shape, 4).astype(np.int64)
        if four:
            xs = x.view(types[first]).reshape(*x.shape, 4).astype(np.int64)
        else:
            xs = x.view(wide[first]).reshape(*x.shape, 2).astype(np.int64)
            ys = ys[..., 2:] if "hi" in instr.parts else ys[..., :2]
        total = (xs * ys).sum(axis=-1) + unsigned(R[c], 4)
        return boxed((total & 0xFFFFFFFF).astype(np.uint32))

    return run


def _sad(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = SIZES[kind]
    a, b, c = (ctx.slot(operand, size) for operand in instr.operands[1:4])
    get = signed if kind[0] == "s" else unsigned

    def run(R: Registers, M: Mask) -> Value:
        x, y = get(R[a], size), get(R[b], size)
        gap = np.maximum(x, y) - np.minimum(x, y)
        return boxed(gap.view(UNSIGNED[size]) + unsigned(R[c], size))

    return run


def _mask(instr: Instr, ctx: Context) -> Run:
    """``bmsk``: ones from a bit on, a number of them."""
    a, b = (ctx.slot(operand, 4) for operand in instr.operands[1:3])
    wrap = "wrap" in instr.parts

    def run(R: Registers, M: Mask) -> Value:
        start, length = (unsigned(R[s], 4).astype(np.uint64) for s in (a, b))
        if wrap:
            start, length = start & np.uint64(31), length & np.uint64(31)
        start, length = (np.minimum(each, np.uint64(32)) for each in (start, length))
        ones = (np.uint64(1) << length) - np.uint64(1)
        return boxed(((ones << start) & np.uint64(0xFFFFFFFF)).astype(np.uint32))

    return run


def _nothing(instr: Instr, ctx: Context) -> Run:
    return lambda R, M: None


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "mov": _mov, "cvta": _cvta, "isspacep": _isspacep, "popc": _bits, "clz": _bits,
    "brev": _bits, "bfind": _bits, "bfe": _field, "bfi": _field, "prmt": _prmt, "lop3": _lop3,
    "shf": _shf, "dp4a": _dot, "dp2a": _dot, "sad": _sad, "bmsk": _mask, "membar": _nothing,
    "fence": _nothing, "prefetch": _nothing, "prefetchu": _nothing, "nanosleep": _nothing,
    "discard": _nothing, "applypriority": _nothing, "pmevent": _nothing,
    "griddepcontrol": _nothing,
}  # fmt: skip
