"""Loops with several ways back to one head: where their lanes meet.

What decides that a way back is taken is the last branch before it that may lead elsewhere.
Where elsewhere goes back to the head as well (``continue``), ptxas lets the lanes meet before they
go back; so it does where every way back may leave the loop for good instead. Where elsewhere
may do either, as in a search that goes down as far as it can and then leaves or comes back up, the
way back ends a loop of its own, inside of the other. Read off kernels compiled by ptxas 13.0
for 9.0.
"""

from __future__ import annotations

from collections import defaultdict

from ptxemu.ptx.blocks import (
    BasicBlock,
    came_from,
    dominators,
    passed_after,
    ranked,
    reachable,
)


class _Loops:
    """The ways back to heads of loops in a graph as it is."""

    def __init__(self, blocks: list[BasicBlock]) -> None:
        self.blocks = blocks
        self.before = came_from(blocks)
        self.order = ranked(blocks)
        self.over = dominators(blocks, self.order, self.before)
        self.back: dict[int, list[int]] = defaultdict(list)
        for index in self.order:
            for head in sorted(set(blocks[index].targets) & self.over[index]):
                self.back[head].append(index)

    def decided(self, head: int, latch: int, after: dict[int, set[int]]) -> tuple[int, list[int]]:
        """The branch that decides on a way back, and where else it may lead."""
        for at in sorted(self.over[latch], key=lambda each: -len(self.over[each])):
            if head not in self.over[at]:
                break
            targets = self.blocks[at].targets
            goals = [head] if at == latch else [goal for goal in targets if latch in after[goal]]
            ways = [goal for goal in targets if goal not in goals]
            if ways:
                return at, ways
        return head, []

    def between(self, start: list[int], head: int) -> set[int]:
        """Blocks on ways from some blocks to a head."""
        seen, stack = {head}, list(start)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                stack.extend(self.blocks[index].targets)
        return seen - {head}


def meeting_again(blocks: list[BasicBlock]) -> None:
    """Give ways back to one head what ptxas makes of them: a meeting, or loops in each other.

    Blocks without instructions are added, to which branches lead instead.
    """
    while True:
        loops = _Loops(blocks)
        several = {head: ways for head, ways in loops.back.items() if len(ways) > 1}
        if not several:
            return
        after, reach = passed_after(blocks, loops.order), reachable(blocks)
        if not any(_parted(loops, head, after, reach) for head in several):
            return


def _parted(loops: _Loops, head: int, after: dict[int, set[int]], reach: list[set[int]]) -> bool:
    """One step for one head: does it change anything?"""
    latches = loops.back[head]
    own: list[tuple[int, int]] = []
    continued: list[tuple[int, set[int]]] = []
    for latch in latches:
        at, ways = loops.decided(head, latch, after)
        depth = len(loops.over[at])
        if ways and all(head in after[way] for way in ways):
            meeting = {latch} | (set(latches) & loops.between(ways, head))
            continued.append((depth, meeting))
        elif any(head == way or head in reach[way] for way in ways):
            own.append((depth, latch))
    innermost = max(continued, default=(0, set()), key=lambda each: each[0])[1]
    if len(innermost) > 1:
        _lead(loops.blocks, head, sorted(innermost))
    elif not own and not continued:
        _lead(loops.blocks, head, latches)
    elif own and len(own) < len(latches) and head != loops.order[0]:
        inner = {latch for depth, latch in own if depth == min(own)[0]}
        _lead(loops.blocks, head, [each for each in loops.before[head] if each not in inner])
    else:
        return False
    return True


def _lead(blocks: list[BasicBlock], head: int, sources: list[int]) -> None:
    """Let the ways from some blocks to a head go through one new block."""
    new = BasicBlock(len(blocks), targets=(head,))
    blocks.append(new)
    for at in sources:
        targets = blocks[at].targets
        blocks[at].targets = tuple(new.index if goal == head else goal for goal in targets)
