r"""C = A·B by Triton: tiles are written, threads are not.

---
title  = "Triton: a tile's product is one line"
parent = "v8"
change = "Loads, products and sums of whole tiles, 128×128 of C a block. Which thread holds what, the copies ahead of time and where a tile lies in shared memory are the compiler's. Float32 products stay on the FMA pipe: input_precision is ieee."
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
        total += tl.dot(tile_a, tile_b, input_precision="ieee")
    tl.store(c + rows * N + columns, total, mask=(rows < M) & (columns < N))
