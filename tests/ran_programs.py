"""A program that was run without running it: what a run of it records, computed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.lifted_maker import Lift
from workbench.study.lifted import RecordedLaunch

#: Two kernels of one job and one of another; a header of its own, a macro for the host alone.
SOURCE = """\
#include <cstdio>
#include <vector>
#include "half.cuh"
#define N 1000

__global__ void scale(const float* x, float* y, int n, float f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f * half(x[i]);
}

template <int PER> __global__ void scale_wide(const float* x, float* y, int n, float f) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * PER;
    for (int i = first; i < first + PER && i < n; i++) y[i] = f * half(x[i]);
}

__global__ void sum(const float* x, float* total, int n) {
    for (int i = 0; i < n; i++) *total += x[i];
}

int main() {
    std::vector<float> h(N);
    float *x, *y, *total;
    cudaMalloc(&x, 4 * N);
    cudaMalloc(&y, 4 * N);
    cudaMalloc(&total, 4);
    scale<<<(N + 255) / 256, 256>>>(x, y, N, 3.0f);
    scale_wide<4><<<1, 256>>>(x, y, N, 3.0f);
    sum<<<1, 1>>>(x, total, N);
    printf("%d numbers\\n", N);
}
"""
HEADER = "__device__ inline float half(float a) {\n    return 0.5f * a;\n}\n"
SCALE, WIDE, SUM = "_Z5scalePKfPfif", "_Z10scale_wideILi4EEvPKfPfif", "_Z3sumPKfPfi"


def launches(n: int, *, wide: bool = True) -> list[RecordedLaunch]:
    """What a run of it records: a launch of each kernel."""
    x = np.random.default_rng(n).random(n, dtype="f4")
    y = (np.float32(3.0) * (np.float32(0.5) * x)).astype("f4")
    signature = "(float const*, float*, int, float)"
    found = []
    for kernel, name, before in (
        (SCALE, f"scale{signature}", np.zeros(n, "f4")),
        (WIDE, f"void scale_wide<4>{signature}", y),
    ):
        lift = Lift(kernel, name, b"")
        lift.buffer("d_x", x)
        lift.buffer("d_y", before, y)
        lift.point("d_x")
        lift.point("d_y")
        lift.give(np.int32(n).tobytes())
        lift.give(np.float32(3.0).tobytes())
        found.append(lift.record((-(-n // 256),), (256,)))
    lift = Lift(SUM, "sum(float const*, float*, int)", b"")
    lift.buffer("d_x", x)
    lift.buffer("total", np.zeros(1, "f4"), x.sum(keepdims=True))
    lift.point("d_x")
    lift.point("total")
    lift.give(np.int32(n).tobytes())
    found.append(lift.record((1,), (1,)))
    return found if wide else found[:1]


def printing() -> RecordedLaunch:
    """A launch of a kernel that writes no array."""
    lift = Lift("_Z5helloPf", "hello(float*)", b"")
    lift.buffer("d_x", np.ones(4, "f4"))
    lift.point("d_x")
    return lift.record((1,), (1,))._replace(stored=0)


def fake(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorded: Sequence[RecordedLaunch] | None = None,
    **outcome: Any,
) -> list[Any]:
    """Write the program into a folder, and let each run of any give what it records."""
    (root / "scaling.cu").write_text(SOURCE)
    (root / "half.cuh").write_text(HEADER)
    programs: list[Any] = []

    def run(program: Any, say: Callable[[str], None], **_: Any) -> Any:
        programs.append(program)
        n = int(program.arguments[0]) if program.arguments else 1000
        found = launches(n, wide="only" not in program.arguments) if recorded is None else recorded
        counted = [
            SimpleNamespace(
                symbol=each.launch.kernel, counted=SimpleNamespace(instructions=99), times=1
            )
            for each in found
        ]
        said = {
            "code": 0, "output": f'{n} numbers """\\', "faults": (), "stopped": "",
            "unrecorded": {}, "notices": (), **outcome,
        }  # fmt: skip
        return SimpleNamespace(recorded=found, counted=SimpleNamespace(launches=counted), **said)

    monkeypatch.setattr("workbench.programs.studies.brought.run_program", run)
    return programs
