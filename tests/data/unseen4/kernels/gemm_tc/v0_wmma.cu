/* ---
title = "wmma, four warps on a tile of 32 x 32, 16 of K at a time through shared memory"
[[launch]]
kernel = "gemm"
grid = ["cdiv(N, 32)", "cdiv(M, 32)"]
block = [128]
args = ["A", "B", "bias", "C", "M", "N", "K"]
--- */
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

const int TILE = 32;
const int STEP = 16;

extern "C" __global__ void gemm(const __nv_bfloat16* A, const __nv_bfloat16* B, const float* bias, __nv_bfloat16* C,
                                int M, int N, int K) {
    __shared__ alignas(32) __nv_bfloat16 a_tile[TILE][STEP];
    __shared__ alignas(32) __nv_bfloat16 b_tile[TILE][STEP];
    __shared__ alignas(32) float c_tile[TILE][TILE];
    int row0 = blockIdx.y * TILE;
    int col0 = blockIdx.x * TILE;
    int warp = threadIdx.x / 32;
    int warp_row = warp / 2 * 16;
    int warp_col = warp % 2 * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;  // rows of B are columns of its transpose
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);

    for (int k0 = 0; k0 < K; k0 += STEP) {
        for (int i = threadIdx.x; i < TILE * STEP; i += blockDim.x) {
            int r = i / STEP;
            int k = k0 + i % STEP;
            __nv_bfloat16 zero = __float2bfloat16(0.0f);
            a_tile[r][i % STEP] = row0 + r < M && k < K ? A[(row0 + r) * K + k] : zero;
            b_tile[r][i % STEP] = col0 + r < N && k < K ? B[(col0 + r) * K + k] : zero;
        }
        __syncthreads();
        wmma::load_matrix_sync(a, &a_tile[warp_row][0], STEP);
        wmma::load_matrix_sync(b, &b_tile[warp_col][0], STEP);
        wmma::mma_sync(c, a, b, c);
        __syncthreads();
    }

    wmma::store_matrix_sync(&c_tile[warp_row][warp_col], c, TILE, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {
        int r = i / TILE;
        int col = col0 + i % TILE;
        if (row0 + r < M && col < N) C[(row0 + r) * N + col] = __float2bfloat16(c_tile[r][i % TILE] + bias[col]);
    }
}
