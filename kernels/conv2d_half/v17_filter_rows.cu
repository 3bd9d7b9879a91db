/* ---
title  = "Filters are the rows"
parent = "v16"
change = "A group multiplies 64 filters by all 256 places (64×256×16) where it multiplied 128 places by all filters, 64×128×16 at a time: per product of the block, shared memory is read 80 times where it was 96. Sums lie across, and are turned as they go through shared memory."
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
counter = "tensor_utilization"
change  = "up"
why     = "a product of 64×128×16 takes 64 cycles and 6 KB from shared memory, which gives 128 bytes a cycle; with what the copies write, that is 123 bytes a cycle in v16, and would be 107"
learned = "81.1% to 80.3%: shared memory was not what the pipe waited for"

[[expect]]
counter = "instructions"
change  = "< 0.9x"
why     = "half as many products"
learned = "0.96x: the products are half as many, but turning the sums takes barriers and both halves of a place's row come from different groups"

[[expect]]
counter = "duration"
change  = "< 0.97x"
why     = "shared memory is as busy as the tensor pipe in v16"
learned = "1.00x; the way out is longer, and nobody multiplies meanwhile"
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
    float d[BM / 2];
    int a = 0, b = 0, phase_a = 0, phase_b = 0, last_a = 0, last_b = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int step = 0; step < steps; ++step) {
            wait(&full_a[a], phase_a);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                wait(&full_b[b], phase_b);
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + a * A_BYTES + s * 128);
                const uint64_t B = matrix(Bs + b * B_BYTES + (group - 1) * (B_BYTES / 2));
                wgmma_fence();
#pragma unroll
                for (int kk = 0; kk < 4; ++kk)
                    wgmma(d, B + kk * 2, A + kk * 2, step + s + kk > 0);
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

        // A group has 64 filters of all places, and turns half of those at a time.
        uint8_t* const mine = turn + (group - 1) * 16384;
        const int k = tile % columns * BN + (group - 1) * 64 + lane % 8 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // Where the places of this warp go: four in each of eight stores.
            const Place at = split(
                tile / columns * BM + half * 128 + lane / 4 * 16 + warp * 4 + lane % 4, rows, pitch);
            const bool inside = at.n < N && at.h < H && at.w < W;
            const int pixel = inside ? (at.n * H + at.h) * W + at.w : -1;
            group_barrier(group);  // the half before has been read
#pragma unroll
            for (int j = 0; j < 16; j += 2) {
                const float* from = &d[half * 64 + j * 4];
                uint32_t four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = two_halves(from[2 * e], from[2 * e + 1]);
                const int row = (j + lane / 16) * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
                stmatrix_turned(mine + row * 128 + (chunk ^ row % 8) * 16, four);
            }
            group_barrier(group);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
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
