"""Loops of which ptxas makes pieces, and which lanes of a warp then run a turn together.

A loop that counts towards a limit becomes a loop of four turns, a block of two and one turn,
and a warp comes together between them. So lanes that have other numbers of turns left do not
go through theirs side by side: all that have four left make them first, while the others
wait. Only then do two lanes ask for memory in one request, which is why it shows in sectors
and wavefronts. Read off ptxas 13.0; which loops are meant, `ptxemu.ptxas` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ptxemu.program import PIECES
from ptxemu.state.context import Registers
from ptxemu.state.lanes import WARP, Lanes, Mask

if TYPE_CHECKING:
    from ptxemu.program import Code

Push = Callable[[int, Mask], None]


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
