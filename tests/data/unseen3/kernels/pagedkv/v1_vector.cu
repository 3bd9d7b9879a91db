/* ---
title = "Half-warps per token, 16-byte loads, the query in registers, whole pages skipped"
change = "Sixteen lanes read a key in one load each; a page past the end is filled without looking at the table."
requires = "D == 128"
requires_why = "sixteen lanes of eight halves"
[[launch]]
kernel = "scores"
grid = ["cdiv(T, 64)", "NH", "B"]
block = [128]
args = ["q", "k", "page", "length", "score", "NH", "T"]
--- */
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

__device__ __forceinline__ void unpack(uint4 raw, float (&f)[8]) {
    const half2* h = reinterpret_cast<const half2*>(&raw);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 t = __half22float2(h[i]);
        f[2 * i] = t.x;
        f[2 * i + 1] = t.y;
    }
}

extern "C" __global__ void __launch_bounds__(128) scores(const uint4* __restrict__ q, const uint4* __restrict__ k,
                                                         const int* __restrict__ page, const int* __restrict__ length,
                                                         float* __restrict__ score, int heads, int tokens) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int b = blockIdx.z, h = blockIdx.y, l = tile.thread_rank(), who = tile.meta_group_rank();
    const int n = length[b], pages = tokens / 16;
    float* out = score + (b * heads + h) * tokens;
    float query[8];
    unpack(q[(b * heads + h) * 16 + l], query);
    for (int p = blockIdx.x * 4; p < min(blockIdx.x * 4 + 4, pages); ++p) {
        if (p * 16 >= n) {
            if (threadIdx.x < 16) out[p * 16 + threadIdx.x] = -1.f;
            continue;
        }
        const int entry = __ldg(page + b * pages + p);
#pragma unroll
        for (int half_page = 0; half_page < 2; ++half_page) {
            const int s = half_page * 8 + who;
            float key[8], sum = 0.f;
            unpack(__ldcs(k + ((size_t)(entry * 16 + s) * heads + h) * 16 + l), key);
#pragma unroll
            for (int i = 0; i < 8; ++i) sum = fmaf(query[i], key[i], sum);
#pragma unroll
            for (int o = 8; o; o >>= 1) sum += tile.shfl_xor(sum, o);
            if (l == 0) out[p * 16 + s] = p * 16 + s < n ? sum * 0.08838834764f : -1.f;
        }
    }
}
