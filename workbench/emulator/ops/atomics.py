"""Atomic operations: lanes that meet at one address take turns, the lowest first.

The order among lanes is not defined on the chip either; results that depend on it (a
float sum's last bits, which thread gets which ticket) may differ from a GPU's run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from workbench.emulator.cost.addresses import (
    atomic_cost,
    shared_load_cost,
    spin_cost,
    swap_cost,
    turns,
)
from workbench.emulator.ops.access import Access, Cost
from workbench.emulator.ops.conversions import pack, unpack
from workbench.emulator.ptx.instructions import SIZES, Instr
from workbench.emulator.state.context import CodeSite, Context, Registers, Run
from workbench.emulator.state.lanes import Mask
from workbench.emulator.state.values import F32, F64, SIGNED, UNSIGNED, Array, Value, unsigned

_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_PLAIN: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
Step = Callable[[Array, Array, Array], Array]
#: (old, operand, second operand) -> new.
_STEPS: dict[str, Step] = {
    "exch": lambda old, x, _: x,
    "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x, _: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x, _: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}


def _step(op: str, kind: str) -> Step:
    """What one turn of an operation does."""
    if kind in _HALVES and op == "add":
        return partial(_half_add, kind)
    plain = _PLAIN.get(op)
    return _STEPS[op] if plain is None else lambda old, x, _: plain(old, x)


def _half_add(kind: str, old: Array, value: Array, _: Array) -> Array:
    x, y = (unpack(np.ascontiguousarray(each).view(np.uint16), kind) for each in (old, value))
    return pack(x + y, kind).view(old.dtype)


def apply(
    memory: Array, index: Array, x: Array, y: Array, op: str, kind: str, *, wants_old: bool
) -> Array | None:
    """Run one atomic over lanes in order; returns what each lane read, if wanted.

    Args:
        memory: 1-D memory of the operation's dtype.
        index: one element index per lane.
        x: operand per lane.
        y: second operand per lane (``cas``).
        op: the operation.
        kind: its PTX type.
        wants_old: whether the value before the lane's own turn is needed.
    """
    if not wants_old and op in _PLAIN and kind not in _HALVES:
        _PLAIN[op].at(memory, index, x)
        return None
    old = np.empty(len(index), memory.dtype)
    order, turn = turns(index)
    if op == "add" and memory.dtype.kind in "iu":
        values = x[order]
        running = np.cumsum(values, dtype=memory.dtype) - values
        start = np.arange(len(order)) - turn
        old[order] = memory[index[order]] + running - running[start]
        np.add.at(memory, index, x)
        return old
    step = _step(op, kind)
    by_turn = np.argsort(turn, kind="stable")
    edges = np.searchsorted(turn[by_turn], np.arange(int(turn.max(initial=-1)) + 2))
    for k in range(len(edges) - 1):
        chosen = order[by_turn[edges[k] : edges[k + 1]]]
        at = index[chosen]
        before = memory[at]
        old[chosen] = before
        memory[at] = step(before, x[chosen], y[chosen])
    return old


def _shared_cost(op: str, kind: str, size: int, *, counts: bool) -> Cost:
    """What an atomic costs in shared memory, by the machine instruction that it becomes."""
    if op == "cas":
        return swap_cost
    if counts and op == "add" and kind in ("u32", "s32"):
        return shared_load_cost  # ATOMS.POPC.INC: lanes at one word are counted together
    if op != "exch" and (size == 8 or kind in ("f32", *_HALVES)):
        return spin_cost  # there is no such instruction: ptxas writes a loop
    return atomic_cost


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``atom`` and ``red`` in global and shared memory.

    Raises:
        KernelError: an operation or type that is not supported.
    """
    kind = instr.parts[-1]
    op = next((part for part in instr.parts if part in _PLAIN or part in _STEPS), "")
    if not op or kind not in SIZES or "v2" in instr.parts or "v4" in instr.parts:
        raise ctx.unsupported(instr)
    returns = instr.op == "atom"
    operands = instr.operands[1:] if returns else instr.operands
    access = Access(instr, ctx, site, operands[0], "atomic")
    access.size = 8 if access.space in ("", "global") else 4
    base = getattr(operands[0], "base", None)
    if base is not None:
        access.size = ctx.size(base, access.size) or access.size
    size = SIZES[kind]
    dtype: Any = {"f32": F32, "f64": F64}.get(kind, UNSIGNED[size])
    if kind[0] == "s":
        dtype = SIGNED[size]
    access.dtype = dtype
    slots = [ctx.slot(operand, size, kind) for operand in operands[1:]]
    name = getattr(instr.operands[0], "name", "") if returns else ""
    wants_old = returns and name != "_" and name in ctx.read
    one = len(slots) == 1 and ctx.constants.get(slots[0]) == 1
    access.cost = _shared_cost(op, kind, size, counts=one and not wants_old)
    rt = ctx.rt

    def run(R: Registers, M: Mask) -> Value | None:
        memory, index, space = access.locate(R, M)
        lanes = rt.lanes
        on = lanes.full(M)
        where = np.broadcast_to(index, lanes.shape)[on]
        values = [
            np.broadcast_to(unsigned(R[slot], size).view(dtype), lanes.shape)[on] for slot in slots
        ]
        second = values[1] if len(values) > 1 else values[0]
        with rt.lock if space == "global" else nullcontext():
            old = apply(memory, where, values[0], second, op, kind, wants_old=wants_old)
        if old is None:
            return 0
        out = np.zeros(lanes.shape, UNSIGNED[size])
        out[on] = old.view(UNSIGNED[size])
        return out

    return run
