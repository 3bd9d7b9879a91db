"""Atomic operations: lanes with the same address take turns, the lowest first.

The order among lanes is not defined on the chip either; results that depend on it (a
float sum's last bits, which thread gets which ticket) may differ from a GPU's run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from ptxemu.cost import atomic_cost, led, shared_load_cost, spin_cost, swap_cost, turns
from ptxemu.ops.access import Access, Cost, items_of
from ptxemu.ops.exact import canonical, flushed
from ptxemu.ops.floats import KINDS as HALVES
from ptxemu.ops.floats import function_of, join, split
from ptxemu.ptx.instructions import SIZES, Addr, Instr, Reg
from ptxemu.state.context import CodeSite, Context, Registers, Run, put, writes_itself
from ptxemu.state.lanes import WARP, Mask
from ptxemu.state.values import F32, F64, SIGNED, UNSIGNED, Array, unsigned

_PLAIN: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
Step = Callable[[Array, Array, Array], Array]
#: Floats of at least this size are multiples of the smallest normal float32.
_ABOVE = 2.0**-103
#: (old, operand, second operand) -> new.
_STEPS: dict[str, Step] = {
    "exch": lambda old, x, _: x,
    "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x, _: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x, _: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}


class Operation:
    """One atomic operation, like ``cas``, on scalars of a type, or on pairs of halves in a word.

    `flush`: subnormal float32 counts as zero.
    """

    def __init__(self, op: str, kind: str, *, flush: bool = False) -> None:
        self.op, self.kind, self.flush = op, kind, flush
        self.floating = kind in ("f32", "f64")
        #: NumPy's own function, if it does everything except NaN and subnormals.
        self.plain = None if kind in HALVES else _PLAIN.get(op)

    def turn(self, old: Array, x: Array, y: Array) -> Array:
        """The value after one operation on `old`."""
        if self.kind in HALVES:
            function = function_of(self.op)
            return join(function(split(old, self.kind), split(x, self.kind)), self.kind)
        if self.plain is None:
            return _STEPS[self.op](old, x, y)
        if not self.floating:
            return np.asarray(self.plain(old, x))
        if not self.flush:
            return canonical(self.plain(old, x))
        return flushed(canonical(self.plain(flushed(old), flushed(x))))

    def at_once(self, memory: Array, index: Array, x: Array) -> bool:
        """Do all operations by NumPy, if no lane needs the old value; False: it cannot."""
        if self.plain is None:
            return False
        if self.flush:
            # A sum of such numbers is a multiple of the least normal one: none is subnormal.
            sizes = np.abs(np.concatenate([memory[index], x]))
            if ((sizes < _ABOVE) & (sizes != 0)).any():
                return False
        self.plain.at(memory, index, x)
        if self.floating and np.isnan(memory[index]).any():
            memory[index] = canonical(memory[index])
        return True


def apply(
    memory: Array, index: Array, x: Array, y: Array, operation: Operation, *, wants_old: bool
) -> Array | None:
    """Run one atomic on lanes in order; return the value that each lane read before, if wanted.

    `index`, `x` and `y` (the second operand of ``cas``) have one entry per lane.
    """
    if not wants_old and operation.at_once(memory, index, x):
        return None
    old = np.empty(len(index), memory.dtype)
    order, turn = turns(index)
    if operation.plain is np.add and not operation.floating:
        values = x[order]
        running = np.cumsum(values, dtype=memory.dtype) - values
        start = np.arange(len(order)) - turn
        old[order] = memory[index[order]] + running - running[start]
        np.add.at(memory, index, x)
        return old
    by_turn = np.argsort(turn, kind="stable")
    edges = np.searchsorted(turn[by_turn], np.arange(int(turn.max(initial=-1)) + 2))
    for k in range(len(edges) - 1):
        chosen = order[by_turn[edges[k] : edges[k + 1]]]
        at = index[chosen]
        before = memory[at]
        old[chosen] = before
        memory[at] = operation.turn(before, x[chosen], y[chosen])
    return old


#: How the lanes of a warp combine their atomics in shared memory. Increments whose results are
#: unused are counted at each word. If all go to one word, their sum (or extreme) is formed first;
#: or, if the old values are used, one lane adds for all, and each lane derives its own from its
#: number, or from a scan, which needs all lanes of the warp.
Way = Literal["", "count", "reduce", "number", "scan"]


def _shared_cost(op: str, kind: str, size: int, way: Way) -> Cost:
    """The cost of an atomic in shared memory, by the machine instruction that it becomes."""
    if op == "cas":
        return swap_cost
    if way == "count" and kind in ("u32", "s32"):
        return shared_load_cost  # ATOMS.POPC.INC: lanes at one word are counted together
    if way == "reduce" and op in _PLAIN and kind in ("u32", "s32", "b32"):
        return shared_load_cost  # REDUX combines the lanes' values, and one lane does the atomic
    if op == "add" and kind in ("u32", "s32", "u64") and way == "number":
        return led(spin_cost if size == 8 else atomic_cost, all_there=False)
    if op == "add" and kind in ("u32", "s32") and way == "scan":
        return led(atomic_cost, all_there=True)
    if op != "exch" and (size == 8 or kind in ("f32", *HALVES)):
        return spin_cost  # this instruction does not exist: ptxas writes a loop
    return atomic_cost


def _meet(on: Array, words: Array) -> bool:
    """Test whether lanes of several warps of a block use one word."""
    rows, threads = np.nonzero(on)
    order = np.lexsort((words, rows))
    same = (np.diff(rows[order]) == 0) & (np.diff(words[order]) == 0)
    return bool((same & (np.diff(threads[order] // WARP) != 0)).any())


def build(instr: Instr, ctx: Context, site: CodeSite) -> Run:
    """``atom`` and ``red`` in global and shared memory; for a vector, each element by itself.

    Raises:
        Fault: an operation or type that is not supported.
    """
    kind = instr.parts[-1]
    op = next((part for part in instr.parts if part in _PLAIN or part in _STEPS), "")
    if not op or kind not in SIZES or kind == "b128":
        raise ctx.unsupported(instr)
    returns = instr.op == "atom"
    operands = instr.operands[1:] if returns else instr.operands
    access = Access(instr, ctx, site, operands[0], "atomic")
    size = SIZES[kind]
    dtype: Any = {"f32": F32, "f64": F64}.get(kind, UNSIGNED[size])
    if kind[0] == "s":
        dtype = SIGNED[size]
    access.dtype = dtype
    # After the operands there may be a cache policy.
    groups = [items_of(operand) for operand in operands[1 : 3 if op == "cas" else 2]]
    slots = [[ctx.slot(item, size, kind) for item in group] for group in groups]
    names = [getattr(item, "name", "_") for item in items_of(instr.operands[0])] if returns else []
    wants_old = any(name != "_" and name in ctx.read for name in names)
    targets = [ctx.target(item) for item in items_of(instr.operands[0])] if wants_old else []
    one = len(groups) == 1 and ctx.constants.get(slots[0][0]) == 1
    place = operands[0].base if isinstance(operands[0], Addr) else None
    fixed = not (isinstance(place, Reg) and place.name in ctx.varying)
    same = not any(isinstance(each, Reg) and each.name in ctx.varying for each in groups[0])
    way: Way = ""
    if fixed and len(groups) == 1:
        way = ("number" if same else "scan") if wants_old else "reduce"
    if one and op == "add" and not wants_old:
        way = "count"
    access.cost = _shared_cost(op, kind, size, way)
    spins = op not in ("cas", "exch") and (size == 8 or kind in ("f32", *HALVES))
    operations = {
        "shared": Operation(op, kind),
        # The manual, at `atom`: global memory flushes subnormal float32, shared keeps them.
        "global": Operation(op, kind, flush=kind == "f32"),
    }
    operations["local"] = operations["shared"]
    rt, looks_on = ctx.rt, wants_old and op in ("cas", "exch")

    @writes_itself
    def run(R: Registers, M: Mask) -> None:
        memory, index, space = access.locate(R, M)
        lanes = rt.lanes
        on = lanes.full(M)
        where = np.broadcast_to(index, lanes.shape)[on]
        if spins and space == "shared":
            site.meets += _meet(on, where * size // max(size, 4))
        follows = rt.stores is not None and space == "global"
        if follows and looks_on:
            rt.stores.forget(access.first(where), size * access.count)
        for at in range(access.count):
            values = [
                np.broadcast_to(unsigned(R[group[at]], size).view(dtype), lanes.shape)[on]
                for group in slots
            ]
            with rt.lock if space == "global" else nullcontext():
                before = memory[at:].take(where) if rt.probing or follows else None
                old = apply(
                    memory[at:], where, values[0], values[-1], operations[space],
                    wants_old=wants_old,
                )  # fmt: skip
                if before is not None:
                    kind_ = UNSIGNED[size]
                    changed = before.view(kind_) != memory[at:].take(where).view(kind_)
                    rt.changes += bool(rt.probing and changed.any())
                    if follows and not looks_on:
                        rt.stores.atomic(site, access.first(where, at), changed, size, M)
            if targets and old is not None:
                out = np.zeros(lanes.shape, UNSIGNED[size])
                out[on] = old.view(UNSIGNED[size])
                put(R, M, targets[at], out, size)

    return run
