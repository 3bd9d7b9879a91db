"""What a kernel says: ``printf``, and the assertion that failed.

As on a GPU a line of ``printf`` appears for every thread that comes by; here on standard
error, in the order of the threads, up to a megabyte a process (the size of a GPU's buffer).
"""

from __future__ import annotations

import re
import struct
import sys

import numpy as np

from ptxemu.errors import Fault
from ptxemu.faults.words import first_lane, triple, who
from ptxemu.ptx.frames import STACK_BYTES
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.spaces import GLOBAL_BASE, LOCAL_WINDOW, WINDOW
from ptxemu.state.values import Value, unsigned

#: Bytes that a process prints at most.
_MOST = 1 << 20
#: Threads whose failed assertion is printed.
_THREADS = 32
_CONVERSION = re.compile(
    r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])"
)


class _Memory:
    """Bytes behind a thread's generic pointers."""

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
        start = address - GLOBAL_BASE
        end = min(start + size, allocation.start + allocation.size - GLOBAL_BASE)
        return self._rt.arena.bytes[start:end].tobytes()

    def text(self, address: int) -> str:
        """A string that ends with a zero."""
        raw = self.read(address, _MOST).partition(b"\0")[0]
        return raw.decode("utf-8", "replace") if address else "(null)"


def formatted(form: str, memory: _Memory, at: int) -> tuple[str, int]:
    """``printf`` of C; arguments lie from `at` on, each aligned to its size.

    Returns:
        The text, and how many arguments it took.
    """
    taken = 0

    def argument(code: str, size: int) -> int | float:
        nonlocal at, taken
        at = -(-at // size) * size
        raw = memory.read(at, size)
        at, taken = at + size, taken + 1
        if len(raw) < size:
            return 0
        value: int | float = struct.unpack("<" + code, raw)[0]
        return value

    def one(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        width = str(argument("i", 4)) if width == "*" else width or ""
        precision = str(argument("i", 4)) if precision == "*" else precision
        long = length in ("l", "ll", "z", "j", "t")
        spec = f"%{flags}{width}" + ("" if precision is None else f".{precision}")
        if kind in "di":
            return (spec + "d") % argument("q" if long else "i", 8 if long else 4)
        if kind in "ouxX":
            return (spec + kind.replace("u", "d")) % argument(
                "Q" if long else "I", 8 if long else 4
            )
        if kind in "eEfFgG":
            return (spec + kind) % argument("d", 8)
        if kind in "aA":
            text = float(argument("d", 8)).hex()
            return text.upper() if kind == "A" else text
        if kind == "c":
            return f"%{flags}{width}c" % (int(argument("i", 4)) & 0xFF)
        if kind == "p":
            return f"0x{int(argument('Q', 8)):x}"
        return (spec + "s") % memory.text(int(argument("Q", 8)))

    return _CONVERSION.sub(one, form), taken


def _say(ctx: Context, text: str) -> None:
    rt = ctx.rt
    if rt.said > _MOST:
        return
    rt.said += len(text)
    if rt.said > _MOST:
        text = f"kernel {ctx.kernel}: more was printed than {_MOST:,} bytes; the rest is left out\n"
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
            text = memory.text(_value(R[form], 8, lanes, row, thread))
            at = _value(R[arguments], 8, lanes, row, thread)
            text, taken = formatted(text, memory, at)
            _say(ctx, text)
        return taken

    return run


#: What became of a thread that traps, and what to do about it.
_TRAPS = {
    "trap": ("the kernel trapped", "The kernel executed `trap`: a check of its own failed."),
    "stack": (
        "the stack overflowed",
        "A recursion is too deep or endless; the emulator keeps "
        f"{STACK_BYTES:,} bytes of frames a thread.",
    ),
    "pointer": (
        "a call through a pointer to no function of this signature",
        "Check what wrote the pointer: a table of functions that was never filled, or an index "
        "beyond its end.",
    ),
}


def trap(instr: Instr, ctx: Context) -> Run:
    """``trap`` and failed assertions: an error as soon as a thread gets there."""
    sizes = (8, 8, 4, 8)  # of condition, file, line and function
    slots = [ctx.slot(*each) for each in zip(instr.operands, sizes, strict=False)]

    def run(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        row, thread = first_lane(lanes, lanes.full(M))
        what, hint = _TRAPS.get(instr.parts[-1], _TRAPS["trap"])
        if slots:
            what = f"assertion `{_assertion(R, M)}` failed"
        raise Fault(f"{ctx.where(instr)}: {what} in {who(lanes, row, thread)}", hint)

    def _assertion(R: Registers, M: Mask) -> str:
        """Print what CUDA prints of every thread; the condition of the first."""
        lanes, first = ctx.rt.lanes, ""
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
            _say(
                ctx,
                f"{memory.text(file)}:{line}: {memory.text(function)}: block: {at}, thread: {me} "
                f"Assertion `{memory.text(told)}` failed.\n",
            )
        return first

    return run
