"""Elements that several threads give different values, and those that they may."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from ptxemu.counts import Counts
from ptxemu.errors import Fault
from ptxemu.ops import access
from ptxemu.state import context
from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

SELECT = "(threadIdx.x + 64 * blockIdx.x)"
CONFLICTS = {
    "one instruction": (
        "y[threadIdx.x / 2] = threadIdx.x;",
        r"k\.cu:2: global-memory race: thread \(0, 0, 0\) of block \(0, 0, 0\) stores a different "
        r"value to y\[0\] than thread \(1, 0, 0\) of block \(1, 0, 0\), at the same time",
    ),
    "two lines": (
        "if (threadIdx.x == 40) y[3] = 1;\nif (threadIdx.x == 0 && blockIdx.x == 0) y[3] = 2;",
        r"k\.cu:3: global-memory race: .* y\[3\] than threads of several blocks did at "
        r"k\.cu:2, and nothing orders the two",
    ),
    "two warps": (
        "if (blockIdx.x) return;\nif (threadIdx.x == 40) y[3] = 1;\n__syncwarp();\n"
        "if (threadIdx.x == 0) y[3] = 2;",
        r"k\.cu:5: global-memory race: .* than thread \(40, 0, 0\) of block \(0, 0, 0\) did at",
    ),
    "two lanes": (
        "if (threadIdx.x == 4) y[blockIdx.x] = 1;\nif (threadIdx.x == 5) y[blockIdx.x] = 2;",
        r"k\.cu:3: global-memory race: .* than thread \(4, 0, 0\) of block \(0, 0, 0\) did at",
    ),
    "blocks": (
        "__syncthreads();\nif (threadIdx.x == 0) y[0] = blockIdx.x;",
        r"k\.cu:3: global-memory race: thread \(0, 0, 0\) of block \(0, .* of block \(1, 0, 0\)",
    ),
    "blocks, the later one first": (
        "if (threadIdx.x == 0 && blockIdx.x == 1) y[0] = 1;\n__syncthreads();\n"
        "if (threadIdx.x == 0 && blockIdx.x == 0) y[0] = 2;",
        r"k\.cu:2: global-memory race: thread \(0, 0, 0\) of block \(1, 0, 0\) stores a different "
        r"value to y\[0\] than thread \(0, 0, 0\) of block \(0, 0, 0\) did at k\.cu:4",
    ),
    "the same, then another": (
        'y[blockIdx.x] = 0;\nasm volatile("" ::: "memory");\n'
        "if (threadIdx.x == 40) y[blockIdx.x] = 1;",
        r"k\.cu:4: global-memory race: .* than several threads of block \(0, 0, 0\) did at k\.cu:2",
    ),
    "bytes of vectors": (
        "float2 v = {1.f, (float)threadIdx.x};\nif (blockIdx.x) return;\n"
        "((float2*)y)[threadIdx.x % 2] = v;",
        r"k\.cu:4: global-memory race: .* y\[1\]",
    ),
    "a ticket that orders nothing": (
        "__shared__ unsigned last;\nif (threadIdx.x == 0) last = atomicAdd((unsigned*)y + 9, 1);\n"
        "__syncthreads();\nif (threadIdx.x == 0) y[0] = last;",
        r"k\.cu:5: global-memory race",
    ),
    "shared": (
        "__shared__ float s[64];\nif (threadIdx.x < 32) s[threadIdx.x / 2] = threadIdx.x;\n"
        "__syncthreads();\nif (blockIdx.x == 0) y[threadIdx.x] = s[threadIdx.x % 16];",
        r"k\.cu:3: shared-memory race: .* stores a different value to s \+ 0 bytes than thread",
    ),
}
RIGHT = {
    "each its own": f"y[{SELECT}] = {SELECT};\n__syncthreads();\ny[{SELECT}] = 1;",
    "the same value": "y[threadIdx.x / 2] = 7;",
    "the same value by lines": "if (threadIdx.x == 0) y[0] = 3;\nif (threadIdx.x == 40) y[0] = 3;",
    "a barrier": "if (threadIdx.x == 0) y[blockIdx.x] = 1;\n__syncthreads();\n"
    "if (threadIdx.x == 40) y[blockIdx.x] = 2;",
    "a warp's barrier": "if (threadIdx.x == 4) y[blockIdx.x] = 1;\n__syncwarp();\n"
    "if (threadIdx.x == 5) y[blockIdx.x] = 2;",
    "a warp's, after all of it": "if (threadIdx.x < 32) y[blockIdx.x] = 1;\n__syncwarp();\n"
    "if (threadIdx.x == 5) y[blockIdx.x] = 2;",
    "atomics": "atomicAdd(y + threadIdx.x / 2, 1.0f);",
    "zeros, then atomics": "y[blockIdx.x] = 0;\n__syncthreads();\n"
    "atomicAdd(y + blockIdx.x, 1.0f);\n__syncthreads();\nif (threadIdx.x == 0) y[blockIdx.x] = 0;",
    "volatile": "*(volatile float*)y = threadIdx.x;",
    "the last block": "__shared__ unsigned last;\nif (threadIdx.x == 0) {\n"
    "  y[0] = 5;\n  __threadfence();\n  last = atomicAdd((unsigned*)y + 9, 1);\n}\n"
    "__syncthreads();\nif (last == 1 && threadIdx.x == 40) y[0] = 6;",
    "a lock": "if (threadIdx.x == 0) {\n  while (atomicCAS((unsigned*)y + 9, 0, 1)) ;\n"
    "  y[1] = blockIdx.x;\n  __threadfence();\n  atomicExch((unsigned*)y + 9, 0);\n}",
    "volatile in shared": "__shared__ volatile int s;\nif (threadIdx.x < 32) s = threadIdx.x;\n"
    "__syncthreads();\nif (blockIdx.x == 0) y[threadIdx.x] = 1;",
}


def run(cuda: Compile, body: str, workers: int = 1) -> Counts:
    """Two blocks of 64 threads; `body` begins at line 2."""
    text = f'extern "C" __global__ void k(const float* x, float* y, int n) {{\n{body}\n}}'
    buffers = {"x": np.ones(128, "f4"), "y": np.zeros(128, "f4")}
    _, outcome = execute(
        cuda(text), "k", buffers, ["x", "y", 128], grid=2, block=64, check=True, workers=workers
    )
    return outcome


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_two_threads_store_is_told_where_it_differs(cuda: Compile, name: str) -> None:
    body, words = CONFLICTS[name]
    with pytest.raises(Fault, match=words):
        run(cuda, body)


@pytest.mark.parametrize("name", RIGHT)
def test_nobody_is_accused_who_waited(cuda: Compile, name: str) -> None:
    assert run(cuda, RIGHT[name]).blocks_run == 2


def test_blocks_of_two_processes(cuda: Compile) -> None:
    """What blocks store is seen by all processes."""
    text = 'extern "C" __global__ void k(float* y) { y[threadIdx.x] = blockIdx.x; }'
    with pytest.raises(Fault, match="global-memory race"):
        execute(
            cuda(text), "k", {"y": np.zeros(1024, "f4")}, ["y"],
            grid=64, block=1024, check=True, workers=2,
        )  # fmt: skip


class _Elsewhere(AbstractContextManager[None]):
    """What keeps processes from one another's stores: behind it another one has stored at once."""

    memory: Any = None

    def __exit__(self, *_: object) -> None:
        if self.memory is not None:
            self.memory[:] = 9


