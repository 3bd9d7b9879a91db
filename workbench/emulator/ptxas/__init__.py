"""An imitation of ptxas: how many machine instructions a kernel's PTX becomes.

In comes a compiled program and how often its blocks ran; out goes an estimate. No result
of a kernel depends on it, and it can be replaced as one piece: `estimate` is its door, and
`in_pieces` notes which loops come in pieces: their lanes ask for memory in other company.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.emulator.program import Program
from workbench.emulator.ptx.instructions import Instr, Reg
from workbench.emulator.ptxas.unrolling import turns_of
from workbench.emulator.ptxas.weights import Weights


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


def estimate(program: Program, executed: Iterable[tuple[Instr, int, int, int, int]]) -> MachineCode:
    """The machine instructions of a launch.

    Args:
        program: The kernel as it was compiled for the launch.
        executed: (instruction, its block's index, warps that ran it, lanes whose guard was
            true, how often it parted a warp) for every row.
    """
    weights = Weights.of(program)
    rows = list(executed)
    ran = {block: warps for _, block, warps, _, _ in rows}
    factor: dict[int, float] = {}
    extra: dict[int, float] = {}
    for loop in weights.unrolled:
        if ran.get(loop.block):
            factor.update(dict.fromkeys(loop.own, loop.share(ran)))
            extra[loop.last] = loop.tests(ran)
    # A predicated instruction is issued by the warps that do not need it as well.
    return MachineCode(
        tuple(
            (weights[instr] * factor.get(id(instr), 1.0) + extra.get(id(instr), 0.0))
            * ran.get(weights.host.get(block, block), warps)
            # Each part of a warp comes to the BSYNC where they meet.
            + (parted if id(instr) in weights.parting else 0)
            + weights.by_lane.get(id(instr), 0.0) * lanes
            for instr, block, warps, lanes, parted in rows
        )
    )
