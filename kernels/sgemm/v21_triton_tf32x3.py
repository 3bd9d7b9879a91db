r"""C = A·B by Triton: tiles are written, threads are not.

---
title  = "Triton: three TF32 products for one float32"
parent = "v20"
change = "input_precision is tf32x3: Triton cuts each operand into two TF32 terms and multiplies three pairs of them on the matrix units, by wgmma on Hopper. A tile of K, 32 products, is summed there; tiles are added up in float32."
requires     = "K % 16 == 0 and N % 16 == 0 and max((M + 127) * (K + 31), (K + 31) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "it copies 16 bytes at a time, and its indices are 32-bit integers, up to the end of the last tile that is fetched"

[defines]
BM = 128
BN = 128
BK = 32

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, BN)", "cdiv(M, BM)"]
args   = ["A", "B", "C", "M", "N", "K"]
num_warps  = 8
num_stages = 3
divisible_by_16 = ["N", "K"]

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "the matrix units multiply TF32 at 7.4 times the rate of the FMA pipe, and three products are one"
learned = "1.21x at n = 4096. Triton splits a tile in registers and stores its small terms to shared memory for wgmma, four bytes a thread in an order that meets few banks: 503 M of 706 M wavefronts are in excess, the warps wait for room in the queue to shared memory (MIO throttle, 1.49 ms more), and the tensor pipe is 22.6% busy."

[[expect]]
counter = "ffma_threads"
change  = "to 0"
why     = "no product is left to the FMA pipe"

[[expect]]
counter = "instructions"
change  = "< 0.3x"
why     = "one wgmma of a warpgroup does what 128 multiply-adds of each thread did; what is added are the splits of the operands and the sums of tiles"
---
"""

import triton
import triton.language as tl


@triton.jit
def sgemm(
    a: "*fp32",
    b: "*fp32",
    c: "*fp32",
    M: "i32",
    N: "i32",
    K: "i32",
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    rows = tl.program_id(1) * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    deep = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        across = k + deep[None, :]
        down = k + deep[:, None]
        tile_a = tl.load(a + rows * K + across, mask=(rows < M) & (across < K), other=0.0)
        tile_b = tl.load(b + down * N + columns, mask=(down < K) & (columns < N), other=0.0)
        total += tl.dot(tile_a, tile_b, input_precision="tf32x3")
    tl.store(c + rows * N + columns, total, mask=(rows < M) & (columns < N))
