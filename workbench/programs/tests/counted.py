"""Programs that were run in the emulator, as a stand-in for the CUDA driver hands them over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ptxemu import Module
from ptxemu.ptx.instructions import Ptx
from tests.factories import make_profile
from tests.ptxemu.conftest import Compile, execute, scalar
from workbench.compile.build import BuildResult
from workbench.counters import Reading, read
from workbench.engines.emulated.chips import device_of
from workbench.engines.emulated.record import launch_records, sources_of
from workbench.model import Launch, SourceFile
from workbench.programs.capture.counted import CountedLaunch, CountedRun
from workbench.programs.capture.records import Counted
from workbench.study.mangling import own_name

#: A copy whose lanes lie side by side, a transpose whose stores do not, and one in tiles.
COPY = """
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
NAIVE = (
    COPY
    + """
__global__ void transpose_naive(const float* x, float* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  y[i * n + j] = x[j * n + i];
}
"""
)
TILED = (
    COPY
    + """
__global__ void by_tiles(const float* x, float* y, int n) {
  __shared__ float tile[32][32];
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = x[j * n + i];
  __syncthreads();
  y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] =
      tile[threadIdx.x][threadIdx.y];
}
"""
)
N = 64
#: The counters that `Counted` has.
_COUNTERS = {
    "instructions": "instructions",
    "sectors": "global_sectors",
    "sectors_ideal": "global_sectors_ideal",
    "wavefronts": "shared_wavefronts",
    "wavefronts_ideal": "shared_wavefronts_ideal",
}


def counted_of(launch: Launch) -> Counted:
    """The counts of an emulated launch."""
    found = {name: read(launch, counter) for name, counter in _COUNTERS.items()}
    return Counted(**{n: round(x.value) for n, x in found.items() if isinstance(x, Reading)})


def plain_run(*launches: tuple[str, int, Counted]) -> CountedRun:
    """A program of which nobody kept instructions: name, blocks and counts of each launch."""
    return CountedRun(
        command=("./program",),
        folder=Path.cwd(),
        launches=tuple(
            CountedLaunch(symbol=name, grid=(grid, 1, 1), block=(32, 1, 1), counted=counts)
            for name, grid, counts in launches
        ),
        details=(),
        sources=(),
        device=device_of("sm_90"),
    )


def _launched(module: Ptx, symbol: str, linear: bool) -> Launch:
    """One launch of a kernel of these over an N × N matrix, as its record."""
    size = N * N
    buffers = {"x": np.ones(size, "f4"), "y": np.zeros(size, "f4")}
    number = size if linear else N
    grid = size // 256 if linear else (N // 32, N // 32, 1)
    block = 256 if linear else (32, 32, 1)
    _, counts = execute(module, symbol, buffers, ["x", "y", scalar(number)], grid=grid, block=block)
    (launch,) = launch_records([counts], _built(), Module(module), device_of("sm_90"), 0)
    return launch


def _built() -> BuildResult:
    build = make_profile().build
    assert build is not None
    return BuildResult(cubin=Path(), build=build, sources=(), cached=True)


def run_of(cuda: Compile, text: str, order: Sequence[str], folder: Path) -> CountedRun:
    """A program of these kernels, launched in an order by their own names."""
    module = cuda(text)
    symbols = {own_name(symbol): symbol for symbol in Module(module).kernels}
    details = {name: _launched(module, symbols[name], name == "scale") for name in set(order)}
    files = sources_of(Module(module), _built())
    return CountedRun(
        command=("./program", "64"),
        folder=folder,
        launches=tuple(
            CountedLaunch(
                symbol=symbols[name],
                grid=details[name].grid,
                block=details[name].block,
                counted=counted_of(details[name]),
            )
            for name in order
        ),
        details=tuple((symbols[name], details[name]) for name in sorted(details)),
        sources=tuple(SourceFile(path="program.cu", text=text) for _ in files),
        device=device_of("sm_90"),
    )
