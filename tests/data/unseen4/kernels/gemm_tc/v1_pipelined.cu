/* ---
title = "mma.sync and ldmatrix, tiles of 64 x 64 x 32, three stages of cp.async"
change = "Copies of 16 bytes go straight to shared memory two steps ahead; a warp has 32 x 32 of C in registers and writes it from there."
requires = "K % 8 == 0"
requires_why = "rows are copied 16 bytes at a time"
[defines]
BM = 64
BN = 64
BK = 32
STAGES = 3
PITCH = 40
[[launch]]
kernel = "gemm"
grid = ["cdiv(N, BN)", "cdiv(M, BM)"]
block = [128]
args = ["A", "B", "bias", "C", "M", "N", "K"]
dynamic_shared = "2 * STAGES * (BM + BN) * PITCH"
--- */
#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const bf16* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ROWS x BK of a matrix with K columns; zeros for what lies outside of it.
template <int ROWS>
__device__ __forceinline__ void fetch(bf16* tile, const bf16* matrix, int row0, int k0, int rows, int K) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * BK / 8; i += 128) {
        const int r = i / (BK / 8), c = i % (BK / 8) * 8;
        const bool inside = row0 + r < rows && k0 + c < K;
        copy16(tile + r * PITCH + c, inside ? matrix + (size_t)(row0 + r) * K + k0 + c : matrix, inside);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    gemm(const bf16* __restrict__ A, const bf16* __restrict__ B, const float* __restrict__ bias,
         bf16* __restrict__ C, int M, int N, int K) {
    extern __shared__ __align__(128) unsigned char memory[];
    bf16* a_tiles = reinterpret_cast<bf16*>(memory);
    bf16* b_tiles = a_tiles + STAGES * BM * PITCH;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int warp_row = (warp >> 1) * 32, warp_col = (warp & 1) * 32;
    const int steps = (K + BK - 1) / BK;

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < steps) {
            fetch<BM>(a_tiles + s * BM * PITCH, A, row0, s * BK, M, K);
            fetch<BN>(b_tiles + s * BN * PITCH, B, col0, s * BK, N, K);
        }
        commit();
    }

    float c[2][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        wait<STAGES - 2>();
        __syncthreads();  // the stage has arrived for all, and nobody reads the oldest one any more
        const int ahead = step + STAGES - 1;
        if (ahead < steps) {
            fetch<BM>(a_tiles + ahead % STAGES * BM * PITCH, A, row0, ahead * BK, M, K);
            fetch<BN>(b_tiles + ahead % STAGES * BN * PITCH, B, col0, ahead * BK, N, K);
        }
        commit();

        const bf16* a_tile = a_tiles + (step % STAGES * BM + warp_row) * PITCH;
        const bf16* b_tile = b_tiles + (step % STAGES * BN + warp_col) * PITCH;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            uint32_t a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldmatrix(a[i], a_tile + (i * 16 + (lane & 15)) * PITCH + k + (lane >> 4) * 8);
                ldmatrix(b[i], b_tile + (i * 16 + (lane & 7) + (lane >> 4) * 8) * PITCH + k + ((lane >> 3) & 1) * 8);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) mma(c[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
            }
        }
    }

    // A lane has two neighbours of a row in each fragment: one store if rows start at even places.
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int col = col0 + warp_col + j * 8 + (lane & 3) * 2;
        if (col >= N) continue;
        const bool pair = col + 1 < N;
        const float bias0 = __ldg(&bias[col]), bias1 = pair ? __ldg(&bias[col + 1]) : 0.f;
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const int row = row0 + warp_row + h * 8 + (lane >> 2);
            if (row >= M) continue;
            const float x = c[h >> 1][j][(h & 1) * 2] + bias0, y = c[h >> 1][j][(h & 1) * 2 + 1] + bias1;
            bf16* to = C + (size_t)row * N + col;
            if (N % 2 == 0) {
                *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
            } else {
                to[0] = __float2bfloat16(x);
                if (pair) to[1] = __float2bfloat16(y);
            }
        }
    }
}
