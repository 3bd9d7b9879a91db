"""Threads that wait for threads: they take turns; an endless wait is told at once."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ptxemu.arena import memory_for
from ptxemu.errors import Fault, LaunchError, ResourceError
from ptxemu.launch import KernelLaunch, prepare
from ptxemu.ptx.instructions import Ptx
from ptxemu.run import run
from ptxemu.state.context import Limits
from tests.ptxemu.conftest import Array, Compile, execute, scalar
from tests.ptxemu.ptxwords import PRELUDE
from workbench.compile.compilers import find_nvcc

pytestmark = pytest.mark.nvcc

SCAN = """
// An exclusive scan in one pass: every block publishes its sum and looks back (Merrill, Garland).
extern "C" __global__ void scan(const unsigned* x, unsigned* y, volatile unsigned long long* state,
                                unsigned* ticket) {
  __shared__ unsigned part[256], before, tile;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
  __syncthreads();
  unsigned i = tile * 256 + threadIdx.x;
  part[threadIdx.x] = x[i];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    unsigned more = threadIdx.x >= step ? part[threadIdx.x - step] : 0;
    __syncthreads();
    part[threadIdx.x] += more;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    unsigned long long own = part[255], sum = 0;
    state[tile] = (tile ? 1ull : 2ull) << 32 | own;
    for (int at = (int)tile - 1; at >= 0;) {
      unsigned long long seen = state[at];
      if (seen >> 32 == 0) continue;
      sum += (unsigned)seen;
      if (seen >> 32 == 2) break;
      --at;
    }
    if (tile) state[tile] = 2ull << 32 | (sum + own);
    before = sum;
  }
  __syncthreads();
  y[i] = before + part[threadIdx.x] - x[i];
}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_scan_that_looks_back(cuda: Compile, workers: int) -> None:
    x = np.random.default_rng(1).integers(0, 1000, 150 * 256).astype("u4")
    buffers = {"x": x, "y": np.zeros_like(x), "s": np.zeros(150, "u8"), "t": np.zeros(1, "u4")}
    got, outcome = execute(
        cuda(SCAN), "scan", buffers, list(buffers), grid=150, block=256, workers=workers, check=True
    )
    assert np.array_equal(got["y"], np.cumsum(x, dtype="u4") - x)
    assert outcome.blocks_run == 150
    last = next(row for row in reversed(outcome.rows) if row.instr.op == "st")
    assert (last.warps, last.threads) == (150 * 8, 150 * 256)


CHAIN = """
extern "C" __global__ void chain(volatile int* flag, int* out, int n) {
  int b = blockIdx.x, from = b + 1;
  if (threadIdx.x == 0) {
    if (from < n) while (flag[from] == 0) {}
    out[b] = from < n ? flag[from] + 1 : 1;
    __threadfence();
    flag[b] = out[b];
  }
}
"""


def test_every_block_may_wait_for_the_one_that_starts_after_it(cuda: Compile) -> None:
    n = 700  # 64 threads each: three batches
    got, _ = execute(
        cuda(CHAIN), "chain", {"f": np.zeros(n, "i4"), "o": np.zeros(n, "i4")}, ["f", "o", n],
        grid=n, block=64,
    )  # fmt: skip
    assert got["o"].tolist() == list(range(n, 0, -1))


def launched(module: Ptx, kernel: str, buffers: dict[str, Array], n: int, **more: int) -> None:
    grid, block, resident = (more.get(name, 0) for name in ("grid", "block", "resident"))
    launch = KernelLaunch(
        kernel, (grid, 1, 1), (block, 1, 1), [*buffers, scalar(n)],
        resident=resident,
    )  # fmt: skip
    run(module, launch, memory_for(module, buffers), workers=1)


def test_a_cooperative_launch_that_does_not_fit_is_refused(cuda: Compile) -> None:
    launch = KernelLaunch("chain", (9, 1, 1), (64, 1, 1), [], resident=8, cooperative=True)
    module = cuda(CHAIN)
    with pytest.raises(
        LaunchError, match=r"a cooperative launch of 9 blocks, .* holds at most 8 at once"
    ):
        run(module, launch, memory_for(module, {}))


def test_blocks_that_do_not_fit_on_the_chip_cannot_be_waited_for(cuda: Compile) -> None:
    n = 700
    buffers = {"f": np.zeros(n, "i4"), "o": np.zeros(n, "i4")}
    launched(cuda(CHAIN), "chain", buffers, n, grid=n, block=64, resident=n)
    begin = time.perf_counter()
    with pytest.raises(Fault, match=r"k\.cu:5: endless wait: .* the chip holds 500 blocks"):
        launched(cuda(CHAIN), "chain", buffers, n, grid=n, block=64, resident=500)
    assert time.perf_counter() - begin < 100


