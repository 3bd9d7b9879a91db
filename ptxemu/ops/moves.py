"""Moves, addresses, bit manipulation; instructions without a result, and those that print."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ptxemu.faults.words import first_lane, triple, who
from ptxemu.ptx.inlining import STACK_BYTES
from ptxemu.ptx.instructions import CLOCKS, SIZES, Imm, Instr, Operand, Reg, Sym, Vec, space_of
from ptxemu.state.context import Context, Registers, Run, put
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.spaces import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from ptxemu.state.values import MASK, SIGNED, UNSIGNED, Array, Value, add, boxed, unsigned

_WORD = UNSIGNED[4]
_HALF = np.uint64(MASK[4])
#: Ticks from one reading of a clock to the next; a loop that waits for a time reads it repeatedly.
_LOOK = 1024


def _mov(instr: Instr, ctx: Context) -> Run:
    kind = instr.parts[-1]
    size = 0 if kind == "pred" else SIZES[kind]
    target, source = instr.operands
    if isinstance(source, Reg) and source.name in CLOCKS:
        return _clock(source.name, ctx)
    if isinstance(target, Vec):
        return _unpack(instr, ctx, target.items, source, size)
    if isinstance(source, Vec):
        return _pack(ctx, source.items, size)
    if isinstance(source, Sym) and source.name in ctx.symbols:
        a = ctx.slot(source, size)
    else:
        a = ctx.slot(source, size, kind)
    return lambda R, M: R[a]


def _clock(name: str, ctx: Context) -> Run:
    """A clock: each reading is later than the one before; nothing else about it is true."""
    upper, size = name.endswith("hi"), CLOCKS[name]

    def run(R: Registers, M: Mask) -> int:
        ctx.rt.clock += _LOOK
        ctx.rt.changes += 1  # a loop that waits for a time is not an endless one
        return ctx.rt.clock >> 32 if upper else ctx.rt.clock & MASK[size]

    return run


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
    """Generic addresses: shared and local memory have windows, global addresses are unchanged."""
    space = space_of(instr)
    size = SIZES[instr.parts[-1]]
    a = ctx.slot(instr.operands[1], size)
    if space == "param" and "to" not in instr.parts:  # 32 bits are enough in that space
        base = ctx.placement.param_base
        return lambda R, M: add(boxed(unsigned(add(R[a], -base, 8), 8) & _HALF), base, 8)
    shift = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    if "to" in instr.parts:
        shift = -shift
    shift &= MASK[size]
    return lambda R, M: add(R[a], shift, size)


def _isspacep(instr: Instr, ctx: Context) -> Run:
    (a,) = ctx.sources(instr, 1, 8)
    windows = {"shared": SHARED_WINDOW >> 32, "local": LOCAL_WINDOW >> 32}
    wanted = windows.get(space_of(instr))

    def run(R: Registers, M: Mask) -> Value:
        window = unsigned(R[a], 8) >> np.uint64(32)
        found = np.isin(window, [*windows.values()] if wanted is None else [wanted])
        return np.asarray(~found if wanted is None else found)

    return run


# --- functions of words

#: Makes a function of the operands' arrays, all unsigned, for an instruction.
Make = Callable[[Instr], Callable[..., Array]]


def _lanewise(make: Make, *sizes: int) -> Callable[[Instr, Context], Run]:
    """A builder for functions of these operands; a size of 0 is that of the type."""

    def build(instr: Instr, ctx: Context) -> Run:
        function = make(instr)
        widths = [size or SIZES[instr.parts[-1]] for size in sizes]
        operands = zip(instr.operands[1 : 1 + len(sizes)], widths, strict=True)
        slots = [(ctx.slot(operand, width), width) for operand, width in operands]
        return lambda R, M: boxed(function(*(unsigned(R[slot], width) for slot, width in slots)))

    return build


def _leading(x: Array) -> Array:
    """Index of the highest set bit; -1 for 0."""
    out = np.full(x.shape, -1, np.int32)
    left = x
    for step in (32, 16, 8, 4, 2, 1):
        if step < 8 * x.itemsize:
            big = left >> x.dtype.type(step)
            out = np.where(big != 0, out + step, out)
            left = np.where(big != 0, big, left)
    return np.where(x == 0, np.int32(-1), out + 1)


def _reversed(x: Array) -> Array:
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.itemsize)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1]
    turned = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(turned).view(x.dtype)[..., 0]


def _bfind(instr: Instr) -> Callable[..., Array]:
    is_signed, shift = instr.parts[-1][0] == "s", "shiftamt" in instr.parts

    def find(x: Array) -> Array:
        bits = 8 * x.itemsize
        if is_signed:
            x = np.where(x >> x.dtype.type(bits - 1) != 0, ~x, x)
        top = _leading(x)
        if shift:
            top = np.where(top < 0, np.int32(-1), bits - 1 - top)
        return top.astype(np.int32).view(_WORD)

    return find


def _bfe(instr: Instr) -> Callable[..., Array]:
    is_signed = instr.parts[-1][0] == "s"

    def extract(x: Array, start: Array, length: Array) -> Array:
        bits, word = 8 * x.itemsize, x.dtype.type
        start, length = start & 0xFF, length & 0xFF
        inside = start < bits
        shift = np.minimum(start, bits - 1).astype(x.dtype)
        keep = _low_ones(length, x.dtype)
        out = np.where(inside, (x >> shift) & keep, word(0))
        if is_signed:
            last = np.minimum(start.astype(np.int64) + length - 1, bits - 1)
            sign = (x >> np.maximum(last, 0).astype(x.dtype)) & word(1)
            fill = np.where(inside, ~(keep & (~word(0) >> shift)), ~word(0))
            out = np.where((sign != 0) & (length > 0), out | fill, out)
        return np.asarray(out)

    return extract


def _bfi(x: Array, y: Array, start: Array, length: Array) -> Array:
    start, length = start & 0xFF, length & 0xFF
    bits = 8 * y.itemsize
    shift = np.minimum(start, bits - 1).astype(y.dtype)
    keep = np.where(start < bits, _low_ones(length, y.dtype) << shift, y.dtype.type(0))
    return np.asarray((y & ~keep) | ((x << shift) & keep))


def _low_ones(length: Array, dtype: np.dtype[Any]) -> Array:
    bits, word = 8 * dtype.itemsize, dtype.type
    ones = (word(1) << np.minimum(length, bits - 1).astype(dtype)) - word(1)
    return np.asarray(np.where(length >= bits, ~word(0), ones))


def _prmt(instr: Instr) -> Callable[..., Array]:
    """Byte permutation; the default mode and the five special ones."""
    mode = instr.parts[-1] if instr.parts[-1] != "b32" else ""
    picks = {
        "f4e": lambda s, i: s + i, "b4e": lambda s, i: (s - i) % 8,
        "rc8": lambda s, i: s, "ecl": lambda s, i: np.maximum(s, i),
        "ecr": lambda s, i: np.minimum(s, i), "rc16": lambda s, i: (s & 1) * 2 + (i & 1),
    }  # fmt: skip

    def permute(x: Array, y: Array, control: Array) -> Array:
        both = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
        out: Array = np.uint32(0) & control
        for i in range(4):
            nibble = (control >> np.uint32(4 * i)) & np.uint32(15)
            pick = picks[mode]((control & 3).astype(np.int64), i) if mode else nibble & 7
            shift = np.asarray(pick).astype(np.uint64) * np.uint64(8)
            octet = ((both >> shift) & np.uint64(0xFF)).astype(np.uint32)
            if not mode:  # the upper bit of the nibble spreads the byte's sign
                sign = np.where(octet > 127, np.uint32(0xFF), np.uint32(0))
                octet = np.where(nibble > 7, sign, octet)
            out = out | (octet << np.uint32(8 * i))
        return out

    return permute


def _lop3(instr: Instr) -> Callable[..., Array]:
    table = instr.operands[4]
    assert isinstance(table, Imm)

    def combine(x: Array, y: Array, z: Array) -> Array:
        out: Array = np.zeros((1, 1), np.uint32)
        for row in range(8):
            if table.bits >> row & 1:
                term = (x if row & 4 else ~x) & (y if row & 2 else ~y)
                out = out | (term & (z if row & 1 else ~z))
        return out

    return combine


def _shf(instr: Instr) -> Callable[..., Array]:
    """Funnel shift of {b, a}."""
    left, clamp = "l" in instr.parts, "clamp" in instr.parts

    def shift(*operands: Array) -> Array:
        low, up, n = (operand.astype(np.uint64) for operand in operands)
        n = np.minimum(n, np.uint64(32)) if clamp else n & np.uint64(31)
        both = low | (up << np.uint64(32))
        shifted = np.where(n == 32, low, (both << n) >> np.uint64(32))
        return (shifted if left else both >> n).astype(np.uint32)

    return shift


def _dot(instr: Instr) -> Callable[..., Array]:
    """``dp4a`` and ``dp2a``: dot products of packed integers, modulo 2^32."""
    first, second = (kind[0].replace("s", "i") for kind in instr.parts[-2:])
    count = 4 if instr.op == "dp4a" else 2
    part = slice(2, 4) if "hi" in instr.parts else slice(0, count)

    def dot(x: Array, y: Array, z: Array) -> Array:
        x, y = (np.ascontiguousarray(each)[..., None] for each in np.broadcast_arrays(x, y))
        xs, ys = x.view(f"{first}{4 // count}"), y.view(f"{second}1")[..., part]
        total: Array = (xs.astype(np.int64) * ys).sum(axis=-1) + z
        return total.astype(np.uint32)

    return dot


def _sad(instr: Instr) -> Callable[..., Array]:
    is_signed = instr.parts[-1][0] == "s"

    def sad(x: Array, y: Array, z: Array) -> Array:
        if is_signed:
            x, y = x.view(SIGNED[x.itemsize]), y.view(SIGNED[y.itemsize])
        return (np.maximum(x, y) - np.minimum(x, y)).view(z.dtype) + z

    return sad


def _bmsk(instr: Instr) -> Callable[..., Array]:
    """A given number of ones, starting at a given bit."""
    wrap = "wrap" in instr.parts

    def ones(*operands: Array) -> Array:
        start, length = (
            each & np.uint64(31) if wrap else np.minimum(each, np.uint64(32))
            for each in (operand.astype(np.uint64) for operand in operands)
        )
        return (((np.uint64(1) << length) - np.uint64(1)) << start).astype(np.uint32)

    return ones


def _fns(mask: Array, base: Array, offset: Array) -> Array:
    """The position of the n-th one from a start bit: upwards, or downwards for a negative n."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    steps = np.ascontiguousarray(offset).view(np.int32).astype(np.int64)
    place, left = base.astype(np.int64), np.maximum(np.abs(steps), 1)
    found = np.full(place.shape, -1, np.int64)
    for _ in range(32):
        inside = (place >= 0) & (place < 32)
        one = inside & (mask.astype(np.int64) >> np.clip(place, 0, 31) & 1 == 1)
        left = left - one
        found = np.where(one & (left == 0), place, found)
        # A step of zero checks one bit only.
        place = np.where(steps == 0, -1, place + np.sign(steps))
    return found.astype(_WORD)


