"""The basic blocks of machine code, and which of them run as often as each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxemu.ptx.blocks import (
    BasicBlock,
    came_from,
    dominators,
    note_loops,
    passed_after,
    ranked,
)
from ptxemu.sass.opcodes import BSYNC, CALL, EXIT, RET, MachineInstr


@dataclass(frozen=True, slots=True)
class MachineBlocks:
    """The blocks of a function by number.

    Attributes:
        code: All instructions of the function.
        spans: Numbers of each block's instructions.
        order: Those that are reached from the start, in reverse postorder; what only calls or
            lanes that have parted come to is not among them.
        before: Block -> the blocks that lead to it.
        after: Block -> those that it leads to.
        loops: Block -> the heads of the loops around it.
        over: Block -> those that every way to it goes through, itself included.
        under: Block -> those that every way from it goes through, itself included.
    """

    code: Sequence[MachineInstr]
    spans: list[range]
    order: list[int]
    before: list[list[int]]
    after: list[tuple[int, ...]]
    loops: list[frozenset[int]]
    over: list[set[int]]
    under: dict[int, set[int]]

    def alike(self, one: int, two: int) -> bool:
        """Does whatever runs one of two blocks run the other as well, and as often?"""
        return self.loops[one] == self.loops[two] and (
            (one in self.over[two] and two in self.under[one])
            or (two in self.over[one] and one in self.under[two])
        )


def machine_blocks(code: Sequence[MachineInstr]) -> MachineBlocks:
    """The control flow of a function."""
    starts = {0}
    for number, each in enumerate(code):
        if each.target >= 0:
            starts.add(each.target)
        if each.ends:
            starts.add(number + 1)
        elif each.opcode == BSYNC:
            starts.add(number)  # where parts of a warp come together
    firsts = sorted(start for start in starts if 0 <= start < len(code))
    spans = [range(a, b) for a, b in zip(firsts, [*firsts[1:], len(code)], strict=True)]
    index = {span.start: number for number, span in enumerate(spans)}
    end = len(spans)  # where the kernel ends, a block of its own
    blocks = [
        BasicBlock(number, targets=_targets(code[span.stop - 1], number + 1, index, end))
        for number, span in enumerate(spans)
    ]
    blocks.append(BasicBlock(end))
    before = came_from(blocks)
    order = ranked(blocks)
    over = dominators(blocks, order, before)
    note_loops(blocks, over, before)
    under = passed_after(blocks, order)
    after = [tuple(goal for goal in block.targets if goal != end) for block in blocks]
    reached = [number for number in order if number != end]
    known = set(reached)
    before = [[each for each in comes if each in known] for comes in before]
    return MachineBlocks(
        code, spans, reached, before, after, [block.loops for block in blocks], over, under
    )


def _targets(
    last: MachineInstr, following: int, index: dict[int, int], end: int
) -> tuple[int, ...]:
    """Where a block with this last instruction leads to."""
    goals = []
    if last.target in index and last.opcode != CALL and not last.apart:
        goals.append(index[last.target])
    if last.opcode in (EXIT, RET):
        goals.append(end)
    if last.conditional or last.apart or not last.ends or last.opcode == CALL:
        goals.append(following)
    return tuple(dict.fromkeys(goals))
