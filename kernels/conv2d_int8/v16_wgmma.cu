/* ---
title  = "wgmma on im2col copies"
parent = "v15"
change = "The copy engine finds the pixels: one thread asks for 256 of them under a tap, with 128 channels, a row of shared memory, and for 128 filters, which an mbarrier reports. Products are those of warpgroups, 64×128×32 straight from shared memory: no ldmatrix, no addresses, no registers for fragments. Any number of channels and filters is taken in chunks of 128."
arch_specific = true
requires     = "C % 16 == 0 and 9*C < 2**17 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, its sums are 32-bit integers, and so are places"

[defines]
STAGES = 4

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "uint8"
dims     = ["C", "W", "H", "N"]
lower    = [-1, -1]
upper    = [-1, -1]
channels = 128
pixels   = 256
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
grid   = ["cdiv(N*H*W, 256)", "cdiv(K, 128)"]
block  = [256]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + STAGES*(256 + 128)*128"

[[expect]]
counter = "instructions"
change  = "< 0.3x"
why     = "conv2d_half's v13 kept a third of its parent's, half of them for its sums' way through shared memory, which they do not take here"
learned = "0.45x: 7.0 of the 15.8 M store the sums, eight bytes at a time, each with a condition"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "an mma.sync holds the pipe for six cycles where its peak rate needs four; wgmma has the whole rate"
learned = "59.6% to 49.0%: the counter is the pipe's share of the time, and products take 87 k cycles instead of 134 k, all the rest 91 k in both"

[[expect]]
counter = "l2_read_sectors"
change  = "> 10x"
why     = "v15 reads filters once a block and pixels 1.35 times; here 48 KB come for each of nine taps of 256×128 outputs"
learned = "8.6x: 14.0 M sectors are 447 MB, where the copies ask for 553"

[[expect]]
counter = "duration"
change  = "< 0.9x"
why     = "a tile has nine steps of 1,024 cycles of products; while it fills its ring and stores 128 KB of sums, a third of the time, nobody multiplies"
learned = "0.83x: 115 µs, 823 TOP/s"
--- */
#include "hopper.cuh"

constexpr int BM = 256;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int A_BYTES = BM * 128;  // of 128 channels of the pixels under a tap
constexpr int B_BYTES = BN * 128;

extern "C" __global__ void __launch_bounds__(256, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES];
    // Rows of 128 bytes are exchanged by their address, in units of 1024 bytes.
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * A_BYTES;
    const int first = blockIdx.x * BM, k = blockIdx.y * BN, pixel_count = N * H * W;
    const int steps = (C + 127) / 128 * 9;  // a chunk of 128 channels under a tap
    const Place from = split(first, H, W);
    // One thread starts the copies of a step. The window's first tap lies a pixel up and left.
    const auto start = [&](int step) {
        const int stage = step % STAGES, c = step / 9 * 128, tap = step % 9;
        expect(&full[stage], A_BYTES + B_BYTES);
        copy_pixels(As + stage * A_BYTES, pixels, c, from.w - 1, from.h - 1, from.n, tap % 3,
                    tap / 3, &full[stage]);
        copy_filters(Bs + stage * B_BYTES, filters, c, tap, k, &full[stage]);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int step = 0; step < STAGES - 1; ++step) start(step);  // there are nine at least
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    int d[2][BN / 2];
    for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES;
        wait(&full[stage], step / STAGES % 2);
        const uint64_t A = matrix(As + stage * A_BYTES + group * (A_BYTES / 2));
        const uint64_t B = matrix(Bs + stage * B_BYTES);
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk)
#pragma unroll
            for (int m = 0; m < 2; ++m)
                wgmma(d[m], A + m * 512 + kk * 2, B + kk * 2, step + kk > 0);
        wgmma_commit();
        wgmma_wait<1>();  // the products of the step before are done
        __syncthreads();  // for both groups: what they were made of may be overwritten
        if (threadIdx.x == 0 && step + STAGES - 1 < steps) start(step + STAGES - 1);
    }
    wgmma_wait<0>();

    const int row = first + group * 128 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const int pixel = row + m * 64;
        const int to[2] = {pixel < pixel_count ? pixel : -1,
                           pixel + 8 < pixel_count ? pixel + 8 : -1};
        store_sums(d[m], output, to, k, K);
    }
}
