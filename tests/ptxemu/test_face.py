"""The face: `ptxemu.load`, `Module.kernel`, `Kernel.run` and what they say of mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxemu
from workbench.compile import compilers
from workbench.errors import MissingError

CODE = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void beyond(const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i + 1];
}
extern "C" __global__ void racing(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void doubled(float* y) {
  extern __shared__ float s[];
  s[threadIdx.x] = y[threadIdx.x];
  y[threadIdx.x] = 2 * s[threadIdx.x];
}
struct Pair { float* to; int by; };
extern "C" __global__ void structured(Pair pair) { pair.to[threadIdx.x] += pair.by; }
__device__ int total = 40;
extern "C" __global__ void counting(int* y) { y[0] = atomicAdd(&total, 2); }
extern "C" __global__ void forever(volatile int* y) { while (*y == 0) {} }
extern "C" __global__ void spread(int* y) {
  asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(y));
}
"""


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(CODE.splitlines(), 1) if words in line)


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A file of PTX and its cubin, as a compiler writes them."""
    try:
        tool = compilers.choose("auto")
    except MissingError as error:
        pytest.skip(error.message)
    folder = tmp_path_factory.mktemp("face")
    (folder / "k.cu").write_text(CODE, encoding="utf-8")
    made = tool.compile(folder, "k.cu", "sm_90", ("-std=c++17", "-lineinfo"))
    assert not made.failed, made.log
    (folder / "k.ptx").write_text(made.ptx, encoding="utf-8")
    return folder / "k.ptx", made.cubin


@pytest.fixture(scope="module")
def module(ptx: tuple[Path, bytes]) -> ptxemu.Module:
    return ptxemu.load(*ptx)


pytestmark = pytest.mark.nvcc
N = 1000
X, Y = np.arange(N, dtype="f4"), np.full(N, 3, "f4")


def test_a_right_kernel_gives_its_arrays_and_leaves_those_it_was_given(
    module: ptxemu.Module,
) -> None:
    result = module.kernel("saxpy").run(8, 128, {"n": N, "a": 2, "x": X, "y": Y})
    assert result.faults == () and set(result.outputs) == {"x", "y"}
    np.testing.assert_array_equal(result.outputs["y"], 2 * X + 3)
    assert (Y == 3).all()


def test_arguments_by_place_are_named_by_it(module: ptxemu.Module) -> None:
    result = module.kernel("saxpy").run((8,), (128, 1), [np.int32(N), np.float32(0.5), X, Y])
    np.testing.assert_array_equal(result.outputs["arg3"], 0.5 * X + 3)


def test_one_array_given_twice_is_one(module: ptxemu.Module) -> None:
    out = module.kernel("saxpy").run(8, 128, {"n": N, "a": 1.0, "x": X, "y": X}).outputs
    assert list(out) == ["x"] and (out["x"] == 2 * X).all()


def test_a_wrong_index_is_a_fault_with_its_line(module: ptxemu.Module) -> None:
    result = module.kernel("beyond").run(1, 64, {"x": X[:64], "y": Y[:64]})
    (fault,) = result.faults
    assert f"k.cu:{line_of('x[i + 1]')}: out of bounds: thread (63, 0, 0)" in fault.message
    assert "reads x[64], past the end of x (64 elements)" in fault.message
    assert fault.hint and fault.__notes__ == [fault.hint]
    for look in ("outputs", "counts"):
        with pytest.raises(ptxemu.Fault, match="out of bounds"):
            getattr(result, look)


def test_a_race_is_found_unless_nobody_looks(module: ptxemu.Module) -> None:
    kernel = module.kernel("racing")
    (fault,) = kernel.run(1, 64, {"y": Y[:64]}).faults
    assert f"k.cu:{line_of('s[63 -')}: shared-memory race" in fault.message
    assert kernel.run(1, 64, {"y": Y[:64]}, check=False).faults == ()


def test_what_nothing_has_written_is_not_read(module: ptxemu.Module) -> None:
    args: dict[str, ptxemu.Given] = {"n": N, "a": 2.0, "x": X, "y": Y}
    (fault,) = module.kernel("saxpy").run(8, 128, args, unwritten=["y"]).faults
    assert "uninitialized memory" in fault.message and "y" in fault.message


def test_counts_are_by_line_and_in_all(module: ptxemu.Module) -> None:
    counts = module.kernel("saxpy").run(8, 128, {"n": 1024, "a": 2.0, "x": X, "y": Y}).faults
    assert counts  # 24 threads go beyond the arrays
    x, y = np.zeros(1024, "f4"), np.zeros(1024, "f4")
    counted = module.kernel("saxpy").run(8, 128, {"n": 1024, "a": 2.0, "x": x, "y": y}).counts
    assert counted.total("sectors") == counted.total("ideal") == 3 * 1024 * 4 // ptxemu.SECTOR
    stores = [row for row in counted.rows if row.instr.op == "st"]
    assert [(module.where(row.instr).split("/")[-1], row.warps) for row in stores] == [
        (f"k.cu:{line_of('y[i] = a')}", 32)
    ]
    code = counted.machine_code()
    assert module.assembled and code is not None and code.total > 0


def test_a_sample_of_the_blocks_stands_for_all(module: ptxemu.Module) -> None:
    x = np.zeros(64 * 128, "f4")
    args: dict[str, ptxemu.Given] = {"n": len(x), "a": 2.0, "x": x, "y": x.copy()}
    some = module.kernel("saxpy").run(64, 128, args, blocks=8).counts
    every = module.kernel("saxpy").run(64, 128, args).counts
    assert some.sampled < 1 and some.total("sectors") == every.total("sectors")


def test_several_launches_share_a_memory(module: ptxemu.Module) -> None:
    memory = module.memory({"y": np.ones(32, "f4")})
    for _ in range(3):
        module.kernel("doubled").run(1, 32, ["y"], 128, memory=memory)
    assert (memory.read("y") == 8).all()
    ints = module.memory({"y": np.zeros(1, "i4")})
    assert module.variables == {"total": 4}
    first, second = (
        module.kernel("counting").run(1, 1, ["y"], memory=ints).outputs["y"][0] for _ in range(2)
    )
    assert (first, second) == (40, 42)
    ints.fill("total", np.frombuffer(np.int32(7).tobytes(), np.uint8))
    assert module.kernel("counting").run(1, 1, ["y"], memory=ints).outputs["y"][0] == 7


def test_a_struct_is_its_bytes(module: ptxemu.Module) -> None:
    memory = module.memory({"y": np.zeros(32, "f4")})
    pair = np.zeros(1, np.dtype([("to", "u8"), ("by", "i4")], align=True))
    pair["to"], pair["by"] = memory.address("y"), 5
    result = module.kernel("structured").run(1, 32, [pair.tobytes()], memory=memory)
    assert (result.outputs["y"] == 5).all()


def test_what_is_not_there_is_unsupported(module: ptxemu.Module) -> None:
    with pytest.raises(ptxemu.Unsupported, match="multimem") as caught:
        module.kernel("spread").run(1, 1, [np.zeros(1, "i4")])
    assert "GPU" in caught.value.hint


def test_a_run_can_be_given_up(module: ptxemu.Module) -> None:
    (fault,) = module.kernel("forever").run(1, 1, [np.zeros(1, "i4")]).faults
    assert "endless wait" in fault.message
    limits = ptxemu.Limits.within(0.0)
    with pytest.raises(ptxemu.ResourceError, match="did not end within 0 s"):
        module.kernel("saxpy").run(8, 128, {"n": N, "a": 2.0, "x": X, "y": Y}, limits=limits)


WRONG: dict[str, tuple[list[ptxemu.Given], str]] = {
    "too few": ([N, 2.0, X], "takes 4 arguments, not 3"),
    "too many": ([N, 2.0, X, Y, 1], "takes 4 arguments, not 5"),
    "a wide number": ([np.int64(N), 2.0, X, Y], "argument 1 has 8 bytes, but the kernel expects 4"),
    "a large number": ([1 << 40, 2.0, X, Y], "argument 1 is 1099511627776, which 4 bytes cannot"),
    "no integer": ([2.5, 2.0, X, Y], "argument 1 is 2.5, but the kernel expects an integer"),
    "a name of nothing": ([N, 2.0, "x", Y], "there is no array 'x'"),
}


@pytest.mark.parametrize("given", WRONG)
def test_arguments_that_do_not_fit_are_told(module: ptxemu.Module, given: str) -> None:
    args, words = WRONG[given]
    with pytest.raises(ptxemu.LaunchError, match=words):
        module.kernel("saxpy").run(8, 128, args)


def test_what_is_no_argument_is_told(module: ptxemu.Module) -> None:
    kernel = module.kernel("saxpy")
    with pytest.raises(ptxemu.LaunchError, match="argument 3 is a list"):
        kernel.run(8, 128, [N, 2.0, [1.0, 2.0], Y])  # type: ignore[list-item]
    with pytest.raises(ptxemu.LaunchError, match="an array in `args` together with `memory`"):
        kernel.run(8, 128, [N, 2.0, "x", Y], memory=module.memory({"x": X}))
    with pytest.raises(ptxemu.LaunchError, match="has 4 axes"):
        kernel.run((1, 1, 1, 1), 128, [N, 2.0, X, Y])
    with pytest.raises(
        ptxemu.LaunchError, match=r"cannot launch grid \(1, 1, 1\) with block \(2048"
    ):
        kernel.run(1, 2048, [N, 2.0, X, Y])


def test_names_are_found_as_they_are_written(module: ptxemu.Module) -> None:
    assert module.kernel("saxpy").name == "_Z5saxpyifPKfPf" and "beyond" in module.kernels
    assert module.kernel("_Z5saxpyifPKfPf") == module.kernel("saxpy")
    with pytest.raises(ptxemu.PtxError, match="no kernel 'saxpi'") as caught:
        module.kernel("saxpi")
    assert "beyond" in caught.value.hint


def test_what_is_no_ptx_is_told(ptx: tuple[Path, bytes], tmp_path: Path) -> None:
    with pytest.raises(ptxemu.PtxError, match="PTX line 1"):
        ptxemu.load("\x00")
    (tmp_path / "k.cubin").write_bytes(ptx[1])
    with pytest.raises(ptxemu.PtxError, match="holds machine code") as caught:
        ptxemu.load(tmp_path / "k.cubin")
    assert "nvcc -ptx" in caught.value.hint
    unread = ptxemu.load(ptx[0], b"\x7fELF and no more")
    assert not unread.assembled and unread.kernels
    assert not ptxemu.load(ptx[0].read_text("utf-8"), tmp_path / "none").assembled


def test_the_face_is_what_it_says_and_comes_without_numpy() -> None:
    assert all(getattr(ptxemu, name) is not None for name in ptxemu.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ptxemu.nothing
    light = (
        "import sys; from ptxemu import Callers, Fault, TensorMap; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
