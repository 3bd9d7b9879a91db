"""Masks of a batch's lanes, and the batch's shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ptxemu.state.values import Affine, Array, Base, Bools, Value, truth, unsigned

Dim3 = tuple[int, int, int]
WARP = 32


class Geometry(NamedTuple):
    """A launch's shape; `cluster` is in blocks, and divides the grid."""

    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)

    @property
    def blocks_of_cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def by_cluster(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """All blocks of these blocks' clusters: cluster by cluster, by rank."""
        if self.blocks_of_cluster == 1:
            return blocks
        clusters = [extent // by for extent, by in zip(self.grid, self.cluster, strict=True)]
        places = np.unravel_index(blocks, self.grid, order="F")
        corner = [place // by for place, by in zip(places, self.cluster, strict=True)]
        numbers = np.unique(np.ravel_multi_index(corner, clusters, order="F"))
        corner = [each[:, None] for each in np.unravel_index(numbers, clusters, order="F")]
        ranks = np.unravel_index(np.arange(self.blocks_of_cluster), self.cluster, order="F")
        whole = [c * by + r for c, by, r in zip(corner, self.cluster, ranks, strict=True)]
        return np.ravel_multi_index(whole, self.grid, order="F").reshape(-1).astype(np.int64)


class Mask:
    """A set of lanes of a batch. `arr` is None if it contains every lane.

    `count` and `warps` are its numbers of lanes and of warps. The scheduler sets `partial`: lanes
    outside the mask are alive, so their registers matter.
    """

    __slots__ = ("arr", "count", "cuts", "partial", "warps")

    def __init__(self, arr: Bools | None, count: int, warps: int) -> None:
        self.arr = arr
        self.count = count
        self.warps = warps
        self.partial = False
        self.cuts: dict[int, tuple[Array, Mask]] = {}


class Lanes:
    """The lanes of one batch: some blocks times the threads of a block.

    Threads are padded to whole warps; padding lanes are never active. Blocks of a cluster
    are neighbours, in the order of their ranks.
    """

    def __init__(self, geometry: Geometry, blocks: NDArray[np.int64]) -> None:
        self.geometry = geometry
        self.blocks = blocks
        self.B = len(blocks)
        self.W = geometry.warps
        self.T = self.W * WARP
        self.shape = (self.B, self.T)
        self._known: dict[bytes, Mask] = {}
        self.patterns: dict[Any, Any] = {}  # by their content (`spaces.pattern_of`)
        self.all = Mask(None, self.B * self.T, self.B * self.W)
        self.empty = Mask(np.zeros(self.shape, np.bool_), 0, 0)
        if geometry.threads == self.T:
            self.start = self.all
        else:
            real = np.arange(self.T) < geometry.threads
            self.start = self.mask(np.broadcast_to(real, self.shape).copy())

    def mask(self, arr: Bools) -> Mask:
        """The mask of these lanes; equal lanes give the same object."""
        arr = np.broadcast_to(arr, self.shape)
        key = np.packbits(arr).tobytes()
        found = self._known.get(key)
        if found is not None:
            return found
        count = int(np.count_nonzero(arr))
        if count == self.B * self.T:
            found = self.all
        elif count == 0:
            found = self.empty
        else:
            warps = int(arr.reshape(-1, WARP).any(axis=1).sum())
            found = Mask(np.ascontiguousarray(arr), count, warps)
        if len(self._known) > 512:
            self._known.clear()
        self._known[key] = found
        return found

    def within(self, mask: Mask, condition: Value) -> Mask:
        """The lanes of `mask` whose predicate is true."""
        if type(condition) is int:
            return mask if condition else self.empty
        arr = truth(condition)
        known = mask.cuts.get(id(arr))
        if known is not None and known[0] is arr:
            return known[1]
        result = self.mask(arr if mask.arr is None else mask.arr & arr)
        if len(mask.cuts) > 64:
            mask.cuts.clear()
        mask.cuts[id(arr)] = (arr, result)
        return result

    def without(self, mask: Mask, part: Mask) -> Mask:
        """The lanes of `mask` that are not in `part`, a subset of it."""
        if part.count == 0:
            return mask
        if part is mask:
            return self.empty
        assert part.arr is not None
        return self.mask(~part.arr if mask.arr is None else mask.arr & ~part.arr)

    def alike(self, mask: Mask, one: Value, two: Value) -> list[tuple[int, int, Mask]]:
        """The lanes of `mask`, grouped by the values of two 4-byte registers."""
        if type(one) is int and type(two) is int:
            return [(one, two, mask)]
        first, second = (np.broadcast_to(unsigned(each, 4), self.shape) for each in (one, two))
        on = self.full(mask)
        pairs = np.unique(np.stack([first[on], second[on]]), axis=1).T.tolist()
        return [(a, b, self.within(mask, (first == a) & (second == b))) for a, b in pairs]

    def union(self, one: Mask, two: Mask) -> Mask:
        """Lanes of either."""
        if one.arr is None or two.arr is None:
            return self.all
        return self.mask(one.arr | two.arr)

    def full(self, mask: Mask) -> Bools:
        """The mask as an array of the batch's shape."""
        return np.ones(self.shape, np.bool_) if mask.arr is None else mask.arr

    def holds(self, mask: Mask, condition: Array) -> bool:
        """Test whether a predicate is true in every lane of a mask."""
        return bool((condition if mask.arr is None else condition | ~mask.arr).all())

    # --- special registers

    def _axis(self, linear: Array, extents: Dim3, axis: int) -> Value:
        if extents[axis] == 1:
            return 0
        for extent in extents[:axis]:
            linear = linear // extent
        if axis < 2:
            linear = linear % extents[axis]
        linear = linear.astype(np.uint32)
        return int(linear.item()) if linear.size == 1 else Affine(Base(linear), 0)

    def special(self, name: str) -> Value | None:
        """The value of a special register, named without ``%``; None if unknown."""
        geometry = self.geometry
        thread = np.arange(self.T)[None, :]
        head, _, axis = name.partition(".")
        if axis in ("x", "y", "z"):
            index = "xyz".index(axis)
            if head == "tid":
                return self._axis(thread, geometry.block, index)
            if head == "ctaid":
                return self._axis(self.blocks[:, None], geometry.grid, index)
            if head in ("clusterid", "cluster_ctaid"):
                place = self._axis(self.blocks[:, None], geometry.grid, index)
                by = geometry.cluster[index]
                if type(place) is int or by == 1:
                    return place if head == "clusterid" else 0
                whole, rest = np.divmod(unsigned(place, 4), np.uint32(by))
                return Affine(Base(whole if head == "clusterid" else rest), 0)
            return {
                "ntid": geometry.block[index], "nctaid": geometry.grid[index],
                "nclusterid": geometry.grid[index] // geometry.cluster[index],
                "cluster_nctaid": geometry.cluster[index],
            }.get(head)  # fmt: skip
        lane = (thread % WARP).astype(np.uint32)
        bit = np.uint32(1) << lane
        below = bit - np.uint32(1)
        known: dict[str, Value] = {
            "laneid": Affine(Base(lane), 0), "nwarpid": self.W,
            "warpid": Affine(Base((thread // WARP).astype(np.uint32)), 0),
            "lanemask_eq": bit, "lanemask_lt": below, "lanemask_le": below | bit,
            "lanemask_gt": ~(below | bit), "lanemask_ge": ~below,
            "smid": 0, "nsmid": 1, "cluster_nctarank": geometry.blocks_of_cluster,
            "is_explicit_cluster": int(geometry.blocks_of_cluster > 1),
        }  # fmt: skip
        if name == "cluster_ctarank" and geometry.blocks_of_cluster > 1:
            rank = np.arange(self.B, dtype=np.uint32) % np.uint32(geometry.blocks_of_cluster)
            return Affine(Base(rank[:, None]), 0)
        return 0 if name == "cluster_ctarank" else known.get(name)


def select(mask: Mask, new: Value, old: Value | None, size: int) -> Value:
    """`new` in the mask's lanes, `old` in the others."""
    if old is None or mask.arr is None or new is old:
        return new
    if type(new) is int and type(old) is int and new == old:
        return new
    if size == 0:
        return np.where(mask.arr, truth(new), truth(old))
    if isinstance(new, np.ndarray) and isinstance(old, np.ndarray) and new.dtype == old.dtype:
        return np.where(mask.arr, new, old)
    return np.where(mask.arr, unsigned(new, size), unsigned(old, size))
