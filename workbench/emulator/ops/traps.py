"""``trap`` and failed assertions: the kernel says itself that something is wrong."""

from __future__ import annotations

from workbench.emulator.faults.words import first_lane, who
from workbench.emulator.ptx.instructions import Instr
from workbench.emulator.state.context import Context, Registers, Run
from workbench.emulator.state.lanes import Mask
from workbench.errors import KernelError


def build(instr: Instr, ctx: Context) -> Run:
    """An error as soon as a thread gets there."""
    what = "an assertion failed" if "assert" in instr.parts else "the kernel trapped"

    def run(R: Registers, M: Mask) -> None:
        lanes = ctx.rt.lanes
        row, thread = first_lane(lanes, lanes.full(M))
        raise KernelError(
            f"{ctx.where(instr)}: {what} in {who(lanes, row, thread)}",
            "The kernel's own check refused what it found.",
        )

    return run
