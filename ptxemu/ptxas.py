"""Effects of ptxas on a kernel: the loops that it cut, and the instructions that are issued.

Input: a compiled kernel, its machine code (`sass`) and its PTX's executions. No result of a kernel
depends on it: `issued` and `in_pieces` are its interface.

ptxas moves, copies, joins and removes instructions. But those with an effect run exactly as often
as their PTX, and each instruction names its line of PTX. So the block that has a line's access ran
as often as the line. If several blocks have it, as in an unrolled loop, the sum of their executions
is the line's. The rest follows from the control flow of the machine code: from blocks that run
equally often, and from the executions that neighbouring blocks leave for a block.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np

from ptxemu.compiled import PIECES, CompiledKernel, LoopTrips
from ptxemu.ops.routines import QUOTIENTS, always_called, call_of
from ptxemu.ptx.flow import (
    BasicBlock,
    ControlFlow,
    came_from,
    dominators,
    holds,
    note_loops,
    passed_after,
    ranked,
)
from ptxemu.ptx.instructions import Imm, Instr, Reg, reached
from ptxemu.sass import (
    BRA,
    BSYNC,
    CALL,
    EXIT,
    RET,
    Functions,
    MachineInstr,
    Sign,
    calls_ptx,
    routines_of,
)
from ptxemu.state.context import CodeSite

# --- The executions of a launch's PTX, by line of PTX, from which machine counts follow ---------


class Ran(Protocol):
    """The record of one instruction of a launch: `ptxemu.run.Executed`."""

    instr: Instr
    block: int
    warps: int
    site: CodeSite

    @property
    def on(self) -> int:
        """Threads whose guard was true."""


@dataclass(frozen=True, slots=True)
class PtxRuns:
    """Counts of each line of PTX, summed over the inlined copies of a function."""

    warps: Counter[int]  # executions by warps
    depth: dict[int, int]  # loops around it
    block: dict[int, int]  # a block that contains it
    op: dict[int, str]  # its opcode
    calls: Counter[int]  # warps that call one of ptxas's routines
    called: dict[int, Instr]  # the calling instruction
    turns: Counter[int]  # iterations of its machine loop, over warps or lanes
    parted: Counter[int]  # warps that diverge at it, if it is a branch
    entries: Counter[int]  # head of a loop -> warps that entered it from outside
    loops: dict[int, list[int]]  # block -> the heads of the loops around it, the outermost first


def ptx_runs(graph: ControlFlow, rows: Iterable[Ran]) -> PtxRuns:
    """Gather the rows of a launch by their lines."""
    warps, calls, turns, parted = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    depth, block, op = dict[int, int](), dict[int, int](), dict[int, str]()
    called = dict[int, Instr]()
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
        if calling := row.warps if always_called(instr) else row.site.calls:
            calls[line] += calling
            called[line] = instr
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
    return PtxRuns(warps, depth, block, op, calls, called, turns, parted, entries, loops)


def _by_lane(instr: Instr) -> bool:
    """Bulk copies take uniform operands: if lanes may differ, a loop runs lane by lane."""
    return instr.op == "cp" and "bulk" in instr.parts


# --- The basic blocks of machine code, and those that run equally often ----------------


@dataclass(frozen=True, slots=True)
class MachineBlocks:
    """The blocks of a function by number."""

    code: Sequence[MachineInstr]  # all instructions of the function
    spans: list[range]  # numbers of each block's instructions
    #: The blocks reached from the start, in reverse postorder; without those that only calls or
    #: diverged lanes reach.
    order: list[int]
    before: list[list[int]]  # block -> the blocks that lead to it
    after: list[tuple[int, ...]]  # block -> those that it leads to
    loops: list[frozenset[int]]  # block -> the heads of the loops around it
    #: Block -> those (`holds`) on every path to it, itself included.
    over: dict[int, int]
    #: Block -> those (`holds`) on every path from it, itself included.
    under: dict[int, int]

    def alike(self, one: int, two: int) -> bool:
        """Test whether two blocks always run together and equally often."""
        return self.loops[one] == self.loops[two] and (
            (holds(self.over[two], one) and holds(self.under[one], two))
            or (holds(self.over[one], two) and holds(self.under[two], one))
        )


def machine_blocks(code: Sequence[MachineInstr]) -> MachineBlocks:
    """The control flow of a function, with those of its callees that are PTX as well."""
    routines: defaultdict[int, list[int]] = defaultdict(list)
    for number, each in enumerate(code):
        if calls_ptx(code, number):
            routines[each.target].append(number)
    calls = {number for each in routines.values() for number in each}
    starts = {0}
    for number, each in enumerate(code):
        if each.target >= 0:
            starts.add(each.target)
        if each.ends:
            starts.add(number + 1)
        elif each.opcode == BSYNC:
            starts.add(number)  # where parts of a warp reconverge
    firsts = sorted(start for start in starts if 0 <= start < len(code))
    spans = [range(a, b) for a, b in zip(firsts, [*firsts[1:], len(code)], strict=True)]
    index = {span.start: number for number, span in enumerate(spans)}
    end = len(spans)  # the kernel's end, a separate block

    def targets(number: int) -> tuple[int, ...]:
        at = spans[number].stop - 1
        if at in calls:  # in a routine that is followed: it returns to the places after the calls
            return (index[code[at].target],)
        entry = max((each for each in routines if each <= at), default=None)
        if code[at].opcode == RET and entry is not None:
            return tuple(index[each + 1] for each in routines[entry] if each + 1 in index)
        return _targets(code[at], number + 1, index, end)

    blocks = [BasicBlock(number, targets=targets(number)) for number in range(len(spans))]
    blocks.append(BasicBlock(end))
    before = came_from(blocks)
    order = ranked(blocks)
    over = dominators(order, before)
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
    """The successors of a block with this last instruction."""
    goals = []
    if last.target in index and last.opcode != CALL and not last.apart:
        goals.append(index[last.target])
    if last.opcode in (EXIT, RET):
        goals.append(end)
    if last.conditional or last.apart or not last.ends or last.opcode == CALL:
        goals.append(following)
    return tuple(dict.fromkeys(goals))


#: Rounds in which counts are divided among blocks that contain the same lines.
_ROUNDS = 300
#: Passes of flow from the known blocks.
_PASSES = 3


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Evidence of a block's instructions."""

    #: Line of PTX -> how many times the block contains it, for lines that are evidence.
    held: Mapping[int, float]
    #: Count -> instructions whose line ran this often, unless it is deeper in loops.
    near: Mapping[int, int]
    closing: int | None  # executions of the line of its branch or end; None: no evidence


