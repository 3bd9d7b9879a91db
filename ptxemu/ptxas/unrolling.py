"""Loops that ptxas makes in pieces, and how lanes whose turns differ go through them.

A loop of one block that counts by a literal towards something that stays is unrolled by four:
where the number of turns is only known to the launch, a loop of four turns comes first, then a
block of two, then the loop as it was. Which loops are, the machine code says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from ptxemu.pieces import PIECES, LoopTurns
from ptxemu.program import Program
from ptxemu.ptx.blocks import BasicBlock
from ptxemu.ptx.flow import arguments, results
from ptxemu.ptx.instructions import Imm, Instr, Reg
from ptxemu.ptxas.blocks import machine_blocks
from ptxemu.sass.opcodes import MachineInstr, Sign

_ADDS = ("add", "sub")
#: Comparisons of a counter that grows, and of one that falls.
_UP, _DOWN = ("lt", "lo", "le", "ls", "ne"), ("gt", "hi", "ge", "hs", "ne")


def in_pieces(program: Program, code: Sequence[MachineInstr]) -> None:
    """Note the loops that ptxas makes in pieces and whose lanes may differ in their turns.

    Args:
        program: The kernel as it was compiled for a launch.
        code: Its machine code; empty where that is not known.
    """
    ends = [each for each in program.codes if each.block.index in each.block.targets]
    if not code or not any(each.guard >= 0 for each in ends):
        return
    copies = _copies(code, {i.ptx_line: i.op for each in ends for i in each.block.instrs})
    for each in ends:
        held = [copies[i.ptx_line] for i in each.block.instrs if i.ptx_line in copies]
        if not held or not _is_cut(held):
            continue
        test = _test(each.block)
        step = _counter(test, each.block.instrs) if test is not None else None
        if test is not None and step is not None:
            names = {operand.name for operand in test.operands[1:] if isinstance(operand, Reg)}
            if not names.isdisjoint(program.ctx.varying):
                each.turns = _turns_of(program, each.block.index, test, step)


def _copies(code: Sequence[MachineInstr], ops: dict[int, str]) -> dict[int, Counter[int]]:
    """Line of PTX -> how often each block of the machine code makes it, of lines with an effect."""
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for number, span in enumerate(machine_blocks(code).spans):
        for at in span:
            each = code[at]
            if each.sign(ops.get(each.ptx_line, "")) in (Sign.EFFECT, Sign.ARITHMETIC):
                found[each.ptx_line][number] += 1
    return dict(found)


def _is_cut(held: Sequence[Counter[int]]) -> bool:
    """Are there copies in as many blocks as there are pieces, as many in each as it has turns?"""
    sizes = [sorted(each.values(), reverse=True) for each in held]
    return all(
        median(each[place] if place < len(each) else 0 for each in sizes) == piece
        for place, piece in enumerate(PIECES)
    )


def _test(block: BasicBlock) -> Instr | None:
    """The comparison that decides on another turn, if it is one and nothing else."""
    guard = block.last.guard.name if block.last is not None and block.last.guard else ""
    found = [instr for instr in block.instrs if guard in results(instr)]
    return found[0] if len(found) == 1 and found[0].op == "setp" else None


def _counter(test: Instr, inside: Sequence[Instr]) -> Instr | None:
    """What moves the register on that counts the turns, if the loop counts at all."""
    made = Counter(name for instr in inside for name in results(instr))
    names = [each.name for each in test.operands[1:] if isinstance(each, Reg)]
    if not names or made[names[0]] != 1 or any(made[name] for name in names[1:]):
        return None
    step = next(instr for instr in inside if names[0] in results(instr))
    return step if _steps(step) and step.guard is None else None


def _steps(instr: Instr) -> bool:
    """Does an instruction move a register on by a literal?"""
    names = results(instr)
    return (
        instr.op in _ADDS
        and len(names) == 1
        and names[0] in arguments(instr)
        and any(isinstance(operand, Imm) for operand in instr.operands[1:])
    )


def _turns_of(program: Program, index: int, test: Instr, step: Instr) -> LoopTurns | None:
    """How the turns of a loop of one block are counted, if they can be."""
    code, ctx = program.codes[index], program.ctx
    block = code.block
    counter, limit = test.operands[1:3]
    kind = test.parts[-1]
    places = [id(instr) for instr in block.instrs]
    if (
        code.polls
        or kind not in ("s32", "u32", "s64", "u64")
        or not isinstance(counter, Reg)
        or places.index(id(step)) > places.index(id(test))
    ):
        return None
    # The jump back may be asked for by what the comparison denies: such a loop is left alone.
    asked = next((part for part in test.parts if part in (*_UP, *_DOWN)), "")
    moved = _moved(step, int(kind[1:]))
    if code.negated or block.targets[0] != index or asked not in (_UP if moved > 0 else _DOWN):
        return None
    fixed = isinstance(limit, Imm)
    where = limit.bits if isinstance(limit, Imm) else ctx.slot(limit, int(kind[1:]) // 8)
    return LoopTurns(
        ctx.register(counter.name), where, fixed, moved, asked, kind[0] == "s", int(kind[1:]) // 8
    )


def _moved(instr: Instr, width: int) -> int:
    number = next(each.bits for each in instr.operands[1:] if isinstance(each, Imm))
    signed = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return -signed if instr.op == "sub" else signed
