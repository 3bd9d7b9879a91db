/* ---
title  = "Filters stay in shared memory"
parent = "v18"
change = "All nine taps of 128 filters are copied once, 144 KB, and stay for the block's life; only pixels go through the ring. Filters and pixels of a row of taps come with one wait instead of four. As in v14, there must be no more than 128 channels."
arch_specific = true
requires     = "C % 16 == 0 and C <= 128 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, shared memory holds filters of at most 128 channels, and places are 32-bit integers"

[defines]
SA = 2
ROWS = 264
SMS = 132    # blocks: one for each SM of an H200

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "uint8"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 128
pixels   = "ROWS"
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
grid   = ["min(max(SMS // cdiv(K, 128), 1), cdiv(N*(H + 1)*(W + 1), 256))", "cdiv(K, 128)"]
block  = [384]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*ROWS*128 + 9*128*128"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.5x"
why     = "99 KB for a tile's pixels instead of 99 + 144"
learned = "0.43x: 8.3 to 3.6 M"

[[expect]]
counter = "long_scoreboard"
change  = "down"
why     = "the copying thread waits for one ring instead of two, and the groups for three barriers a tile instead of twelve"
learned = "1.7x: no more waits for filters, and all the longer ones for pixels, which have two stages as before"

[[expect]]
counter = "duration"
change  = "< 0.97x"
why     = "L2 is asked for a quarter of what it can give; what is left in the open are the stores"
learned = "1.01x: at 66% L2 was no limit any more; the stores in the open were"
--- */
#include "hopper.cuh"

constexpr int BM = 256;  // places a block
constexpr int BN = 128;  // filters a block
constexpr int A_BYTES = ROWS * 128;  // of places' channels that three taps share
constexpr int B_BYTES = BN * 128;    // of filters' channels under a tap, nine of which stay

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[SA], empty[SA], filters_there;
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    const int tiles = (places + BM - 1) / BM, k = blockIdx.y * BN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full[i], 1), init(&empty[i], 2);
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
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                for (int r = 0; r < 3; ++r) {
                    const Place from = split(tile * BM + (r - 1) * pitch - 1, rows, pitch);
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
    int d[2][BN / 2];
    wait(&filters_there, 0);
    int stage = 0, phase = 0, last = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int r = 0; r < 3; ++r) {
            wait(&full[stage], phase);
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + stage * A_BYTES + ((group - 1) * 128 + s) * 128);
                const uint64_t B = matrix(Bs + (r * 3 + s) * B_BYTES);
#pragma unroll
                for (int kk = 0; kk < 4; ++kk)
#pragma unroll
                    for (int m = 0; m < 2; ++m)
                        wgmma(d[m], A + m * 512 + kk * 2, B + kk * 2, r + s + kk > 0);
            }
            wgmma_commit();
            wgmma_wait<1>();  // the products of the row before are done, and their pixels free
            if (first_thread && r > 0) arrive(&empty[last]);
            last = stage;
            if (++stage == SA) stage = 0, phase ^= 1;
        }
        wgmma_wait<0>();
        if (first_thread) arrive(&empty[last]);

#pragma unroll
        for (int m = 0; m < 2; ++m) {
            int to[2];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const Place at = split(tile * BM + (group - 1) * 128 + m * 64 +
                                           warp * 16 + h * 8 + lane / 4,
                                       rows, pitch);
                to[h] = at.n < N && at.h < H && at.w < W ? (at.n * H + at.h) * W + at.w : -1;
            }
            store_sums(d[m], output, to, k, K);
        }
    }
}
