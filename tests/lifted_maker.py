"""Lifted launches without a GPU: a kernel compiled by nvcc, its results computed here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from workbench.project import Project
from workbench.study.lifted import (
    FOLDER,
    LiftedArgument,
    LiftedBuffer,
    LiftedLaunch,
    LiftedPointer,
    RecordedLaunch,
    write_lifted,
)

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
#: Where the buffers of the program lay.
BASE = 0x7F12_0000_0000
Array = NDArray[Any]


def compiled(folder: Path, source: str, name: str = "program.cu", *, lines: bool = True) -> bytes:
    """The cubin of a source that lies in a folder, as a program's build makes it."""
    (folder / name).write_text(source)
    out = folder / "program.cubin"
    flags = ["-lineinfo"] if lines else []
    command = ["nvcc", "-cubin", "-arch=sm_90", "-O3", *flags, "-o", str(out)]
    subprocess.run([*command, str(folder / name)], check=True, capture_output=True, timeout=120)
    return out.read_bytes()


class Lift:
    """A launch to be kept: arguments and buffers, in the order in which they are given."""

    def __init__(self, kernel: str, demangled: str, cubin: bytes) -> None:
        self.kernel, self.demangled, self.cubin = kernel, demangled, cubin
        self.buffers: dict[str, tuple[bytes, bytes, str | None]] = {}
        self.addresses: dict[str, int] = {}
        self.arguments: list[bytes] = []
        self.pointers: list[LiftedPointer] = []

    def buffer(
        self, name: str, before: Array, after: Array | None = None, *, symbol: str | None = None
    ) -> None:
        """A buffer of the program; `after` where the launch changed it."""
        held = before.tobytes()
        self.buffers[name] = (held, held if after is None else after.tobytes(), symbol)
        self.addresses[name] = BASE + (len(self.buffers) << 24)

    def give(self, data: bytes, *leads: tuple[int, str, int]) -> None:
        """An argument, and its pointers: place in it, buffer, byte in that."""
        whole = bytearray(data)
        for place, target, inside in leads:
            whole[place : place + 8] = (self.addresses[target] + inside).to_bytes(8, "little")
            self.pointers.append(
                LiftedPointer(
                    argument=len(self.arguments), offset=place, target=target, target_offset=inside
                )
            )
        self.arguments.append(bytes(whole))

    def point(self, name: str, inside: int = 0) -> None:
        """An argument that is a pointer into a buffer."""
        self.give(bytes(8), (0, name, inside))

    def leads(self, buffer: str, place: int, target: str, inside: int = 0) -> None:
        """Let the eight bytes at a place of a buffer be a pointer into another."""
        before, after, symbol = self.buffers[buffer]
        address = (self.addresses[target] + inside).to_bytes(8, "little")
        self.buffers[buffer] = (
            before[:place] + address + before[place + 8 :],
            after[:place] + address + after[place + 8 :],
            symbol,
        )
        self.pointers.append(
            LiftedPointer(buffer=buffer, offset=place, target=target, target_offset=inside)
        )

    def keep(
        self,
        project: Project,
        study: str,
        grid: Sequence[int],
        block: Sequence[int],
        *,
        ptx: str | None = None,
        **more: Any,
    ) -> Path:
        """Write it to the study's folder, which is given back."""
        folder = project.kernels / study / FOLDER
        folder.mkdir(parents=True)
        write_lifted(folder, self.record(grid, block, ptx=ptx, **more))
        return folder

    def record(
        self, grid: Sequence[int], block: Sequence[int], *, ptx: str | None = None, **more: Any
    ) -> RecordedLaunch:
        """The record, and the files that it names."""
        files: dict[str, Sequence[bytes]] = {"module.cubin.zst": [self.cubin]}
        if ptx is not None:
            files["module.ptx.zst"] = [ptx.encode()]
        buffers, offset = [], 0
        for name, (before, after, symbol) in self.buffers.items():
            buffer = LiftedBuffer.sealed(
                name,
                (sha256(before).hexdigest(), sha256(after).hexdigest()),
                address=self.addresses[name],
                size=len(before),
                kind="symbol" if symbol else "device",
                symbol=symbol,
            )
            buffers.append(buffer)
            files.update(zip(buffer.files, ([before], [after]), strict=False))
        arguments = []
        for index, data in enumerate(self.arguments):
            wide = min(8, len(data) & -len(data))
            offset = -(-offset // wide) * wide
            arguments.append(LiftedArgument(index=index, offset=offset, size=len(data), data=data))
            offset += len(data)
        x, y, z = (*grid, 1, 1)[:3]
        a, b, c = (*block, 1, 1)[:3]
        options: Mapping[str, Any] = {"repeats_equal": True, "duration_ns": 12_345, **more}
        launch = LiftedLaunch(
            kernel=self.kernel,
            demangled=self.demangled,
            grid=(x, y, z),
            block=(a, b, c),
            arguments=tuple(arguments),
            pointers=tuple(self.pointers),
            buffers=tuple(buffers),
            image="module.cubin.zst",
            ptx="module.ptx.zst" if ptx is not None else None,
            capability="9.0",
            device="NVIDIA H100 80GB HBM3",
            launch=3,
            **options,
        )
        return RecordedLaunch(launch, files)


#: A template over a table in constant memory, in an unnamed namespace, launched by its host code.
SCALE = """\
#include <cstdio>
#include "shared.cuh"
__constant__ float table[4];

void report(int n) { printf("%d\\n", n); }

template <typename T> __global__ void scale(const T* x, T* y, int n, float f) {
    __shared__ T s[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) y[i] = twice(s[threadIdx.x]) * f + table[i & 3];
}

int main() {
    scale<float><<<4, 64>>>(nullptr, nullptr, 3, 2.0f);
    report(3);
}
"""
HEADER = """\
#pragma once
__device__ __noinline__ float twice(float a) {
    return 2.0f * a;
}
"""
KERNEL = "_Z5scaleIfEvPKT_PS0_if"


def scaled(folder: Path, project: Project, study: str = "scaling") -> Path:
    """`SCALE` on 200 numbers, lifted into a project."""
    (folder / "shared.cuh").write_text(HEADER)
    cubin = compiled(folder, SCALE)
    rng = np.random.default_rng(5)
    x, table = rng.random(200, dtype="f4"), rng.random(4, dtype="f4")
    y = (2 * x * np.float32(1.5) + table[np.arange(200) & 3]).astype("f4")
    lift = Lift(KERNEL, "void scale<float>(float const*, float*, int, float)", cubin)
    lift.buffer("b0", x)
    lift.buffer("b1", np.zeros(200, "f4"), y)
    lift.buffer("table", table, symbol="table")
    lift.point("b0")
    lift.point("b1")
    lift.give(np.int32(200).tobytes())
    lift.give(np.float32(1.5).tobytes())
    return lift.keep(project, study, (4,), (64,))
