"""Running sums of ``wgmma``, kept as matrices for as long as nothing else looks at them.

The registers of an accumulator are one array for each; as matrices they can be added to by
one product a warpgroup. So a product leaves registers that are views of an array still to be
written, and `settle` writes it as soon as another instruction is to read or write one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.context import Registers
from ptxemu.state.lanes import Lanes
from ptxemu.state.values import Array, unsigned

#: Threads and rows of a warpgroup's matrix.
GROUP, ROWS = 128, 64
_NAN32, _NAN16 = np.uint32(0x7FFFFFFF), np.uint16(0x7FFF)
#: How many accumulators are remembered as matrices.
_KNOWN = 8

_DTYPES: dict[str, Any] = {"f32": np.float32, "s32": np.int32, "f16": np.float16}
#: Elements that share a register.
_PER = {"f32": 1, "s32": 1, "f16": 2}


class SumShape(NamedTuple):
    """An accumulator of 64×`columns` elements of type `kind`."""

    columns: int
    kind: str


@lru_cache(maxsize=64)
def places(shape: SumShape) -> NDArray[np.intp]:
    """Flat place in the matrix of each element: (registers, 128 threads, elements a register).

    That is the manual's figure of the fragment D of ``wgmma``.
    """
    per = _PER[shape.kind]
    element = np.arange(shape.columns // 2).reshape(-1, 1, per)
    thread = np.arange(GROUP).reshape(1, -1, 1)
    lane = thread % 32
    row = thread // 32 * 16 + element // 2 % 2 * 8 + lane // 4
    column = element // 4 * 8 + lane % 4 * 2 + element % 2
    found: NDArray[np.intp] = (row * shape.columns + column).astype(np.intp)
    return found


@lru_cache(maxsize=64)
def sources(shape: SumShape) -> NDArray[np.intp]:
    """The inverse of `places`: for each element of the matrix, its place among registers."""
    return np.argsort(places(shape).reshape(-1)).astype(np.intp)


class Accumulated:
    """One accumulator of a batch.

    Attributes:
        stack: Its registers, (blocks, registers, threads); not all written.
        views: The registers as they stand in the register file.
        matrix: The sums, (blocks, warpgroups, 64, columns).
        held: Which warpgroups' sums are in `matrix`, (blocks, warpgroups).
        settled: Whether `stack` holds all that `matrix` does.
    """

    def __init__(self, shape: SumShape, stack: Array, groups: int) -> None:
        self.shape, self.stack = shape, stack
        self.views = [stack[:, number] for number in range(stack.shape[1])]
        blocks = len(stack)
        self.matrix = np.zeros((blocks, groups, ROWS, shape.columns), _DTYPES[shape.kind])
        self.held = np.zeros((blocks, groups), np.bool_)
        self.settled = True

    def fetch(self, wanted: Array) -> None:
        """Bring these warpgroups' sums into the matrix."""
        missing = wanted & ~self.held
        for group in np.nonzero(missing.any(axis=0))[0]:
            rows = np.nonzero(missing[:, group])[0]
            part = self.stack[rows, :, group * GROUP : (group + 1) * GROUP]
            flat = np.ascontiguousarray(part).view(self.matrix.dtype).reshape(len(rows), -1)
            found = flat.take(sources(self.shape), axis=1)
            self.matrix[rows, group] = found.reshape(len(rows), ROWS, -1)
        self.held |= wanted

    def settle(self) -> None:
        """Write the registers."""
        if self.settled:
            return
        self.settled = True
        order = places(self.shape).reshape(-1)
        for group in np.nonzero(self.held.any(axis=0))[0]:
            rows = np.nonzero(self.held[:, group])[0]
            flat = self.matrix[rows, group].reshape(len(rows), -1)
            if self.shape.kind != "s32" and np.isnan(flat).any():
                bits = flat.view(np.uint32 if self.shape.kind == "f32" else np.uint16)
                bits[np.isnan(flat)] = _NAN32 if self.shape.kind == "f32" else _NAN16
            found = np.ascontiguousarray(flat.take(order, axis=1)).view(np.uint32)
            where = slice(group * GROUP, (group + 1) * GROUP)
            self.stack[rows, :, where] = found.reshape(len(rows), -1, GROUP)


class Sums:
    """All accumulators of one batch."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._groups = lanes.W * 32 // GROUP
        self._known: list[Accumulated] = []
        self.unsettled = False

    def settle(self) -> None:
        """Write all registers that are still to be written."""
        if self.unsettled:
            self.unsettled = False
            for each in self._known:
                each.settle()

    def take(
        self, R: Registers, slots: list[int], shape: SumShape, wanted: Array, *, fresh: bool
    ) -> Accumulated:
        """The accumulator in these registers, ready to be changed in the wanted warpgroups.

        Args:
            R: The registers; they become views of what is returned.
            slots: Those of the accumulator.
            shape: Its shape.
            wanted: Warpgroups that will change it, (blocks, warpgroups).
            fresh: Whether what they hold so far does not count.
        """
        known = self._find(R, slots)
        if known is None:
            self.settle()
            known = Accumulated(shape, self._stacked(R, slots), self._groups)
        elif known.settled:
            known = self._again(known, whole=bool(wanted.all()) and not self._rest)
        if fresh:
            known.held |= wanted
            known.matrix[wanted] = 0
        else:
            known.fetch(wanted)
        known.settled, self.unsettled = False, True
        self._known = [known, *(each for each in self._known if each is not known)]
        for gone in self._known[_KNOWN:]:
            gone.settle()
        del self._known[_KNOWN:]
        for slot, view in zip(slots, known.views, strict=True):
            R[slot] = view
        return known

    @property
    def _rest(self) -> int:
        """Threads beyond the last whole warpgroup."""
        return self._lanes.T % GROUP

    def _find(self, R: Registers, slots: list[int]) -> Accumulated | None:
        for each in self._known:
            if len(each.views) == len(slots) and all(
                R[slot] is view for slot, view in zip(slots, each.views, strict=True)
            ):
                return each
        return None

    def _stacked(self, R: Registers, slots: list[int]) -> Array:
        stack = np.zeros((self._lanes.B, len(slots), self._lanes.T), np.uint32)
        for number, slot in enumerate(slots):
            if R[slot] is not None:
                stack[:, number] = unsigned(R[slot], 4)
        return stack

    def _again(self, known: Accumulated, *, whole: bool) -> Accumulated:
        """The same sums over registers that nobody has seen: those that were are kept."""
        stack = np.empty_like(known.stack) if whole else known.stack.copy()
        new = Accumulated.__new__(Accumulated)
        new.shape, new.stack = known.shape, stack
        new.views = [stack[:, number] for number in range(stack.shape[1])]
        new.matrix, new.held, new.settled = known.matrix, known.held, True
        self._known = [each for each in self._known if each is not known]
        return new
