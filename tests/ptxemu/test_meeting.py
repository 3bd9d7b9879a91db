"""Loops with several ways back: how often warps go which way, against a plain model of lanes.

The models are what ptxas 13.0 makes of these kernels for 9.0: where it puts BSSY and BSYNC.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

LOOPS = """
extern "C" __global__ void down_and_up(const unsigned* x, int* down, int* up) {
  unsigned v = x[threadIdx.x]; int n = 0;
  while (true) {
    if (v & 1) { v >>= 1; down[n++ * 32 + threadIdx.x] = 1; }
    else { v >>= 1; if (v == 0) break; up[n++ * 32 + threadIdx.x] = 1; }
  }
}
extern "C" __global__ void either_ends(const unsigned* x, int* down, int* up) {
  unsigned v = x[threadIdx.x]; int n = 0;
  while (true) {
    if (v & 1) { v >>= 1; if (v == 0) break; down[n++ * 32 + threadIdx.x] = 1; }
    else { v >>= 1; if (v == 0) break; up[n++ * 32 + threadIdx.x] = 1; }
  }
}
extern "C" __global__ void three(const unsigned* x, int* down, int* up) {
  unsigned v = x[threadIdx.x]; int n = 0;
  while (true) {
    unsigned k = v & 3; v >>= 2;
    if (k == 0) down[n++ * 32 + threadIdx.x] = 1;
    else if (k == 1) up[n++ * 32 + threadIdx.x] = 1;
    else { if (v == 0) break; down[n++ * 32 + threadIdx.x] = 2; }
  }
}
"""


def runs(kernel: str, cuda: Compile, x: np.ndarray) -> list[int]:
    """Warps that ran each store, in the order of the source."""
    room = np.zeros(32 * 32, "i4")
    _, found = execute(
        cuda(LOOPS), kernel, {"x": x, "down": room, "up": room.copy()}, ["x", "down", "up"],
        block=32,
    )  # fmt: skip
    stores = [row for row in found.rows if row.instr.op == "st"]
    return [row.warps for row in sorted(stores, key=lambda row: row.instr.ptx_line)]


def words() -> np.ndarray:
    return np.random.default_rng(5).integers(1 << 19, 1 << 20, 32).astype("u4")


def ones_first(x: np.ndarray) -> tuple[int, int]:
    """Turns of an inner loop that takes ones, and of the one around it that takes zeros."""
    left, inner, outer = [int(v) for v in x], 0, 0
    while left:
        gone = [(~v & (v + 1)).bit_length() - 1 for v in left]  # ones at the end
        inner += max(gone)
        left = [v >> (n + 1) for v, n in zip(left, gone, strict=True)]
        left = [v for v in left if v]
        outer += bool(left)
    return inner, outer


def test_a_way_back_beside_one_that_may_leave_is_a_loop_of_its_own(cuda: Compile) -> None:
    x = words()
    assert sorted(runs("down_and_up", cuda, x)) == sorted(ones_first(x))


def test_lanes_meet_where_every_way_back_may_leave_instead(cuda: Compile) -> None:
    x = words()
    at = [[v >> k for v in x.tolist() if v >> k + 1] for k in range(20)]
    down = sum(any(v & 1 for v in values) for values in at)
    up = sum(any(not v & 1 for v in values) for values in at)
    assert sorted(runs("either_ends", cuda, x)) == sorted((down, up))


def test_three_ways_are_three_loops_in_each_other(cuda: Compile) -> None:
    x = np.random.default_rng(6).integers(1 << 25, 1 << 26, 32).astype("u4") | np.uint32(3 << 26)
    left, counts = [int(v) for v in x], [0, 0, 0]
    while left:
        while any(v & 3 < 2 for v in left):
            while any(v & 3 == 0 for v in left):
                left = [v >> 2 if v & 3 == 0 else v for v in left]
                counts[0] += 1
            left, before = [v >> 2 if v & 3 == 1 else v for v in left], left
            counts[1] += left != before
        left = [v >> 2 for v in left if v >> 2]
        counts[2] += bool(left)
    assert sorted(runs("three", cuda, x)) == sorted(counts)
