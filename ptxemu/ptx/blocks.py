"""The basic blocks of a kernel as a graph: what comes before, after and around each.

Blocks are named by their index; those that nothing leads to have no rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ptxemu.ptx.instructions import Instr

#: What ends a block: a wait is for something else than the threads of a block.
Ending = Literal["jump", "branch", "exit", "barrier", "switch", "wait"]


@dataclass(slots=True)
class BasicBlock:
    """Straight-line code and how it ends.

    `targets` are block indices: branch -> (taken, not taken); barrier, wait -> (next,).
    """

    index: int
    instrs: list[Instr] = field(default_factory=list)
    kind: Ending = "jump"
    last: Instr | None = None  # the branch, barrier or exit itself
    targets: tuple[int, ...] = ()
    rank: int = -1  # position in ControlFlow.order; -1: unreachable
    loops: frozenset[int] = frozenset()  # headers of the loops around it
    nounroll: bool = False

    @property
    def every(self) -> list[Instr]:
        """All instructions, the last one included."""
        return self.instrs if self.last is None else [*self.instrs, self.last]


def came_from(blocks: list[BasicBlock]) -> list[list[int]]:
    """Block -> the blocks that lead to it."""
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for goal in block.targets:
            before[goal].append(block.index)
    return before


def passed_after(blocks: list[BasicBlock], order: list[int]) -> dict[int, set[int]]:
    """Block -> the blocks that every way from it to an end goes through, itself included."""
    after = {index: set(order) for index in order}
    changed = True
    while changed:
        changed = False
        for index in reversed(order):
            ways = [after[goal] for goal in blocks[index].targets]
            new = set.intersection(*ways) | {index} if ways else {index}
            if new != after[index]:
                after[index], changed = new, True
    return after


def reachable(blocks: list[BasicBlock]) -> list[set[int]]:
    """Block -> the blocks that can be reached after it."""
    out = []
    for block in blocks:
        seen: set[int] = set()
        stack = list(block.targets)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                stack.extend(blocks[index].targets)
        out.append(seen)
    return out


def dominators(
    blocks: list[BasicBlock], order: list[int], before: list[list[int]]
) -> list[set[int]]:
    """For each block those that every way to it goes through, itself included."""
    everything = set(order)
    dominators = [set(everything) for _ in blocks]
    dominators[order[0]] = {order[0]}
    changed = True
    while changed:
        changed = False
        for index in order[1:]:
            sets = [dominators[p] for p in before[index] if p in everything]
            new = set.intersection(*sets) | {index} if sets else {index}
            if new != dominators[index]:
                dominators[index], changed = new, True
    return dominators


def ranked(blocks: list[BasicBlock]) -> list[int]:
    """Reverse postorder, noted in the blocks; successors that leave more loops come later."""
    seen, out = {0}, []

    def successors(index: int) -> list[int]:
        loops = blocks[index].loops
        return sorted(set(blocks[index].targets), key=lambda t: (len(loops & blocks[t].loops), -t))

    stack = [(0, iter(successors(0)))]
    while stack:
        index, pending = stack[-1]
        for goal in pending:
            if goal not in seen:
                seen.add(goal)
                stack.append((goal, iter(successors(goal))))
                break
        else:
            out.append(index)
            stack.pop()
    out.reverse()
    for rank, index in enumerate(out):
        blocks[index].rank = rank
    return out


def note_loops(blocks: list[BasicBlock], over: list[set[int]], before: list[list[int]]) -> None:
    """Note in each block the heads of the natural loops around it."""
    for block in blocks:
        for head in block.targets:
            if head not in over[block.index] or block.rank < 0:
                continue
            body, stack = {head}, [block.index]
            while stack:
                index = stack.pop()
                if index not in body:
                    body.add(index)
                    stack.extend(before[index])
            for index in body:
                blocks[index].loops |= {head}
