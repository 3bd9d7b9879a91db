"""Loops that wait for what another thread does: which they are, and when they stand still.

A loop stands still when an iteration left its registers, its lanes and all memory as they
were. Only another thread can end it then, so it rests until every other thread has had its
turn; where all rest and nobody has changed anything, they wait for ever. That needs no
guess of what the loop is for. Which loops may wait for another block is read off the code:
those whose end depends on a load that may not be kept in a register, or on an atomic that
changes nothing while it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptxemu.ptx.flow import (
    BasicBlock,
    ControlFlow,
    arguments,
    makers,
)
from ptxemu.ptx.instructions import Imm, Instr, registers_of, space_of
from ptxemu.state.context import Registers, Runtime
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Affine, Array, Value

if TYPE_CHECKING:
    from ptxemu.program import Code

#: Loads that may not be kept in a register, or that pass by the first cache.
_FRESH = frozenset(("volatile", "relaxed", "acquire", "mmio", "cv", "cg"))
Makers = Mapping[str, list[Instr]]
#: Atomics that a thread may repeat until another has done something.
_POLLS = frozenset(("exch", "or", "and", "xor", "min", "max"))
#: Opcodes that change memory, or what a later wait sees, and do not tell `Runtime.changes`.
_UNTOLD = frozenset(
    ("cp", "wmma", "wgmma", "stmatrix", "mbarrier", "tensormap", "multimem", "setmaxnreg", "printf")
)
#: Iterations before a loop is looked at, and between two looks at most.
_FIRST, _RARELY = 64, 4096
#: A look that finds no second arrival after so many instructions has missed the loop's end.
_LOST = 20_000


def untold(block: BasicBlock) -> bool:
    """May a block change memory without a word to `Runtime.changes`?"""
    return any(instr.op in _UNTOLD for instr in block.every)


@dataclass(frozen=True, slots=True)
class Polls:
    """The loops of a kernel that may wait for other threads, by the index of their first block.

    `others`: one of them may be for another block.
    """

    at: frozenset[int] = frozenset()
    others: bool = False


def polls_of(graph: ControlFlow) -> Polls:
    """Which loops may wait."""
    at, others = set[int](), False
    for head in sorted({head for block in graph.ordered for head in block.loops}):
        body = [block for block in graph.ordered if head in block.loops]
        fresh = list(_looks(body))
        if fresh and _decides(body, fresh):
            at.add(head)
            others |= any(space_of(instr) not in ("shared", "local") for instr in fresh)
    return Polls(frozenset(at), others)


def end_of(graph: ControlFlow, head: int) -> Instr:
    """The branch that ends a loop; where nothing does, its first instruction."""
    body = [block for block in graph.ordered if head in block.loops]
    inside = {block.index for block in body}
    ends = (block.last for block in body if not inside.issuperset(block.targets))
    return next((last for last in ends if last is not None), graph.blocks[head].every[0])


def _looks(body: list[BasicBlock]) -> Iterator[Instr]:
    """Instructions of a loop that look at what others may have written."""
    made = makers(body)
    for block in body:
        for instr in block.every:
            loads = instr.op == "ld" and not _FRESH.isdisjoint(instr.parts)
            if loads or (instr.op == "atom" and _may_fail(instr, made)):
                yield instr


def _may_fail(instr: Instr, makers_of: Makers) -> bool:
    """May an atomic leave memory as it was, again and again?

    A swap that starts from what the loop read will not: it fails only where another
    thread's has succeeded.
    """
    operand = instr.operands[2] if len(instr.operands) > 2 else None
    if "cas" in instr.parts:
        start = registers_of(operand) if operand is not None else ()
        return not any(each.op in ("ld", "atom") for each in _behind(start, makers_of))
    if "add" in instr.parts:
        return isinstance(operand, Imm) and operand.bits == 0
    return not _POLLS.isdisjoint(instr.parts)


def _decides(body: list[BasicBlock], fresh: list[Instr]) -> bool:
    """Does the end of a loop depend on what it looks at, be it through other memory?"""
    inside = {block.index for block in body}
    ends = (block for block in body if block.last and not inside.issuperset(block.targets))
    names = [name for block in ends if block.last for name in arguments(block.last)]
    return any(
        instr.op == "ld" or any(instr is each for each in fresh)
        for instr in _behind(names, makers(body))
    )


def _behind(names: Iterable[str], makers_of: Makers) -> Iterator[Instr]:
    """Instructions of a loop that registers come from."""
    left, seen = list(names), set[str]()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            for instr in makers_of.get(name, ()):
                yield instr
                left += arguments(instr)


# --- while it runs


@dataclass(slots=True)
class _Loop:
    """Lanes that go round a loop together, and what they were when last looked at."""

    mask: Mask
    rounds: int = 0
    look: int = _FIRST  # the round at which it is looked at next
    values: list[Value | None] | None = None
    changes: int = 0


class Resting:
    """The loops of one batch that stand still, by the rank of their first block."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self.asleep: dict[int, Mask] = {}
        #: Has any lane got on since this was last set to False?
        self.moved = True
        self._loops: dict[int, _Loop] = {}
        self._looks, self._since = 0, 0  # how many, and the instructions at the first
        self._woken: dict[int, Mask] | None = None
        self._changes = 0

    def arrive(self, code: Code, mask: Mask, R: Registers, steps: int, *, busy: bool) -> bool:
        """Lanes come to a loop's first block: do they rest there?

        Args:
            code: The block.
            mask: The lanes.
            R: Registers.
            steps: Instructions of the batch so far.
            busy: Others could run.
        """
        rank, alive = code.block.rank, code.alive
        assert alive is not None
        loop = self._loops.get(rank)
        if loop is None or loop.mask is not mask:
            if loop is not None and loop.values is not None:
                self._looked(loop)
            self._loops[rank] = _Loop(mask, look=_FIRST if self._woken is None else 0)
            return False
        loop.rounds += 1
        if loop.values is not None:
            same = loop.changes == self.rt.changes and all(
                _same(old, R[slot], mask) for old, slot in zip(loop.values, alive, strict=True)
            )
            self._looked(loop)
            loop.look = loop.rounds + min(loop.rounds, _RARELY)
            if same:
                return self._rest(rank, mask)
        if code.polls and loop.rounds >= _FIRST and (busy or self.asleep):
            self.moved = True
            return self._rest(rank, mask)
        if loop.rounds >= loop.look:
            loop.values, loop.changes = [R[slot] for slot in alive], self.rt.changes
            self._looks += 1
            self._since = steps if self._looks == 1 else self._since
            self.rt.probing = True
        elif self._looks and self._woken is None and steps > self._since + _LOST:
            for each in self._loops.values():  # their lanes have left
                each.values = None
            self._looks, self.rt.probing = 0, False
        return False

    def _looked(self, loop: _Loop) -> None:
        loop.values = None
        self._looks -= 1
        self.rt.probing = self._looks > 0 or self._woken is not None

    def _rest(self, rank: int, mask: Mask) -> bool:
        held = self.asleep.get(rank)
        self.asleep[rank] = mask if held is None else self.rt.lanes.union(held, mask)
        del self._loops[rank]
        return True

    def wake(self) -> dict[int, Mask]:
        """Those that rest are to run again; empty where that has just been tried in vain."""
        rt = self.rt
        if self._woken == self.asleep and not self.moved and self._changes == rt.changes:
            self._woken = None
            return {}
        woken, self.asleep = self.asleep, {}
        self._woken, self._changes, self.moved = woken, rt.changes, False
        self._loops.clear()
        self._looks, rt.probing = 0, True
        return woken


def _same(old: Value | None, new: Value | None, mask: Mask) -> bool:
    """Do two register values agree in the lanes of a mask?"""
    if old is new:
        return True
    if old is None or new is None:
        return False
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    one, two = _bits(old), _bits(new)
    if isinstance(old, int):
        one = one.astype(two.dtype)
    elif isinstance(new, int):
        two = two.astype(one.dtype)
    if one.dtype != two.dtype:
        return False
    differ = one != two
    return not (differ if mask.arr is None else differ & mask.arr).any()


def _bits(value: Value) -> Array:
    if isinstance(value, int):
        return np.array([[value]], np.uint64)
    array = value.array() if isinstance(value, Affine) else value
    return array if array.dtype.kind in "bu" else array.view(f"u{array.itemsize}")
