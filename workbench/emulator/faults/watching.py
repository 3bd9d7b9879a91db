"""Races and uninitialised reads, found by remembering who touched what.

For every granule of shared memory the watcher keeps the warp that last wrote it, the
warp (or "several") that read it, and the warp that used an atomic on it, all since the
block's last barrier. Two warps that meet at a granule without a barrier between, at
least one of them writing, race. Lanes of one warp run in lock step here, so races
inside a warp are not found; neither are races between blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.emulator.faults.words import first_lane, who
from workbench.emulator.state.context import CodeSite, Context
from workbench.emulator.state.lanes import WARP, Lanes, Mask
from workbench.emulator.state.values import Array
from workbench.errors import KernelError

_SEVERAL = 255  # a block has at most 32 warps


class SharedWatcher:
    """Follows the shared memory of one batch."""

    def __init__(self, ctx: Context, lanes: Lanes, sites: Sequence[CodeSite], size: int) -> None:
        self.ctx, self.lanes, self.sites = ctx, lanes, sites
        widths = [site.width for site in sites if site.space in ("shared", "generic")]
        self.grain = min([4, *(width for width in widths if width)])
        self.size = -(-size // self.grain)
        shape = (lanes.B, self.size)
        self.number = {id(site): index for index, site in enumerate(sites)}
        self.written = np.zeros(shape, np.bool_)
        self.writer = np.zeros(shape, np.uint8)
        self.reader = np.zeros(shape, np.uint8)
        self.atomic = np.zeros(shape, np.uint8)
        self.writer_site = np.zeros(shape, np.int32)
        self.reader_site = np.zeros(shape, np.int32)
        warp = np.arange(lanes.T) // WARP + 1
        self.me = np.broadcast_to(warp.astype(np.uint8), lanes.shape)

    def access(
        self, site: CodeSite, low: int, rel: Array, mask: Mask, width: int, kind: str
    ) -> None:
        """Check one access of all lanes of the mask, then remember it."""
        lanes = self.lanes
        first = np.broadcast_to((rel + low) // self.grain, lanes.shape)
        on = lanes.full(mask)
        rows = np.nonzero(on)[0]
        me = self.me[on]
        start = first[on]
        for piece in range(max(width // self.grain, 1)):
            at = start + piece
            if kind == "load":
                self._load(site, rows, at, me, on)
            else:
                self._store(site, rows, at, me, on, plain=kind == "store")

    def _load(self, site: CodeSite, rows: Array, at: Array, me: Array, on: Array) -> None:
        unset = ~self.written[rows, at]
        if unset.any():
            self._uninitialised(site, at, unset, on)
        self._meet(site, rows, at, me, on, self.writer, self.writer_site, "reads", "written")
        self._meet(site, rows, at, me, on, self.atomic, self.writer_site, "reads", "changed")
        known = self.reader[rows, at]
        self.reader[rows, at] = np.where((known == 0) | (known == me), me, _SEVERAL)
        others = self.reader[rows, at] != me
        self.reader[rows[others], at[others]] = _SEVERAL
        self.reader_site[rows, at] = self.number[id(site)]

    def _store(
        self, site: CodeSite, rows: Array, at: Array, me: Array, on: Array, *, plain: bool
    ) -> None:
        verb = "writes" if plain else "changes"
        self._meet(site, rows, at, me, on, self.writer, self.writer_site, verb, "written")
        self._meet(site, rows, at, me, on, self.reader, self.reader_site, verb, "read")
        if plain:
            self._meet(site, rows, at, me, on, self.atomic, self.writer_site, verb, "changed")
        elif (~self.written[rows, at]).any():
            self._uninitialised(site, at, ~self.written[rows, at], on)
        target = self.writer if plain else self.atomic
        target[rows, at] = me
        self.writer_site[rows, at] = self.number[id(site)]
        self.written[rows, at] = True
        if plain:
            # Two warps that write one word in the same instruction: the later one is in.
            self._meet(site, rows, at, me, on, self.writer, self.writer_site, verb, "written")
        elif (target[rows, at] != me).any():
            target[rows, at] = _SEVERAL

    def _meet(
        self, site: CodeSite, rows: Array, at: Array, me: Array, on: Array,
        whose: Array, where: Array, verb: str, done: str,
    ) -> None:  # fmt: skip
        known = whose[rows, at]
        clash = (known != 0) & (known != me)
        if not clash.any():
            return
        index = int(np.argmax(clash))
        other = self.sites[int(where[rows[index], at[index]])]
        row, thread = self._lane(on, index)
        address = int(at[index]) * self.grain
        known_warp = int(known[index])
        by = "several warps" if known_warp == _SEVERAL else f"warp {known_warp - 1}"
        raise KernelError(
            f"{self.ctx.where(site.instr)}: shared-memory race: {who(self.lanes, row, thread)} "
            f"{verb} {self.ctx.variable_at('shared', address)}, which was {done} by {by} at "
            f"{self.ctx.where(other.instr)} without a barrier between",
            "Put a __syncthreads() between the two, or use an atomic.",
        )

    def _lane(self, on: Array, index: int) -> tuple[int, int]:
        row, thread = (int(axis[index]) for axis in np.nonzero(on))
        return row, thread

    def _uninitialised(self, site: CodeSite, at: Array, unset: Array, on: Array) -> None:
        index = int(np.argmax(unset))
        row, thread = self._lane(on, index)
        address = int(at[index]) * self.grain
        raise KernelError(
            f"{self.ctx.where(site.instr)}: uninitialised shared memory: "
            f"{who(self.lanes, row, thread)} reads {self.ctx.variable_at('shared', address)}, "
            "which no thread of its block has written",
            "Shared memory holds nothing defined when a block starts: write it first.",
        )

    def barrier(self, mask: Mask) -> None:
        """Forget who touched what in the blocks that have passed a barrier."""
        blocks = self.lanes.full(mask).any(axis=1)
        for array in (self.writer, self.reader, self.atomic):
            array[blocks] = 0

    def warp_barrier(self, mask: Mask) -> None:
        """A warp's own barrier orders nothing between warps."""


def check_written(ctx: Context, site: CodeSite, bad: Array, address: Array) -> None:
    """Note a global load of memory that nobody has written.

    The error waits until the batch has ended, so that what follows from it (an endless
    wait, a wild address) is reported first.

    Args:
        ctx: The kernel's context.
        site: The load.
        bad: Which lanes read something unwritten, of the batch's shape.
        address: Their addresses.
    """
    lanes = ctx.rt.lanes
    row, thread = first_lane(lanes, bad)
    where = int(np.broadcast_to(address, lanes.shape)[row, thread])
    allocation = ctx.rt.arena.allocation_of(where)
    place = f"{allocation.name} + {where - allocation.start} bytes" if allocation else hex(where)
    ctx.rt.finding = ctx.rt.finding or KernelError(
        f"{ctx.where(site.instr)}: uninitialised memory: {who(lanes, row, thread)} reads {place}, "
        "which nothing has written",
        "Outputs and scratch buffers hold nothing defined when a kernel starts.",
    )
