r"""The implicit matrix product by Triton: tiles are written, threads are not.

---
title  = "Triton: three loops, and a tile's product is one line"
parent = "v6"
change = "A row of the left tile is a pixel, moved by the tap; a column of the right one is a filter. Loads and products are of whole tiles: the swizzle, the copies ahead of time and the matrix instructions (wgmma on Hopper) are the compiler's."
requires     = "C % 16 == 0 and max((N*H*W + 127)*max(C, K), 9*(K + 127)*C) < 2**31"
requires_why = "it copies 16 bytes at a time, and its indices are 32-bit integers"

[defines]
BM = 128
BN = 128
BK = 64

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, BM)", "cdiv(K, BN)"]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
num_warps  = 8
num_stages = 4
divisible_by_16 = ["C"]
---
"""

import triton
import triton.language as tl


@triton.jit
def conv2d(
    image: "*fp16",
    weight: "*fp16",
    output: "*fp16",
    N: "i32",
    H: "i32",
    W: "i32",
    C: "i32",
    K: "i32",
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    filters = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    deep = tl.arange(0, BK)
    y = pixel // W % H
    x = pixel % W
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for r in range(3):
        for s in range(3):
            inside = (pixel < N * H * W) & (y + r > 0) & (y + r <= H) & (x + s > 0) & (x + s <= W)
            moved = pixel + (r - 1) * W + s - 1
            for c in range(0, C, BK):
                across = c + deep[None, :]
                down = c + deep[:, None]
                tile = tl.load(image + moved * C + across, mask=inside & (across < C), other=0.0)
                tap = weight + (filters * 9 + r * 3 + s) * C
                taps = tl.load(tap + down, mask=(filters < K) & (down < C), other=0.0)
                total = tl.dot(tile, taps, total)
    tl.store(output + pixel * K + filters, total, mask=(pixel < N * H * W) & (filters < K))
