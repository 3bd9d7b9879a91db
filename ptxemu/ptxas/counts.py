"""How often each block of machine code ran, from how often lines of PTX did.

ptxas moves, copies, joins and leaves out; but what has an effect it makes once each time, and
each instruction says which line of PTX it comes from. So a block in which the access of a line
stands ran as often as the line; where several blocks hold it, as those of an unrolled loop do,
their sum did. The rest follows from the control flow of the machine code: blocks that run as
often as each other, and what the blocks around a block leave for it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ptxemu.ptxas.blocks import MachineBlocks
from ptxemu.ptxas.ran import PtxRuns
from ptxemu.sass.opcodes import BRA, CALL, EXIT, Sign

#: Rounds in which counts are shared out among blocks that hold the same lines.
_ROUNDS = 300
#: How often flow is followed from what is known.
_PASSES = 3


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a block's instructions say.

    Attributes:
        held: Line of PTX -> how many times the block makes it, of lines that are told by it.
        near: Count -> instructions whose line ran so often, of those that are no deeper in loops.
        closing: How often the line of its branch or end ran; None: it says nothing.
    """

    held: Mapping[int, float]
    near: Mapping[int, int]
    closing: int | None


def block_counts(blocks: MachineBlocks, runs: PtxRuns) -> list[float]:
    """How often warps ran each block of a function; 0 of those that nothing leads to."""
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
            # What was moved here from a rarer place says too little: of a draw, the most.
            known[number] = float(max(said.near, key=lambda count: (said.near[count], count)))
    for _ in range(_PASSES):
        _spread(blocks, known)
        _flow(blocks, known)
    return [known.get(number, 0.0) for number in range(len(blocks.spans))]


def _of_one_line(blocks: MachineBlocks, runs: PtxRuns, number: int) -> float | None:
    """The count of a block that a routine, or an instruction that is a loop, is made of."""
    code = [blocks.code[at] for at in blocks.spans[number]]
    called = [each.ptx_line for each in code if each.opcode == CALL]
    if called:
        return float(sum(runs.calls[line] for line in called))
    lines = {each.ptx_line for each in code}
    if blocks.loops[number] and len(lines) == 1:
        turns = runs.turns[lines.pop()]
        return float(turns) if turns else None
    return None


def _pieces(blocks: MachineBlocks, runs: PtxRuns) -> dict[tuple[int, int], int]:
    """(Line, opcode) of a `wmma` -> how many such instructions it becomes."""
    found: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for number in blocks.order:
        for at in blocks.spans[number]:
            each = blocks.code[at]
            if each.sign(runs.op.get(each.ptx_line, "")) is Sign.FRAGMENT:
                found[each.ptx_line, each.opcode][number] += 1
    return {key: min(counts.values()) for key, counts in found.items()}


def _evidence(
    blocks: MachineBlocks,
    runs: PtxRuns,
    number: int,
    pieces: Mapping[tuple[int, int], int],
) -> _Evidence:
    depth = len(blocks.loops[number])
    # By how sure they are, and whether the line is as deep in loops as the block, or deeper: what
    # is deeper was taken out of its loop, unless the block holds nothing else.
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
            # An end that nothing decides on may be one of many copies of it.
            if not deeper and (each.guarded if each.opcode == EXIT else runs.op[line] == "bra"):
                closing = runs.warps[line]
            continue
        if each.guarded:
            continue  # issued by warps that do not need it as well
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
    """Arithmetic that is there several times is a copy only if more than one line is."""
    return dict.fromkeys(lines, 1.0) if len(lines) == 1 else lines


def _families(evidence: Mapping[int, _Evidence]) -> list[list[int]]:
    """Blocks that hold the same lines, directly or by way of each other."""
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for number, said in evidence.items():
        for line in said.held:
            holders[line].append(number)
    seen: set[int] = set()
    out = []
    for start, said in evidence.items():
        if start in seen or not said.held:
            continue
        family, left = [], [start]
        while left:
            number = left.pop()
            if number not in seen:
                seen.add(number)
                family.append(number)
                left += [each for line in evidence[number].held for each in holders[line]]
        out.append(sorted(family))
    return out


def _shared_out(
    blocks: MachineBlocks,
    runs: PtxRuns,
    family: Sequence[int],
    evidence: Mapping[int, _Evidence],
) -> dict[int, float]:
    held = {number: evidence[number].held for number in family}
    if len(family) == 1:
        (number,) = family
        times = min(held[number].values())  # what stands there more often has several instructions
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
    for _ in range(_ROUNDS):  # towards the counts under which every line ran as often as it did
        counts = counts * (makes.T @ (ran / np.maximum(makes @ counts, 1e-9))) / total
    return dict(zip(family, counts.tolist(), strict=True))


def _unrolled(
    blocks: MachineBlocks, runs: PtxRuns, held: Mapping[int, Mapping[int, float]]
) -> dict[int, float] | None:
    """Counts of the pieces of an unrolled loop: as many turns as there are, in the largest first.

    None where these are no such pieces.
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
    """Give what is known to blocks that run as often, from the nearest."""
    told = sorted(known)
    for number in blocks.order:
        if number not in known:
            alike = [each for each in told if blocks.alike(each, number)]
            if alike:
                known[number] = known[min(alike, key=lambda each: abs(each - number))]


def _flow(blocks: MachineBlocks, known: dict[int, float]) -> None:
    """What follows for blocks all of whose predecessors are known, or that lead into a loop."""
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
    """How often a block is left for one of those that it leads to."""
    others: Iterable[int] = [each for each in blocks.after[start] if each != goal]
    if not others:
        return known[start]
    if all(each in known and len(blocks.before[each]) == 1 for each in others):
        return max(0.0, known[start] - math.fsum(known[each] for each in others))
    return known[start] if blocks.loops[goal] < blocks.loops[start] else known[start] / 2
