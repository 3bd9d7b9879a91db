"""Memory and samples as grids grow."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from ptxemu import run as running
from ptxemu.arena import memory_for
from ptxemu.counts import Counts
from ptxemu.launch import BATCH_LANES, KernelLaunch
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptx.parser import parse
from ptxemu.run import run, sample
from tests.ptxemu.conftest import HEADER, Compile, scalar

TILES = """
extern "C" __global__ void k(const float* x, float* y, int steps) {
  __shared__ float tile[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  float sum = 0, other = 1;
  for (int step = 0; step < steps; ++step) {
    tile[threadIdx.x] = x[(i + 37 * step) % (256 * 16)];
    __syncthreads();
    sum += tile[255 - threadIdx.x] * other;
    other += tile[(threadIdx.x * 7 + step) % 256];
    __syncthreads();
  }
  y[i % (256 * 16)] = sum + other;
}
"""


def peak(module: Ptx, blocks: int, steps: int) -> int:
    """Bytes that a run allocates at most, beyond the arrays of the launch."""
    data = np.ones(256 * 16, "f4")
    arena = memory_for(module, {"x": data, "y": data})
    launch = KernelLaunch("k", (blocks, 1, 1), (256, 1, 1), ["x", "y", scalar(steps)])
    tracemalloc.start()
    try:
        run(module, launch, arena, workers=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_follows_the_blocks_in_flight_not_the_grid(
    cuda: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = cuda(TILES)
    few, many = peak(module, 64, 3), peak(module, 1024, 3)
    assert many < 1.3 * few, "sixteen times the grid takes more memory"
    # What is remembered of addresses is limited, however long a loop runs.
    assert peak(module, 64, 600) < 1.3 * peak(module, 64, 200), "more steps take more memory"
    monkeypatch.setattr(running, "BATCH_LANES", 4 * BATCH_LANES)
    wide = peak(module, 1024, 3)
    # Four times the blocks in flight: memory is linear in them, and that is what is measured.
    assert 2 * many < wide < 5 * many


def sampled(module: Ptx, blocks: int, wanted: int) -> Counts:
    data = np.ones(256 * 16, "f4")
    arena = memory_for(module, {"x": data, "y": data})
    launch = KernelLaunch("k", (blocks, 1, 1), (256, 1, 1), ["x", "y", scalar(2)])
    chosen = None if wanted >= blocks else sample(launch.geometry, wanted)
    return run(module, launch, arena, blocks=chosen, workers=1)


UNEVEN = """
extern "C" __global__ void k(const float* x, float* y, int steps) {
  int i = threadIdx.x;
  float sum = 0;
  for (int step = 0; step <= blockIdx.x % 5; ++step) sum += x[(i * (step + 1)) % 4096];
  y[i] = sum;
}
"""


def test_a_samples_error_covers_its_deviation(cuda: Compile) -> None:
    """Line by line, the whole count lies within a few of the stated errors."""
    module = cuda(UNEVEN)
    whole, part = sampled(module, 600, 600), sampled(module, 600, 120)
    checked = 0
    for all_rows, some in zip(whole.rows, part.rows, strict=True):
        error = part.margin(some.site, "sectors")
        assert abs(some.site.sectors - all_rows.site.sectors) <= max(4 * error, 0.5)
        checked += error > 0
        assert error < 0.2 * max(all_rows.site.sectors, 1)
        assert whole.margin(all_rows.site, "sectors") == 0
    assert checked


def test_even_blocks_have_no_error(cuda: Compile) -> None:
    module = cuda(TILES)
    whole, part = sampled(module, 256, 256), sampled(module, 256, 24)
    for all_rows, some in zip(whole.rows, part.rows, strict=True):
        assert part.margin(some.site, "wavefronts") == 0
        assert some.site.wavefronts == all_rows.site.wavefronts


def test_blocks_that_run_alone_read_what_others_write_as_beside_them() -> None:
    """``if (i < n) p = x[i];``, a search with `p`, then ``if (i < n) y[i] = found;``."""
    body = """ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 32, %r1; setp.lt.u32 %p1, %r3, 32; mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2; @!%p1 bra L; ld.global.u32 %r4, [%rd3];
    L: add.u32 %r5, %r4, 1; @!%p1 bra M; st.global.u32 [%rd3], %r5;
    M: ret;"""
    module = parse(
        f"{HEADER}.visible .entry k(.param .u64 x)\n{{\n"
        f".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n{body}\n}}\n"
    )
    launch = KernelLaunch("k", (2, 1, 1), (32, 1, 1), ["x"])
    for blocks in (None, np.array([1])):
        arena = memory_for(module, {"x": np.arange(64, dtype="u4")})
        run(module, launch, arena, blocks=blocks, workers=1)
        after = arena.read("x")
        assert (after[:32] == np.arange(32) + (blocks is None)).all()
        assert (after[32:] == np.arange(32, 64)).all()
