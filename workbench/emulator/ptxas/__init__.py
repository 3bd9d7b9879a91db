"""An imitation of ptxas: how many machine instructions a kernel's PTX becomes.

In comes a compiled program and how often its blocks ran; out goes an estimate. No result
of a kernel depends on it, and it can be replaced as one piece: `estimate` is its door, and
`in_pieces` notes which loops come in pieces: their lanes ask for memory in other company.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from workbench.emulator.program import Program
from workbench.emulator.ptx.instructions import Instr, Reg
from workbench.emulator.ptxas.sequences import CALL, turn
from workbench.emulator.ptxas.unrolling import turns_of
from workbench.emulator.ptxas.weights import Weights
from workbench.emulator.state.context import CodeSite


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
        return sum(self.issued)


def in_pieces(program: Program) -> None:
    """Note the loops that ptxas makes in pieces and whose lanes may differ in their turns."""
    ends = [code for code in program.codes if code.block.index in code.block.targets]
    if not any(code.guard >= 0 for code in ends):
        return
    differing = program.ctx.varying
    for loop in Weights.of(program).unrolled:
        names = {each.name for each in loop.test.operands[1:] if isinstance(each, Reg)}
        if not loop.known and not names.isdisjoint(differing):
            program.codes[loop.block].turns = turns_of(loop, program)


class Ran(Protocol):
    """What is known of one instruction of a launch: `workbench.emulator.run.Executed`."""

    instr: Instr
    block: int
    warps: int
    site: CodeSite

    @property
    def on(self) -> int:
        """Threads whose guard was true."""


def estimate(program: Program, executed: Iterable[Ran]) -> MachineCode:
    """The machine instructions of a launch.

    Args:
        program: The kernel as it was compiled for the launch.
        executed: A row for every instruction that is asked about.
    """
    weights = Weights.of(program)
    rows = list(executed)
    ran = {row.block: row.warps for row in rows}
    factor: dict[int, float] = {}
    extra: dict[int, float] = {}
    for loop in weights.unrolled:
        if ran.get(loop.block):
            factor.update(dict.fromkeys(loop.own, loop.share(ran)))
            extra[loop.last] = loop.tests(ran)

    def issued(row: Ran) -> float:
        key = id(row.instr)
        # A predicated instruction is issued by the warps that do not need it as well.
        warps = ran.get(weights.host.get(row.block, row.block), row.warps)
        return (
            (weights[row.instr] * factor.get(key, 1.0) + extra.get(key, 0.0)) * warps
            # Each part of a warp comes to the BSYNC where they meet.
            + (row.site.divergent if key in weights.parting else 0)
            + weights.by_lane.get(key, 0.0) * row.on
            + CALL * row.site.calls
            + turn(row.instr) * row.site.spins
        )

    return MachineCode(tuple(map(issued, rows)))
