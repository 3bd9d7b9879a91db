"""Control flow, barriers, calls, warps, atomics: whole kernels against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from ptxemu.errors import Fault, LaunchError, Unsupported
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Compile, execute

pytestmark = pytest.mark.nvcc

FLOW = """
__device__ __noinline__ int collatz(int n) {
  int steps = 0;
  while (n != 1) { n = n % 2 ? 3 * n + 1 : n / 2; ++steps; }
  return steps;
}
extern "C" __global__ void flow(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], r = 0;
  for (int k = 0; k < v % 13; ++k) {
    if (k == 7) break;
    if (k % 3 == 1) continue;
    r += k * v;
  }
  switch (v % 6) {
    case 0: r += 1; break;
    case 1: r *= 2; break;
    case 2: r -= 3;
    case 3: r = -r; break;
    case 4: r += 7; break;
  }
  y[i] = r + collatz(v);
}
"""


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps


def flow(v: int) -> int:
    r = 0
    for k in range(v % 13):
        if k == 7:
            break
        if k % 3 == 1:
            continue
        r += k * v
    case = v % 6
    if case == 0:
        r += 1
    elif case == 1:
        r *= 2
    elif case in (2, 3):
        r = -(r - 3) if case == 2 else -r
    elif case == 4:
        r += 7
    return r + collatz(v)


@pytest.mark.parametrize("block", [32, 48, 256])
def test_divergent_code_computes_what_python_does(cuda: Compile, block: int) -> None:
    x = np.random.default_rng(1).integers(1, 300, 1000).astype("i4")
    got, outcome = execute(
        cuda(FLOW), "flow", {"x": x, "y": np.zeros(1000, "i4")}, ["x", "y", 1000],
        grid=-(-1000 // block), block=block,
    )  # fmt: skip
    assert got["y"].tolist() == [flow(int(v)) for v in x]
    assert sum(row.site.divergent for row in outcome.rows) > 0


def test_instructions_are_counted_by_warps_and_threads(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(int* y, int n) {
      int i = threadIdx.x;
      if (i < n) y[i] = i;
    }"""
    got, outcome = execute(cuda(text), "k", {"y": np.zeros(64, "i4")}, ["y", 40], block=64)
    assert got["y"].tolist() == [*range(40), *[0] * 24]
    (store,) = [row for row in outcome.rows if row.instr.op == "st"]
    assert (store.warps, store.threads) == (2, 40)
    assert (store.site.requests, store.site.sectors, store.site.bytes) == (2, 5, 160)
    (branch,) = [row for row in outcome.rows if row.instr.op == "bra"]
    assert branch.site.divergent == 1  # the second warp only


