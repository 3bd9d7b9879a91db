/* ---
title  = "Eight lanes per matrix, a row in each lane's registers"
change = "A cooperative group of eight eliminates with shuffles; rows stay where they are, and remember which column they were the pivot of."
[defines]
THREADS = 128
[[launch]]
kernel = "invert_tiles"
grid   = ["cdiv(B, THREADS // 8)"]
block  = ["THREADS"]
args   = ["A", "inverse", "B"]
--- */
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int N = 8;

struct Row {
    float left[N];   // of the matrix
    float right[N];  // of what becomes the inverse
};

template <class Tile>
__device__ __forceinline__ int choose_pivot(const Tile& tile, float candidate, bool used) {
    float best = used ? -1.0f : fabsf(candidate);
    int who = tile.thread_rank();
#pragma unroll
    for (int mask = N / 2; mask > 0; mask >>= 1) {
        const float other = tile.shfl_xor(best, mask);
        const int other_who = tile.shfl_xor(who, mask);
        if (other > best || (other == best && other_who < who)) {
            best = other;
            who = other_who;
        }
    }
    return who;
}

extern "C" __global__ void __launch_bounds__(THREADS)
invert_tiles(const float4* __restrict__ A, float4* __restrict__ inverse, int count) {
    const auto tile = cg::tiled_partition<N>(cg::this_thread_block());
    const int lane = tile.thread_rank();
    const int matrix = blockIdx.x * (THREADS / N) + threadIdx.x / N;
    if (matrix >= count) return;  // all eight lanes together

    Row row;
    const float4 lo = A[(matrix * N + lane) * 2];
    const float4 hi = A[(matrix * N + lane) * 2 + 1];
    const float loaded[N] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
#pragma unroll
    for (int j = 0; j < N; ++j) {
        row.left[j] = loaded[j];
        row.right[j] = j == lane ? 1.0f : 0.0f;
    }

    int pivot_of = -1;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const int p = choose_pivot(tile, row.left[k], pivot_of >= 0);
        const float scale = 1.0f / tile.shfl(row.left[k], p);
        const bool mine = lane == p;
        const float factor = mine ? 0.0f : row.left[k];
        if (mine) pivot_of = k;

        // Columns up to k of the left half are never looked at again.
#pragma unroll
        for (int j = k + 1; j < N; ++j) {
            const float v = tile.shfl(row.left[j], p) * scale;
            row.left[j] = mine ? v : fmaf(-factor, v, row.left[j]);
        }
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float v = tile.shfl(row.right[j], p) * scale;
            row.right[j] = mine ? v : fmaf(-factor, v, row.right[j]);
        }
    }

    float4* out = inverse + (matrix * N + pivot_of) * 2;
    out[0] = make_float4(row.right[0], row.right[1], row.right[2], row.right[3]);
    out[1] = make_float4(row.right[4], row.right[5], row.right[6], row.right[7]);
}
