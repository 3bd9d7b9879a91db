"""Loops that wait for what another thread does, read off the code.

A loop may wait whose end depends on a load that may not be kept in a register, or on an atomic
that changes nothing while it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ptxemu.ptx.flow import (
    BasicBlock,
    ControlFlow,
    arguments,
    makers,
)
from ptxemu.ptx.instructions import Imm, Instr, registers_of, space_of

#: Loads that may not be kept in a register, or that pass by the first cache.
_FRESH = frozenset(("volatile", "relaxed", "acquire", "mmio", "cv", "cg"))
Makers = Mapping[str, list[Instr]]
#: Atomics that a thread may repeat until another has done something.
_POLLS = frozenset(("exch", "or", "and", "xor", "min", "max"))
#: Opcodes that change memory, or what a later wait sees, and do not tell `Runtime.changes`.
_UNTOLD = frozenset(
    ("cp", "wmma", "wgmma", "stmatrix", "mbarrier", "tensormap", "multimem", "setmaxnreg", "printf")
)


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
