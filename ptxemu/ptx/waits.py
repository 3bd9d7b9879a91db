"""Find loops whose end another thread decides, and other code that depends on timing.

A loop may wait if its end depends on a load that must not be kept in a register, or on an atomic
that changes nothing while it fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from ptxemu.ptx.flow import BasicBlock, ControlFlow, holds, made_of, makers, passed_after, walk
from ptxemu.ptx.instructions import (
    CLOCKS,
    Addr,
    Imm,
    Instr,
    Operand,
    Reg,
    Sym,
    reached,
    registers_of,
    space_of,
)

#: Loads that must not be kept in a register, or that bypass the first-level cache.
_FRESH = frozenset(("volatile", "relaxed", "acquire", "mmio", "cv", "cg"))
Makers = Mapping[str, list[Instr]]
#: Atomics that a thread may repeat until another has done something.
_POLLS = frozenset(("exch", "or", "and", "xor", "min", "max"))
#: Opcodes that change memory, or state that a later wait sees, without `Runtime.changes`.
_UNTOLD = frozenset(
    ("cp", "wmma", "wgmma", "stmatrix", "mbarrier", "tensormap", "multimem", "setmaxnreg", "printf")
)


def untold(block: BasicBlock) -> bool:
    """Test whether a block may change memory without reporting to `Runtime.changes`."""
    return any(instr.op in _UNTOLD for instr in block.every)


@dataclass(frozen=True, slots=True)
class Polls:
    """The loops of a kernel that may wait for other threads, by the index of their first block.

    `others`: one of them may be for another block; `looks`: instructions, by ``id``, that check
    whether it is over.
    """

    at: frozenset[int] = frozenset()
    others: bool = False
    looks: frozenset[int] = frozenset()


def polls_of(graph: ControlFlow) -> Polls:
    """Loops that may wait."""
    at, others, looks = set[int](), False, set[int]()
    for head in sorted({head for block in graph.ordered for head in block.loops}):
        body = [block for block in graph.ordered if head in block.loops]
        fresh = list(_looks(body))
        if fresh and any(
            instr.op == "ld" or any(instr is each for each in fresh) for instr in _ending(body)
        ):
            at.add(head)
            deciding = {id(instr) for instr in _ending(body)}
            looks |= {id(instr) for instr in fresh if id(instr) in deciding}
            others |= any(
                not _is_clock(instr) and space_of(instr) not in ("shared", "local")
                for instr in fresh
            )
    return Polls(frozenset(at), others, frozenset(looks))


def end_of(graph: ControlFlow, head: int) -> Instr:
    """The branch that ends a loop; without one, the first instruction of the loop."""
    body = [block for block in graph.ordered if head in block.loops]
    inside = {block.index for block in body}
    ends = (block.last for block in body if not inside.issuperset(block.targets))
    return next((last for last in ends if last is not None), graph.blocks[head].every[0])


def _is_clock(instr: Instr) -> bool:
    return instr.op == "mov" and not CLOCKS.keys().isdisjoint(instr.reads)


def _looks(body: list[BasicBlock]) -> Iterator[Instr]:
    """Instructions of a loop that read data that others may have written."""
    made = makers(body)
    for block in body:
        for instr in block.every:
            loads = instr.op == "ld" and not _FRESH.isdisjoint(instr.parts)
            if loads or _is_clock(instr) or (instr.op == "atom" and _may_fail(instr, made)):
                yield instr


def _may_fail(instr: Instr, makers_of: Makers) -> bool:
    """Test whether an atomic may leave memory unchanged repeatedly.

    A swap that starts from the loop's own read will not: it fails only if another thread's has
    succeeded.
    """
    operand = instr.operands[2] if len(instr.operands) > 2 else None
    if "cas" in instr.parts:
        start = registers_of(operand) if operand is not None else ()
        return not any(each.op in ("ld", "atom") for each in _behind(start, makers_of))
    if "add" in instr.parts:
        return isinstance(operand, Imm) and operand.bits == 0
    return not _POLLS.isdisjoint(instr.parts)


def _ending(body: list[BasicBlock]) -> Iterator[Instr]:
    """Instructions of a loop on which its end depends."""
    inside = {block.index for block in body}
    ends = (block for block in body if block.last and not inside.issuperset(block.targets))
    names = [name for block in ends if block.last for name in block.last.reads]
    return _behind(names, makers(body))


def _behind(names: Iterable[str], makers_of: Makers) -> Iterator[Instr]:
    """Instructions of a loop from which registers are computed."""

    def sources(name: str) -> list[str]:
        return [each for maker in makers_of.get(name, ()) for each in maker.reads]

    for name in reached(names, sources):
        yield from makers_of.get(name, ())


# --- Instructions whose executions depend on the timing of warps ---
# Found in the code: loops whose end depends on the result of an atomic (retried swaps, locks) or on
# a load that must not be kept in a register (waits, look-backs). Everything in such a loop counts,
# and so do blocks chosen by a branch on such a load, or on the result of a swap or another atomic
# that is not a sum: the first thread runs them. The number of iterations on a chip depends on which
# warps meet; the emulator runs one order of many. Tickets (sums) are excluded: timing decides who
# draws which, but each is drawn once. If a ticket is a place in an array and warps draw different
# numbers of them, a warp's elements begin where earlier ones ended, so the number of sectors
# depends on timing too, unless tickets are a whole number of sectors apart.

#: Loads that see other threads' writes.
_STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio", "cv"))
#: Opcodes whose result is a sum or a multiple of an operand, or one of two.
_CARRIES = frozenset(("mov", "cvt", "cvta", "add", "sub", "selp", "shfl", "mul", "mad", "shl"))
_SECTOR = 32


def schedule_dependent_blocks(graph: ControlFlow) -> set[int]:
    """Basic blocks, by index, whose executions depend on timing: in loops, after branches."""
    out = _chosen(graph)
    for head in sorted({head for block in graph.ordered for head in block.loops}):
        body = [block for block in graph.ordered if head in block.loops]
        barrier = any(block.kind == "barrier" for block in body)
        if any(_meets(instr, barrier) for instr in _deciding(body, head)):
            out |= {block.index for block in body}
    return out


def schedule_dependent_places(graph: ControlFlow, evenly: AbstractSet[int]) -> set[int]:
    """Accesses to global memory, by ``id``, at a place that depends on a ticket.

    `evenly`: atomics, by ``id``, that every warp runs with the same number of lanes.
    """
    made = makers(graph.ordered)
    alike = {
        id(instr)
        for _, instr in walk(graph.ordered)
        if instr.op == "atom" and id(instr) in evenly and _constant(instr.operands[-1], made)
    }
    apart: dict[str | tuple[str, int], int] = {}  # registers with tickets: their distance
    changed = True
    while changed:
        changed = False
        for _, instr in walk(graph.ordered):
            found = None if id(instr) in alike else _apart(instr, apart)
            if found is None:
                continue
            for goal in _variables(instr) if instr.op == "st" else instr.writes:
                now = math.gcd(apart.get(goal, 0), found)
                changed |= goal not in apart or now != apart[goal]
                apart[goal] = now
    return {
        id(instr)
        for _, instr in walk(graph.ordered)
        if instr.op in ("ld", "st", "atom", "red") and space_of(instr) in ("global", "")
        for operand in instr.operands
        if isinstance(operand, Addr) and isinstance(operand.base, Reg)
        if apart.get(operand.base.name, 0) % _SECTOR
    }


def _constant(operand: Operand, made: Mapping[str, Sequence[Instr]]) -> bool:
    """Test for a literal or a parameter."""
    by = made.get(operand.name, ()) if isinstance(operand, Reg) else ()
    known = len(by) == 1 and (by[0].op == "mov" or by[0].parts[:2] == ("ld", "param"))
    return isinstance(operand, Imm) or (known and not isinstance(by[0].operands[1], Reg))


def _apart(instr: Instr, apart: dict[str | tuple[str, int], int]) -> int | None:
    """The distance of the tickets in a result (0: any); None: it holds no ticket."""
    if instr.op == "atom" and _sums(instr):
        step = instr.operands[-1]
        return abs(step.bits) if isinstance(step, Imm) else 1
    if instr.op == "ld":
        return next((apart[each] for each in _variables(instr) if each in apart), None)
    if instr.op == "st":
        value = instr.operands[1]
        return apart.get(value.name) if isinstance(value, Reg) else None
    if instr.op not in _CARRIES:
        return None
    given = [apart.get(each.name) if isinstance(each, Reg) else None for each in instr.operands[1:]]
    if all(each is None for each in given):
        return None
    if instr.op in ("mul", "mad", "shl"):
        first, second = instr.operands[1:3]
        factor = second.bits if isinstance(second, Imm) else 0
        if instr.op == "shl":  # a value shifted by a ticket may be anywhere
            factor = 1 << factor if isinstance(second, Imm) and 0 <= factor < 64 else 0
        elif isinstance(first, Imm):
            factor = first.bits
        product = math.gcd(*(each for each in given[:2] if each is not None)) * factor
        held = any(each is not None for each in given[:2])
        rest = [each for each in given[2:] if each is not None]
        return math.gcd(*rest, *([product] if held else []))
    return math.gcd(*(each for each in given if each is not None))


def _variables(instr: Instr) -> list[tuple[str, int]]:
    """The variables that an access to shared memory names, with places in them."""
    return [
        (operand.base.name, operand.offset)
        for operand in instr.operands
        if isinstance(operand, Addr) and isinstance(operand.base, Sym)
        if space_of(instr) == "shared"
    ]


def _chosen(graph: ControlFlow) -> set[int]:
    """Blocks whose execution depends on an earlier action of another warp."""
    barrier = any(block.kind == "barrier" for block in graph.ordered)
    told = made_of(graph.ordered, lambda instr: _meets(instr, barrier) and not _sums(instr))
    forks = [
        block
        for block in graph.ordered
        if len(set(block.targets)) > 1 and block.last and not told.isdisjoint(block.last.reads)
    ]
    after = passed_after(graph.blocks, graph.order) if forks else {}
    out = set[int]()

    def ways(passed: int, at: int) -> list[int]:
        """The next blocks, except those that all pass and those already included."""
        goals = graph.blocks[at].targets
        return [goal for goal in goals if not holds(passed, goal) and goal not in out]

    for fork in forks:
        behind = partial(ways, after[fork.index])
        out |= reached(behind(fork.index), behind)
    return out


def _sums(instr: Instr) -> bool:
    """True for an atomic that counts, and so hands out tickets."""
    return instr.op == "atom" and not {"add", "inc", "dec"}.isdisjoint(instr.parts)


def _meets(instr: Instr, barrier: bool) -> bool:
    """Test whether the result depends on earlier actions of other warps.

    Shared memory is in a known state where a block's threads meet (in every iteration of a loop).
    """
    if instr.op == "atom" or _is_clock(instr):
        return True
    strong = instr.op == "ld" and not _STRONG.isdisjoint(instr.parts)
    return strong and space_of(instr) != "local" and not (barrier and space_of(instr) == "shared")


def _deciding(body: list[BasicBlock], head: int) -> Iterator[Instr]:
    """Instructions of a loop that decide whether it continues."""
    inside = {block.index: block for block in body}
    makers: dict[str, list[tuple[BasicBlock, Instr]]] = {}
    for block in body:
        for instr in block.every:
            for name in instr.writes:
                makers.setdefault(name, []).append((block, instr))
    parts = [
        (block, [_within(inside, goal, head) for goal in block.targets])
        for block in body
        if len(set(block.targets)) > 1
    ]
    left = [
        (block, block.last)
        for block in body
        if block.last is not None and not inside.keys() >= set(block.targets)
    ]
    seen = set[int]()
    while left:
        block, instr = left.pop()
        if id(instr) in seen:
            continue
        seen.add(id(instr))
        yield instr
        for name in instr.reads:
            left += makers.get(name, ())
        for fork, ways in parts:  # and those that decide whether it runs at all
            on = [block.index in way for way in ways]
            if fork.last is not None and any(on) and not all(on):
                left.append((fork, fork.last))


def _within(inside: dict[int, BasicBlock], start: int, head: int) -> set[int]:
    """Blocks of a loop that are reached from one of them in the same iteration."""

    def own(goals: Iterable[int]) -> list[int]:
        return [goal for goal in goals if goal in inside and goal != head]

    return reached(own([start]), lambda index: own(inside[index].targets))
