/* ---
title  = "Filters stay in registers"
parent = "v20"
change = "A group's 64 filters, nine taps of 128 channels, are 144 registers a thread: the first factor of wgmma may come from there. Shared memory is left to pixels: six stages where there were three, so that both groups use what was copied once, a tile apart. Of 64 channels or fewer only half is multiplied."
arch_specific = true
requires     = "C % 16 == 0 and C <= 128 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, registers hold filters of at most 128 channels, and places are 32-bit integers"

[defines]
BM = 128     # places a tile
SA = 6
TURNS = 1    # whether only one of two groups multiplies at a time
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

[[launch]]
kernel = "conv2d"
grid   = ["min(max(SMS // cdiv(K, 128), 1), cdiv(N*(H + 1)*(W + 1), BM))", "cdiv(K, 128)"]
block  = [384]
args   = ["pixels", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*(BM + 8)*128"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.65x"
why     = "pixels come once for 128 filters instead of once for 64"
learned = "0.46x: 7.7 to 3.5 M"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.85x"
why     = "a product of 64×128×32 takes 4 KB from shared memory for 64 cycles, 64 bytes a cycle where it was 85"
learned = "0.77x: 8.5 to 6.6 M"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "with three stages, each copy had the time of one stage's products to arrive, no longer than it takes; twelve are four tiles ahead"
learned = "71.8% to 69.6%: copies were not what the pipe waited for (fewer stages than twelve were faster), and the loads of the filters, half a sector each, take 8,000 cycles before the first product, v20's copies 3,100"

[[expect]]
counter = "duration"
change  = "< 0.95x"
why     = "the pipe no longer waits for pixels between the groups' turns; loading the filters takes some 3 µs at the beginning"
learned = "1.00x; with 64 channels, half of whose products v20 makes for nothing, 0.80x"
--- */
#include "hopper.cuh"

constexpr int BN = 64;                          // filters a group
constexpr int STAGE_BYTES = (BM + 8) * 128;  // of places' channels that three taps share

// Products of a row of three taps with the places from a row of shared memory on, 32 channels KK
// times. Under tap s, a place's row is that of its neighbour s places on.
template <int KK>
__device__ __forceinline__ void multiply_row(int (&d)[BM / 2], const uint32_t (*filters)[4][4],
                                             const uint8_t* row, bool add) {
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 3; ++s) {
        const uint64_t places = matrix(row + s * 128);
#pragma unroll
        for (int kk = 0; kk < KK; ++kk)
            wgmma(d, filters[s][kk], places + kk * 2, add || s + kk > 0);
    }
    wgmma_commit();
}

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const int8_t* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[SA], empty[SA], turns[2];
    __shared__ int pixel_of[2][BM];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    // The block has every gridDim.x-th tile. Where there are filters for two groups, both multiply
    // all of its tiles, otherwise one of them each.
    const int k = blockIdx.y * 2 * BN, tiles = (places + BM - 1) / BM;
    const bool both = K - k > BN;
    const auto tile_of = [&](int i) { return blockIdx.x + i * gridDim.x; };
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full[i], 1), init(&empty[i], both ? 2 : 1);
        for (int i = 0; i < 2; ++i) init(&turns[i], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            int stage = 0, phase = 1;
            for (int i = 0; tile_of(i) < tiles; ++i) {
                for (int r = 0; r < 3; ++r) {
                    const Place from = split(tile_of(i) * BM + (r - 1) * pitch - 1, rows, pitch);
                    wait(&empty[stage], phase);
                    expect(&full[stage], STAGE_BYTES);
                    copy_pixels(As + stage * STAGE_BYTES, pixels, 0, from.w, from.h, from.n, 0, 0,
                                &full[stage]);
                    if (++stage == SA) stage = 0, phase ^= 1;
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool first_thread = threadIdx.x % 128 == 0;
    const int first_filter = k + (both && group == 2 ? BN : 0) + warp * 16 + lane / 4;
    // A lane has four channels of each 16, of the filter of its number and the one eight further.
    uint32_t filters[9][4][4];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap)
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int filter = first_filter + i % 2 * 8, c = i / 2 * 16 + lane % 4 * 4;
            const int8_t* four = &weight[((size_t)filter * 9 + tap) * C + c];
            filters[tap][i / 4][i % 4] =
                filter < K && c < C ? *reinterpret_cast<const uint32_t*>(four) : 0;
        }
    int* const pixel = pixel_of[group - 1];
    int d[BM / 2];
    // The groups multiply in turns. Before the first group's first turn there is none to wait for.
    // Where each has tiles of its own they must: a group that is a whole ring ahead of the copies
    // would take the phase before for the one that it waits for.
    const bool in_turns = TURNS || !both;
    int turn_phase = 2 - group;
    for (int i = both ? 0 : group - 1; tile_of(i) < tiles; i += both ? 1 : 2) {
        int stage = i * 3 % SA, phase = i * 3 / SA % 2, last = 0;
        if (in_turns) wait(&turns[group - 1], turn_phase);
        turn_phase ^= 1;
#pragma unroll
        for (int r = 0; r < 3; ++r) {
            wait(&full[stage], phase);
            const uint8_t* const row = As + stage * STAGE_BYTES;
            C > 64 ? multiply_row<4>(d, &filters[r * 3], row, r > 0)
                   : multiply_row<2>(d, &filters[r * 3], row, r > 0);
            wgmma_wait<1>();  // the products of the row before are done, and their pixels free
            if (first_thread && r > 0) arrive(&empty[last]);
            last = stage;
            if (++stage == SA) stage = 0, phase ^= 1;
        }
        // Its products stand behind ours in the pipe.
        if (in_turns && first_thread) arrive(&turns[2 - group]);
        // Where the tile's places go, while the last products are made.
        if (threadIdx.x % 128 < BM) {
            const int p = threadIdx.x % 128;
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
