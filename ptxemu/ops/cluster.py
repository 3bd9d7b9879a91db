"""Clusters of blocks: addresses in each other's shared memory, and their common barrier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxemu.errors import Fault
from ptxemu.faults.words import first_lane, who
from ptxemu.ops.bulk.places import RANK
from ptxemu.ptx.instructions import Instr, Reg
from ptxemu.state.context import Context, Registers, Run
from ptxemu.state.lanes import Bools, Lanes, Mask
from ptxemu.state.spaces import SHARED_WINDOW
from ptxemu.state.values import UNSIGNED, Array, unsigned

_OFFSET = (1 << RANK) - 1


class ClusterBarrier:
    """The cluster barriers of a batch: how often each lane has arrived, (blocks, threads)."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.arrivals = np.zeros(lanes.shape, np.int32)

    def least(self, alive: Mask) -> NDArray[np.int32]:
        """How often all living lanes of each block's cluster have arrived, (blocks, 1)."""
        size = self._lanes.geometry.blocks_of_cluster
        most = np.iinfo(np.int32).max
        counts = np.where(self._lanes.full(alive), self.arrivals, most)
        least = counts.reshape(self._lanes.B // size, -1).min(axis=1)
        return np.repeat(least, size)[:, None]


def mapa(instr: Instr, ctx: Context) -> Run:
    """``mapa``: the same place in the shared memory of the block of a rank."""
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
            raise Fault(
                f"{ctx.where(instr)}: no block has rank {count}: {who(lanes, row, thread)} maps an "
                f"address to it, and the cluster has {lanes.geometry.blocks_of_cluster} blocks",
                "Check the rank against the cluster's size (%cluster_nctarank).",
            )
        own = unsigned(R[a], size).astype(np.int64) & _OFFSET
        found: Array = (base + own + (ranks + 1 << RANK)).astype(UNSIGNED[size])
        return found

    return run


def getctarank(instr: Instr, ctx: Context) -> Run:
    """``getctarank``: the rank of the block whose shared memory an address is of."""
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
    """``barrier.cluster.wait``; see `ptxemu.state.context.Wait`."""

    timed = False
    target = -1

    def __init__(self, instr: Instr, ctx: Context) -> None:
        self.instr, self.ctx = instr, ctx

    def ask(self, R: Registers, M: Mask) -> Array:  # noqa: ARG002
        """How often the lanes have arrived.

        Raises:
            Fault: a lane waits that has not arrived.
        """
        rt = self.ctx.rt
        own: Array = rt.cluster.arrivals.copy()
        idle = rt.lanes.full(M) & (own == 0)
        if idle.any():
            raise Fault(
                f"{self.ctx.where(self.instr)}: barrier.cluster.wait without "
                f"barrier.cluster.arrive: {who(rt.lanes, *first_lane(rt.lanes, idle))}",
                "Each thread must run barrier.cluster.arrive before barrier.cluster.wait.",
            )
        return own

    def ready(self, asked: Array, M: Mask) -> Bools:
        """Which lanes' clusters have arrived as a whole."""
        rt = self.ctx.rt
        return np.asarray(rt.lanes.full(M) & (rt.cluster.least(rt.alive()) >= asked))

    def passed(self, asked: Array, M: Mask) -> None:  # noqa: ARG002
        """The lanes know now what was done before their cluster arrived."""
        if self.ctx.rt.order is not None:
            self.ctx.rt.order.clocks.passed_cluster(M)

    def stuck(self, asked: Array, M: Mask) -> Fault:  # noqa: ARG002
        """The error where part of a cluster never arrives."""
        lanes = self.ctx.rt.lanes
        return Fault(
            f"{self.ctx.where(self.instr)}: cluster barrier not reached by all threads: "
            f"{who(lanes, *first_lane(lanes, lanes.full(M)))} waits forever",
            "Every thread of every block of a cluster must arrive.",
        )
