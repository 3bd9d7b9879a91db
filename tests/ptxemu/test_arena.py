"""Memory that a program shares with the emulator: `ptxemu.Arena`."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pytest

import ptxemu
from ptxemu.arena import Reserve
from tests.ptxemu.conftest import Compile

BASE = 0x7E12_3456_7000
SIZE = 64 << 30
CODE = """
__device__ int counter = 5; __device__ int other = 3; __constant__ float k[4] = {1, 2, 3, 4};
__device__ int* there = &other;
extern "C" __global__ void times(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * k[i & 3];
}
extern "C" __global__ void count(int* y) { *y = atomicAdd(&counter, 2) + *there; }
"""
OTHER = '__device__ int counter = 70; extern "C" __global__ void count(int* y) { *y = counter++; }'


class Shared:
    """An arena in sparse memory, and what a program would do with it."""

    def __init__(self, data: mmap.mmap, written: mmap.mmap) -> None:
        self.bytes = np.frombuffer(data, np.uint8)
        self.arena = ptxemu.Arena(self.bytes, BASE, np.frombuffer(written, np.uint8))
        self._end = 256

    def reserve(self, size: int, align: int) -> int:
        at = -(-self._end // align) * align
        self._end = at + size + 512
        return BASE + at

    def new(self, name: str, at: int, values: np.ndarray | int) -> bytes:
        """An array of values, or of so many floats that nothing has written; its address."""
        size = values * 4 if isinstance(values, int) else values.nbytes
        self.arena.allocate(name, BASE + at, size, 4)
        assert self.arena.written is not None
        self.arena.written[at : at + size] = not isinstance(values, int)
        if not isinstance(values, int):
            self.bytes[at : at + size] = values.view(np.uint8)
        return (BASE + at).to_bytes(8, "little")

    def read(self, at: int, count: int, kind: str = "f4") -> list[float]:
        return self.bytes[at:][: 4 * count].view(kind).tolist()  # type: ignore[no-any-return]


@pytest.fixture
def shared() -> Iterator[Shared]:
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x4000
    yield Shared(mmap.mmap(-1, SIZE, flags), mmap.mmap(-1, SIZE, flags))


def placed(shared: Shared, module: ptxemu.Module) -> ptxemu.Arena:
    reserve: Reserve = shared.reserve
    return shared.arena.place(module, reserve)


def test_launches_find_what_the_program_and_the_last_launch_left(
    cuda: Compile, shared: Shared
) -> None:
    module = ptxemu.Module(cuda(CODE))
    memory = placed(shared, module)
    far = SIZE - (1 << 30)
    x, y = shared.new("x", 1 << 20, np.arange(8, dtype="f4")), shared.new("y", far, 8)
    ran = module.kernel("times").run(1, 32, [x, y, 8], memory=memory)
    assert ran.faults == ()
    assert shared.read(far, 8) == [0, 2, 6, 12, 4, 10, 18, 28]
    again = module.kernel("times").run(1, 32, [y, x, 8], memory=memory)
    assert again.faults == () and shared.read(1 << 20, 3) == [0, 4, 18]


def test_modules_keep_their_variables_and_may_share_names(cuda: Compile, shared: Shared) -> None:
    one, two = ptxemu.Module(cuda(CODE)), ptxemu.Module(cuda(OTHER))
    first, second = placed(shared, one), placed(shared, two)
    y = shared.new("y", 1 << 20, 1)
    said = []
    for module, memory in ((one, first), (two, second), (one, first), (two, second)):
        assert module.kernel("count").run(1, 1, [y], memory=memory).faults == ()
        said += shared.read(1 << 20, 1, "i4")
    assert said == [8, 70, 10, 71]
    assert first.read("counter").view("i4") == [9] and second.read("counter").view("i4") == [72]


def test_an_array_that_was_freed_is_told_as_such(cuda: Compile, shared: Shared) -> None:
    module = ptxemu.Module(cuda(CODE))
    memory = placed(shared, module)
    x, y = shared.new("x", 1 << 20, np.ones(8, "f4")), shared.new("y", 2 << 20, 8)
    shared.arena.release(BASE + (1 << 20))
    (fault,) = module.kernel("times").run(1, 8, [x, y, 8], memory=memory).faults
    assert "reads x[0], and x was freed before" in fault.message
    shared.new("z", 1 << 20, np.ones(8, "f4"))
    assert module.kernel("times").run(1, 8, [x, y, 8], memory=memory).faults == ()


def test_what_nothing_has_written_is_told_by_its_array(cuda: Compile, shared: Shared) -> None:
    module = ptxemu.Module(cuda(CODE))
    memory = placed(shared, module)
    x, y = shared.new("x", 1 << 20, 8), shared.new("y", 2 << 20, 8)
    (fault,) = module.kernel("times").run(1, 8, [x, y, 8], memory=memory).faults
    assert "reads x[0], which nothing has written" in fault.message


def test_tens_of_thousands_of_arrays_are_cheap(shared: Shared) -> None:
    for number in range(20_000):
        shared.arena.allocate(f"a{number}", BASE + number * 4096, 2048)
    for number in range(0, 20_000, 2):
        shared.arena.release(BASE + number * 4096)
    assert len(shared.arena.allocations) == 10_000
    assert not shared.arena.holds(BASE, BASE)
    assert shared.arena.holds(BASE + 4096, BASE + 4096 + 2047)
    assert shared.arena.inside(np.array([BASE, BASE + 4096, BASE + 4096 + 2048]), 1).tolist() == [
        False, True, False,
    ]  # fmt: skip
