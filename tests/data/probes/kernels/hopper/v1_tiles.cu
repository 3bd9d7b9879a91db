/* ---
title = "Tensor copies, one to five axes, in every swizzle, beyond the edges, and out"
[[scratch]]
name = "room"
dtype = "int32"
shape = [16384]
[[tensor_map]]
name = "line"
buffer = "words"
dtype = "int32"
dims = [16384]
box = [256]
[[tensor_map]]
name = "plain"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [32, 16]
[[tensor_map]]
name = "by32"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [8, 16]
swizzle = 32
[[tensor_map]]
name = "by64"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [16, 16]
swizzle = 64
[[tensor_map]]
name = "by128"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [32, 16]
swizzle = 128
[[tensor_map]]
name = "narrow"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [4, 64]
[[tensor_map]]
name = "stepped"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [32, 16]
element_strides = [1, 4]
[[tensor_map]]
name = "solid"
buffer = "words"
dtype = "int32"
dims = [32, 16, 32]
box = [32, 4, 4]
[[tensor_map]]
name = "four"
buffer = "words"
dtype = "int32"
dims = [32, 8, 8, 8]
box = [32, 2, 2, 4]
[[tensor_map]]
name = "five"
buffer = "words"
dtype = "int32"
dims = [32, 8, 4, 4, 4]
box = [32, 2, 2, 2, 2]
[[tensor_map]]
name = "target"
buffer = "room"
dtype = "int32"
dims = [128, 128]
box = [32, 16]
swizzle = 128
[[launch]]
kernel = "probe"
grid   = [1]
block  = [128]
args   = ["x", "line", "plain", "by32", "by64", "by128", "narrow", "stepped", "solid", "four", "five", "target", "room", "y"]
--- */
#include "async.cuh"
#define MAP const __grid_constant__ CUtensorMap

#define IN(rank, map, coordinates) if (t == 0) asm volatile("cp.async.bulk.tensor." #rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" coordinates "}], [%2];" ::"r"(at(s)), "l"(&map), "r"(at(&bar)) : "memory");
// The tile of two axes from column and row on, so many columns wide, every `step`th row, swizzled.
#define LANDED(columns, rows, column, row, step, swizzle) if (t == 0) expect(&bar, (columns) * (rows) * 4); wait(&bar, phase); for (int i = t; i < (columns) * (rows); i += 128) { int a = 4 * i ^ ((4 * i >> 7 & ((swizzle) / 16 - 1)) << 4), c = (column) + i % (columns), r = (row) + i / (columns) * (step); bad += s[(swizzle) ? a / 4 : i] != (c >= 0 && c < 128 && r >= 0 && r < 128 ? r * 128 + c : 0); } fence(); __syncthreads();
#define LOADED(count, first) if (t == 0) expect(&bar, (count) * 4); wait(&bar, phase); bad += s[0] != (first); fence(); __syncthreads();
#define OUT(x, y) if (t == 0) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {" #x ", " #y "}], [%1];" ::"l"(&target), "r"(at(s)) : "memory");
#define ADD(x, y) if (t == 0) asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {" #x ", " #y "}], [%1];" ::"l"(&target), "r"(at(s)) : "memory");
#define LEFT(times) if (t == 0) done(); __syncthreads(); for (int i = t; i < 512; i += 128) bad += __ldcg(&room[i / 32 * 128 + i % 32]) != (times) * (i / 32 * 128 + i % 32); __syncthreads();

extern "C" __global__ void probe(const float *x, MAP line, MAP plain, MAP by32, MAP by64, MAP by128, MAP narrow, MAP stepped, MAP solid, MAP four, MAP five, MAP target, int *room, float *y) {
    __shared__ __align__(1024) int s[2048];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    int bad = 0, phase = 0;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    IN(1, line, "0")
    LOADED(256, 0)
    IN(1, line, "8")
    LOADED(256, 8)
    IN(1, line, "-128")
    LOADED(256, 0)
    IN(2, plain, "0, 0")
    LANDED(32, 16, 0, 0, 1, 0)
    IN(2, plain, "4, 1")
    LANDED(32, 16, 4, 1, 1, 0)
    IN(2, plain, "-16, -8")
    LANDED(32, 16, -16, -8, 1, 0)
    IN(2, plain, "112, 120")
    LANDED(32, 16, 112, 120, 1, 0)
    IN(2, plain, "128, 0")
    LANDED(32, 16, 128, 0, 1, 0)
    IN(2, by32, "0, 0")
    LANDED(8, 16, 0, 0, 1, 32)
    IN(2, by64, "0, 0")
    LANDED(16, 16, 0, 0, 1, 64)
    IN(2, by128, "0, 0")
    LANDED(32, 16, 0, 0, 1, 128)
    IN(2, narrow, "0, 0")
    LANDED(4, 64, 0, 0, 1, 0)
    IN(2, stepped, "0, 0")
    LANDED(32, 4, 0, 0, 4, 0)
    IN(3, solid, "0, 0, 0")
    LOADED(512, 0)
    IN(4, four, "0, 0, 0, 0")
    LOADED(512, 0)
    IN(5, five, "0, 0, 0, 0, 0")
    LOADED(512, 0)
    IN(2, by128, "0, 0")
    LANDED(32, 16, 0, 0, 1, 128)
    OUT(0, 0)
    LEFT(1)
    ADD(0, 0)
    LEFT(2)
    OUT(112, 120)
    LEFT(2)
    y[t] = x[t] + bad;
}
