"""Vector clocks of the warps of a batch: each agent's knowledge of the others' work.

Every agent counts its own steps. A warp's clock says how many steps of every other agent of its
cluster are over, as far as it can know from barriers, phases of mbarriers and waits. The work of a
step that another agent does not know about may not have happened yet. Agents are the warps of each
block; its warpgroups, as readers of products' operands; once more its warps, as readers for bulk
copies out of shared memory; and mbarriers, as writers for the copies that report to them. (Vector
clocks: C. J. Fidge, 1988; F. Mattern, 1989.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.lanes import WARP, Lanes, Mask
from ptxemu.state.values import Bools

Ints = NDArray[np.signedinteger[Any]]
_GROUP = 4  # warps
#: The number of a cluster's mbarriers for which there is room at first.
_ROOM = 16
_BOTH: Any = slice(None)


class Clocks:
    """The clocks of one batch: all knowledge, and the part of it that is behind a proxy fence.

    Arrays of both have an axis of two in front.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.size = lanes.geometry.blocks_of_cluster
        self.each = 2 * lanes.W + lanes.W // _GROUP  # agents of a block except mbarriers
        agents, clusters = self.size * self.each + _ROOM, lanes.B // self.size
        #: Steps of each agent that a warp knows to be over, (2, blocks, warps, agents).
        self._clock = np.zeros((2, lanes.B, lanes.W, agents), np.int32)
        self.rank = np.arange(lanes.B) % self.size
        self.own = self.rank[:, None] * self.each + np.arange(lanes.W)
        self._tick(np.ones((lanes.B, lanes.W), np.bool_))
        self._barriers: dict[int, int] = {}
        #: For each mbarrier: the knowledge of those that arrive in its phase, and of all that
        #: arrived in earlier phases.
        self._arrived = np.zeros((2, clusters, _ROOM, agents), np.int32)
        self._ended = np.zeros_like(self._arrived)
        self.phases = np.zeros((clusters, _ROOM), np.int32)
        #: Named barrier -> the knowledge of its block's warps that arrived without waiting.
        self._heralds: dict[int, Ints] = {}
        #: The knowledge of warps that have arrived at their cluster's barrier.
        self._cluster = np.zeros((2, clusters, agents), np.int32)

    @property
    def known(self) -> Ints:
        """Steps of each agent that a warp knows to be over, (blocks, warps, agents)."""
        return np.asarray(self._clock[0])

    @property
    def fenced(self) -> Ints:
        """The same, only for steps behind a proxy fence."""
        return np.asarray(self._clock[1])

    # --- agents

    def warps_of(self, mask: Mask) -> Bools:
        """True for warps that have lanes in a mask, (blocks, warps)."""
        lanes = self.lanes
        if mask.arr is None:
            return np.ones((lanes.B, lanes.W), np.bool_)
        return np.asarray(mask.arr.reshape(lanes.B, lanes.W, WARP).any(axis=2))

    def group(self, row: Ints, number: Ints) -> Ints:
        """The agents for warpgroups' products."""
        return np.asarray(self.rank[row] * self.each + self.lanes.W + number)

    def copier(self, row: Ints, warp: Ints) -> Ints:
        """The agents for warps' bulk copies out of shared memory."""
        start = self.lanes.W + self.lanes.W // _GROUP
        return np.asarray(self.rank[row] * self.each + start + warp)

    def barrier(self, owner: Ints, address: Ints) -> Ints:
        """The agents for mbarriers."""
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
        self._clock, self._cluster, self.phases = (
            _padded(each, more) for each in (self._clock, self._cluster, self.phases)
        )
        self._heralds = {number: _padded(each, more) for number, each in self._heralds.items()}
        self._arrived, self._ended = (
            _padded(each, more, axes=2) for each in (self._arrived, self._ended)
        )

    # --- how warps learn

    def _tick(self, warps: Bools) -> None:
        row, warp = np.nonzero(warps)
        self.known[row, warp, self.own[row, warp]] += 1

    def _joined(self, warps: Bools) -> Ints:
        """The joint knowledge of these warps of each block, (2, blocks, agents)."""
        return np.asarray(np.where(warps[:, :, None], self._clock, 0).max(axis=2))

    def _learn(self, row: Ints, warp: Ints, known: Ints) -> None:
        """Add to the knowledge of warps, each named once."""
        where = _BOTH, row, warp
        self._clock[where] = np.maximum(self._clock[where], known)

    def meet(self, mask: Mask) -> None:
        """The warps of each block in the mask have waited for each other."""
        warps = self.warps_of(mask)
        there, joined = warps[:, :, None], self._joined(warps)[:, :, None]
        np.maximum(self._clock, joined, out=self._clock, where=there)
        self._tick(warps)

    def herald(self, mask: Mask, number: int) -> None:
        """Warps arrive at a named barrier of their block and continue."""
        warps = self.warps_of(mask)
        known = self._heralds.setdefault(number, np.zeros_like(self._clock[:, :, 0]))
        np.maximum(known, self._joined(warps), out=known)
        self._tick(warps)

    def heard(self, mask: Mask, number: int) -> None:
        """The warps in the mask have waited for those that arrived at a named barrier this way."""
        row, warp = np.nonzero(self.warps_of(mask))
        known = self._heralds.get(number)
        if known is not None:
            self._learn(row, warp, known[:, row])
            known[:, row] = 0

    def arrive_cluster(self, mask: Mask) -> None:
        """Warps arrive at the barrier of their cluster."""
        warps = self.warps_of(mask)
        row, warp = np.nonzero(warps)
        np.maximum.at(self._cluster, (_BOTH, row // self.size), self._clock[:, row, warp])
        self._tick(warps)

    def passed_cluster(self, mask: Mask) -> None:
        """Warps have waited for their cluster."""
        row, warp = np.nonzero(self.warps_of(mask))
        self._learn(row, warp, self._cluster[:, row // self.size])

    def fence(self, mask: Mask) -> None:
        """A proxy fence: all steps that the warps know are ordered for copies and products too."""
        warps = self.warps_of(mask)
        np.maximum(self.fenced, self.known, out=self.fenced, where=warps[:, :, None])
        self._tick(warps)

    def arrive(self, row: Ints, warp: Ints, owner: Ints, address: Ints) -> None:
        """Warps arrive at mbarriers: warps that wait for the phase will share their knowledge."""
        number, cluster = self._numbers(owner, address), owner // self.size
        np.maximum.at(self._arrived, (_BOTH, cluster, number), self._clock[:, row, warp])
        warps = np.zeros((self.lanes.B, self.lanes.W), np.bool_)
        warps[row, warp] = True
        self._tick(warps)

    def end_phases(self, owner: Ints, address: Ints, completed: Ints) -> None:
        """Phases of mbarriers are over: the given number of each."""
        done = completed > 0
        if not done.any():
            return
        owner, address, completed = owner[done], address[done], completed[done]
        number, cluster = self._numbers(owner, address), owner // self.size
        self.phases[cluster, number] += completed.astype(np.int32)
        at = _BOTH, cluster, number
        self._ended[at] = np.maximum(self._ended[at], self._arrived[at])
        self._ended[(*at, number + self.size * self.each)] = self.phases[cluster, number]

    def passed(self, row: Ints, warp: Ints, owner: Ints, address: Ints) -> None:
        """Warps have waited for phases of mbarriers."""
        number, cluster = self._numbers(owner, address), owner // self.size
        np.maximum.at(self._clock, (_BOTH, row, warp), self._ended[:, cluster, number])

    def waited(self, warps: Bools, agents: Ints, steps: Ints) -> None:
        """Each of these warps knows that the given steps of one of its own agents are over."""
        row, warp = np.nonzero(warps)
        where = row, warp, agents[row, warp]
        self.known[where] = np.maximum(self.known[where], steps[row, warp])


def _padded(array: Ints, more: int, *, axes: int = 1) -> Ints:
    """An array with room for more along its last axes."""
    return np.pad(array, [(0, 0)] * (array.ndim - axes) + [(0, more)] * axes)
