"""What the record of an emulated launch counts where: one kernel a question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ptxemu import Fault, Module
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptx.parser import parse
from tests.factories import make_profile
from tests.ptxemu.conftest import Array, Compile, compiling, execute, scalar
from workbench.compile import compilers
from workbench.compile.build import BuildResult
from workbench.counters import Reading, read
from workbench.engines.emulated.chips import device_of
from workbench.engines.emulated.record import launch_records
from workbench.errors import MissingError
from workbench.model import Launch, line_counters

__all__ = ["cuda"]  # a fixture

pytestmark = pytest.mark.nvcc

CONSTANTS = """
__constant__ float table[64];
extern "C" __global__ void constant(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] + table[threadIdx.x & 63];
}
extern "C" __global__ void plain(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x] + threadIdx.x;
}
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """By nvcc, where there is one: NVRTC knows some functions of headers by itself."""
    try:
        return compiling(tmp_path_factory, compilers.choose("auto"), "sm_90")
    except MissingError as error:
        pytest.skip(error.message)


def launched(
    module: Ptx, kernel: str, buffers: dict[str, Array], args: Sequence[str | bytes]
) -> Launch:
    _, outcome = execute(module, kernel, buffers, args, block=128)
    (launch,) = launch_records([outcome], built(), Module(module), device_of("sm_90"), 4096)
    return launch


def built() -> BuildResult:
    build = make_profile().build
    assert build is not None
    return BuildResult(cubin=Path(), build=build, sources=(), cached=True)


def value(launch: Launch, counter: str) -> float:
    reading = read(launch, counter)
    assert isinstance(reading, Reading), (counter, reading)
    return reading.value


def test_loads_of_constants_are_no_global_loads(cuda: Compile) -> None:
    """They ask nothing of L1 and L2: the same kernel without its table moves as much."""
    buffers = {"x": np.ones(128, "f4"), "y": np.zeros(128, "f4")}
    constant, plain = (
        launched(cuda(CONSTANTS), kernel, buffers, ["x", "y"]) for kernel in ("constant", "plain")
    )
    for counter in ("global_sectors", "global_load_sectors", "global_load_requests",
                    "global_loads", "global_sectors_ideal"):  # fmt: skip
        assert value(constant, counter) == value(plain, counter) > 0, counter
    assert constant.metrics["ptx__inst_executed_op_const"].value == 4
    assert plain.metrics["ptx__inst_executed_op_const"].value == 0
    spread = "ptx__bound_cycles_load_store_units"
    assert constant.metrics[spread] == plain.metrics[spread]


CALLING = """#include <cuda_pipeline.h>
extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float tile[128];
  __pipeline_memcpy_async(&tile[threadIdx.x], x + threadIdx.x, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[threadIdx.x] = tile[127 - threadIdx.x] + __ldg(x + threadIdx.x);
}
"""


def test_what_a_header_costs_stands_at_the_line_that_called_it(cuda: Compile) -> None:
    """Nobody looks for a copy in cuda_pipeline_helpers.h, or can change it there."""
    buffers = {"x": np.ones(128, "f4"), "y": np.zeros(128, "f4")}
    launch = launched(cuda(CALLING), "k", buffers, ["x", "y"])
    lines = line_counters(launch)
    assert {file for file, _ in lines} == {0} and {line for _, line in lines} <= set(range(2, 10))
    sectors = "memory_l2_theoretical_sectors_global"
    assert {line: found[sectors] for (_, line), found in lines.items() if sectors in found} == {
        4: 16, 8: 32,
    }  # fmt: skip


def test_an_error_in_a_header_names_the_callers_line_first(cuda: Compile) -> None:
    buffers = {"x": np.ones(64, "f4"), "y": np.zeros(128, "f4")}
    with pytest.raises(Fault, match=r"^k\.cu:8 \(in \S*sm_32_intrinsics\.hpp:\d+\): out of"):
        launched(cuda(CALLING.replace("x + threadIdx.x, 4", "x, 4")), "k", buffers, ["x", "y"])


INDEXED = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 y, .param .align 4 .b8 pair[8])
{
  .reg .b64 %rd<6>; .reg .b32 %r<4>;
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 1;
  mul.wide.u32 %rd1, %r2, 4;
  mov.b64 %rd2, pair;
  add.s64 %rd2, %rd2, %rd1;
  ld.param.u32 %r3, [%rd2];
  ld.param.u64 %rd3, [y];
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd3, %rd3, %rd4;
  st.global.u32 [%rd3], %r3;
  ret;
}
"""


def test_parameters_at_an_index_are_constants() -> None:
    args: list[str | bytes] = ["y", scalar(7 + (9 << 32), "long")]
    launch = launched(parse(INDEXED), "k", {"y": np.zeros(128, "u4")}, args)
    assert value(launch, "global_loads") == value(launch, "global_load_sectors") == 0
    assert launch.metrics["ptx__inst_executed_op_const"].value == 4


ROUTINES = """
extern "C" __global__ void k(const T* x, const T* y, T* z) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  z[i] = x[i] / y[i];
}
"""


def divided(cuda: Compile, kind: str, x: Array, y: Array) -> Launch:
    buffers = {"x": x, "y": y, "z": np.zeros_like(x)}
    return launched(cuda(ROUTINES.replace("T", kind)), "k", buffers, ["x", "y", "z"])


ISSUED = ("ptx__machine_inst_estimate", "ptx__bound_cycles_issue_slots")


def test_a_division_of_64_bits_is_counted_with_its_routine(cuda: Compile) -> None:
    """It has one way only. Short operands take a way around it, which the compiler made."""
    y = np.full(128, 3, "i8")
    short, long = (divided(cuda, "long long", x, y) for x in (y * 5, y << 40))
    few, many = (one.metrics["ptx__machine_inst_estimate"].value for one in (short, long))
    assert isinstance(few, int) and isinstance(many, int)
    assert many - few > 4 * 50  # warps, and instructions of the routine beyond the way around it
    assert not short.absent and not long.absent


def test_what_calls_a_routine_of_unknown_length_is_not_counted_and_that_is_said(
    cuda: Compile,
) -> None:
    ones = np.ones(128)
    plain = divided(cuda, "double", ones, ones)
    assert plain.metrics["ptx__machine_inst_estimate"].value and not plain.absent
    rare = ones.copy()
    rare[[0, 40, 41]] = 0  # two of four warps
    odd = divided(cuda, "double", rare, ones)
    assert {name: odd.absent.get(name) for name in ISSUED} == dict.fromkeys(
        ISSUED, "not counted: 2 calls of the slow path of float64 division (k.cu:4)"
    )
    assert odd.metrics.keys().isdisjoint(ISSUED)
    assert set(ISSUED) <= plain.metrics.keys()


def test_no_launch_of_several_must_move_what_all_of_them_must(cuda: Compile) -> None:
    buffers = {"x": np.ones(128, "f4"), "y": np.zeros(128, "f4")}
    module = cuda(CONSTANTS)
    _, outcome = execute(module, "plain", buffers, ["x", "y"], block=128)
    moved = "ptx__bound_cycles_device_memory"
    assert moved in launched(module, "plain", buffers, ["x", "y"]).metrics
    for launch in launch_records(
        [outcome, outcome], built(), Module(module), device_of("sm_90"), 4096
    ):
        assert moved not in launch.metrics
        assert "ptx__bound_cycles" in launch.metrics
