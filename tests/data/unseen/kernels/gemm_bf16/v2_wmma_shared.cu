/* ---
title = "WMMA from padded tiles in shared memory"
requires = "M % 64 == 0 and N % 64 == 0 and K % 32 == 0"
[[launch]]
kernel = "gemm"
grid   = ["N // 64", "M // 64"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]
--- */
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

#define BM 64
#define BN 64
#define BK 32
#define PAD 8

extern "C" __global__ void gemm(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                                float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(32) __nv_bfloat16 As[BM][BK + PAD];
    __shared__ __align__(32) __nv_bfloat16 Bs[BK][BN + PAD];
    int tid = threadIdx.x, warp = tid / 32, wr = warp / 2 * 32, wc = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(c[i][j], 0.f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK / 8; i += 128) {
            int r = i / (BK / 8), cc = i % (BK / 8) * 8;
            *(uint4*)&As[r][cc] = *(const uint4*)&A[(blockIdx.y * BM + r) * K + k0 + cc];
        }
        for (int i = tid; i < BK * BN / 8; i += 128) {
            int r = i / (BN / 8), cc = i % (BN / 8) * 8;
            *(uint4*)&Bs[r][cc] = *(const uint4*)&B[(k0 + r) * N + blockIdx.x * BN + cc];
        }
        __syncthreads();
        for (int k = 0; k < BK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(a[i], &As[wr + 16 * i][k], BK + PAD);
            for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b[j], &Bs[k][wc + 16 * j], BN + PAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(C + (blockIdx.y * BM + wr + 16 * i) * N + blockIdx.x * BN + wc + 16 * j,
                                    c[i][j], N, wmma::mem_row_major);
}
