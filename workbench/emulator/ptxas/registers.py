"""Which moves of PTX are instructions: where one register cannot serve both names.

PTX moves a value wherever two ways meet. ptxas gives both names one register, unless the
value moved is needed afterwards as well. A literal is put where it is used, and written
to a register only if other values of that register follow it; zeros are cleared two
registers at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from workbench.emulator.ptx.flow import BasicBlock, ControlFlow, arguments, results
from workbench.emulator.ptx.instructions import Imm, Instr, Reg
from workbench.emulator.ptxas.divergence import walk


def needed_after(graph: ControlFlow) -> dict[int, set[str]]:
    """BasicBlock -> registers that are read after it before they are written."""
    reads: dict[int, set[str]] = {}
    writes: dict[int, set[str]] = {}
    blocks = [graph.blocks[index] for index in graph.order]
    for block in blocks:
        read: set[str] = set()
        written: set[str] = set()
        for _, instr in walk([block]):
            read.update(name for name in arguments(instr) if name not in written)
            if instr.guard is None:
                written.update(results(instr))
        reads[block.index], writes[block.index] = read, written
    start = {index: set(read) for index, read in reads.items()}
    after: dict[int, set[str]] = {index: set() for index in reads}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            index = block.index
            after[index] = set().union(*(start.get(goal, set()) for goal in block.targets))
            found = reads[index] | (after[index] - writes[index])
            if found != start[index]:
                start[index], changed = found, True
    return after


def copies(graph: ControlFlow) -> dict[int, float]:
    """Machine instructions of each ``mov`` between registers or from a literal, by its ``id``."""
    makers: dict[str, list[Instr]] = defaultdict(list)
    for _, instr in walk(graph.blocks[index] for index in graph.order):
        for name in results(instr):
            makers[name].append(instr)
    after = needed_after(graph)
    out: dict[int, float] = {}
    for index in graph.order:
        out |= _of_block(graph.blocks[index], makers, after[index])
    return out


def _of_block(
    block: BasicBlock, makers: Mapping[str, list[Instr]], after: set[str]
) -> dict[int, float]:
    needed = set(after)
    if block.last is not None:
        needed.update(arguments(block.last))
    out: dict[int, float] = {}
    zeros: list[int] = []
    values = _literals(block, makers)
    for instr in reversed(block.instrs):
        names = results(instr)
        if instr.op == "mov" and len(names) == 1 and isinstance(instr.operands[1], Imm | Reg):
            name, source = names[0], instr.operands[1]
            literal = values.get(id(instr))
            written = len(makers[name]) > 1 and name in after and name in needed
            out[id(instr)] = 0.0
            if literal is not None and written:
                out[id(instr)] = 1.0
                if literal.bits == 0:
                    zeros.append(id(instr))
            elif literal is None and written and isinstance(source, Reg):
                out[id(instr)] = 1.0 if source.name in needed else 0.0
        if instr.guard is None:
            needed.difference_update(names)
        needed.update(arguments(instr))
    if len(zeros) > 1:
        out.update(dict.fromkeys(zeros, 0.5))
    return out


def _literals(block: BasicBlock, makers: Mapping[str, list[Instr]]) -> dict[int, Imm]:
    """Moves of the block whose value is a literal, directly or through other moves of it."""
    now: dict[str, Imm] = {}
    out: dict[int, Imm] = {}
    for instr in block.instrs:
        found: Imm | None = None
        if instr.op == "mov" and instr.guard is None:
            source = instr.operands[1]
            if isinstance(source, Imm):
                found = source
            elif isinstance(source, Reg):
                found = now.get(source.name)
                made = makers.get(source.name, [])
                if found is None and len(made) == 1 and made[0].op == "mov":
                    only = made[0].operands[1]
                    found = only if isinstance(only, Imm) else None
        for name in results(instr):
            now.pop(name, None)
            if found is not None:
                now[name] = found
        if found is not None:
            out[id(instr)] = found
    return out
