"""Which branches may part a warp, and what ptxas makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import ControlFlow
from workbench.emulator.ptx.instructions import Instr

#: A branch around at most so many machine instructions becomes predicates on them; around
#: loads from device memory, which are then made early, it may be more (and one more loads
#: their pointer), but none in a loop that has another in it.
_PREDICATED = 8
_WITH_LOADS = 18
_NEAR = ("shared", "param", "const")


def fences(graph: ControlFlow, differing: set[str], plain: Collection[int]) -> dict[int, bool]:
    """Blocks whose branch may part a warp that comes together again: BSSY before, BSYNC after.

    A branch to where a fence ends that was put up before needs none of its own, but where it
    parts a warp, each part comes to that BSYNC.

    Args:
        graph: The kernel.
        differing: Registers of `varying`.
        plain: Blocks whose branch is none in machine code.

    Returns:
        For each such block, whether its branch has a fence of its own.
    """
    out: dict[int, bool] = {}
    open_until: dict[int, set[int]] = {}  # where a fence ends -> what lies behind its branch
    for index in graph.order:
        block = graph.blocks[index]
        guard = block.last.guard if block.last is not None else None
        if block.kind != "branch" or index in plain or guard is None or guard.name not in differing:
            continue
        if any(graph.blocks[goal].rank <= block.rank for goal in block.targets):
            continue
        one, two = ({goal} | graph.reach[goal] for goal in block.targets)
        both = [
            each
            for each in one & two
            if graph.blocks[each].rank > block.rank and not leaves(graph.blocks[each])
        ]
        if not both:
            continue
        end = min(both, key=lambda each: graph.blocks[each].rank)
        out[index] = index not in open_until.get(end, ())
        if out[index]:
            open_until.setdefault(end, set()).update(graph.reach[index])
    return out


def leaves(block: BasicBlock) -> bool:
    """Does a thread that comes to this block just end?"""
    return block.kind == "exit" and not block.instrs


def hammocks(graph: ControlFlow, size: Callable[[BasicBlock], float]) -> Iterator[tuple[int, int]]:
    """Branches that only skip a few instructions: (block of the branch, block skipped).

    Args:
        graph: The kernel.
        size: Machine instructions of a block.
    """
    near = innermost(graph)
    for block in graph.blocks:
        if block.kind != "branch" or block.rank < 0:
            continue
        taken, after = block.targets
        inner = graph.blocks[after]
        if (
            inner.kind == "jump"
            and inner.targets == (taken,)
            and len(graph.before[after]) == 1
            and not leaves(graph.blocks[taken])
            and size(inner) <= _limit(inner, near)
        ):
            yield block.index, after


def _limit(block: BasicBlock, near: Collection[int]) -> float:
    """Machine instructions of the largest block that becomes predicates in this place."""
    loads = any(
        instr.op == "ld" and not any(part.split("::")[0] in _NEAR for part in instr.parts[1:])
        for instr in block.instrs
    )
    if not loads:
        return _PREDICATED
    return _WITH_LOADS if block.index in near or not block.loops else 0.0


def innermost(graph: ControlFlow) -> dict[int, int]:
    """Blocks of loops that have no loop in them -> the loop's header."""
    depth: dict[int, int] = defaultdict(int)
    for block in graph.blocks:
        for head in block.loops:
            depth[head] = max(depth[head], len(block.loops))
    out = {}
    for block in graph.blocks:
        for head in block.loops:
            if depth[head] == len(graph.blocks[head].loops) == len(block.loops):
                out[block.index] = head
    return out


def final(block: BasicBlock) -> Instr | None:
    """The last instruction of a block, its branch included."""
    return block.every[-1] if block.every else None


def exits(blocks: Sequence[BasicBlock]) -> tuple[list[int], list[int]]:
    """How threads end: `ret`s that nobody comes to, and instructions with an EXIT after them.

    A branch to the end is EXIT under a predicate, so only who goes on comes to another.

    Args:
        blocks: The kernel's.
    """
    never: list[int] = []
    once: list[int] = []
    for end in blocks:
        into = [block for block in blocks if end.index in block.targets]
        if not leaves(end) or end.last is None or not into:
            continue
        if any(block.kind == "branch" and block.loops for block in into):
            continue  # the end of a loop: every warp comes there once
        never.append(id(end.last))
        once += [id(last) for block in into if block.kind == "jump" and (last := final(block))]
    return never, once
