"""Global memory of launches: a program's, where arrays are made and freed, or copies of arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import ResourceError
from ptxemu.pool import room
from ptxemu.ptx.instructions import Ptx, Variable
from ptxemu.state.spaces import ALIGN, GlobalMemory, Heap, shared_bytes
from ptxemu.state.values import Array

#: The array that holds the kernel's arguments, if the kernel takes their address.
PARAMETERS = "(parameters)"
#: Two words, the second for the barrier of a cooperative launch's grid
#: (``grid_workspace`` in the toolkit's ``cooperative_groups/details/driver_abi.h``).
WORKSPACE = "(grid workspace)"
#: The driver's arrays and their bytes: the most that a kernel's parameters have (CUDA's
#: "Technical Specifications per Compute Capability").
DRIVER = {PARAMETERS: 32_764, WORKSPACE: 8}
OF_MODULE = ("global", "const")
_BASE = 0x7F00_0000_0000
#: Bytes between two arrays; they are never touched, and so take no memory.
_GAP, _WIDEST_GAP = 512, 1 << 24
#: Bytes and alignment of an array to place -> its address.
Reserve = Callable[[int, int], int]


class Loaded(Protocol):
    """A module that was read (`api.Module`)."""

    @property
    def ptx(self) -> Ptx:
        """Its typed form."""


class Arena(GlobalMemory):
    """Memory of a running program, in which every launch finds the data of earlier ones."""

    def place(self, module: Loaded, reserve: Reserve) -> Arena:
        """This memory for the launches of a module: with its variables, initialised.

        Several modules may share the memory, and names may repeat.
        """
        placed = self._placed(module.ptx, reserve)
        placed.compiled = {}
        return placed

    def _placed(self, module: Ptx, reserve: Reserve) -> Arena:
        if PARAMETERS not in self._address:  # the driver's arrays exist once
            for name, size in DRIVER.items():
                self.put(name, reserve(size, ALIGN), _bytes(b""), size=size)
        placed = copy(self)
        placed._address, placed._like = dict(self._address), dict(self._like)
        self.heap.reserve = reserve
        own = _variables(module)
        for each in own:
            start = reserve(each.size, ALIGN)
            placed.put(each.name, start, _bytes(each.init), size=each.size)
        for each in own:
            for at, name in each.symbols:
                if name in placed._address:
                    start = placed._address[each.name] - self.base + at
                    self.bytes[start : start + 8].view("<u8")[0] += placed._address[name]
        return placed


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray(content), np.uint8)


def _variables(module: Ptx) -> list[Variable]:
    """The module's own variables in global and constant memory."""
    return [each for each in module.variables.values() if each.space in OF_MODULE]


class _Places:
    """Assigns addresses, with gaps as wide as the arrays beside them."""

    def __init__(self) -> None:
        self.end, self._gap = _BASE, ALIGN

    def reserve(self, size: int, align: int = ALIGN) -> int:
        gap = min(max(self._gap, size), _WIDEST_GAP) if self.end > _BASE else ALIGN
        start = -(-(self.end + gap) // align) * align
        self.end, self._gap = start + size, max(_GAP, size)
        return start


def memory_for(
    module: Ptx, buffers: Mapping[str, Array], unwritten: Collection[str] = ()
) -> GlobalMemory:
    """Global memory with copies of the caller's arrays, the module's variables and the driver's.

    `unwritten` names the arrays without values. Raises ResourceError: they need more memory than
    this process may take.
    """
    sizes = [*((array.nbytes, name) for name, array in buffers.items())]
    sizes += [(size, name) for name, size in DRIVER.items()]
    sizes += [(each.size, each.name) for each in _variables(module)]
    sizes += [(Heap().size, "the heap")] * ("malloc" in module.functions)
    measured, places = _Places(), _Places()
    for size, _ in sizes:
        measured.reserve(size)
    whole = measured.end - _BASE + _GAP
    data = _taken(whole, 1 + bool(unwritten), max(sizes))
    memory = Arena(data, _BASE, shared_bytes(whole) if unwritten else None)
    for name, array in buffers.items():
        start = places.reserve(array.nbytes)
        memory.put(name, start, array, array.itemsize)
        memory.mark(start, array.nbytes, written=name not in unwritten)
    placed = memory._placed(module, places.reserve)
    placed.names = tuple(buffers)
    return placed


def _taken(size: int, times: int, largest: tuple[int, str]) -> NDArray[np.uint8]:
    """Allocate memory for arrays; `times` as much must be available, else ResourceError."""
    left, need = room(), size * times
    with contextlib.suppress(MemoryError):
        if need <= left:
            return shared_bytes(size)
    raise ResourceError(
        f"the arrays in global memory need {need:,} bytes ({largest[1]} has {largest[0]:,}), "
        f"but this process may use {left:,.0f} more",
        "Choose a smaller problem, or allow the process more memory.",
    )
