/* ---
title  = "Blocks that stay"
parent = "v14"
change = "A block for every multiprocessor goes from tile to tile, filters first, so that blocks that run together read the same pixels. The copies for the next tile come while the sums of this one are stored, and the two groups may be four stages apart, so that one multiplies while the other stores."
arch_specific = true
requires     = "max(N*C*H*W, N*K*OH*OW) < 2**31 and N*OH*OW < 2**31 - 256 and max(U, V) <= 8 and max(R, S) <= 120 and max(P, Q) <= 120 and N*H*W*cdiv(C, 32) < 2**31 - 2**20 and K + PARTS*N < 2**31 and N < 65536"
requires_why = "its indices are 32-bit integers, and the copy engine's windows have corners within 128 pixels, steps of at most eight, and a grid has 65,535 layers of blocks"

[defines]
BM = 128     # filters a block
BN = 256     # outputs a block
BK = 32      # channels of a stage: two terms of 32 halves are a row of 128 bytes
SMS = 132    # blocks: one for each SM of an H200
PARTS = 64   # blocks that look for the largest element of an image
STAGES = 4

[[scratch]]
name  = "x_terms"
dtype = "float16"
shape = ["N", "H", "W", "2 * BK * cdiv(C, BK)"]

[[scratch]]
name  = "w_terms"
dtype = "float16"
shape = ["K", "R * S", "2 * BK * cdiv(C, BK)"]

[[scratch]]
name  = "largest"
dtype = "float32"
shape = ["N", "PARTS"]

[[scratch]]
name  = "x_power"
dtype = "int32"
shape = ["N"]

[[scratch]]
name  = "w_power"
dtype = "int32"
shape = ["K"]

[[tensor_map]]
name     = "pixels"
buffer   = "x_terms"
dtype    = "float16"
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
dtype   = "float16"
dims    = ["2 * BK * cdiv(C, BK)", "R * S", "K"]
box     = ["2 * BK", 1, "BM"]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "split_filters"
grid   = ["K + N * PARTS"]
block  = [256]
args   = ["x", "w", "w_terms", "w_power", "largest", "C", "H*W", "K", "R*S"]

[[launch]]
kernel = "split_pixels"
grid   = ["cdiv(H*W, 64)", "cdiv(C, BK)", "N"]
block  = [256]
args   = ["x", "largest", "x_terms", "x_power", "C", "H*W"]

[[launch]]
kernel = "conv2d"
grid   = ["min(SMS, cdiv(K, BM) * cdiv(N*OH*OW, BN))"]
block  = [384]
args   = ["pixels", "filters", "x_power", "w_power", "y", ["N", "C", "H", "W", "K", "R", "S", "U", "V", "P", "Q", "OH", "OW"]]
dynamic_shared = "1024 + STAGES * 128 * (BM + BN)"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "nobody waits for the first copies of a tile, nor for a block to start, and a group that stores leaves the pipe to the other one"
learned = "62 to 66%"

[[expect]]
counter = "duration"
change  = "< 0.92x"
why     = "of a tile's 18 steps of about 1 µs one or two fill the ring, and its 128 KB of sums take as long"
learned = "0.972x. The groups are four stages apart at most, 6,000 cycles, and a tile's sums take 13,000 to leave: both store at nearly the same time, and the pipe stands still. And 994 tiles are 7 for some blocks and 8 for others, as before"
--- */
#include "hopper.cuh"
#include "layer.cuh"

constexpr int STAGE_A = BM * 128;  // bytes of a stage
constexpr int STAGE_B = BN * 128;

// The power of two that brings it to 2^14, as an exponent; no power is beyond float32's own.
__device__ __forceinline__ int power_for(float largest) {
    const int exponent = (__float_as_int(largest) >> 23) - 127;
    return largest == 0 ? 0 : min(14 - exponent, 126);
}

// The big term of a scaled float, or the small one.
__device__ __forceinline__ float term(float v, bool small) {
    return small ? v - __half2float(__float2half_rn(v)) : v;
}

// The largest of what 256 threads found, told to all.
__device__ __forceinline__ float largest_of_all(float mine) {
    __shared__ float found[8];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) mine = fmaxf(mine, __shfl_xor_sync(~0u, mine, i));
    if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = mine;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) mine = fmaxf(mine, found[i]);
    return mine;
}

// The first K blocks split a filter each, the others find the largest of a part of an image.
extern "C" __global__ void __launch_bounds__(256)
split_filters(const float* __restrict__ x, const float* __restrict__ w,
              __half* __restrict__ w_terms, int* __restrict__ w_power,
              float* __restrict__ largest, int C, int plane, int K, int taps) {
    const int tid = threadIdx.x, chunks = (C + BK - 1) / BK;
    float mine = 0;
    if (blockIdx.x >= K) {
        const int part = (blockIdx.x - K) % PARTS, n = (blockIdx.x - K) / PARTS, all = C * plane;
        const float* from = x + (size_t)n * all;
        if (all % 4 == 0) {
#pragma unroll 4
            for (int i = (part * 256 + tid) * 4; i < all; i += PARTS * 1024) {
                const float4 v = *reinterpret_cast<const float4*>(from + i);
                mine = fmaxf(fmaxf(fmaxf(mine, fabsf(v.x)), fmaxf(fabsf(v.y), fabsf(v.z))),
                             fabsf(v.w));
            }
        } else {
            for (int i = part * 256 + tid; i < all; i += PARTS * 256)
                mine = fmaxf(mine, fabsf(from[i]));
        }
        mine = largest_of_all(mine);
        if (tid == 0) largest[n * PARTS + part] = mine;
        return;
    }
    const int k = blockIdx.x;
    const float* from = w + (size_t)k * C * taps;
    for (int i = tid; i < C * taps; i += 256) mine = fmaxf(mine, fabsf(from[i]));
    const int exponent = power_for(largest_of_all(mine));
    if (tid == 0) w_power[k] = exponent;
    __half* const to = w_terms + (size_t)k * taps * chunks * 2 * BK;
    for (int i = tid; i < taps * chunks * 2 * BK; i += 256) {
        const int row = i / (2 * BK), c = row % chunks * BK + i % BK;
        const float v = c < C ? from[c * taps + row / chunks] * power(exponent) : 0;
        to[i] = __float2half_rn(term(v, i % (2 * BK) >= BK));
    }
}

