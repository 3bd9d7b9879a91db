/* ---
title  = "wgmma of TF32 terms, on im2col copies"
parent = "v11"
change = "A launch of its own splits every float once and turns the pixels: both TF32 terms of 16 channels are a row of 128 bytes, channels last. Then one thread asks the copy engine for 256 outputs' pixels under a tap and for 128 filters, and warpgroups multiply, 64×128×8, straight from shared memory. Six such products are added from zero, and their sums in float32."
arch_specific = true
requires     = "max(N*C*H*W, N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 256 and max(U, V) <= 8 and max(R, S) <= 120 and max(P, Q) <= 120 and N*H*W*cdiv(C, 16) < 2**31 - 2**20"
requires_why = "its indices are 32-bit integers, and the copy engine's windows have corners within 128 pixels and steps of at most eight"

[defines]
BM = 128     # filters a block
BN = 256     # outputs a block
BK = 16      # channels of a stage: two terms of 16 floats are a row of 128 bytes
STAGES = 4

[[scratch]]
name  = "x_terms"
dtype = "float32"
shape = ["N", "H", "W", "2 * BK * cdiv(C, BK)"]

[[scratch]]
name  = "w_terms"
dtype = "float32"
shape = ["K", "R * S", "2 * BK * cdiv(C, BK)"]

[[tensor_map]]
name     = "pixels"
buffer   = "x_terms"
dtype    = "float32"
dims     = ["2 * BK * cdiv(C, BK)", "W", "H", "N"]
element_strides = [1, "V", "U", 1]
lower    = ["-Q", "-P"]
upper    = ["Q - S + 1", "P - R + 1"]
channels = "2 * BK"
pixels   = "BN"
swizzle  = 128
l2_promotion = 256

[[tensor_map]]
name    = "filters"
buffer  = "w_terms"
dtype   = "float32"
dims    = ["2 * BK * cdiv(C, BK)", "R * S", "K"]
box     = ["2 * BK", 1, "BM"]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "split"
grid   = ["cdiv(H*W, 64) * cdiv(C, 32) * N + cdiv(K * R*S * 4 * cdiv(C, BK), 256)"]
block  = [256]
args   = ["x", "w", "x_terms", "w_terms", "N", "C", "H*W", "K", "R*S"]

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(K, BM) * cdiv(N*OH*OW, BN)"]
block  = [384]
args   = ["pixels", "filters", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]
dynamic_shared = "1024 + STAGES * 128 * (BM + BN)"

[[expect]]
counter = "tensor_utilization"
change  = ">= 0.6 of peak"
why     = "in sgemm the same loop kept it 97% busy; here a tile has 36 steps instead of 256, and fills its ring and stores its sums in the open"
learned = "77% of the peak while a block is there. It cannot be 97 as in sgemm: with one block an SM and 36 steps a tile, the pipe stands still while the ring fills and while 128 KB of sums leave"

[[expect]]
counter = "instructions"
change  = "< 0.5x"
why     = "an instruction of a warpgroup makes as many products as 64 of a warp, and floats are split once instead of in every block that uses them"
learned = "0.41x, the split included; the loop's own fell from 211 to 67 million"

[[expect]]
counter = "dram_bytes"
change  = "> 1.2x"
why     = "67 MB of terms are written, and read again past an L2 of 50 MB; the outputs are 130 MB"
learned = "1.45x: 253 instead of 175 MB, of which the split moves 76"

[[expect]]
counter = "duration"
change  = "< 0.65x"
why     = "three times 37.5 G operations take 260 µs at the 434 TFLOP/s that sgemm's v11 came to; the split moves 100 MB in about 30 µs"
learned = "0.650x under the profiler, and 0.651x outside of it: 334 µs for the products and 28 for the split"
--- */
#include "hopper.cuh"
#include "layer.cuh"

constexpr int STAGE_A = BM * 128;  // bytes of a stage
constexpr int STAGE_B = BN * 128;

// What is left of TF32's eleven bits, rounded.
__device__ __forceinline__ float tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

// The big term of four floats, or the small one.
__device__ __forceinline__ float4 term(float4 v, bool small) {
    const float4 big = make_float4(tf32(v.x), tf32(v.y), tf32(v.z), tf32(v.w));
    return small ? make_float4(tf32(v.x - big.x), tf32(v.y - big.y), tf32(v.z - big.z),
                               tf32(v.w - big.w))
                 : big;
}

