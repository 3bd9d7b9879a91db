/* ---
title = "mma.sync with ldmatrix, XOR swizzle, cp.async double buffering"
change = "Rows of 64 bytes, their 16-byte chunks swizzled by the row's pair; the next tile is under way while this one is multiplied."
requires = "M % 64 == 0 and N % 128 == 0 and K % 32 == 0"
requires_why = "whole tiles"
[[launch]]
kernel = "linear"
grid = ["N // 128", "M // 64"]
block = [256]
args = ["a", "b", "c", "N", "K"]
--- */
#include <cuda_fp16.h>
#include <cstdint>
constexpr int BM = 64, BN = 128, BK = 32;

// Chunk `q` (of 8 halves) of row `r` in a tile of 64-byte rows.
__device__ __forceinline__ int place(int r, int q) { return r * BK + ((q ^ (r >> 1 & 3)) * 8); }

__device__ __forceinline__ void copy16(half* to, const half* from) {
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const half* p) {
    unsigned s = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s) : "memory");
}

extern "C" __global__ void __launch_bounds__(256) linear(const half* __restrict__ a, const half* __restrict__ b,
                                                         float* __restrict__ c, int n, int k) {
    __shared__ __align__(128) half as[2][BM * BK], bs[2][BN * BK];
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = (warp & 1) * 32, wn = (warp >> 1) * 32;
    a += (size_t)blockIdx.y * BM * k;
    b += (size_t)blockIdx.x * BN * k;
    auto stage = [&](int s, int k0) {
        const int r = tid >> 2, q = tid & 3;
        copy16(&as[s][place(r, q)], a + r * k + k0 + q * 8);
        copy16(&bs[s][place(r, q)], b + r * k + k0 + q * 8);
        copy16(&bs[s][place(r + 64, q)], b + (r + 64) * k + k0 + q * 8);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float acc[2][4][4] = {};
    stage(0, 0);
    int s = 0;
    for (int k0 = 0; k0 < k; k0 += BK, s ^= 1) {
        if (k0 + BK < k) {
            stage(s ^ 1, k0 + BK);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            unsigned fa[2][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                ldmatrix4(fa[i], &as[s][place(wm + i * 16 + (lane & 15), kk * 2 + (lane >> 4))]);
                ldmatrix4(fb[i], &bs[s][place(wn + i * 16 + (lane & 7) + (lane >> 4) * 8, kk * 2 + (lane >> 3 & 1))]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float(&d)[4] = acc[i][j];
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                        "{%0,%1,%2,%3};"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j >> 1][(j & 1) * 2]),
                          "r"(fb[j >> 1][(j & 1) * 2 + 1]));
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float* out = c + (size_t)(blockIdx.y * BM + wm + i * 16 + lane / 4) * n + blockIdx.x * BN + wn + j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2*>(out) = make_float2(acc[i][j][0], acc[i][j][1]);
            *reinterpret_cast<float2*>(out + 8 * n) = make_float2(acc[i][j][2], acc[i][j][3]);
        }
}
