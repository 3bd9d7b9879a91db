/* ---
title  = "Tiles of 32×32, whose depth a cluster shares (split-K)"
parent = "v9"
change = "For matrices that have fewer tiles than the chip has SMs: tiles of 32×32, and two or four blocks for each where they are still too few, which take a part of the depth each. Inside of a block four groups of two warps share the depth once more. The blocks of a tile are a cluster: they read each other's sums from shared memory, so that no second launch has to add them up."
requires     = "max((M + 31) * (K + 63), (K + 63) * (N + 31), (M + 31) * (N + 31)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[defines]
TILE = 32      # rows and columns of C a cluster
DEPTH = 64     # depth of a stage
RING = 4       # stages in shared memory
PARTS = 4      # groups of 64 threads that share the depth of a stage

[[launch]]
kernel  = "split_k"
grid    = ["cdiv(N, 32)", "cdiv(M, 32)", "1 + (cdiv(M, 32) * cdiv(N, 32) <= 66) + 2 * (cdiv(M, 32) * cdiv(N, 32) <= 33)"]
cluster = [1, 1, "1 + (cdiv(M, 32) * cdiv(N, 32) <= 66) + 2 * (cdiv(M, 32) * cdiv(N, 32) <= 33)"]
block   = ["PARTS * 64"]
args    = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * TILE * (2 * DEPTH + 4)"

[[expect]]
counter = "duration"
change  = "< 0.7x"
why     = "at n = 1024 there are 1,024 tiles and nothing to share, but v9 has 32 blocks on 132 SMs. At n = 4096 it must be slower. It is for n = 128 and 256, of which there are no profiles, where it should be three times as fast as v9 at least"
learned = "0.49x at n = 1024, 1.8x at 4096. At n = 128 it is 5.7 and at 256 10 times as fast as v9; eight blocks for a tile, or four at 256, are slower than half as many"

[[expect]]
counter = "l2_read_sectors"
change  = "> 3x"
why     = "a tile of 32×32 reads 64 floats for 1,024 products; one of 128×256 reads 384 for 32,768"
--- */
#include "hopper.cuh"

constexpr int THREADS = PARTS * 64;
constexpr int A_PITCH = DEPTH + 4;  // eight rows of four floats meet 32 banks
constexpr int STAGE = TILE * (A_PITCH + DEPTH);

// Copies WIDTH neighbouring floats, one or four, from global to shared memory, or writes
// zeros where they lie outside. Four must be aligned to 16 bytes on both sides.
template <int WIDTH>
__device__ __forceinline__ void copy(uint32_t to, const float* from, bool inside) {
    if (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 4 : 0));
}

// A float of the same place in another block of the cluster.
__device__ __forceinline__ float at_block(const float* mine, int block) {
    float value;
    asm volatile("{.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there];}"
                 : "=f"(value)
                 : "r"(shared(mine)), "r"(block)
                 : "memory");
    return value;
}

template <int WIDTH>
__device__ __forceinline__ void share_depth(const float* __restrict__ A,
                                            const float* __restrict__ B, float* __restrict__ C,
                                            int M, int N, int K) {
    extern __shared__ __align__(16) float ring[];
    const int tid = threadIdx.x, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    // This block's part of the depth, in whole fours.
    const int share = (K + 4 * gridDim.z - 1) / (4 * gridDim.z) * 4;
    const int first = blockIdx.z * share, last = min(K, first + share);

    // Loading, as in v9: what is beyond the last row or column may be anything.
    constexpr int A_LANES = DEPTH / WIDTH, B_LANES = TILE / WIDTH;
    const uint32_t base = shared(ring);
    auto fetch = [&](int stage, int t) {
        if (t < last) {
            const uint32_t to = base + 4 * stage * STAGE;
#pragma unroll
            for (int i = tid; i < TILE * A_LANES; i += THREADS) {
                const int r = i / A_LANES, k = i % A_LANES * WIDTH;
                copy<WIDTH>(to + 4 * (r * A_PITCH + k),
                            A + min(row + r, M - 1) * K + min(t + k, K - WIDTH), t + k < last);
            }
#pragma unroll
            for (int i = tid; i < DEPTH * B_LANES; i += THREADS) {
                const int k = i / B_LANES, c = i % B_LANES * WIDTH;
                copy<WIDTH>(to + 4 * (TILE * A_PITCH + k * TILE + c),
                            B + min(t + k, K - 1) * N + min(column + c, N - WIDTH), t + k < last);
            }
        }
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing: 64 threads have a tile together, 4×4 sums each, rows eight apart, over a quarter
    // of a stage's depth.
    const int part = tid / 64, ty = tid % 8, tx = tid % 64 / 8;
    float sum[4][4] = {};
#pragma unroll 1
    for (int s = 0; s < RING - 1; ++s) fetch(s, first + s * DEPTH);
#pragma unroll 1
    for (int t = first, stage = 0; t < last; t += DEPTH) {
        asm volatile("cp.async.wait_group %0;\n" ::"n"(RING - 2) : "memory");
        // Everybody's copies of this stage have arrived, and the one before it is read.
        __syncthreads();
        fetch(stage == 0 ? RING - 1 : stage - 1, t + (RING - 1) * DEPTH);
        const float* As = ring + stage * STAGE + ty * A_PITCH + part * (DEPTH / PARTS);
        const float* Bs =
            ring + stage * STAGE + TILE * A_PITCH + part * (DEPTH / PARTS) * TILE + tx * 4;
#pragma unroll 2
        for (int k = 0; k < DEPTH / PARTS; k += 4) {
            float4 b[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                b[e] = *reinterpret_cast<const float4*>(Bs + (k + e) * TILE);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 a = *reinterpret_cast<const float4*>(As + i * 8 * A_PITCH + k);
                const float four[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    sum[i][0] += four[e] * b[e].x, sum[i][1] += four[e] * b[e].y;
                    sum[i][2] += four[e] * b[e].z, sum[i][3] += four[e] * b[e].w;
                }
            }
        }
        stage = stage == RING - 1 ? 0 : stage + 1;
    }

    // The sums of the parts lie one behind the other, and the first of them becomes the block's.
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i)
        *reinterpret_cast<float4*>(&ring[(part * TILE + ty + i * 8) * TILE + tx * 4]) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
    __syncthreads();
#pragma unroll
    for (int i = tid; i < TILE * TILE; i += THREADS) {
        float whole = ring[i];
#pragma unroll
        for (int p = 1; p < PARTS; ++p) whole += ring[p * TILE * TILE + i];
        ring[i] = whole;
    }
    cluster_barrier();
    // Each block adds up, and stores, its share of the tile.
    const int blocks = gridDim.z, some = TILE * TILE / blocks;
    for (int i = blockIdx.z * some + tid; i < (blockIdx.z + 1) * some; i += THREADS) {
        float whole = 0;
        for (int block = 0; block < blocks; ++block) whole += at_block(&ring[i], block);
        const int r = row + i / TILE, c = column + i % TILE;
        if (r < M && c < N) C[r * N + c] = whole;
    }
    cluster_barrier();  // nobody leaves while its sums are read
}

extern "C" __global__ void __launch_bounds__(THREADS)
split_k(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M,
        int N, int K) {
    if (K % 4 == 0 && N % 4 == 0)
        share_depth<4>(A, B, C, M, N, K);
    else
        share_depth<1>(A, B, C, M, N, K);
}
