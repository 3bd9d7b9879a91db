"""Which branches may part a warp, and what ptxas makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from workbench.emulator.cfg import Block, Graph, arguments, results
from workbench.emulator.ir import Instr

#: A branch around at most so many instructions becomes predicates on them.
_PREDICATED = 7
#: What gives each lane a value of its own.
_PER_LANE = ("ld", "atom", "shfl", "match", "ldmatrix", "mma", "wmma")
_LANES = ("%tid", "%laneid", "%lanemask")


def walk(blocks: Iterable[Block]) -> Iterator[tuple[Block, Instr]]:
    """Every instruction with its block, branches included."""
    for block in blocks:
        for instr in block.instrs:
            yield block, instr
        if block.last is not None:
            yield block, block.last


def varying(blocks: list[Block]) -> set[str]:
    """Registers that may differ between the lanes of a warp."""
    found: set[str] = set()
    changed = True
    while changed:
        before = len(found)
        for _, instr in walk(blocks):
            own = instr.op in _PER_LANE and "param" not in instr.parts
            if own or any(name in found or name.startswith(_LANES) for name in arguments(instr)):
                found.update(results(instr))
        changed = len(found) > before
    return found


def fenced(graph: Graph, block: Block, differing: set[str]) -> bool:
    """May the branch at the block's end part a warp that comes together again?"""
    guard = block.last.guard if block.last is not None else None
    if guard is None or guard.name not in differing:
        return False
    if any(graph.blocks[goal].rank <= block.rank for goal in block.targets):
        return False
    one, two = ({goal} | graph.reach[goal] for goal in block.targets)
    return any(not _leaves(graph.blocks[index]) for index in one & two)


def _leaves(block: Block) -> bool:
    return block.kind == "exit" and not block.instrs


def hammocks(graph: Graph) -> Iterator[tuple[int, int]]:
    """Branches that only skip a few instructions: (block of the branch, block skipped)."""
    before: Counter[int] = Counter()
    for block in graph.blocks:
        before.update(block.targets)
    for block in graph.blocks:
        if block.kind != "branch" or block.rank < 0:
            continue
        taken, after = block.targets
        inner = graph.blocks[after]
        if (
            inner.kind == "jump"
            and inner.targets == (taken,)
            and before[after] == 1
            and len(inner.instrs) <= _PREDICATED
        ):
            yield block.index, after