def block_counts(blocks: MachineBlocks, runs: PtxRuns) -> list[float]:
    """Executions of each block of a function, in warps; 0 for unreachable blocks."""
    known: dict[int, float] = {}
    evidence: dict[int, _Evidence] = {}
    pieces = _pieces(blocks, runs)
    for number in blocks.order:
        own = _of_one_line(blocks, runs, number)
        if own is not None:
            known[number] = own
        else:
            evidence[number] = _evidence(blocks, runs, number, pieces)
    for family in _families(evidence):
        known |= _shared_out(blocks, runs, family, evidence)
    _spread(blocks, known)
    for number, said in evidence.items():
        if number in known:
            continue
        if said.closing is not None:
            known[number] = float(said.closing)
        elif said.near:
            # Instructions moved here from a rarer place count too little: if tied, take the most.
            known[number] = float(max(said.near, key=lambda count: (said.near[count], count)))
    for _ in range(_PASSES):
        _spread(blocks, known)
        _flow(blocks, known)
    return [known.get(number, 0.0) for number in range(len(blocks.spans))]


def _of_one_line(blocks: MachineBlocks, runs: PtxRuns, number: int) -> float | None:
    """The count of a block within a routine, or within an instruction that is a loop."""
    code = [blocks.code[at] for at in blocks.spans[number]]
    called = [
        blocks.code[at].ptx_line
        for at in blocks.spans[number]
        if blocks.code[at].opcode == CALL and not calls_ptx(blocks.code, at)
    ]
    if called:
        return float(sum(runs.calls[line] for line in called))
    lines = {each.ptx_line for each in code}
    if blocks.loops[number] and len(lines) == 1:
        turns = runs.turns[lines.pop()]
        return float(turns) if turns else None
    return None


