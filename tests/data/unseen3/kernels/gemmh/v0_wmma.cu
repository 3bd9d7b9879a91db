/* ---
title = "WMMA from padded shared memory, 64×64 tiles, four warps"
requires = "M % 64 == 0 and N % 64 == 0 and K % 32 == 0"
requires_why = "whole tiles"
[[launch]]
kernel = "linear"
grid = ["N // 64", "M // 64"]
block = [128]
args = ["a", "b", "c", "N", "K"]
--- */
#include <mma.h>
using namespace nvcuda;
constexpr int BK = 32, LD = BK + 8;

extern "C" __global__ void __launch_bounds__(128) linear(const half* __restrict__ a, const half* __restrict__ b,
                                                         float* __restrict__ c, int n, int k) {
    __shared__ __align__(16) half as[64 * LD], bs[64 * LD];
    const int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
    a += blockIdx.y * 64 * k;
    b += blockIdx.x * 64 * k;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        for (int i = threadIdx.x; i < 64 * BK / 8; i += 128) {
            int r = i / 4, q = i % 4 * 8;
            *(int4*)(as + r * LD + q) = *(const int4*)(a + r * k + k0 + q);
            *(int4*)(bs + r * LD + q) = *(const int4*)(b + r * k + k0 + q);
        }
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(fa[i], as + (wm + 16 * i) * LD + kk, LD);
                wmma::load_matrix_sync(fb[i], bs + (wn + 16 * i) * LD + kk, LD);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(c + (blockIdx.y * 64 + wm + 16 * i) * n + blockIdx.x * 64 + wn + 16 * j, acc[i][j], n,
                                    wmma::mem_row_major);
}