def _policy(instr: Instr, ctx: Context) -> Run:
    """``createpolicy``: a hint for the second cache, without a visible effect."""
    return lambda R, M: 0


# --- instructions without a result


def _nothing(instr: Instr, ctx: Context) -> Run:
    return lambda R, M: None


def _fence(instr: Instr, ctx: Context) -> Run:
    """A fence; one for copies and products only if their order is watched."""
    if instr.parts[1:3] != ("proxy", "async"):
        return _nothing(instr, ctx)

    def run(R: Registers, M: Mask) -> None:
        if ctx.rt.order is not None:
            ctx.rt.order.clocks.fence(M)

    return run


_SILENT = (
    "membar", "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "pmevent",
    "griddepcontrol", "setmaxnreg",
)  # fmt: skip


# --- A kernel's output: ``printf``, and the assertion that failed ---
# As on a GPU, ``printf`` prints for every thread that runs it; here on standard error, in the order
# of the threads, up to a megabyte per process (the size of a GPU's buffer).

#: The most bytes that a process prints.
_MOST = 1 << 20
#: The most threads whose failed assertion is printed.
_THREADS = 32
#: Bytes of a string that are read together: most are short.
_PIECE = 256
#: No double has more digits than these, so `%g` shows no more.
_DIGITS = 1100
_CONVERSION = re.compile(
    r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])"
)
_BYTES = {"hh": 1, "h": 2, "": 4} | dict.fromkeys(("l", "ll", "z", "j", "t"), 8)


