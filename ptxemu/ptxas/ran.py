"""How often the PTX of a launch ran, by lines of PTX, as the machine's counts follow from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ptxemu.ptx.flow import ControlFlow
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import CodeSite


class Ran(Protocol):
    """What is known of one instruction of a launch: `ptxemu.run.Executed`."""

    instr: Instr
    block: int
    warps: int
    site: CodeSite

    @property
    def on(self) -> int:
        """Threads whose guard was true."""


@dataclass(frozen=True, slots=True)
class PtxRuns:
    """What happened on each line of PTX, summed where a function was inlined several times.

    Attributes:
        warps: How often warps ran it.
        depth: Loops around it.
        block: A block that it stands in.
        op: Its opcode.
        calls: Warps that leave the common path of its routine.
        turns: Turns of the loop that it is on the machine, over warps or lanes.
        parted: Warps of which it is a branch that parts them.
        entries: Head of a loop -> warps that came to it from outside.
        loops: Block -> the heads of the loops around it, the outermost first.
    """

    warps: Counter[int]
    depth: dict[int, int]
    block: dict[int, int]
    op: dict[int, str]
    calls: Counter[int]
    turns: Counter[int]
    parted: Counter[int]
    entries: Counter[int]
    loops: dict[int, list[int]]


def ptx_runs(graph: ControlFlow, rows: Iterable[Ran]) -> PtxRuns:
    """Gather the rows of a launch by their lines."""
    warps, calls, turns, parted = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    depth, block, op = dict[int, int](), dict[int, int](), dict[int, str]()
    edges: defaultdict[tuple[int, int], int] = defaultdict(int)
    inside = {
        head: {each.index for each in graph.blocks if head in each.loops}
        for each in graph.blocks
        for head in each.loops
    }
    loops = {
        each.index: sorted(each.loops, key=lambda head: -len(inside[head])) for each in graph.blocks
    }
    for row in rows:
        line, instr = row.instr.ptx_line, row.instr
        warps[line] += row.warps
        depth[line] = min(depth.get(line, len(loops[row.block])), len(loops[row.block]))
        block[line], op[line] = row.block, instr.op
        calls[line] += row.site.calls
        turns[line] += row.site.spins or (row.on if _by_lane(instr) else 0)
        parted[line] += row.site.divergent
        here = graph.blocks[row.block]
        if here.last is instr and here.kind == "branch":
            taken = row.site.taken
            edges[row.block, here.targets[0]] += taken
            edges[row.block, here.targets[1]] += row.warps - taken + row.site.divergent
        elif here.every[-1] is instr:
            for goal in here.targets:
                edges[row.block, goal] += row.warps
    entries = Counter[int]()
    for (start, goal), often in edges.items():
        if goal in inside and start not in inside[goal]:
            entries[goal] += often
    return PtxRuns(warps, depth, block, op, calls, turns, parted, entries, loops)


def _by_lane(instr: Instr) -> bool:
    """Bulk copies take uniform operands: where lanes may differ, a loop goes lane by lane."""
    return instr.op == "cp" and "bulk" in instr.parts