LAST = """
extern "C" __global__ void last(const float* x, float* part, float* out, unsigned* done, int n) {
  __shared__ float box[256];
  __shared__ bool mine;
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
  box[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s; s /= 2) {
    if (threadIdx.x < s) box[threadIdx.x] += box[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = box[0];
    __threadfence();
    mine = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (mine && threadIdx.x == 0) {
    sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += ((volatile float*)part)[b];
    *out = sum;
  }
}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_block_does_the_rest(cuda: Compile, workers: int) -> None:
    x = np.random.default_rng(2).integers(0, 5, 300_000).astype("f4")
    buffers = {"x": x, "part": np.zeros(130, "f4"), "out": np.zeros(1, "f4"),
               "done": np.zeros(1, "u4")}  # fmt: skip
    got, _ = execute(
        cuda(LAST), "last", buffers, [*buffers, len(x)], grid=130, block=256, workers=workers
    )
    assert got["out"][0] == x.sum() and got["done"][0] == 0


BARRIER = """
extern "C" __global__ void steps(int* x, unsigned* bar, int n, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    int v = ((volatile int*)x)[(i + 1) % n];
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(bar, 1u);
      while (*(volatile unsigned*)bar < (2 * r + 1) * gridDim.x) __nanosleep(100);
    }
    __syncthreads();
    x[i] = v + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(bar, 1u);
      while (atomicAdd(bar, 0u) < (2 * r + 2) * gridDim.x) {}
    }
    __syncthreads();
  }
}
"""


def test_a_barrier_of_the_whole_grid(cuda: Compile) -> None:
    n, rounds = 120 * 256, 3
    x = np.arange(n, dtype="i4")
    got, _ = execute(
        cuda(BARRIER), "steps", {"x": x, "bar": np.zeros(1, "u4")}, ["x", "bar", n, rounds],
        grid=120, block=256,
    )  # fmt: skip
    assert np.array_equal(got["x"], np.roll(x, -rounds) + rounds)


GRID = """
#include <cooperative_groups.h>
extern "C" __global__ void relax(const float* x, float* y, float* sum, int n) {
  auto grid = cooperative_groups::this_grid();
  for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) y[i] = 2 * x[i];
  grid.sync();
  float part = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) part += y[n - 1 - i] + y[i];
  grid.sync();
  atomicAdd(sum, part);
  grid.sync();
  if (grid.thread_rank() == n - 1) y[0] = *(volatile float*)sum;
}
"""


@pytest.mark.skipif(find_nvcc() is None, reason="these headers need the CUDA toolkit")
def test_a_cooperative_launch_synchronizes_its_grid(cuda: Compile) -> None:
    n = 48 * 256
    x = np.arange(n, dtype="f4") % 7
    buffers = {"x": x, "y": np.zeros_like(x), "s": np.zeros(1, "f4")}
    got, _ = execute(
        cuda(GRID), "relax", buffers, [*buffers, n], grid=48, block=256, cooperative=True
    )
    assert got["s"][0] == 4 * x.sum() == got["y"][0]
    with pytest.raises(Fault, match=r"the kernel trapped"):
        execute(cuda(GRID), "relax", buffers, [*buffers, n], grid=48, block=256)


LOCK = """
extern "C" __global__ void lock(int* lock, int* sum, int* most) {
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  int v = *(volatile int*)sum;
  *(volatile int*)sum = v + (int)threadIdx.x;
  if (v > *most) *most = v;
  __threadfence();
  atomicExch(lock, 0);
}
"""


def test_a_lock_that_threads_of_one_warp_and_many_blocks_want(cuda: Compile) -> None:
    buffers = {name: np.zeros(1, "i4") for name in ("lock", "sum", "most")}
    got, _ = execute(cuda(LOCK), "lock", buffers, list(buffers), grid=4, block=64)
    assert got["sum"][0] == 4 * sum(range(64)) and got["lock"][0] == 0


HANDED = """
extern "C" __global__ void handed(int* out) {
  __shared__ volatile int box, full;
  if (threadIdx.x == 0) { box = 0; full = 0; }
  __syncthreads();
  if (threadIdx.x >= 32) {
    for (int i = 0; i < 50; ++i) {
      while (full != 1) {}
      if (threadIdx.x == 32) { out[i] = box; full = 0; }
      __syncwarp();
    }
  } else {
    for (int i = 0; i < 50; ++i) {
      while (full != 0) {}
      if (threadIdx.x == 0) { box = i * i; full = 1; }
      __syncwarp();
    }
  }
}
"""


def test_one_warp_hands_to_another(cuda: Compile) -> None:
    got, _ = execute(cuda(HANDED), "handed", {"o": np.zeros(50, "i4")}, ["o"], block=64)
    assert got["o"].tolist() == [i * i for i in range(50)]


FOREVER = {
    "a flag that nobody sets": (
        "if (threadIdx.x == 0) while (((volatile int*)x)[7] == 0) {}\n__syncthreads();", 3
    ),
    "a flag set behind the barrier": (
        "volatile int* f = x;\nif (threadIdx.x == 0)\nwhile (f[0] == 0) {}\n__syncthreads();\n"
        "if (threadIdx.x == 1) f[0] = 1;", 5
    ),
    "a lock that nobody gives back": (
        "if (threadIdx.x == 0) {\nwhile (atomicCAS(x, 0, 1)) {}\nwhile (atomicCAS(x, 0, 1)) {}\n}",
        "[45]",
    ),
    "blocks that wait for each other": (
        "volatile int* f = x;\nint other = 1 - blockIdx.x;\nif (threadIdx.x == 0) {\n"
        "while (f[other] == 0) __nanosleep(50);\nf[blockIdx.x] = 1;\n}", 6
    ),
    "nothing at all": ("if (threadIdx.x == 5) for (;;) {\nasm volatile(\"\");\n}", 0),
}  # fmt: skip


@pytest.mark.parametrize("block", [64, 1024])
@pytest.mark.parametrize("name", FOREVER)
def test_a_wait_that_nothing_ends_is_told_in_seconds(cuda: Compile, name: str, block: int) -> None:
    body, line = FOREVER[name]
    module = cuda(f'extern "C" __global__ void k(int* x)\n{{\n{body}\nx[100] = 1;\n}}')
    begin = time.perf_counter()
    place = rf"k\.cu:{line}" if line else r"k\.cu:\d+"
    grid = 2 if block < 1024 or "each other" in name else 40
    with pytest.raises(Fault, match=rf"{place}: endless wait"):
        execute(
            module, "k", {"x": np.zeros(128, "i4")}, ["x"], grid=grid, block=block, limit=4_000_000
        )
    assert time.perf_counter() - begin < 100


LONG = """
extern "C" __global__ void k(int* x, int n) {
  unsigned v = threadIdx.x;
  for (int i = 0; i < n; ++i) v = v * 1664525u + 1013904223u;
  while (((volatile int*)x)[threadIdx.x] < 300) ((volatile int*)x)[threadIdx.x] += 1;
  x[threadIdx.x] = v;
}
"""


def test_a_long_loop_is_no_wait(cuda: Compile) -> None:
    got, _ = execute(cuda(LONG), "k", {"x": np.zeros(32, "u4")}, ["x", 20_000])
    want = np.arange(32, dtype="u4")
    for _ in range(20_000):
        want = want * np.uint32(1664525) + np.uint32(1013904223)
    assert np.array_equal(got["x"], want)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_time_limit_ends_a_run(cuda: Compile, workers: int) -> None:
    module = cuda(LONG)
    buffers = {"x": np.zeros(1024, "i4")}
    begin = time.perf_counter()
    launch = KernelLaunch(
        "k", (64, 1, 1), (1024, 1, 1), ["x", scalar(1 << 30)], 0, Limits.within(1.0, 1 << 40)
    )
    with pytest.raises(ResourceError, match=r"k\.cu:4: kernel k did not end within 1 s") as raised:
        run(module, launch, memory_for(module, buffers), workers=workers)
    assert 0.9 < time.perf_counter() - begin < 100 and "`Limits.within`" in raised.value.hint


LOOPS = {
    "a spin lock": ("while (atomicCAS(p, 0, 1)) {}", True),
    "a flag": ("while (*(volatile int*)p == 0) {}", True),
    "a flag that all of the block share": (
        "__shared__ int seen; do { if (threadIdx.x == 0) seen = *(volatile int*)p; "
        "__syncthreads(); } while (!seen);", True
    ),
    "an update without a lock": (
        "int v = *p, was; do { was = v; v = atomicCAS(p, was, was * 3); } while (v != was);",
        False,
    ),
    "tickets": ("while (atomicAdd(p, 1) < n) p[2] += 1;", False),
    "a sum": ("for (int i = 0; i < n; ++i) atomicAdd(p, i);", False),
    "a flag of the block's own": (
        "__shared__ volatile int f; if (threadIdx.x < 32) f = 0; __syncthreads(); "
        "if (threadIdx.x == 0) f = 1; while (f == 0) {}", False
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_which_loops_may_wait_for_another_block(cuda: Compile, name: str) -> None:
    body, waits = LOOPS[name]
    module = cuda(f'extern "C" __global__ void k(int* p, int n) {{\n{body}\n}}')
    buffers = {"p": np.zeros(8, "i4")}
    launch = KernelLaunch("k", (1, 1, 1), (32, 1, 1), ["p", scalar(9)])
    program = prepare(module, launch, memory_for(module, buffers))
    assert program.polls.others is waits


BEHIND = (
    PRELUDE
    + r"""
