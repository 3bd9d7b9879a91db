"""The machine instructions that a launch issues, row of PTX by row."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptxemu.ptx.flow import ControlFlow
from ptxemu.ptxas.blocks import machine_blocks
from ptxemu.ptxas.counts import block_counts
from ptxemu.ptxas.ran import PtxRuns, Ran, ptx_runs
from ptxemu.sass.cubin import Functions
from ptxemu.sass.opcodes import BRA, BSYNC, MachineInstr

#: Instructions of the routine for rare quotients: zeros on an H200, whose way through it is the
#: commonest.
_ROUTINE = 34.0


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine instructions that a launch would issue.

    Attributes:
        issued: Warp instructions for each row that was asked about, in their order.
    """

    issued: tuple[float, ...]

    @property
    def total(self) -> float:
        """Warp instructions of the launch."""
        return math.fsum(self.issued)


def issued(
    functions: Functions, kernel: str, graph: ControlFlow, rows: Iterable[Ran]
) -> MachineCode | None:
    """The machine instructions of a launch; None where its kernel's code is not known.

    Args:
        functions: The cubin's.
        kernel: The kernel's name there.
        graph: Its control flow in PTX.
        rows: Every instruction of PTX with what it did.
    """
    if kernel not in functions:
        return None
    every = list(rows)
    runs = ptx_runs(graph, every)
    lines: defaultdict[int, float] = defaultdict(float)
    for name in (kernel, *_called(functions, kernel, runs)):
        for line, count in _of(functions[name], runs).items():
            lines[line] += count
    for line, calls in runs.calls.items():
        lines[line] += _ROUTINE * calls
    shares: defaultdict[int, float] = defaultdict(float)
    for row in every:
        shares[row.instr.ptx_line] += row.warps
    # What is no row's that ran (the stack pointer, descriptors, what was made in advance) stands at
    # the first one.
    rest = math.fsum(count for line, count in lines.items() if not shares[line])
    first = next((number for number, row in enumerate(every) if row.warps), 0)
    out = [
        lines[row.instr.ptx_line] * row.warps / shares[row.instr.ptx_line] if row.warps else 0.0
        for row in every
    ]
    out[first] += rest
    return MachineCode(tuple(out))


def _called(functions: Functions, kernel: str, runs: PtxRuns) -> list[str]:
    """Functions of their own (those that are not inlined) in which lines that ran stand."""
    own = {each.ptx_line for each in functions[kernel]}
    elsewhere = {line for line, count in runs.warps.items() if count and line not in own}
    return [
        name
        for name, code in functions.items()
        if name != kernel and any(each.ptx_line in elsewhere for each in code)
    ]


def _of(code: Sequence[MachineInstr], runs: PtxRuns) -> dict[int, float]:
    """Line of PTX -> machine instructions that were issued for it."""
    blocks = machine_blocks(code)
    out: defaultdict[int, float] = defaultdict(float)
    meets = any(each.opcode == BSYNC for each in code)
    for span, count in zip(blocks.spans, block_counts(blocks, runs), strict=True):
        for at in span:
            out[code[at].ptx_line] += count
    for line in {each.ptx_line for each in code if each.opcode == BRA and each.guarded}:
        # Each part of a warp comes to the BSYNC where they meet.
        out[line] += runs.parted[line] if meets else 0
    return out