def _pieces(blocks: MachineBlocks, runs: PtxRuns) -> dict[tuple[int, int], int]:
    """(Line, opcode) of a `wmma` -> the number of such instructions that it becomes."""
    found: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for number in blocks.order:
        for at in blocks.spans[number]:
            each = blocks.code[at]
            if each.sign(runs.op.get(each.ptx_line, "")) is Sign.FRAGMENT:
                found[each.ptx_line, each.opcode][number] += 1
    return {key: min(counts.values()) for key, counts in found.items()}


def _evidence(
    blocks: MachineBlocks, runs: PtxRuns, number: int, pieces: Mapping[tuple[int, int], int]
) -> _Evidence:
    depth = len(blocks.loops[number])
    # Ordered by certainty, and by whether the line is as deep in loops as the block, or deeper: a
    # deeper one was moved out of its loop, unless the block has nothing else.
    held: dict[tuple[Sign, bool], defaultdict[int, float]]
    held = defaultdict(lambda: defaultdict(float))
    near: Counter[int] = Counter()
    closing = None
    for at in blocks.spans[number]:
        each = blocks.code[at]
        line = each.ptx_line
        if line not in runs.op:
            continue
        deeper = runs.depth[line] > depth
        if each.opcode in (BRA, EXIT):
            # An unconditional end may be one of many copies of it.
            if not deeper and (each.guarded if each.opcode == EXIT else runs.op[line] == "bra"):
                closing = runs.warps[line]
            continue
        if each.guarded:
            continue  # also issued by warps that do not need it
        if not deeper:
            near[runs.warps[line]] += 1
        sign = each.sign(runs.op[line])
        if sign is Sign.FRAGMENT:
            held[Sign.EFFECT, deeper][line] += 1 / pieces[line, each.opcode]
        elif sign is not Sign.NONE:
            held[sign, deeper][line] += 1
    sure = held[Sign.EFFECT, False]
    likely = _told(held[Sign.ARITHMETIC, False])
    taken_out = held[Sign.EFFECT, True]
    ways = (sure, {} if likely else taken_out, likely, _told(held[Sign.ARITHMETIC, True]))
    return _Evidence(next((way for way in ways if way), {}), near, closing)


def _told(lines: Mapping[int, float]) -> Mapping[int, float]:
    """Repeated arithmetic is a copy only if more than one line is repeated."""
    return dict.fromkeys(lines, 1.0) if len(lines) == 1 else lines


def _families(evidence: Mapping[int, _Evidence]) -> list[list[int]]:
    """Blocks that contain the same lines, directly or through other blocks."""
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for number, said in evidence.items():
        for line in said.held:
            holders[line].append(number)
    out: list[list[int]] = []
    for start, said in evidence.items():
        if said.held and not any(start in family for family in out):
            others = lambda at: [each for line in evidence[at].held for each in holders[line]]  # noqa: E731
            out.append(sorted(reached([start], others)))
    return out


def _shared_out(
    blocks: MachineBlocks, runs: PtxRuns, family: Sequence[int], evidence: Mapping[int, _Evidence]
) -> dict[int, float]:
    held = {number: evidence[number].held for number in family}
    if len(family) == 1:
        (number,) = family
        times = min(held[number].values())  # a line that occurs more often has several instructions
        each = [runs.warps[line] / times for line, n in held[number].items() if n == times]
        return {number: median(each)}
    unrolled = _unrolled(blocks, runs, held)
    if unrolled is not None:
        return unrolled
    lines = sorted({line for each in held.values() for line in each})
    makes = np.array([[held[number].get(line, 0) for number in family] for line in lines], float)
    ran = np.array([runs.warps[line] for line in lines], float)
    counts = np.full(len(family), max(ran.max(), 1.0))
    total = makes.sum(axis=0)
    for _ in range(_ROUNDS):  # towards the counts that give every line its number of executions
        counts = counts * (makes.T @ (ran / np.maximum(makes @ counts, 1e-9))) / total
    return dict(zip(family, counts.tolist(), strict=True))


