"""Loops that ptxas unrolls by itself, and how often their own instructions then run.

A loop of one block that counts by a literal towards something that stays is unrolled by
four. Where the number of turns is only known to the launch, a loop of four turns comes
first, then a block of two, then the loop as it was, each behind a test of what is left.
Where PTX gives the number, its largest divisor up to four is used, and no test is needed.
The steps, the comparison and the jump are made once for each piece, everything else in
every turn. A body that has predicated blocks in it counts as one block, if it
stores nothing. What may not be repeated out of order (atomics, copies on the side) and
bodies that would become too large are left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.emulator.pieces import LoopTurns
from workbench.emulator.program import Program
from workbench.emulator.ptx.blocks import BasicBlock
from workbench.emulator.ptx.flow import ControlFlow, arguments, makers, results
from workbench.emulator.ptx.instructions import Imm, Instr, Reg

#: Machine instructions of the largest body that is unrolled.
_LARGEST = 37
_FACTOR = 4
#: Tests and flags that choose among the pieces, once each time the loop is entered.
_TESTS = 10.0
_ALONE = ("atom", "red", "cp", "membar", "fence", "shfl", "vote", "match", "bar", "barrier")
_ADDS = ("add", "sub")


@dataclass(slots=True)
class Unrolled:
    """One loop: the blocks it is entered from and the instructions of its own."""

    block: int
    test: Instr  # whether another turn follows
    step: Instr  # of its counter
    entries: list[int] = field(default_factory=list)
    own: set[int] = field(default_factory=set)  # ids of instructions
    last: int = 0  # id of its branch
    known: bool = False  # its number of turns stands in PTX
    exact: bool = True  # it ends where its counter meets the end, not where it has passed it

    def share(self, ran: Mapping[int, float]) -> float:
        """Part of the turns in which the loop's own instructions run.

        Args:
            ran: Block -> warps that ran it.
        """
        turns = round(self.turns(ran))
        if turns < 1:
            return 1.0
        if self.known:
            return 1 / max(piece for piece in range(1, _FACTOR + 1) if turns % piece == 0)
        left = turns % _FACTOR
        # Towards a limit that may be passed, one last turn is known to be the last.
        rest = left // 2 + left % 2 if self.exact else left // 2 / 2
        return (turns // _FACTOR + rest) / turns

    def turns(self, ran: Mapping[int, float]) -> float:
        """Turns each time the loop is entered."""
        entered = sum(ran.get(entry, 0) for entry in self.entries)
        return ran.get(self.block, 0) / entered if entered else 1.0

    def tests(self, ran: Mapping[int, float]) -> float:
        """Instructions a turn that choose among the pieces."""
        return 0.0 if self.known else _TESTS / max(self.turns(ran), 1.0)


def unrolled(
    graph: ControlFlow,
    first: Mapping[int, int],
    host: Mapping[int, int],
    size: Callable[[BasicBlock], float],
) -> list[Unrolled]:
    """The loops of a kernel that ptxas unrolls.

    Args:
        graph: The kernel.
        first: `workbench.emulator.ptxas.constants.joined_blocks` of it.
        host: Predicated block -> the block whose branch it replaces.
        size: Machine instructions of a block.
    """
    blocks = graph.ordered
    made = makers(blocks)
    out = []
    for block in blocks:
        head = next((goal for goal in block.targets if goal in block.loops), None)
        if block.kind != "branch" or head is None or block.nounroll:
            continue
        body = [each for each in blocks if head in each.loops]
        inside = [instr for each in body for instr in each.instrs]
        test = _test(block)
        step = _counter(test, inside) if test is not None else None
        stores = len(body) > 1 and any(instr.op == "st" for instr in inside)
        if (
            any(each.index not in host and first[each.index] != first[head] for each in body)
            or step is None
            or stores
            or any(instr.op in _ALONE or "volatile" in instr.parts for instr in inside)
            or sum(size(each) for each in body) > _LARGEST
        ):
            continue
        assert block.last is not None and test is not None
        own = {id(instr) for instr in inside if _own(instr, block.last)}
        starts = [each for name in results(step) for each in made[name] if id(each) not in own]
        known = isinstance(test.operands[-1], Imm) and all(
            each.op == "mov" and isinstance(each.operands[1], Imm) for each in starts
        )
        entries = [
            other.index for other in blocks if head in other.targets and head not in other.loops
        ]
        own.add(id(block.last))
        exact = "ne" in test.parts
        out.append(Unrolled(block.index, test, step, entries, own, id(block.last), known, exact))
    return out


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


def _own(instr: Instr, last: Instr) -> bool:
    guard = last.guard.name if last.guard is not None else ""
    return _steps(instr) or guard in results(instr)


# --- what lanes make of the pieces

#: Comparisons of a counter that grows, and of one that falls.
_UP, _DOWN = ("lt", "lo", "le", "ls", "ne"), ("gt", "hi", "ge", "hs", "ne")


def turns_of(loop: Unrolled, program: Program) -> LoopTurns | None:
    """How the turns of a loop are counted, if it is one block and they can be."""
    code, ctx = program.codes[loop.block], program.ctx
    block, test = code.block, loop.test
    counter, limit = test.operands[1:3]
    kind = test.parts[-1]
    places = [id(instr) for instr in block.instrs]
    if (
        block.index not in block.targets
        or code.polls
        or kind not in ("s32", "u32", "s64", "u64")
        or not isinstance(counter, Reg)
        or places.index(id(loop.step)) > places.index(id(test))
    ):
        return None
    # The jump back may be asked for by what the comparison denies: such a loop is left alone.
    asked = next((part for part in test.parts if part in (*_UP, *_DOWN)), "")
    step = _step(loop.step, int(kind[1:]))
    if code.negated or block.targets[0] != block.index or asked not in (_UP if step > 0 else _DOWN):
        return None
    fixed = isinstance(limit, Imm)
    where = limit.bits if isinstance(limit, Imm) else ctx.slot(limit, int(kind[1:]) // 8)
    return LoopTurns(
        ctx.register(counter.name), where, fixed, step, asked, kind[0] == "s", int(kind[1:]) // 8
    )


def _step(instr: Instr, width: int) -> int:
    number = next(each.bits for each in instr.operands[1:] if isinstance(each, Imm))
    signed = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return -signed if instr.op == "sub" else signed
