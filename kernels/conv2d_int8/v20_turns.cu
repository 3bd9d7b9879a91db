/* ---
title  = "The groups take turns"
parent = "v19"
change = "Filters are the rows of a product, 64×192×32, and each group has 64 of them: it multiplies alone while the other one stores its sums, and then they change places. Pixels come once for each group. Where all filters are 64, both groups have them, and every second tile."
arch_specific = true
requires     = "C % 16 == 0 and C <= 128 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, shared memory holds filters of at most 128 channels, and places are 32-bit integers"

[defines]
BM = 192     # places a tile
SA = 3
SMS = 132    # blocks: one for each SM of an H200

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "uint8"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 128
pixels   = "BM + 8"
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name    = "filters"
buffer  = "weight"
dtype   = "uint8"
dims    = ["C", 9, "K"]
box     = [128, 1, 128]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "conv2d"
grid   = ["min(max(SMS // cdiv(K, 128), 1), cdiv(N*(H + 1)*(W + 1), BM))", "cdiv(K, 128)"]
block  = [384]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*(BM + 8)*128 + 9*128*128"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "in v19 nobody multiplies while both groups store; shared memory is read 85 bytes a cycle for it where it was 96"
learned = "54.8% to 71.8%"

[[expect]]
counter = "l2_read_sectors"
change  = "> 1.7x"
why     = "pixels come once for each 64 filters instead of 128"
learned = "2.2x: 3.6 to 7.7 M, which costs nothing at 63% of L2"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "128 KB of sums are a third of a tile's time in the open; conv2d_half, with half of the sums for twice the products, gained 7%"
learned = "0.77x: 82.0 µs, 1,150 TOP/s; with 64 filters, where half of the products had been for nothing, 0.48x"
--- */
#include "hopper.cuh"

constexpr int BN = 64;   // filters a group
constexpr int A_BYTES = (BM + 8) * 128;  // of places' channels that three taps share
constexpr int B_BYTES = 2 * BN * 128;  // of both groups' filters' channels under a tap; nine stay

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[SA], empty[SA], turns[2], filters_there;
    __shared__ int pixel_of[2][BM];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    // The block has every gridDim.x-th tile, for one half of its filters and then the other.
    const int k = blockIdx.y * 2 * BN, halves = K - k > BN ? 2 : 1;
    const int tiles = (places + BM - 1) / BM;
    const auto tile_of = [&](int i) { return blockIdx.x + i / halves * gridDim.x; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full[i], 1), init(&empty[i], 1);
        for (int i = 0; i < 2; ++i) init(&turns[i], 1);
        init(&filters_there, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            expect(&filters_there, 9 * B_BYTES);
            for (int tap = 0; tap < 9; ++tap)
                copy_filters(Bs + tap * B_BYTES, filters, 0, tap, k, &filters_there);
            int stage = 0, phase = 1;
            for (int i = 0; tile_of(i) < tiles; ++i) {
                for (int r = 0; r < 3; ++r) {
                    const Place from = split(tile_of(i) * BM + (r - 1) * pitch - 1, rows, pitch);
                    wait(&empty[stage], phase);
                    expect(&full[stage], A_BYTES);
                    copy_pixels(As + stage * A_BYTES, pixels, 0, from.w, from.h, from.n, 0, 0,
                                &full[stage]);
                    if (++stage == SA) stage = 0, phase ^= 1;
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool first_thread = threadIdx.x % 128 == 0;
    const uint8_t* const mine = Bs + (halves == 2 && group == 2 ? BN * 128 : 0);
    const int first_filter = k + (halves == 2 && group == 2 ? BN : 0) + warp * 16 + lane / 4;
    int* const pixel = pixel_of[group - 1];
    int d[BM / 2];
    wait(&filters_there, 0);
    // The groups take the block's tiles, and what was copied for them, in turns. Before the first
    // group's first turn there is none to wait for.
    int turn_phase = 2 - group;
    for (int i = group - 1; tile_of(i) < tiles; i += 2) {
        int stage = i * 3 % SA, phase = i * 3 / SA % 2, last = 0;
        wait(&turns[group - 1], turn_phase);
        turn_phase ^= 1;
        for (int r = 0; r < 3; ++r) {
            wait(&full[stage], phase);
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + stage * A_BYTES + s * 128);
                const uint64_t B = matrix(mine + (r * 3 + s) * B_BYTES);
#pragma unroll
                for (int kk = 0; kk < 4; ++kk)
                    wgmma(d, B + kk * 2, A + kk * 2, r + s + kk > 0);
            }
            wgmma_commit();
            wgmma_wait<1>();  // the products of the row before are done, and their pixels free
            if (first_thread && r > 0) arrive(&empty[last]);
            last = stage;
            if (++stage == SA) stage = 0, phase ^= 1;
        }
        if (first_thread) arrive(&turns[2 - group]);  // its products stand behind ours in the pipe
        // Where the tile's places go, two a thread, while the last products are made.
#pragma unroll
        for (int p = threadIdx.x % 128; p < BM; p += 128) {
            const Place at = split(tile_of(i) * BM + p, rows, pitch);
            pixel[p] = at.n < N && at.h < H && at.w < W ? (at.n * H + at.h) * W + at.w : -1;
        }
        group_barrier(group);
        wgmma_wait<0>();
        if (first_thread) arrive(&empty[last]);
        store_columns<BM>(d, output, pixel, first_filter, K);
        group_barrier(group);  // all have read where the places go
    }
}
