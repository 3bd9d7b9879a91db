/* ---
title  = "WMMA: a 16×16 tile per warp, gathered element by element"
parent = "v0"
change = "Each warp multiplies 16×16 tiles on the tensor cores (WMMA). It unrolls its patches of the input (im2col) in shared memory first, one element after the other."
requires     = "max(N*H*W*max(C, K), 9*K*C, N*H*W*K + 8*N*H*W) < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 16)", "cdiv(K, 16)"]
block  = [32]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "an element that is fetched serves 16 products instead of one"
learned = "0.08x, and still a hundred times cuDNN's time"

[[expect]]
counter = "tensor_utilization"
change  = "<= 10"
why     = "8 elements of each operand are found, loaded and stored by every lane for one product of 16×16×16, which the tensor cores do in a few cycles: they wait for the gathering"
learned = "1.0%, with issue slots 77% busy: 915 instructions per product"

[[expect]]
counter = "theoretical_occupancy"
change  = "<= 50"
why     = "a block of one warp: the SM takes 32 blocks, so 32 of 64 warps"

[[expect]]
counter = "global_load_bytes_per_sector"
change  = ">= 30"
why     = "16 neighbouring channels of a pixel are one sector, used whole: not wasted sectors make this version slow, but two of them a request where sixteen would fit"
--- */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int T = 16;

extern "C" __global__ void conv2d(const __half* __restrict__ input,
                                  const __half* __restrict__ weight, __half* __restrict__ output,
                                  int N, int H, int W, int C, int K) {
    __shared__ __align__(32) __half As[T][T];  // As[pixel][product]
    __shared__ __align__(32) __half Bs[T][T];  // Bs[filter][product]
    __shared__ __align__(32) float Cs[T][T];
    const int lane = threadIdx.x;
    const int first_pixel = blockIdx.x * T, first_k = blockIdx.y * T;

    wmma::fragment<wmma::accumulator, T, T, T, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int t = 0; t < 9 * C; t += T) {
        for (int e = lane; e < T * T; e += 32) {
            const int i = e / T, product = t + e % T;
            // The product-th element of a patch is channel c of the pixel under tap (r, s).
            const int c = product % C, r = product / C / 3, s = product / C % 3;
            const int pixel = first_pixel + i, w = pixel % W, h = pixel / W % H;
            const bool inside = pixel < N * H * W && product < 9 * C && h + r >= 1 &&
                                h + r <= H && w + s >= 1 && w + s <= W;
            As[i][e % T] =
                inside ? input[(pixel + (r - 1) * W + s - 1) * C + c] : __float2half(0.0f);
            Bs[i][e % T] = first_k + i < K && product < 9 * C
                               ? weight[(first_k + i) * 9 * C + product]
                               : __float2half(0.0f);
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, T, T, T, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, T, T, T, __half, wmma::col_major> b;
        wmma::load_matrix_sync(a, &As[0][0], T);
        wmma::load_matrix_sync(b, &Bs[0][0], T);
        wmma::mma_sync(sum, a, b, sum);
        __syncwarp();  // nobody may overwrite a tile that another lane still reads
    }

    // Which lane holds which sum is WMMA's secret, so they go to their places through a tile.
    wmma::store_matrix_sync(&Cs[0][0], sum, T, wmma::mem_row_major);
    __syncwarp();
    for (int e = lane; e < T * T; e += 32) {
        const int pixel = first_pixel + e / T, k = first_k + e % T;
        if (pixel < N * H * W && k < K) output[pixel * K + k] = __float2half(Cs[e / T][e % T]);
    }
}
