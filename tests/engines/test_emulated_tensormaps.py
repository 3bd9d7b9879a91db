"""Tensor maps and clusters of a study under the emulator: what the kernel sees of a tensor."""

from __future__ import annotations

import pytest

from tests.ladders import needs_compiler, tried
from tests.study_maker import Maker
from workbench.engines.host.job import Check
from workbench.errors import KernelError, UsageError

pytestmark = [pytest.mark.nvcc, needs_compiler]

STUDY = """
title = "Every pixel's left neighbour"
input_names = ("x",)
problems = {"n2": {"N": 2, "H": 3, "W": 5, "C": 8, "uses": ("profile", "verify")}}
tolerance = 0
tolerance_why = "nothing is computed"

def inputs(problem, rng):
    shape = [problem[name] for name in "NHWC"]
    return {"x": rng.standard_normal(shape).astype("float16")}

def outputs(problem):
    return {"y": (tuple(problem[name] for name in "NHWC"), "float16")}

def reference(problem, inputs):
    import numpy as np
    left = np.pad(inputs["x"], ((0, 0), (0, 0), (1, 0), (0, 0)))[:, :, :-1]
    return {"y": left.astype("float64")}

def flops(problem):
    return 1

def bytes(problem):
    return 1
"""

TILED = """/* ---
title = "Tiles of a row, one to each block of a pair"
arch_specific = true
[[tensor_map]]
name = "rows"
buffer = "x"
dtype = "float16"
dims = ["C", "W", "H * N"]
box = ["C", "W", 1]
[[launch]]
kernel = "shift"
grid = ["H * N"]
block = [32]
args = ["rows", "y", "W", "C"]
cluster = [2]
--- */
#include <cuda.h>
#include <cuda_fp16.h>
#include <cstdint>
#include "copy.cuh"

extern "C" __global__ void shift(const __grid_constant__ CUtensorMap rows, half* y, int W, int C) {
    __shared__ __align__(128) half row[40];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        START(&full);
        EXPECT(&full, 80);
        TILE3(row, &rows, 0, -1, blockIdx.x, &full);
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 40;");  // of sm_90a alone
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;");
    WAIT(&full);
    for (int i = threadIdx.x; i < W * C; i += 32) y[blockIdx.x * W * C + i] = row[i];
}
"""
PIXELS = """/* ---
title = "All pixels of an image through the first tap of three"
[[tensor_map]]
name = "pixels"
buffer = "x"
dtype = "float16"
dims = ["C", "W", "H", "N"]
lower = [-1, 0]
upper = [-1, 0]
channels = "C"
pixels = "W * H"
[[launch]]
kernel = "shift"
grid = ["N"]
block = [32]
args = ["pixels", "y", "W * H", "C"]
--- */
#include <cuda.h>
#include <cuda_fp16.h>
#include <cstdint>
#include "copy.cuh"

extern "C" __global__ void shift(const __grid_constant__ CUtensorMap map, half* y, int P, int C) {
    __shared__ __align__(128) half image[120];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        START(&full);
        EXPECT(&full, 240);
        IM2COL(image, &map, 0, -1, 0, blockIdx.x, &full);
    }
    __syncthreads();
    WAIT(&full);
    for (int i = threadIdx.x; i < P * C; i += 32) y[blockIdx.x * P * C + i] = image[i];
}
"""
COPY = r"""
#define DEV __device__ __forceinline__
DEV uint32_t at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV void START(uint64_t *bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;" ::"r"(at(bar)) : "memory");
}
DEV void EXPECT(uint64_t *bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)),
                 "r"(bytes) : "memory");
}
DEV void WAIT(uint64_t *bar) {
    asm volatile("{.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
                 "@!p bra W;}" ::"r"(at(bar)) : "memory");
}
DEV void TILE3(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(z),
                 "r"(at(bar)) : "memory");
}
DEV void IM2COL(void *to, const CUtensorMap *map, int c, int w, int h, int n, uint64_t *bar) {
    short zero = 0;
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %7};"
                 ::"r"(at(to)), "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(at(bar)), "h"(zero)
                 : "memory");
}
"""


def ran(maker: Maker, text: str) -> Check:
    maker.write("copy.cuh", COPY)
    return tried(maker, text, STUDY)


@pytest.mark.parametrize("text", [TILED, PIXELS])
def test_a_kernel_sees_the_tensor_that_was_described(maker: Maker, text: str) -> None:
    assert ran(maker, text).ok


@pytest.mark.parametrize(
    ("text", "right", "wrong", "said"),
    [
        (TILED, '["C", "W", "H * N"]', '["C", "W - 1", "H * N"]', "wrong result"),
        (TILED, 'box = ["C", "W", 1]', 'box = ["C", "W - 1", 1]', "16 bytes"),
        (PIXELS, "upper = [-1, 0]", "upper = [0, 0]", "wrong result"),
        (TILED, "arch_specific = true", "", "sm_90a|setmaxnreg|does not compile"),
    ],
)
def test_with_other_values_the_result_is_another(
    maker: Maker, text: str, right: str, wrong: str, said: str
) -> None:
    assert right in text
    with pytest.raises(KernelError, match=said):
        ran(maker, text.replace(right, wrong))


def test_a_tensor_that_is_larger_than_its_buffer(maker: Maker) -> None:
    text = PIXELS.replace('["C", "W", "H", "N"]', '["C", "W", "H", "N + 1"]')
    with pytest.raises(UsageError, match=r"v0\.cu:7: the tensor reaches over 720 bytes, but .*480"):
        ran(maker, text)
