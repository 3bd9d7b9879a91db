"""``malloc``, ``free``, ``new`` and ``delete`` in kernels."""

from __future__ import annotations

import numpy as np
import pytest

import ptxemu
from tests.ptxemu.conftest import Compile

CODE = """
struct node { int value; node* next; };
__device__ node* head;
extern "C" {
__global__ void sums(int* out) {
  int* mine = new int[4];
  if (!mine) { out[threadIdx.x] = -1; return; }
  for (int i = 0; i < 4; i++) mine[i] = threadIdx.x + i;
  out[threadIdx.x] = mine[0] + mine[3];
  delete[] mine;
}
__global__ void build(int n) {
  for (int i = 0; i < n; i++) {
    node* one = new node;
    one->value = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long old;
    do {
      old = *(volatile unsigned long long*)&head;
      one->next = (node*)old;
    } while (atomicCAS((unsigned long long*)&head, old, (unsigned long long)one) != old);
  }
}
__global__ void drain(int* out) {
  int sum = 0;
  for (node* each = head; each;) {
    sum += each->value;
    node* next = each->next;
    delete each;
    each = next;
  }
  *out = sum;
}
__global__ void beyond(int* out) { int* x = (int*)malloc(16); x[threadIdx.x] = 1; free(x); }
__global__ void unset(int* out) { int* x = (int*)malloc(16); *out = x[1]; free(x); }
__global__ void twice(int* out) { int* x = (int*)malloc(16); free(x); free(x); }
__global__ void foreign(int* out) { free(out); }
__global__ void late(int* out) { int* x = (int*)malloc(16); free(x); x[1] = 3; }
__global__ void large(int* out) { out[threadIdx.x] = malloc(1 << 20) != nullptr; free(nullptr); }
}
"""


def test_memory_is_each_threads_own_and_comes_back(cuda: Compile) -> None:
    kernel = ptxemu.Module(cuda(CODE)).kernel("sums")
    got = kernel.run(64, 256, [np.zeros(256, "i4")])
    assert got.outputs["arg0"].tolist() == [2 * i + 3 for i in range(256)]


def test_a_list_outlives_its_launch(cuda: Compile) -> None:
    module = ptxemu.Module(cuda(CODE))
    memory = module.memory({"out": np.zeros(1, "i4")})
    for _ in range(2):
        assert module.kernel("build").run(4, 32, [3], memory=memory).faults == ()
        ran = module.kernel("drain").run(1, 1, ["out"], memory=memory)
        assert ran.outputs["out"] == 3 * sum(range(128))
        memory.fill("head", np.zeros(8, np.uint8))


def test_a_full_heap_gives_null(cuda: Compile) -> None:
    got = ptxemu.Module(cuda(CODE)).kernel("large").run(1, 32, [np.zeros(32, "i4")])
    assert got.outputs["arg0"].tolist() == [1] * 7 + [0] * 25  # 8 MiB, and what each needs besides


@pytest.mark.parametrize(
    ("kernel", "block", "words"),
    [
        ("beyond", 5, "past the end of malloc at .*16 bytes"),
        ("unset", 1, "reads malloc at .* \\+ 4 bytes, which nothing has written"),
        ("twice", 1, "free of a wrong address: .* which was freed before"),
        ("foreign", 1, "free of a wrong address: .* frees arg0.*malloc did not return"),
        ("late", 1, "and malloc at .* was freed before"),
    ],
)
def test_what_is_wrong_with_it_is_told(cuda: Compile, kernel: str, block: int, words: str) -> None:
    out, other = np.zeros(32, "i4"), np.zeros(1, "i4")
    module = ptxemu.Module(cuda(CODE))
    memory = module.memory({"arg0": out, "other": other}, ["other"])
    with pytest.raises(ptxemu.Fault, match=words):
        _ = module.kernel(kernel).run(1, block, ["arg0"], memory=memory).outputs
