"""Loops that wait for what another thread does: which they are, and when they stand still.

A loop stands still when an iteration left its registers, its lanes and all memory as they
were. Only another thread can end it then, so it rests until every other thread has had its
turn; where all rest and nobody has changed anything, they wait for ever. That needs no
guess of what the loop is for. Which loops may wait for another block is read off the code:
those whose end depends on a load that may not be kept in a register, or on an atomic that
changes nothing while it fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ptxemu.state.context import Registers, Runtime
from ptxemu.state.lanes import Mask
from ptxemu.state.values import Affine, Array, Value

if TYPE_CHECKING:
    from ptxemu.program import Code

#: Iterations before a loop is looked at, and between two looks at most.
_FIRST, _RARELY = 64, 4096
#: A look that finds no second arrival after so many instructions has missed the loop's end.
_LOST = 20_000


@dataclass(slots=True)
class _Loop:
    """Lanes that go round a loop together, and what they were when last looked at."""

    mask: Mask
    rounds: int = 0
    look: int = _FIRST  # the round at which it is looked at next
    values: list[Value | None] | None = None
    changes: int = 0


class Resting:
    """The loops of one batch that stand still, by the rank of their first block."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self.asleep: dict[int, Mask] = {}
        #: Has any lane got on since this was last set to False?
        self.moved = True
        self._loops: dict[int, _Loop] = {}
        self._looks, self._since = 0, 0  # how many, and the instructions at the first
        self._woken: dict[int, Mask] | None = None
        self._changes = 0

    def arrive(self, code: Code, mask: Mask, R: Registers, steps: int, *, busy: bool) -> bool:
        """Lanes come to a loop's first block: do they rest there?

        Args:
            code: The block.
            mask: The lanes.
            R: Registers.
            steps: Instructions of the batch so far.
            busy: Others could run.
        """
        rank, alive = code.block.rank, code.alive
        assert alive is not None
        loop = self._loops.get(rank)
        if loop is None or loop.mask is not mask:
            if loop is not None and loop.values is not None:
                self._looked(loop)
            self._loops[rank] = _Loop(mask, look=_FIRST if self._woken is None else 0)
            return False
        loop.rounds += 1
        if loop.values is not None:
            same = loop.changes == self.rt.changes and all(
                _same(old, R[slot], mask) for old, slot in zip(loop.values, alive, strict=True)
            )
            self._looked(loop)
            loop.look = loop.rounds + min(loop.rounds, _RARELY)
            if same:
                return self._rest(rank, mask)
        if code.polls and loop.rounds >= _FIRST and (busy or self.asleep):
            self.moved = True
            return self._rest(rank, mask)
        if loop.rounds >= loop.look:
            loop.values, loop.changes = [R[slot] for slot in alive], self.rt.changes
            self._looks += 1
            self._since = steps if self._looks == 1 else self._since
            self.rt.probing = True
        elif self._looks and self._woken is None and steps > self._since + _LOST:
            for each in self._loops.values():  # their lanes have left
                each.values = None
            self._looks, self.rt.probing = 0, False
        return False

    def _looked(self, loop: _Loop) -> None:
        loop.values = None
        self._looks -= 1
        self.rt.probing = self._looks > 0 or self._woken is not None

    def _rest(self, rank: int, mask: Mask) -> bool:
        held = self.asleep.get(rank)
        self.asleep[rank] = mask if held is None else self.rt.lanes.union(held, mask)
        del self._loops[rank]
        return True

    def wake(self) -> dict[int, Mask]:
        """Those that rest are to run again; empty where that has just been tried in vain."""
        rt = self.rt
        if self._woken == self.asleep and not self.moved and self._changes == rt.changes:
            self._woken = None
            return {}
        woken, self.asleep = self.asleep, {}
        self._woken, self._changes, self.moved = woken, rt.changes, False
        self._loops.clear()
        self._looks, rt.probing = 0, True
        return woken


def _same(old: Value | None, new: Value | None, mask: Mask) -> bool:
    """Do two register values agree in the lanes of a mask?"""
    if old is new:
        return True
    if old is None or new is None:
        return False
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    one, two = _bits(old), _bits(new)
    if isinstance(old, int):
        one = one.astype(two.dtype)
    elif isinstance(new, int):
        two = two.astype(one.dtype)
    if one.dtype != two.dtype:
        return False
    differ = one != two
    return not (differ if mask.arr is None else differ & mask.arr).any()


def _bits(value: Value) -> Array:
    if isinstance(value, int):
        return np.array([[value]], np.uint64)
    array = value.array() if isinstance(value, Affine) else value
    return array if array.dtype.kind in "bu" else array.view(f"u{array.itemsize}")