// A block splits 64 pixels × 32 channels of an image, which turn in shared memory.
extern "C" __global__ void __launch_bounds__(256)
split_pixels(const float* __restrict__ x, const float* __restrict__ largest,
             __half* __restrict__ x_terms, int* __restrict__ x_power, int C, int plane) {
    __shared__ float tile[BK][65];
    const int tid = threadIdx.x, chunks = gridDim.y;
    const int p = blockIdx.x * 64, c = blockIdx.y * BK, n = blockIdx.z;
    const float* from = x + ((size_t)n * C + c) * plane + p;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = tid / 64 + i * 4, column = tid % 64;
        const bool there = c + row < C && p + column < plane;
        tile[row][column] = there ? from[row * plane + column] : 0;
    }
    // Its barrier stands between those writing the tile and those reading it as well.
    const int exponent =
        power_for(largest_of_all(tid < PARTS ? largest[n * PARTS + tid] : 0));
    if (blockIdx.x == 0 && blockIdx.y == 0 && tid == 0) x_power[n] = exponent;
    const float scale = power(exponent);
    // Eight neighbouring threads write a row of 128 bytes: four times eight big terms, and small.
#pragma unroll
    for (int i = tid; i < 512; i += 256) {
        const int piece = i % 8, column = i / 8;
        if (p + column >= plane) break;
        uint32_t eight[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float(*two)[65] = &tile[piece % 4 * 8 + 2 * e];
            const __half2 halves = __floats2half2_rn(term(two[0][column] * scale, piece >= 4),
                                                     term(two[1][column] * scale, piece >= 4));
            eight[e] = *reinterpret_cast<const uint32_t*>(&halves);
        }
        __half* to = x_terms + (((size_t)n * plane + p + column) * chunks + blockIdx.y) * 2 * BK;
        *reinterpret_cast<uint4*>(to + piece * 8) =
            make_uint4(eight[0], eight[1], eight[2], eight[3]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
conv2d(const __grid_constant__ CUtensorMap pixels, const __grid_constant__ CUtensorMap filters,
       const int* __restrict__ x_power, const int* __restrict__ w_power, float* __restrict__ y,
       Layer layer) {
    const int N = layer.N, C = layer.C, K = layer.K, R = layer.R, S = layer.S, U = layer.U,
              V = layer.V, P = layer.P, Q = layer.Q, OH = layer.OH, OW = layer.OW;
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    __shared__ Outputs found[2];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * STAGE_A;
    const int rows = (K + BM - 1) / BM, plane = OH * OW, steps = (C + BK - 1) / BK * R * S;
    const int tiles = rows * ((N * plane + BN - 1) / BN);
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
            int stage = 0, phase = 1;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int k = tile % rows * BM, first = tile / rows * BN, n = first / plane;
                const int i = first % plane / OW * U - P, j = first % OW * V - Q;
                for (int step = 0; step < steps; ++step) {
                    const int tap = step % (R * S), c = step / (R * S) * 2 * BK;
                    wait(&empty[stage], phase);
                    expect(&full[stage], STAGE_A + STAGE_B);
                    copy_filters(As + stage * STAGE_A, filters, c, tap, k, &full[stage]);
                    copy_pixels(Bs + stage * STAGE_B, pixels, c, j, i, n, tap % S, tap / S,
                                &full[stage]);
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    Outputs& to = found[group - 1];
    float sum[2][64], part[64];
    int stage = 0, phase = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        group_barrier(group);  // all have read where the outputs of the tile before go
        find_outputs(to, tile / rows * BN, N * plane, plane, K, x_power);
        group_barrier(group);
#pragma unroll
        for (int i = 0; i < 64; ++i) sum[0][i] = sum[1][i] = 0;
        for (int step = 0; step < steps; ++step) {
            wait(&full[stage], phase);
            const uint64_t A = matrix(As + stage * STAGE_A + (group - 1) * 64 * 128);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint64_t B = matrix(Bs + stage * STAGE_B + half * 128 * 128);
                // The small term lies 64 bytes behind the big one, and 16 halves are 32 bytes. The
                // small products first, while the sums are small.
                wgmma_fence();
                wgmma_half(part, A + 4, B, false);
                wgmma_half(part, A + 6, B + 2, true);
                wgmma_half(part, A, B + 4, true);
                wgmma_half(part, A + 2, B + 6, true);
                wgmma_half(part, A, B, true);
                wgmma_half(part, A + 2, B + 2, true);
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
            store_sums(sum[half], y, to, half * 128, tile % rows * BM + (group - 1) * 64, K,
                       plane, w_power);
    }
}
