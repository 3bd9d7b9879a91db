"""Loops of which ptxas makes pieces, and which lanes of a warp then run a turn together.

A loop that counts towards a limit becomes a loop of four turns, a block of two and one turn,
and a warp comes together between them. So lanes that have other numbers of turns left do not
go through theirs side by side: all that have four left make them first, while the others
wait. Only then do two lanes ask for memory in one request, which is why it shows in sectors
and wavefronts. Read off ptxas 13.0; which loops are meant, `ptxemu.ptxas` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.context import Registers
from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import Value, unsigned

if TYPE_CHECKING:
    from ptxemu.program import Code

#: Turns of the pieces, in the order in which they run.
PIECES = (4, 2, 1)
Push = Callable[[int, Mask], None]


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """How many turns of a loop a lane has left, told at the start of one.

    `counter` and `limit` are slots, or numbers where `fixed`; the loop goes on while
    ``counter + step`` compares with the limit as `asked`.
    """

    counter: int
    limit: int
    fixed: bool
    step: int
    asked: str
    signed: bool
    size: int

    def left(self, R: Registers) -> NDArray[np.int64] | None:
        """The turns of each lane; None where all have as many."""
        counter, limit = R[self.counter], self.limit if self.fixed else R[self.limit]
        if isinstance(counter, int) and isinstance(limit, int):
            return None
        way = self._number(limit) - self._number(counter)
        if self.asked in ("le", "ls", "ge", "hs"):
            way = way + (1 if self.step > 0 else -1)
        left: NDArray[np.int64] = np.maximum(-(-way // self.step), 1)
        return left

    def _number(self, value: Value) -> NDArray[np.int64]:
        bits = unsigned(value, self.size)
        return (bits.view(f"i{self.size}") if self.signed else bits).astype(np.int64)


class LoopPieces:
    """The loops of one batch that are in the middle of a piece, by the rank of their block."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._going: dict[int, tuple[Mask, int]] = {}  # and how many turns they still have
        self._even: dict[int, Mask] = {}  # in whose warps all lanes have as many turns

    def choose(self, code: Code, mask: Mask, R: Registers, push: Push) -> Mask:
        """The lanes of a loop's first block that run it now; the others wait there."""
        lanes, rank, turns = self._lanes, code.block.rank, code.turns
        assert turns is not None
        if self._even.get(rank) is mask:
            return mask
        chosen, more = self._going.pop(rank, (lanes.empty, 0))
        if more:
            chosen = lanes.mask(lanes.full(chosen) & lanes.full(mask))
        if not chosen.count:
            left = turns.left(R)
            if left is None or self._alike(left, mask):
                self._even[rank] = mask
                return mask
            on = lanes.full(mask)
            more = next(piece for piece in PIECES if (on & (left >= piece)).any())
            chosen = lanes.mask(on & (left >= more))
        if more > 1:
            self._going[rank] = chosen, more - 1
        push(code.block.index, lanes.without(mask, chosen))
        return chosen

    def _alike(self, left: NDArray[np.int64], mask: Mask) -> bool:
        """Have all lanes of each warp as many turns left?"""
        by_warp = np.broadcast_to(left, self._lanes.shape).reshape(-1, WARP)
        on = self._lanes.full(mask).reshape(-1, WARP)
        most = np.where(on, by_warp, 0).max(axis=1, keepdims=True)
        return bool((~on | (by_warp == most)).all())
