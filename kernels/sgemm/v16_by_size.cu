/* ---
title  = "One version for every size: small tiles of TF32 terms, or halves"
parent = "v13"
change = "Up to 132 tiles of 64×128 it takes v15's kernels, which need one launch and no memory besides; for larger matrices v13's, whose split pays there."
arch_specific = true
requires     = "max(M, N) < 2**21 and max((M + 127) * (K + 63), (K + 63) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "indices of small matrices are 32-bit integers, up to the end of the last tile that is fetched, and a grid has 65,535 rows of blocks"

[defines]
BM = 128     # of v13
BN = 256
BK = 32
STAGES = 4
RING = 8     # of v15

[[scratch]]
name  = "a_terms"
dtype = "float16"
shape = ["M", "2 * BK * cdiv(K, BK)"]

[[scratch]]
name  = "b_terms"
dtype = "float16"
shape = ["N", "2 * BK * cdiv(K, BK)"]

[[scratch]]
name  = "a_power"
dtype = "int32"
shape = ["M"]

[[scratch]]
name  = "b_power"
dtype = "int32"
shape = ["N"]

[[tensor_map]]
name    = "a"
buffer  = "a_terms"
dtype   = "float16"
dims    = ["2 * BK * cdiv(K, BK)", "M"]
box     = ["2 * BK", "BM"]
swizzle = 128
l2_promotion = 256

[[tensor_map]]
name    = "b"
buffer  = "b_terms"
dtype   = "float16"
dims    = ["2 * BK * cdiv(K, BK)", "N"]
box     = ["2 * BK", "BN"]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "split_rows"
when   = "cdiv(M, 64) * cdiv(N, 128) > 132"
grid   = ["cdiv(N, 32) + cdiv(M, 4)"]
block  = [1024]
args   = ["A", "B", "a_terms", "a_power", "b_power", "M", "N", "K"]

[[launch]]
kernel = "split_columns"
when   = "cdiv(M, 64) * cdiv(N, 128) > 132"
grid   = ["cdiv(K, 64)", "cdiv(N, 64)"]
block  = [256]
args   = ["B", "b_terms", "b_power", "N", "K"]

[[launch]]
kernel = "sgemm"
when   = "cdiv(M, 64) * cdiv(N, 128) > 132"
grid   = ["cdiv(M, BM) * cdiv(N, BN)"]
block  = [384]
args   = ["a", "b", "a_power", "b_power", "C", "M", "N", "K"]
dynamic_shared = "1024 + STAGES * 128 * (BM + BN)"

[[launch]]
kernel = "tiles_32x32"
when   = "cdiv(M, 32) * cdiv(N, 32) <= 132"
grid   = ["cdiv(N, 32)", "cdiv(M, 32)"]
block  = [64]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (32 * 20 + 16 * (32 + 8))"

[[launch]]
kernel = "tiles_32x64"
when   = "cdiv(M, 32) * cdiv(N, 32) > 132 and cdiv(M, 32) * cdiv(N, 64) <= 132"
grid   = ["cdiv(N, 64)", "cdiv(M, 32)"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (32 * 20 + 16 * (64 + 8))"

[[launch]]
kernel = "tiles_64x128"
when   = "cdiv(M, 32) * cdiv(N, 64) > 132 and cdiv(M, 64) * cdiv(N, 128) <= 132"
grid   = ["cdiv(N, 128)", "cdiv(M, 64)"]
block  = [256]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (64 * 20 + 16 * (128 + 8))"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "at n = 1024 one launch of 128 blocks takes the place of three, of which the last has 32 blocks; at n = 4096 nothing changes"
learned = "0.91x: the two splits took 12 us, but the product of halves on 32 SMs takes 36 us and that of TF32 terms on 128 SMs 44"
--- */
#include "v13_halves.cu"
#include "v15_small_tiles.cu"