REDUCE = """
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  __shared__ float part[32];
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_reduction_with_shuffles_barriers_and_an_atomic(cuda: Compile, workers: int) -> None:
    x = np.random.default_rng(2).standard_normal(200_000).astype("f4")
    got, _ = execute(
        cuda(REDUCE), "reduce", {"x": x, "out": np.zeros(1, "f4")}, ["x", "out", len(x)],
        grid=64, block=256, check=True, workers=workers,
    )  # fmt: skip
    assert abs(got["out"][0] - x.astype("f8").sum()) < 1e-2


TICKETS = """
extern "C" __global__ void tickets(unsigned* next, int* y, int n) {
  for (;;) {
    unsigned first;
    if (threadIdx.x == 0) first = atomicAdd(next, 32);
    first = __shfl_sync(~0u, first, 0);
    if (first >= n) break;
    unsigned i = first + threadIdx.x;
    if (i < n) {
      int v = i, steps = 0;
      do { v = v % 2 ? 3 * v + 1 : v / 2; } while (++steps < 50 && v > 1);
      y[i] = steps;
    }
  }
}
"""


def test_lanes_that_part_at_the_end_of_a_loop_meet_before_its_next_turn(cuda: Compile) -> None:
    got, _ = execute(
        cuda(TICKETS), "tickets", {"next": np.zeros(1, "u4"), "y": np.zeros(70, "i4")},
        ["next", "y", 70],
    )  # fmt: skip

    def steps(v: int) -> int:
        for step in range(1, 50):
            v = 3 * v + 1 if v % 2 else v // 2
            if v <= 1:
                return step
        return 50

    assert got["y"].tolist() == [steps(v) for v in range(70)]


WARPS = """
extern "C" __global__ void warps(const int* x, int* y, int size) {
  int lane = threadIdx.x % 32, v = x[threadIdx.x], same;
  unsigned mine = size < 32 ? ((1u << size) - 1) << (lane & -size) : ~0u;
  int* o = y + threadIdx.x * 9;
  o[0] = __ballot_sync(mine, v > 0);
  o[1] = __any_sync(mine, v > 60) * 2 + __all_sync(mine, v > -60);
  o[2] = __match_any_sync(mine, v % 4);
  o[3] = __reduce_add_sync(mine, v);
  o[4] = __reduce_min_sync(mine, v);
  __match_all_sync(mine, v > -90, &same);
  o[5] = same;
  o[6] = __shfl_up_sync(mine, v, 3, 8);
  o[7] = __shfl_sync(mine, v, lane * 7, size);
  o[8] = lane < 10 ? __activemask() : 0;
}
"""


@pytest.mark.parametrize("size", [32, 8])
def test_lanes_see_only_what_their_own_mask_names(cuda: Compile, size: int) -> None:
    x = np.random.default_rng(4).integers(-100, 100, 64).astype("i4")
    buffers = {"x": x, "y": np.zeros((64, 9), "i4")}
    got, _ = execute(cuda(WARPS), "warps", buffers, ["x", "y", size], block=64)
    v = x.tolist()
    rest = [int(np.fmod(each, 4)) for each in v]
    for thread in range(64):
        first = thread // size * size
        mine = range(first, first + size)
        want = [
            sum(1 << t % 32 for t in mine if v[t] > 0),
            2 * any(v[t] > 60 for t in mine) + all(v[t] > -60 for t in mine),
            sum(1 << t % 32 for t in mine if rest[t] == rest[thread]),
            sum(v[t] for t in mine),
            min(v[t] for t in mine),
            int(len({v[t] > -90 for t in mine}) == 1),
            v[thread - 3] if thread % 8 >= 3 else v[thread],
            v[first + thread % 32 * 7 % size],
            0x3FF if thread % 32 < 10 else 0,
        ]
        assert [each & 0xFFFFFFFF for each in got["y"][thread].tolist()] == [
            each & 0xFFFFFFFF for each in want
        ]


NAMED = """
extern "C" __global__ void named(int* y) {
  __shared__ int box[2][64];
  int t = threadIdx.x % 64, half = threadIdx.x / 64;
  box[half][t] = t * (half + 1);
  asm volatile("bar.sync %0, 64;" :: "r"(half + 1));
  y[threadIdx.x] = box[half][63 - t];
}
"""


@pytest.mark.parametrize("barrier", (
    'asm volatile("bar.sync %0, 64;" :: "r"(half + 1));',
    'asm volatile("bar.sync %0, %1;" :: "r"(half + 1), "r"(64 + 0 * half));',
    'if (half) asm volatile("bar.sync 2, 64;"); else asm volatile("bar.sync 1, 64;");',
))  # fmt: skip
def test_named_barriers_with_counts(cuda: Compile, barrier: str) -> None:
    """Warps may wait at barriers whose numbers they compute."""
    text = NAMED.replace('asm volatile("bar.sync %0, 64;" :: "r"(half + 1));', barrier)
    got, _ = execute(cuda(text), "named", {"y": np.zeros(128, "i4")}, ["y"], block=128)
    want = [*(63 - t for t in range(64)), *(2 * (63 - t) for t in range(64))]
    assert got["y"].tolist() == want


def test_a_barrier_whose_number_differs_in_a_warp_is_refused(cuda: Compile) -> None:
    text = NAMED.replace("half + 1", "(int)threadIdx.x % 2")
    with pytest.raises(Unsupported, match=r"k\.cu:6: .*differs between the lanes of a warp"):
        execute(cuda(text), "named", {"y": np.zeros(128, "i4")}, ["y"], block=128)


LOCAL = """
__constant__ int table[4] = {10, 20, 30, 40};
extern "C" __global__ void local(const int* x, int* y) {
  extern __shared__ int dynamic[];
  int stack[16];
  for (int k = 0; k < 16; ++k) stack[(k * 5) % 16] = x[threadIdx.x] + k;
  dynamic[threadIdx.x] = stack[x[threadIdx.x] & 15] + table[threadIdx.x & 3];
  __syncthreads();
  y[threadIdx.x] = dynamic[blockDim.x - 1 - threadIdx.x];
}
"""


def test_local_constant_and_dynamic_shared_memory(cuda: Compile) -> None:
    x = np.random.default_rng(5).integers(0, 1000, 64).astype("i4")
    got, outcome = execute(
        cuda(LOCAL), "local", {"x": x, "y": np.zeros(64, "i4")}, ["x", "y"], block=64, shared=256
    )
    want = []
    for t in range(64):
        stack = [0] * 16
        for k in range(16):
            stack[k * 5 % 16] = int(x[t]) + k
        want.append(stack[int(x[t]) & 15] + [10, 20, 30, 40][t & 3])
    assert got["y"].tolist() == want[::-1]
    # ptxas keeps the array in registers: nothing is asked of memory for it.
    assert {row.site.sectors for row in outcome.rows if row.site.space == "local"} == {0}


def test_more_shared_memory_than_a_block_has_is_refused(cuda: Compile) -> None:
    buffers = {"x": np.zeros(64, "i4"), "y": np.zeros(64, "i4")}
    with pytest.raises(LaunchError, match=r"needs .* bytes of shared memory"):
        execute(cuda(LOCAL), "local", buffers, ["x", "y"], shared=300_000)


@pytest.mark.parametrize("how", ["num.s64", "ltu.u64", "eqq.b64", "lo.f64", "hs.f64"])
def test_a_comparison_that_its_type_does_not_have_is_refused(how: str) -> None:
    """No assembler takes one, but PTX may be damaged."""
    text = f"""{HEADER}.visible .entry k(.param .u64 y)
    {{ .reg .pred %p<2>; .reg .b64 %rd<2>; .reg .f64 %fd<2>;
      mov.u64 %rd1, 1;
      mov.f64 %fd1, 0d3FF0000000000000;
      setp.{how} %p1, {"%fd1, %fd1" if how.endswith("f64") else "%rd1, %rd1"};
      ret; }}"""
    with pytest.raises(Unsupported, match=rf"kernel k: .*setp\.{how}"):
        execute(parse(text), "k", {"y": np.zeros(1, "i8")}, ["y"])


def test_warp_size_is_a_name_of_its_own_in_ptx(cuda: Compile) -> None:
    text = """
    extern "C" __global__ void k(int* y) {
      for (int d = warpSize / 2; d > 0; d /= 2) y[threadIdx.x] += d;
    }
    """
    results, _ = execute(cuda(text), "k", {"y": np.zeros(32, np.int32)}, ["y"])
    assert (results["y"] == 31).all()


@pytest.mark.parametrize(
    "call",
    [
        "v += __shfl_down_sync(mask, v, 1);", "v += __ballot_sync(mask, v > 0) & 1;",
        "v += __match_any_sync(mask, t) & 1;", "__syncwarp(mask);",
    ],
)  # fmt: skip
def test_a_mask_names_the_lane_that_calls(cuda: Compile, call: str) -> None:
    """What the H200 answers with an illegal instruction."""
    text = f"""
