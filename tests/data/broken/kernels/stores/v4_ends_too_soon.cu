/* ---
title = "Wrong: the block ends while its last rows are read"
[[launch]]
kernel = "products"
grid   = [1]
block  = [256]
args   = ["a", "b", "c", "n"]
--- */
#include "rows.cuh"

extern "C" __global__ void products(const half *a, const half *b, float *c, int n) {
    __shared__ __align__(128) half bs[2][512];
    __shared__ __align__(128) float rows[64][32];
    __shared__ uint64_t turn[2];
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (threadIdx.x < 2) INIT(&turn[threadIdx.x], 1);
    __syncthreads();
    uint32_t mine[4];
    LOAD(mine, a);
    int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int i = group; i < n; i += 2) {
        for (int j = t; j < 512; j += 128) bs[group][j] = b[i * 512 + j];
        PROXY_FENCE();
        GROUP(group);
        float d[16] = {};
        FENCE();
        MULTIPLY(d, mine, bs[group]);
        COMMIT();
        DONE();
        WAIT(&turn[group], (i / 2 + 1 - group) % 2);
        for (int e = 0; e < 16; ++e)
            rows[row + e / 2 % 2 * 8][e / 4 * 8 + column + e % 2] = d[e];
        PROXY_FENCE();
        GROUP(group);
        if (t < 64) STORE(&c[i * 2048 + t * 32], rows[t], 128);  // <- wrong
        COMMIT_STORES();
        if (i + 1 < n) READ();
        GROUP(group);
        if (t == 0) ARRIVE(&turn[1 - group]);
    }
}
