"""The examples do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.compile import compilers
from workbench.errors import MissingError

REPO = Path(__file__).resolve().parent.parent


@pytest.mark.nvcc
def test_somebodys_kernel_is_tested_without_a_gpu(tmp_path: Path) -> None:
    """As a project of its own: outside of the checkout, and without its settings of pytest."""
    try:
        compilers.choose("auto")
    except MissingError as error:
        pytest.skip(error.message)
    shutil.copytree(REPO / "examples" / "pytest_kernel", tmp_path / "kernel")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path / "kernel",
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