// The first blocks split 64 pixels × 32 channels of an image each, which turn in shared memory,
// the others filters, four channels a thread.
extern "C" __global__ void __launch_bounds__(256)
split(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ x_terms,
      float* __restrict__ w_terms, int N, int C, int plane, int K, int taps) {
    __shared__ float tile[32][65];
    const int across = (plane + 63) / 64, deep = (C + 31) / 32, chunks = (C + BK - 1) / BK;
    const int tid = threadIdx.x;
    const int block = blockIdx.x;
    if (block < across * deep * N) {
        const int p = block % across * 64, c = block / across % deep * 32;
        const int n = block / across / deep;
        const float* from = x + ((size_t)n * C + c) * plane + p;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int row = tid / 64 + i * 4, column = tid % 64;
            const bool there = c + row < C && p + column < plane;
            tile[row][column] = there ? from[row * plane + column] : 0;
        }
        __syncthreads();
        // Eight neighbouring threads write a row of 128 bytes: four big terms and four small ones.
#pragma unroll
        for (int i = tid; i < 1024; i += 256) {
            const int piece = i % 8, chunk = i / 8 % 2, column = i / 16;
            if (p + column >= plane || c / BK + chunk >= chunks) continue;
            const float(*four)[65] = &tile[chunk * BK + piece % 4 * 4];
            float* to = x_terms + (((size_t)n * plane + p + column) * chunks + c / BK + chunk) * 32;
            *reinterpret_cast<float4*>(to + piece * 4) = term(
                make_float4(four[0][column], four[1][column], four[2][column], four[3][column]),
                piece >= 4);
        }
        return;
    }
    const int i = (block - across * deep * N) * 256 + tid;
    const int c = i % (chunks * 4) * 4, tap = i / (chunks * 4) % taps, k = i / (chunks * 4) / taps;
    if (k >= K) return;
    const float* from = w + ((size_t)k * C + c) * taps + tap;
    const float4 v = make_float4(c < C ? from[0] : 0, c + 1 < C ? from[taps] : 0,
                                 c + 2 < C ? from[2 * taps] : 0, c + 3 < C ? from[3 * taps] : 0);
    float* to = w_terms + (((size_t)k * taps + tap) * chunks + c / BK) * 32 + c % BK;
    *reinterpret_cast<float4*>(to) = term(v, false);
    *reinterpret_cast<float4*>(to + BK) = term(v, true);
}

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       float* __restrict__ y, Layer layer) {
    const int N = layer.N, C = layer.C, K = layer.K, R = layer.R, S = layer.S, U = layer.U,
              V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH, OW = layer.OW;
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    __shared__ Outputs found[2];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * STAGE_A;
    const int rows = (K + BM - 1) / BM, plane = OH * OW, steps = (C + BK - 1) / BK * R * S;
    const int k = blockIdx.x % rows * BM, first = blockIdx.x / rows * BN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            const int n = first / plane, i = first % plane / OW * U - P, j = first % OW * V - Q;
            int stage = 0, phase = 1;
            for (int c = 0; c < C; c += BK)
                for (int r = 0; r < R; ++r)
                    for (int s = 0; s < S; ++s) {
                        wait(&empty[stage], phase);
                        expect(&full[stage], STAGE_A + STAGE_B);
                        copy_filters(As + stage * STAGE_A, filters, c * 2, r * S + s, k,
                                     &full[stage]);
                        copy_pixels(Bs + stage * STAGE_B, pixels, c * 2, j, i, n, s, r,
                                    &full[stage]);
                        if (++stage == STAGES) stage = 0, phase ^= 1;
                    }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    Outputs& to = found[group - 1];
    find_outputs(to, first, N * plane, plane, K);
    group_barrier(group);
    float sum[2][64] = {}, part[64];
    int stage = 0, phase = 0;
    for (int step = 0; step < steps; ++step) {
        wait(&full[stage], phase);
        const uint64_t A = matrix(As + stage * STAGE_A + (group - 1) * 64 * 128);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint64_t B = matrix(Bs + stage * STAGE_B + half * 128 * 128);
            // The small term lies 64 bytes behind the big one, and eight floats are 32 bytes. The
            // small products first, while the sums are small.
            wgmma_fence();
            wgmma_tf32(part, A + 4, B, false);
            wgmma_tf32(part, A + 6, B + 2, true);
            wgmma_tf32(part, A, B + 4, true);
            wgmma_tf32(part, A + 2, B + 6, true);
            wgmma_tf32(part, A, B, true);
            wgmma_tf32(part, A + 2, B + 2, true);
            wgmma_commit();
            wgmma_wait<0>();
            if (half == 1 && threadIdx.x % 128 == 0) arrive(&empty[stage]);
#pragma unroll
            for (int i = 0; i < 64; ++i) sum[half][i] += part[i];
        }
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
        store_sums(sum[half], y, to, half * 128, k + (group - 1) * 64, K, plane);
}