def _unrolled(
    blocks: MachineBlocks, runs: PtxRuns, held: Mapping[int, Mapping[int, float]]
) -> dict[int, float] | None:
    """Counts of an unrolled loop's pieces: all iterations, as many as possible in the largest.

    None if these are not such pieces.
    """
    turns = {number: round(median(lines.values())) for number, lines in held.items()}
    lines = {line for each in held.values() for line in each}
    heads = set.intersection(*(set(runs.loops[runs.block[line]]) for line in lines))
    if len(set(turns.values())) == 1 or not heads:
        return None
    head = max(heads, key=lambda each: len(runs.loops[each]))
    entered = runs.entries[head]
    if not entered:
        return None
    whole, part = divmod(median(runs.warps[line] for line in lines) / entered, 1)
    others = {number: [blocks.loops[each] for each in held if each != number] for number in held}
    again = {
        number
        for number in held
        if any(all(loop not in loops for loops in others[number]) for loop in blocks.loops[number])
    }
    out = dict.fromkeys(held, 0.0)
    for left, share in ((whole, 1 - part), (whole + 1, part)):
        for number in sorted(held, key=lambda each: (-turns[each], each)):
            often = left // turns[number]
            often = often if number in again else min(1, often)
            out[number] += share * often * entered
            left -= often * turns[number]
    return out


def _spread(blocks: MachineBlocks, known: dict[int, float]) -> None:
    """Give known counts to blocks that run equally often, from the nearest."""
    told = sorted(known)
    for number in blocks.order:
        if number not in known:
            alike = [each for each in told if blocks.alike(each, number)]
            if alike:
                known[number] = known[min(alike, key=lambda each: abs(each - number))]


def _flow(blocks: MachineBlocks, known: dict[int, float]) -> None:
    """Derive the counts of blocks whose predecessors are all known, or that lead into a loop."""
    for number in blocks.order:
        if number in known:
            continue
        before, after = blocks.before[number], blocks.after[number]
        if len(after) == 1 and after[0] in known and blocks.loops[after[0]] > blocks.loops[number]:
            comes = math.fsum(known.get(each, 0.0) for each in before)
            known[number] = min(comes, known[after[0]]) if before else known[after[0]]
        elif all(each in known for each in before):
            known[number] = math.fsum(_part(blocks, known, each, number) for each in before)


def _part(blocks: MachineBlocks, known: Mapping[int, float], start: int, goal: int) -> float:
    """How often flow leaves block `start` for its successor `goal`."""
    others: Iterable[int] = [each for each in blocks.after[start] if each != goal]
    if not others:
        return known[start]
    if all(each in known and len(blocks.before[each]) == 1 for each in others):
        return max(0.0, known[start] - math.fsum(known[each] for each in others))
    return known[start] if blocks.loops[goal] < blocks.loops[start] else known[start] / 2


# --- The machine instructions that a launch issues, row of PTX by row ---

