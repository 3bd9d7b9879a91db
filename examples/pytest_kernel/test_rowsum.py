"""`rowsum.cu` under pytest: no GPU, only nvcc or NVRTC (``pip install '.[emulator]'``)."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ptxemu

CODE = Path(__file__).with_name("rowsum.cu").read_text()


def ptx_of(code, folder):
    """The PTX of CUDA C++, by nvcc where there is one, else by NVRTC."""
    if shutil.which("nvcc"):
        (folder / "rowsum.cu").write_text(code)
        command = ["nvcc", "-ptx", "-lineinfo", "-arch=sm_90", "rowsum.cu"]
        subprocess.run(command, cwd=folder, check=True)
        return (folder / "rowsum.ptx").read_text()
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(code.encode(), b"rowsum.cu", 0, [], [])
    options = [b"-lineinfo", b"-arch=compute_90"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.decode().rstrip("\0")


@pytest.fixture
def matrix():
    return np.random.default_rng(0).standard_normal((5, 1000), dtype=np.float32)


def run(code, folder, matrix):
    kernel = ptxemu.load(ptx_of(code, folder)).kernel("row_sums")
    rows, columns = matrix.shape
    sums = np.empty(rows, np.float32)
    args = {"a": matrix, "sums": sums, "columns": columns}
    return kernel.run(rows, 128, args, unwritten=["sums"])


def test_sums_are_right(tmp_path, matrix):
    result = run(CODE, tmp_path, matrix)
    np.testing.assert_allclose(result.outputs["sums"], matrix.sum(axis=1), atol=1e-3)


def test_rows_are_read_once_and_without_bank_conflicts(tmp_path, matrix):
    counts = run(CODE, tmp_path, matrix).counts
    loads = [row.site for row in counts.rows if row.instr.op == "ld" and row.site.space == "global"]
    assert sum(site.sectors for site in loads) == matrix.nbytes // ptxemu.SECTOR
    assert counts.total("wavefronts") == counts.total("wideal")


def test_a_missing_barrier_is_found(tmp_path, matrix):
    """The emulator looks for races; on a GPU this kernel may be right for years."""
    planted = CODE.replace("    __syncthreads();\n", "")
    (fault,) = run(planted, tmp_path, matrix).faults
    assert "shared-memory race" in fault.message and "rowsum.cu:12" in fault.message
