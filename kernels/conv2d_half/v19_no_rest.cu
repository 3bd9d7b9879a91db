/* ---
title  = "Tiles that leave no rest"
parent = "v18"
change = "A tile has 256, 248 or 160 places, whichever the blocks are done with first: the tiles of the busiest block, times their places. 100×100 pixels, 32 images and 128 filters are 2,552 tiles of 256 places, 20 for some blocks and 19 for the others, or 2,634 of 248, for each of 132 blocks 20, but for six."
arch_specific = true
requires     = "C % 8 == 0 and K % 8 == 0 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, it stores eight filters at a time, and places are 32-bit integers"

[defines]
SA = 3
SB = 8
SMS = 132    # blocks: one for each SM of an H200

[[tensor_map]]
name     = "pixels_256"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 64
pixels   = 264
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name     = "pixels_248"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 64
pixels   = 256
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name     = "pixels_160"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [0, 0]
upper    = [1, 1]
channels = 64
pixels   = 168
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
kernel = "conv2d_256"
grid   = ["min(SMS, cdiv(N*(H + 1)*(W + 1), 256) * cdiv(K, 64))"]
block  = [384]
args   = ["pixels_256", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*264*128 + SB*64*128 + 32768"
when   = "256*cdiv(cdiv(N*(H + 1)*(W + 1), 256)*cdiv(K, 64), SMS) <= 248*cdiv(cdiv(N*(H + 1)*(W + 1), 248)*cdiv(K, 64), SMS) and 10*160*cdiv(cdiv(N*(H + 1)*(W + 1), 160)*cdiv(K, 64), SMS) >= 9*256*cdiv(cdiv(N*(H + 1)*(W + 1), 256)*cdiv(K, 64), SMS)"

[[launch]]
kernel = "conv2d_248"
grid   = ["min(SMS, cdiv(N*(H + 1)*(W + 1), 248) * cdiv(K, 64))"]
block  = [384]
args   = ["pixels_248", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*256*128 + SB*64*128 + 32768"
when   = "248*cdiv(cdiv(N*(H + 1)*(W + 1), 248)*cdiv(K, 64), SMS) < 256*cdiv(cdiv(N*(H + 1)*(W + 1), 256)*cdiv(K, 64), SMS) and 10*160*cdiv(cdiv(N*(H + 1)*(W + 1), 160)*cdiv(K, 64), SMS) >= 9*248*cdiv(cdiv(N*(H + 1)*(W + 1), 248)*cdiv(K, 64), SMS)"

[[launch]]
kernel = "conv2d_160"
grid   = ["min(SMS, cdiv(N*(H + 1)*(W + 1), 160) * cdiv(K, 64))"]
block  = [384]
args   = ["pixels_160", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + SA*168*128 + SB*64*128 + 32768"
when   = "10*160*cdiv(cdiv(N*(H + 1)*(W + 1), 160)*cdiv(K, 64), SMS) < 9*min(256*cdiv(cdiv(N*(H + 1)*(W + 1), 256)*cdiv(K, 64), SMS), 248*cdiv(cdiv(N*(H + 1)*(W + 1), 248)*cdiv(K, 64), SMS))"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "in v18 of 20 turns the last one is a third full: 3.4% of the multiprocessors' time is idle"
learned = "86.3% to 87.0%, of the time that a multiprocessor has a block; of all the time it is 80.5% to 83.9%"

[[expect]]
counter = "duration"
change  = "< 0.99x"
why     = "the busiest multiprocessor makes 20·248 instead of 20·256 places, 3.1% less; where power is the limit, idle time was cheap, and some of it is lost to a lower clock"
learned = "0.97x, by the profiler 0.95x at the same clock; with one image, 128 tiles of 160 places instead of 80 of 256, 0.79x"
--- */
#include "widths.cuh"

constexpr int BN = 64;             // filters a tile
constexpr int B_BYTES = BN * 128;  // of filters' channels under a tap

// Tiles of BM places.
template <int BM>
__device__ __forceinline__ void convolve(const CUtensorMap& pixels, const CUtensorMap& filters,
                                         __half* __restrict__ output, int N, int H, int W, int C,
                                         int K) {
    constexpr int A_BYTES = (BM + 8) * 128;  // of places' channels that three taps share
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full_a[SA], empty_a[SA], full_b[SB], empty_b[SB], turns[2];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + SA * A_BYTES;
    uint8_t* const turn = Bs + SB * B_BYTES;
    // A place is a pixel of an image with a column of zeros at its right and a row of them below.
    const int rows = H + 1, pitch = W + 1, places = N * rows * pitch;
    const int columns = (K + BN - 1) / BN, tiles = (places + BM - 1) / BM * columns;
    const int steps = (C + 63) / 64 * 3;  // a chunk of 64 channels under a row of three taps
    if (threadIdx.x == 0) {
        for (int i = 0; i < SA; ++i) init(&full_a[i], 1), init(&empty_a[i], 1);
        for (int i = 0; i < SB; ++i) init(&full_b[i], 1), init(&empty_b[i], 1);
        for (int i = 0; i < 2; ++i) init(&turns[i], 1);
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
    // The groups take the block's tiles, and what was copied for them, in turns. Before the first
    // group's first turn there is none to wait for.
    int turn_phase = 2 - group;
    for (int i = group - 1; blockIdx.x + i * gridDim.x < tiles; i += 2) {
        const int tile = blockIdx.x + i * gridDim.x;
        int a = i * steps % SA, phase_a = i * steps / SA % 2, last_a = 0;
        int b = i * steps * 3 % SB, phase_b = i * steps * 3 / SB % 2, last_b = 0;
        wait(&turns[group - 1], turn_phase);
        turn_phase ^= 1;
        for (int step = 0; step < steps; ++step) {
            wait(&full_a[a], phase_a);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                wait(&full_b[b], phase_b);
                // Under tap s, a place's row is that of its neighbour s places on.
                const uint64_t A = matrix(As + a * A_BYTES + s * 128);
                const uint64_t B = matrix(Bs + b * B_BYTES);
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
        if (first_thread) arrive(&turns[2 - group]);  // its products stand behind ours in the pipe
        wgmma_wait<0>();
        if (first_thread) arrive(&empty_b[last_b]), arrive(&empty_a[last_a]);

        // A group turns 128 of its places at a time, while the other multiplies.
        uint8_t* const mine = turn + (group - 1) * 16384;
        const int k = tile % columns * BN + lane % 8 * 8;
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

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d_256(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
           __half* __restrict__ output, int N, int H, int W, int C, int K) {
    convolve<256>(pixels, filters, output, N, H, W, C, K);
}

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d_248(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
           __half* __restrict__ output, int N, int H, int W, int C, int K) {
    convolve<248>(pixels, filters, output, N, H, W, C, K);
}

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d_160(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
           __half* __restrict__ output, int N, int H, int W, int C, int K) {
    convolve<160>(pixels, filters, output, N, H, W, C, K);
}