def test_a_store_of_another_process_is_none_of_the_same_instruction(
    cuda: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kept = _Elsewhere(), access.scatter

    def scatter(memory: Any, *given: Any) -> None:
        made.memory = memory
        kept(memory, *given)

    monkeypatch.setattr(context, "nullcontext", lambda: made)
    monkeypatch.setattr(access, "scatter", scatter)
    assert run(cuda, f"y[{SELECT}] = 1;").blocks_run == 2
    assert made.memory is not None


#: Plain stores against atomics of four blocks, and where it is told.
AGAINST = {
    "one zeroes what all add to": (
        "if (i == 0) *y = 0;\natomicAdd(y, x[i]);",
        r"k\.cu:3: global-memory race: thread \(0, 0, 0\) of block \(0, 0, 0\) stores to y\[0\]"
        r", which atomics at k\.cu:4 change, and nothing orders the two",
    ),
    "a barrier of its block is not enough": (
        "if (i == 0) *y = 0;\n__syncthreads();\natomicAdd(y, x[i]);",
        r"k\.cu:3: global-memory race: thread \(0, 0, 0\) of block \(0, 0, 0\) stores to y\[0\]"
        r", which atomics at k\.cu:5 change",
    ),
    "the last block zeroes": (
        "if (i == 200) *y = 5;\n__syncthreads();\natomicAdd(y, x[i]);",
        r"k\.cu:3: global-memory race: thread \(8, 0, 0\) of block \(3, 0, 0\) stores to y\[0\]",
    ),
    "after the atomics of others": (
        "atomicMax((int*)y, i);\n__syncthreads();\n"
        "if (threadIdx.x == 40 && blockIdx.x == 1) y[3] = 7;\nif (i > 128) atomicAdd(y + 3, 1.f);",
        r"k\.cu:5: global-memory race: thread \(40, 0, 0\) of block \(1, 0, 0\) stores to y\[3\]",
    ),
    "in one warp": (
        "if (i == 5) y[1] = 0;\nif (i / 32 == 0) atomicAdd(y + 1, 1.f);",
        r"k\.cu:3: global-memory race: thread \(5, 0, 0\) of block \(0, 0, 0\) stores to y\[1\]",
    ),
    "a ticket that is zeroed": (
        "if (i == 0) *(int*)y = 0;\ny[1 + atomicAdd((int*)y, 1) % 256] = 1;",
        r"k\.cu:3: global-memory race: .* which atomics at k\.cu:4 change",
    ),
}
#: Those that wait, or do not meet.
WITH = {
    "a lock that a store releases": "if (threadIdx.x == 0) {\n"
    "while (atomicCAS((int*)y + 9, 0, 1)) ;\ny[blockIdx.x] += 1;\n__threadfence();\n"
    "((int*)y)[9] = 0;\n}",
    "the last block sets the ticket back": "__shared__ unsigned last;\nif (threadIdx.x == 0) {\n"
    "y[blockIdx.x] = 5;\n__threadfence();\nlast = atomicAdd((unsigned*)y + 9, 1);\n}\n"
    "__syncthreads();\nif (last == 3 && threadIdx.x == 0) ((unsigned*)y)[9] = 0;",
    "each block its own": "if (threadIdx.x == 0) y[blockIdx.x] = 0;\n__syncthreads();\n"
    "atomicAdd(y + blockIdx.x, 1.f);\n__syncthreads();\nif (threadIdx.x == 33) y[blockIdx.x] = 2;",
    "atomics alone": "atomicAdd(y, x[i]);\natomicMax((int*)y + 1, i);",
}


def against(cuda: Compile, body: str, workers: int = 1) -> None:
    """Four blocks of 64 threads; `body` begins at line 3."""
    text = 'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
    text += f"int i = blockIdx.x * 64 + threadIdx.x;\n{body}\n}}"
    buffers = {"x": np.ones(260, "f4"), "y": np.zeros(260, "f4")}
    execute(cuda(text), "k", buffers, ["x", "y", 0], grid=4, block=64, check=True, workers=workers)


@pytest.mark.parametrize("name", AGAINST)
def test_plain_stores_against_atomics(cuda: Compile, name: str) -> None:
    body, words = AGAINST[name]
    for workers in (1, 2, 2):
        with pytest.raises(Fault, match=words):
            against(cuda, body, workers)


@pytest.mark.parametrize("name", WITH)
def test_stores_and_atomics_that_are_in_order(cuda: Compile, name: str) -> None:
    against(cuda, WITH[name])
