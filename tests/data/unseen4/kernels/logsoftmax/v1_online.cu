/* ---
title = "A warp per row: maximum, place and sum in one pass, float4 from the first aligned element on"
change = "The sum is rescaled whenever the maximum grows, so one pass over the row is enough before it is written; a warp needs no barrier."
[defines]
WARPS = 4
[[launch]]
kernel = "log_softmax"
grid = ["cdiv(R, WARPS)"]
block = ["32 * WARPS"]
args = ["logits", "logp", "best", "R", "C"]
--- */
#include <cooperative_groups.h>
#include <float.h>
#include <limits.h>

namespace cg = cooperative_groups;

struct Online {
    float top = -FLT_MAX;  // finite: two empty ones can be merged without a NaN
    float sum = 0.f;       // of exp(x - top)
    int at = INT_MAX;

    __device__ __forceinline__ void absorb(float x, int c) {
        if (x > top) {
            sum = fmaf(sum, __expf(top - x), 1.f);
            top = x;
            at = c;
        } else {
            sum += __expf(x - top);
        }
    }
    __device__ __forceinline__ void merge(float other_top, float other_sum, int other_at) {
        const float joined = fmaxf(top, other_top);
        sum = sum * __expf(top - joined) + other_sum * __expf(other_top - joined);
        if (other_top > top || (other_top == top && other_at < at)) at = other_at;
        top = joined;
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    log_softmax(const float* __restrict__ logits, float* __restrict__ logp, int* __restrict__ best, int rows,
                int columns) {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int lane = warp.thread_rank();
    const int r = blockIdx.x * WARPS + warp.meta_group_rank();
    if (r >= rows) return;

    const long long start = static_cast<long long>(r) * columns;
    const float* row = logits + start;
    float* out = logp + start;
    // Up to three floats stand before the first address that is a multiple of 16.
    const int lead = min(columns, static_cast<int>((4 - (start & 3)) & 3));
    const int vectors = (columns - lead) / 4;
    const int tail = lead + 4 * vectors;
    const float4* row4 = reinterpret_cast<const float4*>(row + lead);

    Online state;
    if (lane < lead) state.absorb(row[lane], lane);
#pragma unroll 2
    for (int v = lane; v < vectors; v += 32) {
        const float4 x = row4[v];
        const int c = lead + 4 * v;
        state.absorb(x.x, c);
        state.absorb(x.y, c + 1);
        state.absorb(x.z, c + 2);
        state.absorb(x.w, c + 3);
    }
    if (tail + lane < columns) state.absorb(row[tail + lane], tail + lane);

#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float top = warp.shfl_xor(state.top, offset);
        const float sum = warp.shfl_xor(state.sum, offset);
        const int at = warp.shfl_xor(state.at, offset);
        state.merge(top, sum, at);
    }
    const float shift = state.top + __logf(state.sum);
    if (lane == 0) best[r] = state.at;

    // The row has just been read: this time it comes from the cache.
    float4* out4 = reinterpret_cast<float4*>(out + lead);
    if (lane < lead) out[lane] = row[lane] - shift;
#pragma unroll 2
    for (int v = lane; v < vectors; v += 32) {
        const float4 x = row4[v];
        out4[v] = make_float4(x.x - shift, x.y - shift, x.z - shift, x.w - shift);
    }
    if (tail + lane < columns) out[tail + lane] = row[tail + lane] - shift;
}
