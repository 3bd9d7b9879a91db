"""Twelve bugs of a first course: each is found, its line named first, and its hint mends it.

Two studies as students write them, `tests/data/taught`: a 3×3 convolution and a tiled product.
A mend is the edit that the hint's words name, and no more.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPO
from workbench.engines import RunOptions, Subject
from workbench.engines.emulated.emulation import verified
from workbench.engines.emulated.engine import EmulatorEngine
from workbench.errors import WorkbenchError
from workbench.project import require_project
from workbench.study.folder import load_study

pytestmark = pytest.mark.nvcc
TAUGHT = REPO / "tests" / "data" / "taught"
INSIDE = "tx >= 1 && tx <= T && ty >= 1 && ty <= T"


class Bug(NamedTuple):
    """A wrong version: on which problem, the text of its first line, what is said, the mend."""

    problem: str
    line: str
    words: str
    hint: str
    old: str
    new: str


BUGS = {
    # The threads of the halo store as well.
    "blur/v1": Bug(
        "n32",
        "sum += weight",
        r"reads tile\[-1\]\[17\] of shared memory, before tile\[18\]\[18\], where the block has no",
        r"Guard the access with the array's extents",
        "    if (inside) {\n",
        f"    if (inside && {INSIDE}) {{\n",
    ),
    # An array that is too small, beside its neighbour.
    "blur/v2": Bug(
        "n32",
        "tile[ty][tx] =",
        r"writes tile\[16\]\[0\] .* past the end of tile\[16\]\[16\]: there lies taps\[0\]",
        r"where it is right, the array is too small",
        "float tile[T][T];",
        "float tile[T + 2][T + 2];",
    ),
    # A barrier that is used without another one after its initialization.
    "blur/v3": Bug(
        "n32",
        "loaded.arrive_and_wait",
        r"mbarrier loaded: thread .* uses it without a barrier after its initialization",
        r"Put a __syncthreads\(\) .* between the initialization and all that uses",
        "init(&loaded, blockDim.x * blockDim.y);\n",
        "init(&loaded, blockDim.x * blockDim.y);\n    __syncthreads();\n",
    ),
    # A copy that is not waited for.
    "blur/v4": Bug(
        "n32",
        "sum += weight",
        r"reads tile\[1\]\[1\], which the copy of thread \(1, 1, 0\) .* may still be writing",
        r"wait for the copy's group .*`__pipeline_wait_prior\(0\)`.* then put a __syncthreads\(\)",
        "__pipeline_commit();\n",
        "__pipeline_commit();\n    __pipeline_wait_prior(0);\n",
    ),
    # No second barrier.
    "matmul/v1": Bug(
        "n64",
        "Bs[ty][tx] =",
        r"shared-memory race: .* writes Bs\[0\]\[0\], which was read by several warps at .*:23",
        r"Put a __syncthreads\(\) between the two accesses",
        "sum += As[ty][k] * Bs[k][tx];\n",
        "sum += As[ty][k] * Bs[k][tx];\n        __syncthreads();\n",
    ),
    # A block of one dimension.
    "matmul/v2": Bug(
        "n64",
        "block  = [256]",
        r"the block has one dimension, \[256\], and matmul asks for threadIdx\.y, which is 0 in",
        r"block = \[16, 16\]",
        "block  = [256]",
        "block  = [16, 16]",
    ),
    # No guards: of loads, and of the store alone.
    "matmul/v3": Bug(
        "odd",
        "As[ty][tx] =",
        r"reads A\[1073\], past the end of A \(1,073 elements\)",
        r"Guard the access with the array's extents \(`if \(row < ROWS && column < COLUMNS\)`\)",
        "        As[ty][tx] = A[row * K + t + tx];  // <- wrong\n"
        "        Bs[ty][tx] = B[(t + ty) * N + col];\n",
        "        As[ty][tx] = 0.0f, Bs[ty][tx] = 0.0f;\n"
        "        if (row < M && t + tx < K) As[ty][tx] = A[row * K + t + tx];\n"
        "        if (t + ty < K && col < N) Bs[ty][tx] = B[(t + ty) * N + col];\n",
    ),
    "matmul/v4": Bug(
        "odd",
        "C[row * N + col] = sum;",
        r"writes C\[1850\], past the end of C \(1,850 elements\); 717 more threads",
        r"Guard the access",
        "    C[row * N + col] = sum;",
        "    if (row < M && col < N) C[row * N + col] = sum;",
    ),
    # An index that forgets its block, and one that forgets its row.
    "matmul/v5": Bug(
        "n64",
        "C[row * N + col] = sum;",
        r"were never written(.|\n)*lie along x, and matmul never asks for blockIdx\.x",
        r"^Use blockIdx\.x in the index\.",
        "int col = tx;",
        "int col = blockIdx.x * T + tx;",
    ),
    "blur/v5": Bug(
        "n32",
        "out[col] = sum;",
        r"global-memory race: .* stores another value to out\[0\] than thread \(1, 16, 0\) of",
        r"Give every thread an element of its own",
        "out[col] = sum;",
        "out[row * W + col] = sum;",
    ),
    # Over the limits.
    "blur/v6": Bug(
        "n32",
        "__shared__ float tile[288][288]",
        r"331,776 bytes of shared memory are declared \(tile: 331,776\), and 49,152 are allowed",
        r"Declare a smaller array; up to 232,448 are allowed as dynamic shared memory",
        "tile[288][288]",
        "tile[T + 2][T + 2]",
    ),
    "matmul/v6": Bug(
        "n64",
        "block  = [64, 64]",
        r"4096 threads per block",
        r"at most 1024 threads, 32 times 32",
        "block  = [64, 64]",
        "block  = [32, 32]",
    ),
    # A float4 at an address that is no multiple of its size.
    "blur/v7": Bug(
        "odd",
        "*(const float4 *)line",
        r"misaligned access: .* reads 16 bytes at image\[35\], whose address is no multiple of 16",
        r"only where the address is a multiple of 16 .* single elements elsewhere",
        "if (col + 3 < W) {",
        "if (col + 3 < W && (size_t)line % 16 == 0) {",
    ),
    # An early return.
    "matmul/v7": Bug(
        "odd",
        "if (row >= M || col >= N) return;",
        r"uninitialized shared memory: 224 threads of the block have returned here, .* As\[0\]\[",
        r"guard the last store in place of the early return",
        "    if (row >= M || col >= N) return;\n",
        "",
    ),
    # Edge blocks that are not launched.
    "matmul/v8": Bug(
        "odd",
        "grid   = ",
        r"Is the grid too small\? 6 blocks of 256 threads wrote 1 element each",
        r"Round the grid up, cdiv\(size, block\)",
        '["max(N // 16, 1)", "max(M // 16, 1)"]',
        '["cdiv(N, 16)", "cdiv(M, 16)"]',
    ),
}  # fmt: skip


def judged(root: Path, version: str, problem: str) -> WorkbenchError | None:
    """What `verify --engine emulator` says of a version on a problem."""
    project = require_project(root)
    study = load_study(project, version.split("/")[0])
    engine = EmulatorEngine(project, RunOptions(seed=1))
    chosen = study.version(version.split("/")[1])
    try:
        subject = Subject.of(study, chosen, study.problem(problem), engine.build(chosen))
        verified(engine.emulate(subject, watch=True), subject)
    except WorkbenchError as error:
        return error
    return None


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_a_first_course_is_found_and_its_hint_mends_it(name: str, tmp_path: Path) -> None:
    bug, (study, version) = BUGS[name], name.split("/")
    shutil.copytree(TAUGHT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("profiles"))
    (path,) = (tmp_path / "kernels" / study).glob(f"{version}_*.cu")
    text = path.read_text(encoding="utf-8")
    error = judged(tmp_path, name, bug.problem)
    assert error is not None
    assert re.search(bug.words, error.message), error.message
    assert re.search(bug.hint, error.hint), error.hint
    line = next(at for at, each in enumerate(text.splitlines(), 1) if bug.line in each)
    assert re.match(rf"kernels/{study}/{path.name}:{line}\b", error.message), error.message
    assert text.count(bug.old) == 1
    mended = text.replace(bug.old, bug.new)
    if name == "matmul/v6":  # and what goes with the block
        mended = mended.replace("#define T 64", "#define T 32").replace(", 64)", ", 32)")
    path.write_text(mended, encoding="utf-8")
    after = judged(tmp_path, name, bug.problem)
    assert after is None, after.message


@pytest.mark.parametrize("study", ["blur", "matmul"])
def test_every_wrong_version_is_in_the_table_and_the_right_one_is_not(study: str) -> None:
    found = {path.name.split("_")[0] for path in (TAUGHT / "kernels" / study).glob("v*.cu")}
    assert found == {"v0", *(name.split("/")[1] for name in BUGS if name.startswith(study))}
    for problem in ("n64" if study == "matmul" else "n32", "odd"):
        assert judged(TAUGHT, f"{study}/v0", problem) is None
