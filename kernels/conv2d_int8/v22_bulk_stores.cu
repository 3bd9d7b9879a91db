/* ---
title  = "Sums leave by bulk copies"
parent = "v21"
change = "A group lays its sums out in shared memory, a row for each place, and each thread asks the copy engine to store one of them, 256 bytes. The rows are 16 bytes longer than that, so that the four places that a warp writes at once lie in different banks."
arch_specific = true
requires     = "C % 16 == 0 and C <= 128 and K % 4 == 0 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map and bulk copies are multiples of 16 bytes, registers hold filters of at most 128 channels, and places are 32-bit integers"

[defines]
BM = 128     # places a tile
SA = 7
BULK = 1     # 0: threads store, 16 bytes each
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
dynamic_shared = "1024 + SA*(BM + 8)*128 + 2*BM*272"

[[expect]]
counter = "instructions"
change  = "< 0.7x"
why     = "no address and no condition for each of 64 stores of a thread"
learned = "0.85x: a bulk copy takes its addresses from uniform registers, so that a warp issues its 32 one after the other, nine instructions each: 5.8 of the 14.8 M"

[[expect]]
counter = "shared_wavefronts"
change  = "up"
why     = "the sums are written there, and read by the copy engine"
learned = "1.10x: 6.6 to 7.2 M"

[[expect]]
counter = "duration"
change  = "down"
why     = "a warp's store of v21 goes to four lines, 32 bytes of each: the L1 looks up a line a cycle, so that a tile's stores keep it for nearly as long as its products the pipe. Bulk copies are whole lines"
learned = "1.00x: the L1 falls from 77% to 51% of its peak and was no limit; with one image, whose 80 tiles leave nothing to overlap, it is 1.14x"
--- */
#include "hopper.cuh"

constexpr int BN = 64;                          // filters a group
constexpr int ROW_BYTES = 272;               // of a place's sums, of BN filters, and 16 bytes
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
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const sums = As + SA * STAGE_BYTES;
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
    uint8_t* const mine = sums + (group - 1) * BM * ROW_BYTES;
    const int thread = threadIdx.x % 128, group_filter = k + (both && group == 2 ? BN : 0);
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
        // Where this thread's place goes, while the last products are made.
        const Place at = split(tile_of(i) * BM + thread, rows, pitch);
        const bool inside = thread < BM && at.n < N && at.h < H && at.w < W;
        const int pixel = (at.n * H + at.h) * W + at.w;
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        group_barrier(group);  // the sums of the tile before have been read
        wgmma_wait<0>();
        if (first_thread) arrive(&empty[last]);
#pragma unroll
        for (int j = 0; j < BM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int place = j * 8 + lane % 4 * 2 + e % 2, filter = warp * 16 + lane / 4;
                *reinterpret_cast<int*>(mine + place * ROW_BYTES + (filter + e / 2 * 8) * 4) =
                    d[j * 4 + e];
            }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        group_barrier(group);
        if (BULK) {
            const int bytes = min(BN, K - group_filter) * 4;
            if (inside && bytes > 0)
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                             ::"l"(&output[(size_t)pixel * K + group_filter]),
                             "r"(shared(mine + thread * ROW_BYTES)), "r"(bytes)
                             : "memory");
        } else {  // half a warp for each of its 32 places
            const int k = group_filter + lane % 16 * 4;
#pragma unroll
            for (int j = 0; j < 32; j += 2) {
                const int to = __shfl_sync(~0u, inside ? pixel : -1, j + lane / 16);
                const uint8_t* row = mine + (warp * 32 + j + lane / 16) * ROW_BYTES;
                if (to >= 0 && k < K)
                    __stcs(reinterpret_cast<int4*>(&output[(size_t)to * K + k]),
                           *reinterpret_cast<const int4*>(row + lane % 16 * 16));
            }
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
