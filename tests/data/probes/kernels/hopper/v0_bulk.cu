/* ---
title = "Bulk copies, in and out, and sums"
[[scratch]]
name = "room"
dtype = "int32"
shape = [16384]
[[fill]]
name = "room"
value = 0
[[launch]]
kernel = "probe"
grid   = [1]
block  = [128]
args   = ["x", "words", "room", "y"]
--- */
#include "async.cuh"

#define IN(bytes, from) if (t == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(s)), "l"(words + (from) / 4), "r"(bytes), "r"(at(&bar)) : "memory");
#define LANDED(bytes, from) if (t == 0) expect(&bar, bytes); wait(&bar, phase); for (int i = t; i < (bytes) / 4; i += 128) bad += s[i] != (from) / 4 + i; fence(); __syncthreads();
#define OUT(bytes, to) if (t == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(room + (to) / 4), "r"(at(s)), "r"(bytes) : "memory");
#define ADD(bytes, to) if (t == 0) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(room + (to) / 4), "r"(at(s)), "r"(bytes) : "memory");
#define LEFT(bytes, to, times) if (t == 0) done(); __syncthreads(); for (int i = t; i < (bytes) / 4; i += 128) bad += __ldcg(&room[(to) / 4 + i]) != (times) * i;

extern "C" __global__ void probe(const float *x, const int *words, int *room, float *y) {
    __shared__ __align__(128) int s[4096];
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    int bad = 0, phase = 0;
    if (t == 0) init(&bar, 1);
    __syncthreads();
    IN(16, 0)
    LANDED(16, 0)
    IN(16, 16)
    LANDED(16, 16)
    IN(32, 0)
    LANDED(32, 0)
    IN(32, 16)
    LANDED(32, 16)
    IN(48, 0)
    LANDED(48, 0)
    IN(64, 0)
    LANDED(64, 0)
    IN(128, 0)
    LANDED(128, 0)
    IN(128, 16)
    LANDED(128, 16)
    IN(144, 112)
    LANDED(144, 112)
    IN(256, 0)
    LANDED(256, 0)
    IN(1024, 0)
    LANDED(1024, 0)
    IN(1024, 16)
    LANDED(1024, 16)
    IN(4096, 0)
    LANDED(4096, 0)
    IN(16384, 0)
    LANDED(16384, 0)
    OUT(16, 0)
    LEFT(16, 0, 1)
    OUT(16, 16)
    LEFT(16, 16, 1)
    OUT(32, 64)
    LEFT(32, 64, 1)
    OUT(48, 1024 + 16)
    LEFT(48, 1024 + 16, 1)
    OUT(128, 2048)
    LEFT(128, 2048, 1)
    OUT(1024, 4096 + 16)
    LEFT(1024, 4096 + 16, 1)
    OUT(4096, 8192)
    LEFT(4096, 8192, 1)
    ADD(16, 0)
    LEFT(16, 0, 2)
    ADD(128, 2048)
    LEFT(128, 2048, 2)
    ADD(4096, 8192)
    LEFT(4096, 8192, 2)
    OUT(16384, 16384)
    LEFT(16384, 16384, 1)
    y[t] = x[t] + bad;
}