class _Memory:
    """Bytes at a thread's generic pointers."""

    def __init__(self, ctx: Context, row: int, thread: int) -> None:
        self._rt = ctx.rt
        self._own = (row * ctx.rt.lanes.T + thread) * ctx.rt.local_bytes

    def read(self, address: int, size: int) -> bytes:
        """Bytes of global or local memory; fewer at its end."""
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
            start = self._own + address - LOCAL_WINDOW
            return self._rt.memory("local", np.dtype(np.uint8))[start : start + size].tobytes()
        allocation = self._rt.arena.allocation_of(address)
        if allocation is None:
            return b""
        start = address - self._rt.arena.base
        end = min(start + size, start + allocation.start + allocation.size - address)
        return self._rt.arena.bytes[start:end].tobytes()

    def text(self, address: int, most: int = _MOST) -> str:
        """A string that ends with a zero, or after the given number of bytes."""
        if not address:
            return "(null)"[:most]
        raw, size = b"", min(_PIECE, most)
        while b"\0" not in raw and len(raw) < most:
            more = self.read(address + len(raw), size)
            raw += more
            if len(more) < size:
                break
            size = min(len(raw), most - len(raw))
        return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class _FloodError(Exception):
    """A text is longer than there is room for."""


@lru_cache(maxsize=64)
def _pieces(form: str) -> tuple[tuple[tuple[str, re.Match[str] | None], ...], int]:
    """Parts of a format: text, the conversion after it, and its number of arguments."""
    pieces: list[tuple[str, re.Match[str] | None]] = []
    end = taken = 0
    for found in _CONVERSION.finditer(form):
        pieces.append((form[end : found.start()], found))
        end = found.end()
        taken += [found[2], found[3]].count("*") + (found[5] != "%")
    return (*pieces, (form[end:], None)), taken