extern "C" __global__ void k(const int* masks, float* y) {{
  int t = threadIdx.x; unsigned mask = masks[0]; float v = t;
  if (t < masks[1]) {{ {call} }}
  y[t] = v;
}}"""

    def go(mask: int, lanes: int) -> None:
        masks = np.array([mask, lanes], "u4").view("i4")
        execute(
            cuda(text), "k", {"masks": masks, "y": np.zeros(32, "f4")}, ["masks", "y"], block=32
        )

    go(0xFFFFFFFF, 32)
    go(0xFFFF, 16)
    for mask, lanes in ((0xFFFFFFFE, 32), (0xFFFF, 32), (0, 32), (0xFFFE, 16)):
        with pytest.raises(Fault, match=rf"is not in its own mask, 0x{mask:08x}"):
            go(mask, lanes)


def test_quotients_that_leave_the_common_path_are_counted(cuda: Compile) -> None:
    """FCHK's bounds, as an H200 has them; a warp calls once for all its lanes."""
    text = """
extern "C" __global__ void k(const float* x, const float* z, float* y) {
  int t = threadIdx.x; y[t] = x[t] / z[t];
}"""
    x, z = np.ones(64, "f4"), np.ones(64, "f4")

    def calls() -> int:
        _, outcome = execute(
            cuda(text), "k", {"x": x, "z": z, "y": np.zeros(64, "f4")}, ["x", "z", "y"], block=64
        )
        return sum(row.site.calls for row in outcome.rows)

    assert calls() == 0
    plain = 0
    for dividend, divisor, leaves in (
        (2.0**-102, 1, False), (2.0**-103, 1, True), (1, 2.0**-125, False), (1, 2.0**-126, True),
        (1, 2.0**124, False), (1, 2.0**125, True), (2.0**60, 2.0**-66, False),
        (2.0**60, 2.0**-67, True), (0, 1, True), (np.inf, 1, True), (1, np.nan, True),
    ):  # fmt: skip
        x[40], z[40] = dividend, divisor
        assert calls() == int(leaves), (dividend, divisor)
        plain += not leaves
    assert plain == 4
    x[:], z[:] = 0, 1
    assert calls() == 2
