// Kernels on matrix units whose machine code was counted; tests/emulator/test_ptxas.py.
#include <cuda_fp16.h>
#include <mma.h>

#define KERNEL(name)                                                             \
    extern "C" __global__ void name(const float* __restrict__ a,                 \
                                    const float* __restrict__ b,                 \
                                    float* __restrict__ c, int n, int m, int k)

using namespace nvcuda::wmma;
template <typename Layout> using A = fragment<matrix_a, 16, 16, 16, __half, Layout>;
template <typename Layout> using B = fragment<matrix_b, 16, 16, 16, __half, Layout>;
template <typename T> using Sum = fragment<accumulator, 16, 16, 16, T>;

__device__ __forceinline__ const __half* halves(const float* from) {
    return reinterpret_cast<const __half*>(from);
}

KERNEL(wmma_rows) {  // from global memory, B against its fragment
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16, j = blockIdx.y * 16;
    A<row_major> left;
    B<row_major> right;
    Sum<float> sum;
    fill_fragment(sum, 0.0f);
    for (int t = 0; t < n; t += 16) {
        load_matrix_sync(left, halves(a) + i * n + t, n);
        load_matrix_sync(right, halves(b) + t * n + j, n);
        mma_sync(sum, left, right, sum);
    }
    store_matrix_sync(c + i * n + j, sum, n, mem_row_major);
}

KERNEL(wmma_columns) {  // every load behind a condition; sums by columns
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16, j = blockIdx.y * 16;
    A<col_major> left;
    B<col_major> right;
    Sum<float> sum, old;
    fill_fragment(sum, 0.0f);
    for (int t = 0; t < n; t += 16) {
        if (i < n && t < n && j < n) {
            load_matrix_sync(left, halves(a) + i + t * n, n);
            load_matrix_sync(right, halves(b) + t + j * n, n);
            mma_sync(sum, left, right, sum);
        }
    }
    if (i < n && j < n) {
        load_matrix_sync(old, c + i + j * n, n, mem_col_major);
        for (int e = 0; e < old.num_elements; e++) old.x[e] = 2.f * sum.x[e] + 3.f * old.x[e];
        store_matrix_sync(c + i + j * n, old, n, mem_col_major);
    }
}

KERNEL(wmma_shared) {  // through shared memory, sums in half precision
    __shared__ __half as[64][24], bs[16][72];
    const int warp = threadIdx.x / 32;
    A<row_major> left;
    B<row_major> right[4];
    Sum<__half> sum[4];
    for (int j = 0; j < 4; ++j) fill_fragment(sum[j], __float2half(0.f));
    for (int t = 0; t < n; t += 16) {
        for (int i = threadIdx.x; i < 64 * 16; i += 128)
            as[i / 16][i % 16] = halves(a)[(blockIdx.x * 64 + i / 16) * n + t + i % 16];
        for (int i = threadIdx.x; i < 64 * 16; i += 128)
            bs[i / 64][i % 64] = halves(b)[(t + i / 64) * n + blockIdx.y * 64 + i % 64];
        __syncthreads();
        load_matrix_sync(left, &as[warp * 16][0], 24);
        for (int j = 0; j < 4; ++j) {
            load_matrix_sync(right[j], &bs[0][j * 16], 72);
            mma_sync(sum[j], left, right[j], sum[j]);
        }
        __syncthreads();
    }
    __half* out = reinterpret_cast<__half*>(c) + (blockIdx.x * 64 + warp * 16) * n;
    for (int j = 0; j < 4; ++j)
        store_matrix_sync(out + blockIdx.y * 64 + j * 16, sum[j], n, mem_row_major);
}

KERNEL(ldmatrix_tile) {  // 128 by 128, eight warps, four by four products each
    __shared__ __half as[128][24], bs[16][136];
    const int lane = threadIdx.x % 32, wi = threadIdx.x / 32 % 2 * 64, wj = threadIdx.x / 64 * 32;
    const int ai = threadIdx.x / 2, at = threadIdx.x % 2 * 8;
    const int bt = threadIdx.x / 16, bj = threadIdx.x % 16 * 8;
    float sum[4][4][4] = {};
    for (int t = 0; t < k; t += 16) {
        *(float4*)&as[ai][at] = *(const float4*)&halves(a)[(blockIdx.y * 128 + ai) * k + t + at];
        *(float4*)&bs[bt][bj] = *(const float4*)&halves(b)[(t + bt) * n + blockIdx.x * 128 + bj];
        __syncthreads();
        unsigned x[4][4], y[4][2];
        for (int i = 0; i < 4; ++i)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                         : "r"((unsigned)__cvta_generic_to_shared(
                             &as[wi + i * 16 + lane % 16][lane / 16 * 8])));
        for (int j = 0; j < 4; ++j)
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                         : "=r"(y[j][0]), "=r"(y[j][1])
                         : "r"((unsigned)__cvta_generic_to_shared(&bs[lane % 16][wj + j * 8])));
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                    "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]),
                      "+f"(sum[i][j][3])
                    : "r"(x[i][0]), "r"(x[i][1]), "r"(x[i][2]), "r"(x[i][3]), "r"(y[j][0]),
                      "r"(y[j][1]));
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = blockIdx.y * 128 + wi + i * 16 + lane / 4;
            const int column = blockIdx.x * 128 + wj + j * 8 + lane % 4 * 2;
            *(float2*)&c[row * n + column] = make_float2(sum[i][j][0], sum[i][j][1]);
            *(float2*)&c[(row + 8) * n + column] = make_float2(sum[i][j][2], sum[i][j][3]);
        }
}
