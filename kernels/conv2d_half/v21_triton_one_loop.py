r"""The implicit matrix product by Triton: tiles are written, threads are not.

---
title  = "Triton: one loop over taps and channels"
parent = "v20"
change = "The loops over taps and chunks of channels become one, so the copies that the compiler issues ahead of time run on from one tap into the next. The innermost of three loops had two turns at 128 channels, fewer than there are stages."
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

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "copies were waited for at the first turn of every tap; now 18 turns follow each other"
learned = "0.93x at 128 channels, where a tap had two turns; 0.65x at 64 (one), 1.05x at 256 (four). What was waited for copies is gone, but every turn now finds its tap by divisions: 24.9% more instructions, ALU pipe 25.6% → 41.5%."

[[expect]]
counter = "long_scoreboard"
change  = "< 0.5x"
why     = "a tile is asked for three turns before it is used"

[[expect]]
counter = "global_load_sectors"
change  = "same"
why     = "the same tiles are copied"
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
    chunks = tl.cdiv(C, BK)
    for turn in range(9 * chunks):
        r = turn // chunks // 3
        s = turn // chunks % 3
        inside = (pixel < N * H * W) & (y + r > 0) & (y + r <= H) & (x + s > 0) & (x + s <= W)
        moved = pixel + (r - 1) * W + s - 1
        across = turn % chunks * BK + deep[None, :]
        down = turn % chunks * BK + deep[:, None]
        tile = tl.load(image + moved * C + across, mask=inside & (across < C), other=0.0)
        tap = weight + (filters * 9 + r * 3 + s) * C
        taps = tl.load(tap + down, mask=(filters < K) & (down < C), other=0.0)
        total = tl.dot(tile, taps, total)
    tl.store(output + pixel * K + filters, total, mask=(pixel < N * H * W) & (filters < K))
