"""Where machine code loads a kernel's parameters from constant memory.

PTX loads a parameter once and keeps it in a register. ptxas does not: since compute
capability 9.0 most instructions cannot read constant memory themselves, and a load of it
is cheaper than a register. So what a block uses is loaded there, unless every way to it
has loaded it since the last loop began or ended; two neighbours of four bytes are one
load. What lies on the way that every warp takes through an innermost loop is loaded before
the loop. A block that has become predicates on its instructions shares what the way around
it uses, but loads pointers, and anything else, once more under its predicate. The index of
the thread and its like (S2R) are treated as parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import ControlFlow, arguments, makers, results, walk
from workbench.emulator.ptx.instructions import Addr, Instr, Reg, Sym, Variable, layout
from workbench.emulator.ptxas.divergence import final, innermost, leaves

_WORD = 8
#: A division reads the sign and the size of its divisor, which must lie in a register.
_IN_REGISTER = ("div", "rem")
_COPIES = ("cvta", "mov")


def held(blocks: Sequence[BasicBlock], params: Sequence[Variable]) -> dict[str, int]:
    """Registers that only ever hold a parameter -> its offset; special registers below zero."""
    place, _ = layout(params)
    made = makers(blocks)
    out: dict[str, int] = {}
    special: dict[str, int] = {}
    for _, instr in walk(blocks):
        names = results(instr)
        if instr.op == "ld" and "param" in instr.parts:
            where = instr.operands[1]
            if isinstance(where, Addr) and isinstance(where.base, Sym):
                start = place.get(where.base.name, 0) + where.offset
                step = int("".join(c for c in instr.parts[-1] if c.isdigit()) or 32) // 8
                for number, name in enumerate(names):
                    if len(made[name]) == 1:
                        out[name] = start + number * step
        elif instr.op in _COPIES and instr.guard is None and len(made[names[0]]) == 1:
            source = instr.operands[1]
            if isinstance(source, Reg) and source.name in out:
                out[names[0]] = out[source.name]
            elif (
                isinstance(source, Reg) and source.name.startswith("%") and source.name not in made
            ):
                out[names[0]] = special.setdefault(source.name, -_WORD * (1 + len(special)))
    return out


def joined_blocks(graph: ControlFlow, host: Mapping[int, int]) -> dict[int, int]:
    """Block -> the first of the blocks that are one in machine code.

    Args:
        graph: The kernel.
        host: Predicated block -> the block whose branch it replaces.
    """
    first = {block.index: block.index for block in graph.blocks}
    for index in graph.order:
        block = graph.blocks[index]
        if index in host:
            continue
        around = any(host.get(goal) == index for goal in block.targets)
        exits = any(leaves(graph.blocks[goal]) for goal in block.targets)
        if block.kind == "branch" and not around and not exits:
            continue
        for goal in block.targets:
            # Its ways in are this block and the predicated one after it, or this one alone.
            ways = 2 if around else 1
            if (
                goal not in host
                and len(graph.before[goal]) == ways
                and graph.blocks[goal].loops == block.loops
            ):
                first[goal] = first[index]
    return first


def loads(graph: ControlFlow, params: Sequence[Variable], host: Mapping[int, int]) -> list[Instr]:
    """The loads of parameters: for each the instruction that it is made for, or before which.

    Args:
        graph: The kernel.
        params: Its parameters, in order.
        host: Predicated block -> the block whose branch it replaces.
    """
    blocks = graph.ordered
    known = held(blocks, params)
    size = {
        start: each.size for each, start in zip(params, layout(params)[0].values(), strict=True)
    }
    loop = innermost(graph)
    passed = above(graph)
    ahead: dict[int, set[int]] = defaultdict(set)  # header -> words loaded before the loop
    here: list[tuple[int, int, bool, Instr]] = []
    for block, instr in walk(blocks):
        names = results(instr)
        if instr.op in _COPIES and names and names[0] in known:
            continue
        index = block.index
        for start in sorted({known[name] for name in arguments(instr) if name in known}):
            word = start // _WORD
            if index in loop and index not in host and instr.op not in _IN_REGISTER:
                ahead[loop[index]].add(word)
            else:
                # An address is added in registers, so that a shared copy does not serve.
                here.append((index, word, size.get(start, 4) < _WORD, instr))
    out = [instr for head, words in ahead.items() for instr in entries(graph, head) for _ in words]
    there: set[tuple[int, int]] = set()  # (block, word) that the way through the block loads
    there.update((index, word) for index, word, _, _ in here if index not in host)
    seen: set[tuple[int, int]] = set()
    for index, word, shares, instr in here:
        if index in host:
            around = {host[index], *passed[host[index]]}
            found = shares and (
                word in ahead[loop.get(index, -1)] or any((each, word) in there for each in around)
            )
        else:
            found = any((each, word) in there for each in passed[index])
        if not found and (index, word) not in seen:
            seen.add((index, word))
            out.append(instr)
    return out


def above(graph: ControlFlow) -> dict[int, set[int]]:
    """Blocks that every way to a block has passed, with no loop begun or ended since."""
    passed: dict[int, set[int]] = {}
    part: dict[int, int] = {}  # number of the stretch of code without loops in it
    number = 0
    for place, index in enumerate(graph.order):
        ways = [
            passed[each] | {each}
            for each in graph.before[index]
            if 0 <= graph.blocks[each].rank < place
        ]
        passed[index] = set.intersection(*ways) if ways else set()
        if place and graph.blocks[graph.order[place - 1]].loops != graph.blocks[index].loops:
            number += 1
        part[index] = number
    return {
        index: {each for each in found if part[each] == part[index]}
        for index, found in passed.items()
    }


def entries(graph: ControlFlow, head: int) -> list[Instr]:
    """The last instructions of the blocks from which a loop is entered."""
    return [
        last
        for block in graph.blocks
        if head in block.targets and head not in block.loops and block.rank >= 0
        if (last := final(block)) is not None
    ]
