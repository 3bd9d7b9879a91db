"""Blocks that wait for other blocks: batches of them in flight, taking turns.

A batch runs until all its threads have ended or rest in loops that only another block can
end. Then the others have their turn, and where that helps nobody, the next blocks of the
grid start, as many as a chip holds at once. Where that is no help either, no GPU would
come to an end.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxemu.machine import Batch
from ptxemu.ops.exact import floating_state
from ptxemu.program import Program
from ptxemu.state.lanes import WARP, Geometry, Lanes

#: Lanes of a batch: fewer than where blocks do not wait, since a turn takes them all.
_LANES = 4096


class _Flight:
    """The batches in flight; the runtime holds the one that runs."""

    def __init__(self, program: Program, geometry: Geometry) -> None:
        self.program, self.geometry = program, geometry
        self.batches: list[tuple[Batch, dict[str, Any]]] = []

    @property
    def blocks(self) -> int:
        """Blocks with a thread that has not ended."""
        return sum(batch.living for batch, _ in self.batches)

    def start(self, blocks: NDArray[np.int64]) -> bool:
        """Start a batch; False if it stops for others."""
        batch = Batch(self.program, Lanes(self.geometry, blocks))
        ended = batch.run(patient=True)
        if not ended:
            self.batches.append((batch, self.program.rt.suspend()))
        return ended

    def turn(self) -> bool:
        """Let every batch go on as far as it can; False if none could."""
        moved, left = False, []
        for batch, held in self.batches:
            self.program.rt.resume(held)
            ended = batch.run(patient=True)
            moved |= ended or batch.moved
            if not ended:
                left.append((batch, self.program.rt.suspend()))
        self.batches = left
        return moved

    def expire(self) -> bool:
        """Let waits that may give up do so; False if nobody waits but for other blocks."""
        found = False
        for at, (batch, held) in enumerate(self.batches):
            if batch.suspended:
                self.program.rt.resume(held)
                found |= batch.suspended.expire(batch.push)
                self.batches[at] = (batch, self.program.rt.suspend())
        return found


def run_in_turns(
    program: Program, geometry: Geometry, blocks: NDArray[np.int64], resident: int = 0
) -> None:
    """Run blocks that may wait for each other.

    Args:
        program: The kernel.
        geometry: The launch's shape.
        blocks: Their numbers, in the order in which they start.
        resident: Blocks in flight at once, at most; 0: all.

    Raises:
        Fault: what the kernel does wrong; that its blocks wait for ever.
    """
    size = geometry.blocks_of_cluster
    each = max(1, _LANES // (geometry.warps * WARP * size)) * size
    waiting = deque(np.array_split(blocks, range(each, len(blocks), each)))
    flight = _Flight(program, geometry)
    with floating_state():
        while waiting or flight.batches:
            if flight.batches and flight.turn():
                continue
            room = resident - flight.blocks if resident else len(blocks)
            room -= room % size
            if not waiting or room <= 0:
                if flight.expire():
                    continue
                batch, held = flight.batches[0]
                program.rt.resume(held)
                raise batch.forever(_no_room(resident) if waiting else "")
            part = waiting.popleft()
            if len(part) > room:
                waiting.appendleft(part[room:])
            flight.start(part[:room])


def _no_room(resident: int) -> str:
    return (
        f"the chip holds {resident:,} blocks at once, and those that could end it start only when "
        "these have exited"
    )
