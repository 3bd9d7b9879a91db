"""Instructions that run as often as the timing of warps has it.

Read off the code: loops whose end depends on what an atomic gave back (swaps that are tried
again, locks) or on a load that may not be kept in a register (waits, look-backs). Everything
in such a loop counts. How often it goes round on a chip depends on which warps meet; the
emulator runs one order of many.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.emulator.ptx.flow import BasicBlock, ControlFlow, arguments, results
from workbench.emulator.ptx.instructions import Instr, space_of

#: Loads that see what other threads write meanwhile.
_STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio", "cv"))


def timed_blocks(graph: ControlFlow) -> set[int]:
    """Basic blocks, by index, of loops whose number of turns depends on timing."""
    out = set[int]()
    for head in sorted({head for block in graph.ordered for head in block.loops}):
        body = [block for block in graph.ordered if head in block.loops]
        barrier = any(block.kind == "barrier" for block in body)
        if any(_meets(instr, barrier) for instr in _deciding(body, head)):
            out |= {block.index for block in body}
    return out


def _meets(instr: Instr, barrier: bool) -> bool:
    """Does the result depend on what other warps did before?

    What a block shares is read in a known state where its threads meet in every turn.
    """
    if instr.op == "atom":
        return True
    strong = instr.op == "ld" and not _STRONG.isdisjoint(instr.parts)
    return strong and space_of(instr) != "local" and not (barrier and space_of(instr) == "shared")


def _deciding(body: list[BasicBlock], head: int) -> Iterator[Instr]:
    """Instructions of a loop on which it depends whether it goes on."""
    inside = {block.index: block for block in body}
    makers: dict[str, list[tuple[BasicBlock, Instr]]] = {}
    for block in body:
        for instr in block.every:
            for name in results(instr):
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
        for name in arguments(instr):
            left += makers.get(name, ())
        for fork, ways in parts:  # and what chooses whether it runs at all
            on = [block.index in way for way in ways]
            if fork.last is not None and any(on) and not all(on):
                left.append((fork, fork.last))


def _within(inside: dict[int, BasicBlock], start: int, head: int) -> set[int]:
    """Blocks of a loop that are reached from one of them in the same turn."""
    seen, left = set[int](), [start]
    while left:
        index = left.pop()
        if index in inside and index != head and index not in seen:
            seen.add(index)
            left += inside[index].targets
    return seen