def formatted(form: str, memory: _Memory, at: int, room: int) -> tuple[str | None, int]:
    """C's ``printf``; arguments start at `at`, each aligned to its size.

    Widths and precisions are the kernel's: the output's size is checked before it is made.

    Returns:
        The text, or None if it is longer than `room`; and the number of arguments it took.
    """
    pieces, taken = _pieces(form)
    said: list[str] = []

    def argument(code: str, size: int) -> int | float:
        nonlocal at
        at = -(-at // size) * size
        raw = memory.read(at, size)
        at += size
        if len(raw) < size:
            return 0
        value: int | float = struct.unpack("<" + code, raw)[0]
        return value

    def number(word: str | None) -> int | None:
        """A width or a precision."""
        if word is None:
            return None
        return int(argument("i", 4)) if word == "*" else int(word.lstrip("0")[:10] or 0)

    def fits(size: int) -> int:
        if size > room:
            raise _FloodError
        return size

    def one(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        wide, digits = number(width) or 0, number(precision)
        if wide < 0:  # as the flag
            flags, wide = flags + "-", -wide
        if digits is not None and digits < 0:  # as none
            digits = None
        fits(wide)
        sign, zeros = "", "0" in flags
        if kind in "diouxX":
            size = _BYTES[length or ""]
            # Types narrower than an int are passed as one.
            raw = int(argument("I" if size < 8 else "Q", max(size, 4))) & ((1 << 8 * size) - 1)
            sign, text = _integer(raw, size, kind, flags, fits(digits) if digits else digits)
            zeros = zeros and digits is None
        elif kind in "eEfFgGaA":
            sign, text = _float(float(argument("d", 8)), kind, flags, digits, fits)
            zeros = zeros and text[:1].isdigit()
        elif kind == "c":
            octet, zeros = bytes([int(argument("i", 4)) & 0xFF]), False
            text = octet.decode("utf-8", "surrogateescape")
        elif kind == "p":
            address, zeros = int(argument("Q", 8)), False
            text = f"{address:#x}" if address else "(nil)"
        else:
            most = min(room, _MOST) + 1
            most = most if digits is None else min(most, digits)
            text, zeros = memory.text(int(argument("Q", 8)), most), False
        if "-" in flags:
            return (sign + text).ljust(wide)
        return sign + text.rjust(wide - len(sign), "0") if zeros else (sign + text).rjust(wide)

    try:
        for plain, found in pieces:
            for text in (plain, one(found) if found else ""):
                room -= fits(len(text))
                said.append(text)
    except _FloodError:
        return None, taken
    return "".join(said), taken


def _integer(raw: int, size: int, kind: str, flags: str, digits: int | None) -> tuple[str, str]:
    """Sign (or ``0x``) and digits of an integer of `size` bytes; at least this many digits."""
    sign = ""
    if kind in "di":
        negative = raw >> (8 * size - 1)
        sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
        raw = (1 << 8 * size) - raw if negative else raw
    text = "" if raw == digits == 0 else format(raw, "d" if kind in "diu" else kind)
    text = text.rjust(digits or 0, "0")
    if "#" in flags and kind == "o":
        text = "0" + text.removeprefix("0")
    elif "#" in flags and kind in "xX" and raw:
        sign = "0" + kind
    return sign, text


def _float(
    value: float, kind: str, flags: str, digits: int | None, fits: Callable[[int], int]
) -> tuple[str, str]:
    """Sign (and ``0x``) and text of a double; `fits` is called before many digits are made."""
    sign = "-" if math.copysign(1, value) < 0 else "+" if "+" in flags else ""
    sign = sign or (" " if " " in flags else "")
    value, sharp = abs(value), "#" if "#" in flags else ""
    if not math.isfinite(value):
        return sign, (f"%{'F' if kind.isupper() else 'f'}") % (value)
    if kind in "gG" and not sharp:
        digits = None if digits is None else min(digits, _DIGITS)
    point = "" if digits is None else f".{fits(digits)}"
    if kind not in "aA":
        return sign, f"%{sharp}{point}{kind}" % value
    mantissa, _, exponent = value.hex().removeprefix("0x").partition("p")
    first, _, rest = mantissa.partition(".")
    if digits is None:
        rest = rest.rstrip("0")
    elif digits < len(rest):
        whole = round(int(first + rest, 16) / 16 ** (len(rest) - digits))  # half to even
        first, rest = f"{whole >> 4 * digits:x}", f"{whole:0{digits + 1}x}"[-digits or 99 :]
    else:
        rest = rest.ljust(digits, "0")
    dot = "." if rest or sharp else ""
    sign, text = f"{sign}0x", f"{first}{dot}{rest}p{exponent}"
    return (sign, text) if kind == "a" else (sign.upper(), text.upper())


def _say(ctx: Context, text: str | None, row: int) -> None:
    """Print a text of a block of the batch, or a note that the output was cut."""
    rt = ctx.rt
    more = f"kernel {ctx.kernel}: more than {_MOST:,} bytes were printed; the rest is left out\n"
    if rt.printed is not None:
        rt.printed.append((int(rt.lanes.blocks[row]), more if text is None else text))
        return
    if rt.said > _MOST:
        return
    rt.said += _MOST + 1 if text is None else len(text.encode("utf-8", "surrogateescape"))
    if rt.said > _MOST:
        text = more
    rt.line.append(text or "")
    if "\n" in rt.line[-1]:
        *whole, rest = "".join(rt.line).split("\n")
        rt.line[:] = [rest]
        _show(whole)


def end_line(ctx: Context) -> None:
    """Show the last line that a kernel has printed, even without a newline."""
    if rest := "".join(ctx.rt.line):
        _show([rest])
    ctx.rt.line.clear()


def _show(lines: Sequence[str]) -> None:
    """Print whole lines, without control codes for terminals or commands for GitHub's runners."""
    text = ""
    for line in lines:
        shown = "".join(c if c.isprintable() or c == "\t" else "·" for c in line)
        shown = shown.replace("##[", "##·[")
        text += f"{'·' * shown.lstrip().startswith('::')}{shown}\n"
    sys.stderr.write(text)
    sys.stderr.flush()


def _value(value: Value, size: int, lanes: Lanes, row: int, thread: int) -> int:
    return int(np.broadcast_to(unsigned(value, size), lanes.shape)[row, thread])


def printf(instr: Instr, ctx: Context) -> Run:
    """``vprintf``: the result, the format's address and that of the arguments."""
    form, arguments = (ctx.slot(operand, 8) for operand in instr.operands[1:3])

    def run(R: Registers, M: Mask) -> Value:
        lanes, taken = ctx.rt.lanes, 0
        for row, thread in zip(*np.nonzero(lanes.full(M)), strict=True):
            memory = _Memory(ctx, row, thread)
            told = memory.text(_value(R[form], 8, lanes, row, thread))
            at = _value(R[arguments], 8, lanes, row, thread)
            room = _MOST if ctx.rt.printed is not None else _MOST - ctx.rt.said
            text, taken = formatted(told, memory, at, room)
            _say(ctx, text, row)
        return taken

    return run


#: Cause of a trap -> the message and its hint.
_TRAPS = {
    "trap": ("the kernel trapped", "The kernel executed `trap`: a check of its own failed."),
    "stack": (
        "the stack overflowed",
        "A recursion is too deep or endless; the emulator keeps "
        f"{STACK_BYTES:,} bytes of frames per thread.",
    ),
    "pointer": (
        "a call through a pointer that does not lead to a function of this signature",
        "Check what wrote the pointer: a table of functions that was never filled, or an index "
        "beyond its end.",
    ),
}


def trap(instr: Instr, ctx: Context) -> Run:
    """``trap`` and failed assertions: an error as soon as a thread reaches one."""
    sizes = (8, 8, 4, 8)  # the addresses of condition, file, line and function
    slots = [ctx.slot(*each) for each in zip(instr.operands, sizes, strict=False)]

    def run(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        row, thread = first_lane(lanes, lanes.full(M))
        lane = who(lanes, row, thread)
        what, hint = _TRAPS.get(instr.parts[-1], _TRAPS["trap"])
        if slots:
            what = f"assertion `{_assertion(R, M)}` failed"
        raise ctx.fault(instr, "assert" if slots else "trap", f"{what} in {lane}", hint)

    def _assertion(R: Registers, M: Mask) -> str:
        """Print CUDA's message for every thread; return the condition of the first."""
        lanes, first, lines = ctx.rt.lanes, "", []
        grid, block = lanes.geometry.grid, lanes.geometry.block
        for row, thread in list(zip(*np.nonzero(lanes.full(M)), strict=True))[:_THREADS]:
            memory = _Memory(ctx, row, thread)
            told, file, line, function = (
                _value(R[slot], size, lanes, row, thread)
                for slot, size in zip(slots, sizes, strict=True)
            )
            first = first or memory.text(told)
            places = (triple(int(lanes.blocks[row]), grid), triple(int(thread), block))
            at, me = (
                place.replace("(", "[").replace(")", "]").replace(" ", "") for place in places
            )
            lines.append(
                f"{memory.text(file)}:{line}: {memory.text(function)}: block: {at}, thread: {me} "
                f"Assertion `{memory.text(told)}` failed."
            )
        end_line(ctx)
        _show(lines)
        return first

    return run


BUILDERS: dict[str, Callable[[Instr, Context], Run]] = {
    "mov": _mov, "cvta": _cvta, "isspacep": _isspacep,
    "popc": _lanewise(lambda _: lambda x: np.bitwise_count(x).astype(_WORD), 0),
    "clz": _lanewise(lambda _: lambda x: (8 * x.itemsize - 1 - _leading(x)).astype(_WORD), 0),
    "brev": _lanewise(lambda _: _reversed, 0), "bfind": _lanewise(_bfind, 0),
    "bfe": _lanewise(_bfe, 0, 4, 4), "bfi": _lanewise(lambda _: _bfi, 0, 0, 4, 4),
    "prmt": _lanewise(_prmt, 4, 4, 4), "lop3": _lanewise(_lop3, 4, 4, 4),
    "shf": _lanewise(_shf, 4, 4, 4), "dp4a": _lanewise(_dot, 4, 4, 4),
    "dp2a": _lanewise(_dot, 4, 4, 4), "sad": _lanewise(_sad, 0, 0, 0),
    "bmsk": _lanewise(_bmsk, 4, 4), "fns": _lanewise(lambda _: _fns, 4, 4, 4),
    "fence": _fence, "createpolicy": _policy,
    "trap": trap, "brkpt": trap, "printf": printf,
    **dict.fromkeys(_SILENT, _nothing),
}  # fmt: skip
