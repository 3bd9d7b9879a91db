/* ---
title  = "Three taps share a copy"
parent = "v17"
change = "The image is walked with a column of zeros between rows and a row of them between images: to the copy engine that is a bounding box one pixel wider and higher. Pixels under the three taps of a filter row are then the same rows of shared memory, one further each: 264 are copied where there were 3·256."
arch_specific = true
requires     = "C % 16 == 0 and 9*C < 2**17 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, its sums are 32-bit integers, and so are places"

[defines]
SA = 2
SB = 7
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
grid   = ["min(SMS, cdiv(N*(H + 1)*(W + 1), 256) * cdiv(K, 128))"]
block  = [384]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*ROWS*128 + SB*128*128"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.6x"
why     = "33 + 3·16 KB for three taps instead of 3·48"
learned = "0.57x: 14.5 to 8.3 M"

[[expect]]
counter = "duration"
change  = "< 0.95x"
why     = "products take half as long as conv2d_half's, so that 48 KB for 1,024 cycles are twice as much for the L2, 47 of the 64 bytes that it can give a cycle; there it gained 1%"
learned = "0.94x, a third of it the clock's under the profiler, which rose from 1.72 to 1.76 GHz; with 64 channels 0.82x"
--- */
#include "hopper.cuh"

constexpr int BM = 256;  // places a block
constexpr int BN = 128;  // filters a block
constexpr int A_BYTES = ROWS * 128;  // of places' channels that three taps share
constexpr int B_BYTES = BN * 128;    // of filters' channels under a tap

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full_a[SA], empty_a[SA], full_b[SB], empty_b[SB];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    const int columns = (K + BN - 1) / BN, tiles = (places + BM - 1) / BM * columns;
    const int steps = (C + 127) / 128 * 3;  // a chunk of 128 channels under a row of three taps
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
                    const int c = step / 3 * 128, r = step % 3;
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
    int d[2][BN / 2];
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

#pragma unroll
        for (int m = 0; m < 2; ++m) {
            int to[2];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const Place at = split(tile / columns * BM + (group - 1) * 128 + m * 64 +
                                           warp * 16 + h * 8 + lane / 4,
                                       rows, pitch);
                to[h] = at.n < N && at.h < H && at.w < W ? (at.n * H + at.h) * W + at.w : -1;
            }
            store_sums(d[m], output, to, tile % columns * BN, K);
        }
    }
}
