/* ---
title = "mma.sync and ldmatrix over swizzled tiles that cp.async brings, two stages"
requires = "M % 64 == 0 and N % 64 == 0 and K % 32 == 0"
[[launch]]
kernel = "gemm"
grid   = ["N // 64", "M // 64"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]
--- */
#include <cuda_bf16.h>
#include <stdint.h>

#define CP_ASYNC_CG(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                             \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                 \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" \
                 : "=r"(R0), "=r"(R1) : "r"(addr))
#define BF16_MMA(D, RA, RB0, RB1)                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "      \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                              \
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                              \
                 : "r"(RA[0]), "r"(RA[1]), "r"(RA[2]), "r"(RA[3]), "r"(RB0), "r"(RB1))

// Units of eight values; A's tile has four a row, B's eight.
__device__ __forceinline__ int a_at(int r, int u) { return (r * 4 + (u ^ (r >> 1 & 3))) * 8; }
__device__ __forceinline__ int b_at(int r, int u) { return (r * 8 + (u ^ (r & 7))) * 8; }

extern "C" __global__ void __launch_bounds__(128)
gemm(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, float* __restrict__ C,
     int M, int N, int K) {
    __shared__ __align__(128) __nv_bfloat16 As[2][64 * 32];
    __shared__ __align__(128) __nv_bfloat16 Bs[2][32 * 64];
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int bm = blockIdx.y * 64, bn = blockIdx.x * 64;
    const int wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
    float acc[2][4][4] = {};

    auto load = [&](int stage, int k0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int c = tid + i * 128;
            uint32_t to = (uint32_t)__cvta_generic_to_shared(&As[stage][a_at(c >> 2, c & 3)]);
            CP_ASYNC_CG(to, &A[(bm + (c >> 2)) * K + k0 + (c & 3) * 8], 16);
            to = (uint32_t)__cvta_generic_to_shared(&Bs[stage][b_at(c >> 3, c & 7)]);
            CP_ASYNC_CG(to, &B[(k0 + (c >> 3)) * N + bn + (c & 7) * 8], 16);
        }
        CP_ASYNC_COMMIT_GROUP();
    };

    load(0, 0);
    const int tiles = K / 32;
    for (int t = 0; t < tiles; ++t) {
        const int s = t & 1;
        if (t + 1 < tiles) {
            load(s ^ 1, (t + 1) * 32);
            CP_ASYNC_WAIT_GROUP(1);
        } else {
            CP_ASYNC_WAIT_GROUP(0);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            uint32_t a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int r = wm + i * 16 + (lane & 15), u = kk * 2 + (lane >> 4);
                LDMATRIX_X4(a[i][0], a[i][1], a[i][2], a[i][3],
                            (uint32_t)__cvta_generic_to_shared(&As[s][a_at(r, u)]));
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int r = kk * 16 + (lane & 15), u = (wn >> 3) + j;
                LDMATRIX_X2_T(b[j][0], b[j][1], (uint32_t)__cvta_generic_to_shared(&Bs[s][b_at(r, u)]));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) BF16_MMA(acc[i][j], a[i], b[j][0], b[j][1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int r = bm + wm + i * 16 + (lane >> 2), c = bn + wn + j * 8 + (lane & 3) * 2;
            *(float2*)&C[r * N + c] = make_float2(acc[i][j][0], acc[i][j][1]);
            *(float2*)&C[(r + 8) * N + c] = make_float2(acc[i][j][2], acc[i][j][3]);
        }
}
