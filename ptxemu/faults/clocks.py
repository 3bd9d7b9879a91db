"""Who knows of whose work: vector clocks of the warps of a batch.

Every agent counts its own steps. A warp's clock says how many steps of every other agent of its
cluster are over, as far as it can know: by barriers, by phases of mbarriers and by waits. What
an agent did in a step that another does not know of may not have happened yet. Agents are the
warps of each block; its warpgroups, as readers of what products multiply; once more its
warps, as readers of bulk copies out of shared memory; and mbarriers, as writers of the copies
that report to them. (Vector clocks: C. J. Fidge, 1988; F. Mattern, 1989.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import Bools

Ints = NDArray[np.signedinteger[Any]]
_GROUP = 4  # warps
#: mbarriers of a cluster that there is room for at first.
_ROOM = 16


class Clocks:
    """The clocks of one batch.

    Attributes:
        known: Steps of each agent that a warp knows to be over, (blocks, warps, agents).
        fenced: The same as far as a proxy fence lies between.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.size = lanes.geometry.blocks_of_cluster
        self.each = 2 * lanes.W + lanes.W // _GROUP  # agents of a block but mbarriers
        own = self.size * self.each
        self.known = np.zeros((lanes.B, lanes.W, own + _ROOM), np.int32)
        self.fenced = np.zeros_like(self.known)
        self.rank = np.arange(lanes.B) % self.size
        self.own = self.rank[:, None] * self.each + np.arange(lanes.W)
        self._tick(np.ones((lanes.B, lanes.W), np.bool_))
        clusters = lanes.B // self.size
        shape = (clusters, _ROOM, own + _ROOM)
        self._barriers: dict[int, int] = {}
        #: Of each mbarrier: what those that arrive in its phase know, and what all knew who
        #: arrived in those before.
        self._arrived = [np.zeros(shape, np.int32) for _ in range(2)]
        self._ended = [np.zeros(shape, np.int32) for _ in range(2)]
        self.phases = np.zeros(shape[:2], np.int32)
        #: What those knew who arrived at a named barrier of their block and did not wait.
        self._heralds: dict[int, list[Ints]] = {}
        #: What those know who have arrived at their cluster's barrier.
        self._cluster = [np.zeros((clusters, shape[2]), np.int32) for _ in range(2)]

    # --- agents

    def warps_of(self, mask: Mask) -> Bools:
        """Which warps have lanes in a mask, (blocks, warps)."""
        lanes = self.lanes
        if mask.arr is None:
            return np.ones((lanes.B, lanes.W), np.bool_)
        return np.asarray(mask.arr.reshape(lanes.B, lanes.W, WARP).any(axis=2))

    def group(self, row: Ints, number: Ints) -> Ints:
        """The agents that warpgroups' products are."""
        return np.asarray(self.rank[row] * self.each + self.lanes.W + number)

    def copier(self, row: Ints, warp: Ints) -> Ints:
        """The agents that warps' bulk copies out of shared memory are."""
        start = self.lanes.W + self.lanes.W // _GROUP
        return np.asarray(self.rank[row] * self.each + start + warp)

    def barrier(self, owner: Ints, address: Ints) -> Ints:
        """The agents that mbarriers are."""
        number = self._numbers(owner, address)
        return number + self.size * self.each

    def _numbers(self, owner: Ints, address: Ints) -> Ints:
        keys = self.rank[owner] << 32 | address
        for key in np.unique(keys).tolist():
            if key not in self._barriers:
                self._barriers[key] = len(self._barriers)
        while len(self._barriers) > self.phases.shape[1]:
            self._grow()
        return np.array([self._barriers[key] for key in keys.tolist()], np.int64)

    def _grow(self) -> None:
        more = self.phases.shape[1]
        self.known, self.fenced = (
            np.pad(each, ((0, 0), (0, 0), (0, more))) for each in (self.known, self.fenced)
        )
        widths = ((0, 0), (0, more), (0, more))
        self._heralds = {
            number: [np.pad(each, widths[:2]) for each in known]
            for number, known in self._heralds.items()
        }
        self._arrived = [np.pad(each, widths) for each in self._arrived]
        self._ended = [np.pad(each, widths) for each in self._ended]
        self.phases = np.pad(self.phases, widths[:2])
        self._cluster = [np.pad(each, widths[:2]) for each in self._cluster]

    # --- what warps come to know

    def _tick(self, warps: Bools) -> None:
        row, warp = np.nonzero(warps)
        self.known[row, warp, self.own[row, warp]] += 1

    def meet(self, mask: Mask) -> None:
        """The warps of each block in the mask have waited for each other."""
        warps = self.warps_of(mask)
        there = warps[:, :, None]
        for clock in (self.known, self.fenced):
            joined = np.where(there, clock, 0).max(axis=1, keepdims=True)
            np.maximum(clock, joined, out=clock, where=there)
        self._tick(warps)

    def herald(self, mask: Mask, number: int) -> None:
        """Warps arrive at a named barrier of their block and go on."""
        warps = self.warps_of(mask)
        there = warps[:, :, None]
        known = self._heralds.setdefault(number, [self.known[:, 0] * 0, self.known[:, 0] * 0])
        for clock, into in zip((self.known, self.fenced), known, strict=True):
            np.maximum(into, np.where(there, clock, 0).max(axis=1), out=into)
        self._tick(warps)

    def heard(self, mask: Mask, number: int) -> None:
        """The warps of the mask have waited for those that arrived at a named barrier so."""
        row, warp = np.nonzero(self.warps_of(mask))
        known = self._heralds.get(number)
        if known is not None:
            for clock, of in zip((self.known, self.fenced), known, strict=True):
                clock[row, warp] = np.maximum(clock[row, warp], of[row])
                of[row] = 0

    def arrive_cluster(self, mask: Mask) -> None:
        """Warps arrive at the barrier of their cluster."""
        warps = self.warps_of(mask)
        row, warp = np.nonzero(warps)
        for clock, into in zip((self.known, self.fenced), self._cluster, strict=True):
            np.maximum.at(into, row // self.size, clock[row, warp])
        self._tick(warps)

    def passed_cluster(self, mask: Mask) -> None:
        """Warps have waited for their cluster."""
        row, warp = np.nonzero(self.warps_of(mask))
        for clock, known in zip((self.known, self.fenced), self._cluster, strict=True):
            clock[row, warp] = np.maximum(clock[row, warp], known[row // self.size])

    def fence(self, mask: Mask) -> None:
        """A proxy fence: all that the warps know of is ordered for copies and products too."""
        warps = self.warps_of(mask)
        there = warps[:, :, None]
        np.maximum(self.fenced, self.known, out=self.fenced, where=there)
        self._tick(warps)

    def arrive(self, row: Ints, warp: Ints, owner: Ints, address: Ints) -> None:
        """Warps arrive at mbarriers: those that wait for the phase will know what they know."""
        number, cluster = self._numbers(owner, address), owner // self.size
        for clock, into in zip((self.known, self.fenced), self._arrived, strict=True):
            np.maximum.at(into, (cluster, number), clock[row, warp])
        warps = np.zeros((self.lanes.B, self.lanes.W), np.bool_)
        warps[row, warp] = True
        self._tick(warps)

    def end_phases(self, owner: Ints, address: Ints, completed: Ints) -> None:
        """Phases of mbarriers are over, so many of each."""
        done = completed > 0
        if not done.any():
            return
        owner, address, completed = owner[done], address[done], completed[done]
        number, cluster = self._numbers(owner, address), owner // self.size
        self.phases[cluster, number] += completed.astype(np.int32)
        column = number + self.size * self.each
        for ended, arrived in zip(self._ended, self._arrived, strict=True):
            ended[cluster, number] = np.maximum(ended[cluster, number], arrived[cluster, number])
            ended[cluster, number, column] = self.phases[cluster, number]

    def passed(self, row: Ints, warp: Ints, owner: Ints, address: Ints) -> None:
        """Warps have waited for phases of mbarriers."""
        number, cluster = self._numbers(owner, address), owner // self.size
        for clock, ended in zip((self.known, self.fenced), self._ended, strict=True):
            np.maximum.at(clock, (row, warp), ended[cluster, number])

    def waited(self, warps: Bools, agents: Ints, steps: Ints) -> None:
        """Each of these warps knows so many steps of an agent of its own to be over."""
        row, warp = np.nonzero(warps)
        where = row, warp, agents[row, warp]
        self.known[where] = np.maximum(self.known[where], steps[row, warp])
