"""The least cycles a launch can take on a named chip, by each of its throughputs.

Not a time: latency, dependencies, caches and clocks are left out. A kernel cannot be
faster than the largest of these bounds, and which one that is says what to work on. The
bound by issue slots alone rests on an estimate, that of machine instructions
(`workbench.emulator.ptxas`), and is as uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.emulator.run import Outcome
from workbench.gpus import Chip

#: Lanes of an SM's load/store units: a warp instruction takes one of its cycles.
_LSU_LANES = 32


@dataclass(frozen=True, slots=True)
class Bound:
    """Cycles of one SM, by unit; `binds` names the largest."""

    cycles: dict[str, float]

    @property
    def binds(self) -> str:
        """The unit that needs most cycles."""
        return max(self.cycles, key=lambda unit: self.cycles[unit])

    @property
    def least(self) -> float:
        """The largest bound, in cycles."""
        return max(self.cycles.values())


def bound(outcome: Outcome, chip: Chip, machine_instructions: float, least_bytes: int) -> Bound:
    """Bounds of one launch.

    Args:
        outcome: Its counters.
        chip: What runs it.
        machine_instructions: Warp instructions as the chip would issue them.
        least_bytes: Bytes that must cross the device memory's bus at least.
    """
    fma = sum(
        row.on for row in outcome.rows
        if row.instr.op in ("fma", "mul", "add", "sub") and row.instr.parts[-1] == "f32"
    )  # fmt: skip
    lsu = sum(
        row.warps for row in outcome.rows
        if row.instr.op in ("ld", "st", "atom", "red", "shfl") and not row.site.joined
        and "param" not in row.instr.parts
    )  # fmt: skip
    waves = sum(row.site.wavefronts for row in outcome.rows)
    sms = max(chip.sms, 1)
    cycles = {
        "issue slots": machine_instructions / chip.schedulers / sms,
        "FMA pipe": fma / chip.fp32_lanes / sms,
        "load/store units": lsu * 32 / _LSU_LANES / sms,
        "shared memory": waves / sms,
    }
    if chip.memory_bandwidth and chip.sm_clock:
        cycles["device memory"] = least_bytes / chip.memory_bandwidth * chip.sm_clock
    return Bound(cycles)
