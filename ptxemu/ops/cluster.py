"""Clusters of blocks: addresses in each other's shared memory, and their common barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.words import first_lane, who
from ptxemu.ptx.instructions import Instr, Operand, Reg
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Lanes, Mask
from ptxemu.state.spaces import RESERVED, SHARED_WINDOW, WINDOW
from ptxemu.state.values import UNSIGNED, Array, Bools, Ints, unsigned

# --- Operands that must point into shared memory, the thread's own block's or its cluster's ---
# An address of the cluster window has the block's rank plus one in its upper byte, so that an
# address of a block's own shared memory is a cluster-window address as it is, as on the chip.

#: The bit at which the rank of a block begins in an address of the cluster window.
RANK = 24
_OFFSET = (1 << RANK) - 1


class Spots(NamedTuple):
    """The places in shared memory to which active lanes point, one entry per lane."""

    row: Ints  # the lane's own block in the batch
    thread: Ints  # its number in the block
    owner: Ints  # the block in the batch whose memory it is
    address: Ints  # bytes from the start of that memory

    def who(self, lanes: Lanes, at: int) -> str:
        """The thread of one place, in words."""
        return who(lanes, int(self.row[at]), int(self.thread[at]))


def owner_of(lanes: Lanes, row: Array, address: Array) -> tuple[Array, Array]:
    """The blocks to which addresses of the cluster window belong, and the addresses there."""
    rank, size = address >> RANK, lanes.geometry.blocks_of_cluster
    first = row // size * size
    owner = np.where(rank == 0, row, first + rank - 1)
    return np.where(rank > size, -1, owner), address & _OFFSET


def lanes_of(R: Registers, slot: int, size: int, M: Mask, lanes: Lanes) -> Array:
    """A register's value in each active lane, in the order of blocks and threads."""
    whole = np.broadcast_to(unsigned(R[slot], size), lanes.shape)
    return whole.reshape(-1) if M.arr is None else whole[M.arr]


Fetch = Callable[[Registers, Mask], Spots]


def shared_operand(
    instr: Instr, ctx: Context, operand: Operand, width: int = 0, align: int = 1
) -> Fetch:
    """A function that finds the spots of an operand with a generic or a shared-memory address.

    `width` bytes must be inside (0: the caller checks). When it runs it raises Fault if a lane
    points elsewhere.
    """
    slot, offset, known = ctx.address(operand)
    base = getattr(operand, "base", None)
    size = 4 if known == "shared" or base is None else ctx.size(base, 8)
    rt = ctx.rt

    def find(R: Registers, M: Mask) -> Spots:
        lanes = rt.lanes
        row, thread = np.nonzero(lanes.full(M))
        raw = lanes_of(R, slot, size, M, lanes).astype(np.int64) + offset
        inside = (raw >= SHARED_WINDOW) & (raw < SHARED_WINDOW + WINDOW)
        raw = np.where(inside, raw - SHARED_WINDOW, raw)
        owner, address = owner_of(lanes, row, raw)
        spots = Spots(row, thread, owner, address)
        check_spots(instr, ctx, spots, width, align)
        return spots

    return find


def check_spots(
    instr: Instr, ctx: Context, spots: Spots, width: int | Array, align: int = 1
) -> None:
    """Raise if `width` bytes from a spot are not in its block's shared memory."""
    _, _, owner, address = spots
    out = (owner < 0) | (address < RESERVED) | (address + width > ctx.rt.shared_limit)
    crooked = (owner >= 0) & (address % align != 0)
    bad = out | crooked
    if not bad.any():
        return
    at = int(np.argmax(bad))
    place = ctx.variable_at("shared", int(address[at]))
    lane = spots.who(ctx.rt.lanes, at)
    if crooked[at]:
        raise ctx.fault(
            instr, "misaligned",
            f"misaligned access: {lane} points to {place}, which is not a multiple of {align}",
            f"`{instr.op}` needs an address aligned to {align} bytes: use __align__.",
        )  # fmt: skip
    raise ctx.fault(
        instr, "out-of-bounds", f"out of bounds: {lane} points to {place}, outside the block's "
        f"{max(ctx.rt.shared_limit - RESERVED, 0)} bytes of shared memory",
        "Check the index against the array's size, and that the address is in shared memory.",
    )  # fmt: skip


def ended(ctx: Context, instr: Instr, spots: Spots, at: int) -> Fault:
    """The error for a spot in the shared memory of a block all of whose threads have ended."""
    lane = spots.who(ctx.rt.lanes, at)
    rank = int(spots.owner[at]) % ctx.rt.lanes.geometry.blocks_of_cluster
    return ctx.fault(
        instr, "out-of-bounds",
        f"shared memory of a block that has exited: {lane} accesses that of rank {rank}",
        "A block whose shared memory others use must wait for its cluster before it exits.",
    )  # fmt: skip


