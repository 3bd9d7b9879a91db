/* ---
title  = "wgmma on im2col copies"
parent = "v12"
change = "The copy engine finds the pixels: one thread asks for 256 of them under a tap, 64 channels each, and for 128 filters, which an mbarrier reports. Products are those of warpgroups, 64×128×16 straight from shared memory: no ldmatrix, no addresses, no lookups, no registers for fragments."
arch_specific = true
requires     = "C % 8 == 0 and K % 8 == 0 and N*(H + 1)*(W + 1) + 2*W < 2**31 - 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, it stores eight filters at a time, and places are 32-bit integers"

[defines]
STAGES = 4

[[tensor_map]]
name     = "pixels"
buffer   = "input"
dtype    = "float16"
dims     = ["C", "W", "H", "N"]
lower    = [-1, -1]
upper    = [-1, -1]
channels = 64
pixels   = 256
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
grid   = ["cdiv(N*H*W, 256)", "cdiv(K, 128)"]
block  = [256]
args   = ["pixels", "filters", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "1024 + STAGES*(256 + 128)*128 + 32768"

[[expect]]
counter = "instructions"
change  = "< 0.15x"
why     = "one thread copies, and a product is 64×128×16 instead of 16×8×16"
learned = "0.33x: 4.5 of the 17.4 M stand at the products, whose descriptors go through uniform registers, 1.8 M at waits, and the way of the sums to the output is as long as it was"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "its operands come from shared memory by themselves; with mma.sync the pipe would end at about 580 TFLOP/s"

[[expect]]
counter = "gmma_stall"
change  = "> 0"
why     = "what warps wait for now"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "half of the time of v12 is not the tensor pipe's; prologue and epilogue stay in the open, because one block fills an SM"
--- */
#include "hopper.cuh"

constexpr int BM = 256;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int A_BYTES = BM * 128;  // of 64 channels of the pixels under a tap
constexpr int B_BYTES = BN * 128;

extern "C" __global__ void __launch_bounds__(256, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       __half* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES];
    // Rows of 128 bytes are exchanged by their address, in units of 1024 bytes.
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * A_BYTES;
    uint8_t* const turn = Bs + STAGES * B_BYTES;
    const int first = blockIdx.x * BM, k = blockIdx.y * BN, pixel_count = N * H * W;
    const int steps = (C + 63) / 64 * 9;  // a chunk of 64 channels under a tap
    const Place from = split(first, H, W);
    // One thread starts the copies of a step. The window's first tap lies a pixel up and left.
    const auto start = [&](int step) {
        const int stage = step % STAGES, c = step / 9 * 64, tap = step % 9;
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
    float d[2][BN / 2];
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

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int pixel = first + group * 128 + lane / 16 * 64 + warp % 4 * 16 + lane % 16;
    store_sums(d, turn + warp * 4096, output, pixel < pixel_count ? pixel : -1, k + lane % 16 * 8,
               K);
}
