/* ---
title  = "Three taps share a copy"
parent = "v15"
change = "As in v9, the image is walked with a column of zeros between rows and a row of them between images: to the copy engine that is a bounding box one pixel wider and higher. Pixels under the three taps of a filter row are then the same rows of shared memory, one further each: 264 are copied where there were 3·256."
arch_specific = true
requires     = "C % 8 == 0 and K % 8 == 0 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, it stores eight filters at a time, and places are 32-bit integers"

[defines]
SA = 2
SB = 7
ROWS = 264

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 64
pixels   = "ROWS"
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name    = "filters"
buffer  = "weight"
dtype   = "float16"
dims    = ["C", 9, "K"]
box     = [64, 1, 128]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "conv2d"
grid   = ["min(132, cdiv(N*(H + 1)*(W + 1), 256) * cdiv(K, 128))"]
block  = [384]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*ROWS*128 + SB*128*128 + 32768"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.6x"
why     = "33 + 3·16 KB for three taps instead of 3·48"

[[expect]]
counter = "long_scoreboard"
change  = "< 0.5x"
why     = "multiplying groups wait for pixels a third of their time in v15, where the L2 is two thirds busy"
learned = "1.03x: those waits are the copying thread's own, for a stage to be free; with a third warpgroup that only copies the counter says nothing of the others"

[[expect]]
counter = "duration"
change  = "< 0.9x"
why     = "those waits, less 2% of work on zeros"
learned = "0.98x: half of the reads of L2 are saved, and it was no limit. With 64 channels, where a tile has half as many steps, it is 0.83x"
--- */
#include "hopper.cuh"

constexpr int BM = 256;  // places a block
constexpr int BN = 128;  // filters a block
constexpr int A_BYTES = ROWS * 128;  // of places' channels that three taps share
constexpr int B_BYTES = BN * 128;    // of filters' channels under a tap

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       __half* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full_a[SA], empty_a[SA], full_b[SB], empty_b[SB];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    uint8_t* const turn = Bs + SB * B_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    const int columns = (K + BN - 1) / BN, tiles = (places + BM - 1) / BM * columns;
    const int steps = (C + 63) / 64 * 3;  // a chunk of 64 channels under a row of three taps
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full_a[i], 1), init(&empty_a[i], 2);
        for (int i = 0; i < SB; ++i) init(&full_b[i], 1), init(&empty_b[i], 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int a = 0, b = 0, phase_a = 1, phase_b = 1;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int first = tile / columns * BM, k = tile % columns * BN;
                for (int step = 0; step < steps; ++step) {
                    const int c = step / 3 * 64, r = step % 3;
                    const Place from = split(first + (r - 1) * pitch - 1, rows, pitch);
                    wait(&empty_a[a], phase_a);
                    expect(&full_a[a], A_BYTES);
                    copy_pixels(As + a * A_BYTES, pixels, c, from.w, from.h, from.n, 0, 0,
                                &full_a[a]);
                    if (++a == SA) a = 0, phase_a ^= 1;
                    for (int s = 0; s < 3; ++s) {
                        wait(&empty_b[b], phase_b);
                        expect(&full_b[b], B_BYTES);
                        copy_filters(Bs + b * B_BYTES, filters, c, r * 3 + s, k, &full_b[b]);
                        if (++b == SB) b = 0, phase_b ^= 1;
                    }
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool first_thread = threadIdx.x % 128 == 0;
    float d[2][BN / 2];
    int a = 0, b = 0, phase_a = 0, phase_b = 0, last_a = 0, last_b = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int step = 0; step < steps; ++step) {
            wait(&full_a[a], phase_a);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                wait(&full_b[b], phase_b);
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + a * A_BYTES + ((group - 1) * 128 + s) * 128);
                const uint64_t B = matrix(Bs + b * B_BYTES);
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < 4; ++kk)
#pragma unroll
                    for (int m = 0; m < 2; ++m)
                        wgmma(d[m], A + m * 512 + kk * 2, B + kk * 2, step + s + kk > 0);
                wgmma_commit();
                wgmma_wait<1>();
                // The products before these are done, and nobody needs what they were made of.
                if (first_thread && step + s > 0) {
                    arrive(&empty_b[last_b]);
                    if (s == 0) arrive(&empty_a[last_a]);
                }
                last_b = b;
                if (++b == SB) b = 0, phase_b ^= 1;
            }
            last_a = a;
            if (++a == SA) a = 0, phase_a ^= 1;
        }
        wgmma_wait<0>();
        if (first_thread) arrive(&empty_b[last_b]), arrive(&empty_a[last_a]);

        const Place at = split(tile / columns * BM + (group - 1) * 128 + lane / 16 * 64 +
                                   warp * 16 + lane % 16,
                               rows, pitch);
        const bool inside = at.n < N && at.h < H && at.w < W;
        store_sums(d, turn + (threadIdx.x / 32 - 4) * 4096, output,
                   inside ? (at.n * H + at.h) * W + at.w : -1, tile % columns * BN + lane % 16 * 8,
                   K);
    }
}
