/* ---
title = "A cluster of two: the other's shared memory, multicast, barriers of both"
arch_specific = true
[[tensor_map]]
name = "rows"
buffer = "words"
dtype = "int32"
dims = [128, 128]
box = [32, 8]
[[launch]]
kernel = "probe"
grid   = [2]
block  = [64]
cluster = [2]
args   = ["x", "words", "rows", "y"]
--- */
#include "async.cuh"

#define BOTH asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#define MAPA(to, p) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at(p)), "r"(rank ^ 1));
#define THERE(value, address) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
#define GIVE(address, value) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
#define COUNT(address) asm volatile("red.shared::cluster.add.u32 [%0], 1;" ::"r"(address) : "memory");
#define PUSH(bytes) if (t == 0) asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(there), "r"(at(s)), "r"(bytes), "r"(bell) : "memory");
#define SPREAD(x, y) if (t == 0 && rank == 0) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" #x ", " #y "}], [%2], %3;" ::"r"(at(r)), "l"(&rows), "r"(at(&bar)), "h"((short)3) : "memory");
#define BULK(bytes) if (t == 0 && rank == 0) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(at(r)), "l"(words), "r"(bytes), "r"(at(&bar)), "h"((short)3) : "memory");

extern "C" __global__ void probe(const float *x, const int *words, const __grid_constant__ CUtensorMap rows, float *y) {
    __shared__ __align__(128) int s[256], r[256], counter;
    __shared__ uint64_t bar;
    const int t = threadIdx.x;
    int bad = 0, phase = 0, rank, got;
    unsigned there, bell;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int i = t; i < 256; i += 64) s[i] = rank * 1000 + i;
    if (t == 0) { init(&bar, 1); counter = 0; }
    fence();
    BOTH
    MAPA(there, &s[t])
    THERE(got, there)
    bad += got != (rank ^ 1) * 1000 + t;
    MAPA(there, &s[t * 4])
    THERE(got, there)
    bad += got != (rank ^ 1) * 1000 + t * 4;
    MAPA(there, &r[t])
    GIVE(there, t + rank)
    MAPA(there, &counter)
    COUNT(there)
    BOTH
    bad += r[t] != t + (rank ^ 1);
    bad += counter != 64;
    __syncthreads();
    fence();
    BOTH
    MAPA(there, r)
    MAPA(bell, &bar)
    if (t == 0) expect(&bar, 1024);
    PUSH(1024)
    wait(&bar, phase);
    for (int i = t; i < 256; i += 64) bad += r[i] != (rank ^ 1) * 1000 + i;
    fence();
    BOTH
    if (t == 0) expect(&bar, 1024);
    BOTH
    SPREAD(0, 3)
    wait(&bar, phase);
    for (int i = t; i < 256; i += 64) bad += r[i] != (3 + i / 32) * 128 + i % 32;
    fence();
    BOTH
    if (t == 0) expect(&bar, 512);
    BOTH
    BULK(512)
    wait(&bar, phase);
    for (int i = t; i < 128; i += 64) bad += r[i] != i;
    BOTH
    y[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t] + bad;
}
