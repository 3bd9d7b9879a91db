/* ---
title = "A sorted list of eight in registers a thread, merged by a warp"
[[launch]]
kernel = "topk"
grid = ["R"]
block = [32]
args = ["x", "y", "C"]
--- */
#include <cfloat>
#define K 8

template <int N>
__device__ __forceinline__ void insert(float (&list)[N], float v)
{
    if (v <= list[N - 1])
        return;
    list[N - 1] = v;
#pragma unroll
    for (int i = N - 1; i > 0; --i) {
        if (list[i] > list[i - 1]) {
            float t = list[i];
            list[i] = list[i - 1];
            list[i - 1] = t;
        }
    }
}

extern "C" __global__ void topk(const float *x, float *y, int columns)
{
    const float *row = x + (size_t)blockIdx.x * columns;
    float best[K];
    for (int i = 0; i < K; i++)
        best[i] = -FLT_MAX;
    for (int c = threadIdx.x; c < columns; c += 32)
        insert(best, row[c]);
    for (int k = 0; k < K; k++) {
        float top = best[0];
        for (int d = 16; d; d >>= 1)
            top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        unsigned who = __ballot_sync(~0u, best[0] == top);
        if (threadIdx.x == __ffs(who) - 1) {
            y[blockIdx.x * K + k] = top;
            for (int i = 0; i < K - 1; i++)
                best[i] = best[i + 1];
            best[K - 1] = -FLT_MAX;
        }
    }
}
