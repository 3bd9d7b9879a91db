"""Bulk copies under way: each lands when somebody waits for the mbarrier that it reports to.

The source is read at once and the destination written late, so that a kernel that forgets
to wait finds what was there before, as it may on the chip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.ops.bulk.mbarrier import Change, change, keys_of
from ptxemu.ops.bulk.places import Spots
from ptxemu.ptx.instructions import Instr
from ptxemu.state.context import Context

Ints = NDArray[np.int64]


class BulkCopy(NamedTuple):
    """Copies of one instruction, one row each.

    Attributes:
        instr: What set them off.
        arrive: Writes what they bring.
        barriers: The mbarrier that each reports to.
        bytes: How many bytes it reports.
    """

    instr: Instr
    arrive: Callable[[], None]
    barriers: Spots
    bytes: Ints


class Flights:
    """All copies of one batch that have not landed."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._up: list[tuple[Ints, BulkCopy]] = []

    def launch(self, flight: BulkCopy) -> None:
        """Set copies off."""
        self._up.append((keys_of(self._ctx, flight.barriers), flight))

    def land(self, keys: Ints) -> None:
        """Land what reports to any of these mbarriers, in the order in which it was set off."""
        wanted = [np.isin(mine, keys).any() for mine, _ in self._up]
        if not any(wanted):
            return
        landing = [up for up, now in zip(self._up, wanted, strict=True) if now]
        self._up = [up for up, now in zip(self._up, wanted, strict=True) if not now]
        for _, flight in landing:
            flight.arrive()
            nobody = np.zeros_like(flight.bytes)
            change(flight.instr, self._ctx, flight.barriers, Change(nobody, -flight.bytes))