class ClusterBarrier:
    """The cluster barriers of a batch: each lane's number of arrivals, (blocks, threads)."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.arrivals = np.zeros(lanes.shape, np.int32)

    def least(self, alive: Mask) -> NDArray[np.int32]:
        """The number of arrivals that all living lanes of a block's cluster have, (blocks, 1)."""
        size = self._lanes.geometry.blocks_of_cluster
        most = np.iinfo(np.int32).max
        counts = np.where(self._lanes.full(alive), self.arrivals, most)
        least = counts.reshape(self._lanes.B // size, -1).min(axis=1)
        return np.repeat(least, size)[:, None]


def mapa(instr: Instr, ctx: Context) -> Run:
    """``mapa``: the same place in the shared memory of the block with a given rank."""
    size = 8 if instr.parts[-1] == "u64" else 4
    base = 0 if "shared::cluster" in instr.parts else SHARED_WINDOW
    a, rank = ctx.slot(instr.operands[1], size), ctx.slot(instr.operands[2], 4)

    def run(R: Registers, M: Mask) -> Array:
        lanes = ctx.rt.lanes
        ranks = unsigned(R[rank], 4).astype(np.int64)
        beyond = lanes.full(M) & (ranks >= lanes.geometry.blocks_of_cluster)
        if beyond.any():
            row, thread = first_lane(lanes, beyond)
            count = int(np.broadcast_to(ranks, lanes.shape)[row, thread])
            raise ctx.fault(
                instr, "other", f"no block has rank {count}: {who(lanes, row, thread)} maps an "
                f"address to it, and the cluster has {lanes.geometry.blocks_of_cluster} blocks",
                "Check the rank against the cluster's size (%cluster_nctarank).",
            )  # fmt: skip
        own = unsigned(R[a], size).astype(np.int64) & _OFFSET
        found: Array = (base + own + (ranks + 1 << RANK)).astype(UNSIGNED[size])
        return found

    return run


def getctarank(instr: Instr, ctx: Context) -> Run:
    """``getctarank``: the rank of the block to whose shared memory an address belongs."""
    operand = instr.operands[1]
    size = ctx.size(operand, 4) if isinstance(operand, Reg) else 4
    a = ctx.slot(operand, size)

    def run(R: Registers, M: Mask) -> Array:
        lanes = ctx.rt.lanes
        rank = unsigned(R[a], size).astype(np.int64) >> RANK & 0xFF
        own = (np.arange(lanes.B) % lanes.geometry.blocks_of_cluster)[:, None]
        return np.where(rank == 0, own, rank - 1).astype(UNSIGNED[4])

    return run


def barrier(instr: Instr, ctx: Context) -> Run:
    """``barrier.cluster.arrive``; the wait for it is `ClusterWait`."""
    rt = ctx.rt

    def arrive(R: Registers, M: Mask) -> None:
        rt.cluster.arrivals += rt.lanes.full(M)
        if rt.order is not None:
            rt.order.clocks.arrive_cluster(M)

    return arrive


class ClusterWait:
    """``barrier.cluster.wait``."""

    timed = False  # may it give up?
    target = -1  # slot of the predicate that says if it is there; -1: none

    def __init__(self, instr: Instr, ctx: Context) -> None:
        self.instr, self.ctx = instr, ctx

    def ask(self, R: Registers, M: Mask) -> Array:  # noqa: ARG002
        """Arrivals of each lane; Fault: a lane waits that has not arrived."""
        rt = self.ctx.rt
        own: Array = rt.cluster.arrivals.copy()
        idle = rt.lanes.full(M) & (own == 0)
        if idle.any():
            raise self.ctx.fault(
                self.instr, "other", f"barrier.cluster.wait without "
                f"barrier.cluster.arrive: {who(rt.lanes, *first_lane(rt.lanes, idle))}",
                "Each thread must run barrier.cluster.arrive before barrier.cluster.wait.",
            )  # fmt: skip
        return own

    def ready(self, asked: Array, M: Mask) -> Bools:
        """True for lanes whose whole cluster has arrived."""
        rt = self.ctx.rt
        return np.asarray(rt.lanes.full(M) & (rt.cluster.least(rt.alive()) >= asked))

    def passed(self, asked: Array, M: Mask) -> None:  # noqa: ARG002
        """The lanes now know all work done before their cluster arrived."""
        if self.ctx.rt.order is not None:
            self.ctx.rt.order.clocks.passed_cluster(M)

    def stuck(self, asked: Array, M: Mask) -> Fault:  # noqa: ARG002
        """The error if part of a cluster never arrives."""
        lanes = self.ctx.rt.lanes
        return self.ctx.fault(
            self.instr, "endless", f"cluster barrier not reached by all threads: "
            f"{who(lanes, *first_lane(lanes, lanes.full(M)))} waits forever",
            "Every thread of every block of a cluster must arrive.",
        )  # fmt: skip
