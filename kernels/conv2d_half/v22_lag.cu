/* ---
title  = "Pixels for both groups, part of a tile apart"
parent = "v19"
change = "Both groups have the same places again, 64 filters each, as in v17; but the second one starts LAG steps later, so that one stores while the other multiplies. The ring holds four steps of pixels, which are copied once for 128 filters instead of for 64; each group has a ring of filters of its own, and each ring a warp that fills it."
arch_specific = true
requires     = "C % 8 == 0 and K % 8 == 0 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, it stores eight filters at a time, and places are 32-bit integers"

[defines]
BM = 248     # places a tile
SA = 4
SB = 3
LAG = 3
SMS = 132    # blocks: one for each SM of an H200

[tune]
SA  = [2, 3, 4]
SB  = [2, 3, 4]
LAG = [1, 2, 3]   # a tile has three steps at least
requires = "LAG < SA"

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 64
pixels   = "BM + 8"
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name    = "filters"
buffer  = "weight"
dtype   = "float16"
dims    = ["C", 9, "K"]
box     = [64, 1, 64]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "conv2d"
grid   = ["min(SMS, cdiv(N*(H + 1)*(W + 1), BM) * cdiv(K, 128))"]
block  = [384]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*(BM + 8)*128 + 2*SB*64*128 + 32768"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.8x"
why     = "33 + 6·8 KB for three taps of 128 filters instead of 2·(33 + 3·8)"
learned = "0.80x: 19.3 to 15.4 M"

[[expect]]
counter = "tensor_utilization"
change  = "same"
why     = "one group stores while the other multiplies, in both"
learned = "87.0% to 83.4%: without turns both groups multiply for part of a tile, and hold each other up"

[[expect]]
counter = "duration"
change  = "< 0.99x"
why     = "where power is the limit, a quarter less from L2 leaves some of it for products"
learned = "1.04x, by the profiler 1.05x; in turns with cuDNN it has 0.928 of its speed, v19 0.948 in that run"
--- */
#include "widths.cuh"

constexpr int BN = 64;                   // filters a group
constexpr int A_BYTES = (BM + 8) * 128;  // of places' channels that three taps share
constexpr int B_BYTES = BN * 128;        // of a group's filters' channels under a tap

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       __half* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full_a[SA], empty_a[SA], full_b[2][SB], empty_b[2][SB], ahead;
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    uint8_t* const turn = Bs + 2 * SB * B_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    const int columns = (K + 2 * BN - 1) / (2 * BN), tiles = (places + BM - 1) / BM * columns;
    const int steps = (C + 63) / 64 * 3;  // a chunk of 64 channels under a row of three taps
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full_a[i], 1), init(&empty_a[i], 2);
        for (int i = 0; i < 2 * SB; ++i) init(&full_b[0][i], 1), init(&empty_b[0][i], 1);
        init(&ahead, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        // Warp 0 copies pixels, warps 1 and 2 copy the filters of group 1 and of group 2.
        const int of = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0 && of < 3) {
            int stage = 0, phase = 1;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int first = tile / columns * BM;
                const int k = tile % columns * 2 * BN + (of - 1) * BN;
                for (int step = 0; step < steps; ++step) {
                    const int c = step / 3 * 64, r = step % 3;
                    if (of == 0) {
                        const Place from = split(first + (r - 1) * pitch - 1, rows, pitch);
                        wait(&empty_a[stage], phase);
                        expect(&full_a[stage], A_BYTES);
                        copy_pixels(As + stage * A_BYTES, pixels, c, from.w, from.h, from.n, 0, 0,
                                    &full_a[stage]);
                        if (++stage == SA) stage = 0, phase ^= 1;
                        continue;
                    }
                    for (int s = 0; s < 3; ++s) {
                        uint64_t* const full = &full_b[of - 1][stage];
                        wait(&empty_b[of - 1][stage], phase);
                        expect(full, B_BYTES);
                        uint8_t* const to = Bs + ((of - 1) * SB + stage) * B_BYTES;
                        copy_filters(to, filters, c, r * 3 + s, k, full);
                        if (++stage == SB) stage = 0, phase ^= 1;
                    }
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool first_thread = threadIdx.x % 128 == 0;
    float d[BM / 2];
    uint64_t *const full = full_b[group - 1], *const empty = empty_b[group - 1];
    const uint8_t* const mine_b = Bs + (group - 1) * SB * B_BYTES;
    int a = 0, b = 0, phase_a = 0, phase_b = 0, last_a = 0, last_b = 0;
    if (group == 2) wait(&ahead, 0);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int step = 0; step < steps; ++step) {
            wait(&full_a[a], phase_a);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                wait(&full[b], phase_b);
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + a * A_BYTES + s * 128);
                const uint64_t B = matrix(mine_b + b * B_BYTES);
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < 4; ++kk)
                    wgmma(d, B + kk * 2, A + kk * 2, step + s + kk > 0);
                wgmma_commit();
                wgmma_wait<1>();
                // The products before these are done, and nobody needs what they were made of.
                if (first_thread && step + s > 0) {
                    arrive(&empty[last_b]);
                    if (s == 0) arrive(&empty_a[last_a]);
                }
                last_b = b;
                if (++b == SB) b = 0, phase_b ^= 1;
            }
            last_a = a;
            if (++a == SA) a = 0, phase_a ^= 1;
            // Group 1 is LAG steps into its first tile (a tile has three steps at least).
            if (group == 1 && first_thread && tile == blockIdx.x && step == LAG - 1)
                arrive(&ahead);
        }
        wgmma_wait<0>();
        if (first_thread) arrive(&empty[last_b]), arrive(&empty_a[last_a]);

        // A group turns 128 of its places at a time, while the other multiplies.
        uint8_t* const mine = turn + (group - 1) * 16384;
        const int k = tile % columns * 2 * BN + (group - 1) * BN + lane % 8 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int count = half == 0 ? 128 : BM - 128;
            // Where the places of this warp go: four in each of eight stores.
            const int place = lane / 4 * 16 + warp * 4 + lane % 4;
            const Place at = split(tile / columns * BM + half * 128 + place, rows, pitch);
            const bool inside = place < count && at.n < N && at.h < H && at.w < W;
            const int pixel = inside ? (at.n * H + at.h) * W + at.w : -1;
            group_barrier(group);  // the half before has been read
#pragma unroll
            for (int j = 0; j < count / 8; j += 2) {
                uint32_t four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int at = half * 64 + j * 4 + 2 * e;  // the last of 31 eights is alone
                    four[e] = at < BM / 2 ? two_halves(d[at], d[at + 1]) : 0;
                }
                const int row = (j + lane / 16) * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
                stmatrix_turned(mine + row * 128 + (chunk ^ row % 8) * 16, four);
            }
            group_barrier(group);
#pragma unroll
            for (int i = 0; i < (count + 15) / 16; ++i) {
                const int row = i * 16 + warp * 4 + lane / 8;
                const int to = __shfl_sync(~0u, pixel, i * 4 + lane / 8);
                const uint8_t* eight = mine + row * 128 + (lane % 8 ^ row % 8) * 16;
                if (to >= 0 && k < K)
                    *reinterpret_cast<uint4*>(&output[(size_t)to * K + k]) =
                        *reinterpret_cast<const uint4*>(eight);
            }
        }
    }
}
