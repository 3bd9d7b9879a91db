"""An imitation of ptxas: how many machine instructions a kernel's PTX becomes.

In comes a compiled program and how often its blocks ran; out goes an estimate. No result
of a kernel depends on it, and it can be replaced as one piece: `estimate` is its only door.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.emulator.program import Program
from workbench.emulator.ptx.instructions import Instr
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


def estimate(program: Program, executed: Iterable[tuple[Instr, int, int]]) -> MachineCode:
    """The machine instructions of a launch.

    Args:
        program: The kernel as it was compiled for the launch.
        executed: (instruction, its block's index, warps that ran it) for every row.
    """
    spaces = {name: space for name, (space, _) in program.ctx.symbols.items()}
    flat = program.flat
    weights = Weights(program.graph, program.ctx.merged, flat.params, spaces, flat.target)
    rows = list(executed)
    ran = {block: warps for _, block, warps in rows}
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
            for instr, block, warps in rows
        )
    )