#: Instructions of the slow path of division: for zeros on an H200, its most common branch.
_ROUTINE = 34.0
#: Largest share of a count that may be missing before the count is unknown.
_LEFT_OUT = 0.05
#: Opcodes of accesses to memory through which ptxas may move registers: LDL, LDS, STL, STS.
_KEEPS = {
    0x183: ("local", False), 0x184: ("shared", False),
    0x187: ("local", True), 0x188: ("shared", True),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Calls of a routine whose instructions are not counted, since its paths differ in length."""

    instr: Instr  # the calling instruction in PTX
    calls: int  # warps that called
    most: float  # their most warp instructions; infinite if its code is not in the cubin

    @property
    def routine(self) -> str:
        """The called routine, in words."""
        return call_of(self.instr)


class OwnAccess(NamedTuple):
    """An access to local memory, or one to shared memory that is not from an access in PTX."""

    space: str  # ``local`` or ``shared``
    store: bool
    width: int  # bytes of a thread
    added: bool  # whether ptxas added it, as for a register spill
    warps: float


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine instructions that a launch would issue.

    Attributes:
        issued: Warp instructions of each requested row, in order.
        left_out: Calls that are not included.
        accesses: Those that move data that PTX has in registers or in local memory.
    """

    issued: tuple[float, ...]
    left_out: tuple[LeftOut, ...] = ()
    accesses: tuple[OwnAccess, ...] = ()

    @property
    def total(self) -> float:
        """Warp instructions of the launch, without those left out."""
        return math.fsum(self.issued)

    @property
    def complete(self) -> bool:
        """True if the instructions left out are too few to change the total."""
        return math.fsum(each.most for each in self.left_out) <= _LEFT_OUT * self.total


def issued(
    functions: Functions, kernel: str, graph: ControlFlow, rows: Iterable[Ran]
) -> MachineCode | None:
    """The machine instructions of a launch; None if its kernel's code is unknown.

    `rows` are all instructions of PTX with their counts.
    """
    if kernel not in functions:
        return None
    every = list(rows)
    runs = ptx_runs(graph, every)
    lines: defaultdict[int, float] = defaultdict(float)
    routines: dict[int, tuple[float, bool]] = {}
    places = {(row.instr.ptx_line, row.site.space) for row in every}
    accesses = []
    for name in (kernel, *_called(functions, kernel, runs)):
        for each, count in _of(functions[name], runs):
            lines[each.ptx_line] += count
            space, store = _KEEPS.get(each.opcode, ("", False))
            added = places.isdisjoint((each.ptx_line, one) for one in (space, "generic"))
            if count and (space == "local" or (space and added)):
                accesses.append(OwnAccess(space, store, each.width, added, count))
        routines |= routines_of(functions[name])
    left_out = []
    for line, instr in runs.called.items():
        most, straight = routines.get(line, (0.0, True))
        if straight or call_of(instr) == QUOTIENTS:
            lines[line] += runs.calls[line] * (most if straight else _ROUTINE)
        else:
            left_out.append(LeftOut(instr, runs.calls[line], runs.calls[line] * most))
    shares: defaultdict[int, float] = defaultdict(float)
    for row in every:
        shares[row.instr.ptx_line] += row.warps
    # Instructions without an executed row (the stack pointer, descriptors, values made in advance)
    # are counted at the first executed row.
    rest = math.fsum(count for line, count in lines.items() if not shares[line])
    first = next((number for number, row in enumerate(every) if row.warps), 0)
    out = [
        lines[row.instr.ptx_line] * row.warps / shares[row.instr.ptx_line] if row.warps else 0.0
        for row in every
    ]
    out[first] += rest
    return MachineCode(tuple(out), tuple(left_out), tuple(accesses))


def _called(functions: Functions, kernel: str, runs: PtxRuns) -> list[str]:
    """Functions that are not inlined, and have lines that ran."""
    own = {each.ptx_line for each in functions[kernel]}
    elsewhere = {line for line, count in runs.warps.items() if count and line not in own}
    return [
        name
        for name, code in functions.items()
        if name != kernel and any(each.ptx_line in elsewhere for each in code)
    ]


def _of(code: Sequence[MachineInstr], runs: PtxRuns) -> Iterator[tuple[MachineInstr, float]]:
    """Machine instructions with the number of times each was issued."""
    blocks = machine_blocks(code)
    for span, count in zip(blocks.spans, block_counts(blocks, runs), strict=True):
        yield from ((code[at], count) for at in span)
    if any(each.opcode == BSYNC for each in code):
        # Each part of a warp reaches the BSYNC where they meet.
        parts = {each.ptx_line: each for each in code if each.opcode == BRA and each.guarded}
        yield from ((each, float(runs.parted[line])) for line, each in parts.items())


# --- Loops that ptxas makes in pieces, and lanes with different numbers of iterations ---
# A loop of one block that counts by a literal towards a constant limit is unrolled by four: if the
# number of iterations is known only at launch, a loop of four iterations is first, then a block of
# two, then the original loop. The machine code shows which loops these are.

_ADDS = ("add", "sub")
#: Comparisons of a counter that grows, and of one that falls.
_UP, _DOWN = ("lt", "lo", "le", "ls", "ne"), ("gt", "hi", "ge", "hs", "ne")


def in_pieces(compiled: CompiledKernel, code: Sequence[MachineInstr]) -> None:
    """Note the loops that ptxas makes in pieces and whose lanes may differ in their iterations.

    `code` is the kernel's machine code; empty if it is unknown.
    """
    ends = [each for each in compiled.codes if each.block.index in each.block.targets]
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
            if not names.isdisjoint(compiled.ctx.varying):
                each.trips = _turns_of(compiled, each.block.index, test, step)


def _copies(code: Sequence[MachineInstr], ops: dict[int, str]) -> dict[int, Counter[int]]:
    """Line of PTX, if it has an effect -> how often each block of the machine code contains it."""
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for number, span in enumerate(machine_blocks(code).spans):
        for at in span:
            each = code[at]
            if each.sign(ops.get(each.ptx_line, "")) in (Sign.EFFECT, Sign.ARITHMETIC):
                found[each.ptx_line][number] += 1
    return dict(found)


def _is_cut(held: Sequence[Counter[int]]) -> bool:
    """Test whether each piece has one block, with as many copies as the piece has iterations."""
    sizes = [sorted(each.values(), reverse=True) for each in held]
    return all(
        median(each[place] if place < len(each) else 0 for each in sizes) == piece
        for place, piece in enumerate(PIECES)
    )


def _test(block: BasicBlock) -> Instr | None:
    """The comparison that decides on another iteration, if it does nothing else."""
    guard = block.last.guard.name if block.last is not None and block.last.guard else ""
    found = [instr for instr in block.instrs if guard in instr.writes]
    return found[0] if len(found) == 1 and found[0].op == "setp" else None


def _counter(test: Instr, inside: Sequence[Instr]) -> Instr | None:
    """The instruction that advances the loop's counter; None if the loop has no counter."""
    made = Counter(name for instr in inside for name in instr.writes)
    names = [each.name for each in test.operands[1:] if isinstance(each, Reg)]
    if not names or made[names[0]] != 1 or any(made[name] for name in names[1:]):
        return None
    step = next(instr for instr in inside if names[0] in instr.writes)
    return step if _steps(step) and step.guard is None else None


def _steps(instr: Instr) -> bool:
    """Test whether an instruction advances a register by a literal."""
    names = instr.writes
    return (
        instr.op in _ADDS
        and len(names) == 1
        and names[0] in instr.reads
        and any(isinstance(operand, Imm) for operand in instr.operands[1:])
    )


def _turns_of(compiled: CompiledKernel, index: int, test: Instr, step: Instr) -> LoopTrips | None:
    """The number of iterations of a one-block loop; None if it cannot be known."""
    code, ctx = compiled.codes[index], compiled.ctx
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
    # The jump back may be taken when the comparison is false: such a loop is left alone.
    asked = next((part for part in test.parts if part in (*_UP, *_DOWN)), "")
    moved = _moved(step, int(kind[1:]))
    if code.negated or block.targets[0] != index or asked not in (_UP if moved > 0 else _DOWN):
        return None
    fixed = isinstance(limit, Imm)
    where = limit.bits if isinstance(limit, Imm) else ctx.slot(limit, int(kind[1:]) // 8)
    return LoopTrips(
        ctx.register(counter.name), where, fixed, moved, asked, kind[0] == "s", int(kind[1:]) // 8
    )


def _moved(instr: Instr, width: int) -> int:
    number = next(each.bits for each in instr.operands[1:] if isinstance(each, Imm))
    signed = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    return -signed if instr.op == "sub" else signed