extern "C" __global__ void behind(volatile int* flag, int* y, int n) {
  __shared__ uint64_t bar;
  __shared__ int seen;
  int b = blockIdx.x;
  if (threadIdx.x == 0) init(&bar, 1);
  __syncthreads();
  if (threadIdx.x == 32) {
    while (b + 1 < n && flag[b + 1] == 0) {}
    seen = b + 1 < n ? flag[b + 1] + 1 : 1;
    flag[b] = seen;
    arrive(&bar);
  }
  wait(&bar, 0);
  y[b * blockDim.x + threadIdx.x] = seen;
}
"""
)


def test_threads_wait_at_an_mbarrier_for_one_that_waits_for_another_block(cuda: Compile) -> None:
    """Blocks of many batches: none of their waits may give up before the others had their turn."""
    n = 24
    got, _ = execute(
        cuda(BEHIND), "behind", {"f": np.zeros(n, "i4"), "y": np.zeros((n, 1024), "i4")},
        ["f", "y", n], grid=n, block=1024,
    )  # fmt: skip
    assert np.array_equal(got["y"], np.repeat(np.arange(n, 0, -1)[:, None], 1024, 1))
    with pytest.raises(Fault, match=r"k\.cu:\d+: .*(never completes|wait)"):
        execute(
            cuda(BEHIND.replace("flag[b] = seen;", "")), "behind",
            {"f": np.zeros(n, "i4"), "y": np.zeros((n, 1024), "i4")}, ["f", "y", n], grid=n,
            block=1024,
        )  # fmt: skip


#: Kernels whose full masks name threads that have ended, or end elsewhere, and what they give.
EXITED = {
    "an early return": "if (i >= n) return;\nint v = x[i];\n"
    "for (int s = 4; s; s /= 2) v += __shfl_down_sync(~0u, v, s);\ny[i] = v;",
    "a branch": "if (i < n) {\nint v = x[i];\n"
    "for (int s = 4; s; s /= 2) v += __shfl_down_sync(~0u, v, s);\ny[i] = v;\n}",
    "a ballot": "if (i >= n) return;\ny[i] = __popc(__ballot_sync(~0u, x[i] >= 0));",
    "loops of several lengths": "int v = 0;\nfor (int k = 0; k <= i / 8 % 4; ++k)\n"
    "v += __popc(__ballot_sync(~0u, k >= 0));\nif (i < n) y[i] = v;",
    "locals that live over it": "int a = x[i] * 3;\nif (i % 32 >= 7 && i % 32 < 9) return;\n"
    "int w = __reduce_add_sync(~0u, a & 1);\ny[i] = w + a * 7 + (a ^ w);",
}


@pytest.mark.parametrize("name", EXITED)
def test_a_mask_may_name_threads_that_have_ended(cuda: Compile, name: str) -> None:
    text = 'extern "C" __global__ void k(const int* x, int* y, int n) {\n'
    text += "int i = blockIdx.x * blockDim.x + threadIdx.x;\n" + EXITED[name] + "\n}"
    x = np.random.default_rng(2).integers(0, 100, 256).astype("i4")
    n, lane = 200, np.arange(256) % 32
    got, _ = execute(
        cuda(text), "k", {"x": x, "y": np.zeros(256, "i4")}, ["x", "y", n], grid=2, block=128,
        check=True,
    )  # fmt: skip
    y = got["y"]
    if name in ("an early return", "a branch"):
        assert y[:n:8].tolist() == x[:n].reshape(-1, 8).sum(1).tolist() and not y[n:].any()
    elif name == "a ballot":
        assert y.tolist() == [32] * 192 + [8] * 8 + [0] * 56
    elif name == "loops of several lengths":
        assert y[:n].tolist() == [sum((32, 24, 16, 8)[: i // 8 % 4 + 1]) for i in range(n)]
    else:
        a, on = x * 3, (lane < 7) | (lane >= 9)
        w = np.repeat((a & 1 & on).reshape(-1, 32).sum(1), 32)
        assert y.tolist() == np.where(on, w + a * 7 + (a ^ w), 0).tolist()


@pytest.mark.parametrize(("threads", "doubts"), [(64, 0), (48, 1), (16, 1)])
def test_threads_that_are_not_there_have_no_values(
    cuda: Compile, threads: int, doubts: int
) -> None:
    """A sum over a warp that lacks lanes holds what a GPU may make anything of."""
    text = """extern "C" __global__ void k(const float* x, float* y) {
float v = x[threadIdx.x];
for (int s = 16; s; s /= 2) v += __shfl_xor_sync(~0u, v, s);
y[threadIdx.x] = v;
}"""
    x = np.ones(64, "f4")
    got, counts = execute(
        cuda(text), "k", {"x": x, "y": np.zeros(64, "f4")}, ["x", "y"], block=threads
    )
    whole = threads // 32 * 32
    assert got["y"][:whole].tolist() == [32] * whole
    assert np.isnan(got["y"][whole:threads]).all() and not got["y"][threads:].any()
    assert [words[:6] for words in counts.doubts] == ["k.cu:3"] * doubts


APART = {
    "at a barrier": "if (threadIdx.x % 32 < 16) v = __shfl_xor_sync(~0u, v, 1);\n__syncthreads();",
    "at another call": "if (threadIdx.x & 1) v = __shfl_xor_sync(~0u, v, 2);\n"
    "else v = __shfl_xor_sync(~0u, v + 1, 4);",
}


@pytest.mark.parametrize("name", APART)
def test_threads_that_wait_elsewhere_are_a_fault_of_the_kernel(cuda: Compile, name: str) -> None:
    text = 'extern "C" __global__ void k(int* y) {\nint v = y[threadIdx.x];\n'
    text += APART[name] + "\ny[threadIdx.x] = v;\n}"
    words = (
        r"k\.cu:[34]: threads of a warp have diverged: thread \(\d+, 0, 0\) of block \(0, 0, 0\) "
        r"waits here for thread \(\d+, 0, 0\) of block .* elsewhere at k\.cu:[34]"
    )
    with pytest.raises(Fault, match=words):
        execute(cuda(text), "k", {"y": np.zeros(64, "i4")}, ["y"], block=64)


POLLED = """
__device__ void wait(volatile int* flags, int* y, int b) {
  if (threadIdx.x == 0) {
    flags[b] = 7;
    if (b) while (flags[b - 1] != 7);
    y[b] = b;
  }
}
extern "C" __global__ void chain(volatile int* flags, int* y, unsigned* ticket) {
  __shared__ int tile;
  if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);
  __syncthreads();
  wait(flags, y, tile);
}
extern "C" __global__ void filled(volatile int* flags, int* y, unsigned* ticket) {
  if (threadIdx.x == 0) {
    flags[blockIdx.x] = 0;
    __threadfence();
    atomicAdd(ticket, 1);
    while (*(volatile unsigned*)ticket < gridDim.x);
  }
  __syncthreads();
  wait(flags, y, blockIdx.x);
}
extern "C" __global__ void last(volatile int* parts, int* y, unsigned* ticket) {
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    if (atomicAdd(ticket, 1) == gridDim.x - 1) {
      int sum = 0;
      for (int i = 0; i < gridDim.x && parts[i]; ++i) sum += parts[i];
      y[0] = sum;
    }
  }
}
"""


@pytest.mark.parametrize(
    ("kernel", "unwritten", "right"),
    [("chain", True, False), ("chain", False, True), ("filled", True, True), ("last", True, True)],
)
def test_what_blocks_wait_for_is_filled_before(
    cuda: Compile, kernel: str, unwritten: bool, right: bool
) -> None:
    """Blocks that run one after another find flags that on a chip nobody has written yet."""
    buffers = {"flags": np.zeros(8, "i4"), "y": np.zeros(8, "i4"), "ticket": np.zeros(1, "u4")}

    def run() -> Array:
        got, _ = execute(
            cuda(POLLED), kernel, buffers, [*buffers], grid=8, check=True,
            unwritten=["flags", "y"] if unwritten else ["y"],
        )  # fmt: skip
        return got["y"]

    if right:
        assert run().tolist() == ([36, *[0] * 7] if kernel == "last" else list(range(8)))
        return
    words = (
        r"k\.cu:5: uninitialized memory: thread \(0, 0, 0\) of block \(1, 0, 0\) waits for "
        r"flags\[0\], which held nothing until block \(0, 0, 0\) wrote it at k\.cu:4"
    )
    with pytest.raises(Fault, match=words):
        run()
