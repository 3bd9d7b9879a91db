"""The examples do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.compile import compilers
from workbench.errors import MissingError

REPO = Path(__file__).resolve().parent.parent
SAXPY = """__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def said_of(folder: Path) -> str:
    """What pytest says of a folder, as of a project of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.nvcc
@pytest.mark.slow
def test_somebodys_kernel_is_tested_without_a_gpu(tmp_path: Path) -> None:
    try:
        compilers.choose("auto")
    except MissingError as error:
        pytest.skip(error.message)
    shutil.copytree(REPO / "examples" / "pytest_kernel", tmp_path / "kernel")
    assert "3 passed" in said_of(tmp_path / "kernel")


@pytest.mark.nvcc
@pytest.mark.slow
def test_the_ten_lines_of_the_page_find_what_they_say(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH")
    page = (REPO / "docs" / "ptxemu.md").read_text(encoding="utf-8")
    lines, error = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "test_saxpy.py").write_text(lines, encoding="utf-8")
    (tmp_path / "saxpy.cu").write_text(SAXPY, encoding="utf-8")
    assert "1 passed" in said_of(tmp_path)
    (tmp_path / "saxpy.cu").write_text(SAXPY.replace("if (i < n) ", ""), encoding="utf-8")
    said = said_of(tmp_path)
    assert "1 failed" in said and " ".join(error.split()).partition("saxpy.cu")[2] in said
