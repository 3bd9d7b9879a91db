/* ---
title = "A warp a query, __reduce_min_sync"
[[launch]]
kernel = "nearest"
grid = ["cdiv(Q, 4)"]
block = [128]
args = ["q", "base", "best", "dist", "Q", "M"]
--- */
#include <cstdint>
struct alignas(32) Code {
    uint32_t w[8];
};
__device__ int distance(const Code& a, const Code& b) {
    int d = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) d += __popc(a.w[i] ^ b.w[i]);
    return d;
}
extern "C" __global__ void nearest(const Code* __restrict__ q, const Code* __restrict__ base, int* best, int* dist, int nq, int m) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= nq) return;
    Code mine = q[warp];
    unsigned least = ~0u;
    for (int i = lane; i < m; i += 32) {
        unsigned key = (unsigned)distance(mine, base[i]) << 20 | i;
        least = least < key ? least : key;
    }
    least = __reduce_min_sync(~0u, least);
    if (lane == 0) {
        best[warp] = least & 0xfffff;
        dist[warp] = least >> 20;
    }
}
