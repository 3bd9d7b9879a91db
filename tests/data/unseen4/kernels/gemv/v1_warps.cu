/* ---
title  = "A warp per row with float4; column sums by blocks of rows and atomics"
change = "Rows are read by whole warps, and the transposed product is split over M into chunks of 128 rows."
[defines]
CHUNK = 128
[[fill]]
name  = "z"
value = 0
[[launch]]
kernel = "gemv_warp"
grid   = ["min(cdiv(M, 8), 528)"]
block  = [256]
args   = ["A", "x", "y", "M", "N"]
[[launch]]
kernel = "gemv_t_chunks"
grid   = ["cdiv(N, 32)", "cdiv(M, CHUNK)"]
block  = [32, 8]
args   = ["A", "w", "z", "M", "N"]
--- */

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        v += __shfl_down_sync(0xffffffffu, v, offset);
    }
    return v;
}

__device__ __forceinline__ float dot4(const float4 a, const float4 b, float sum) {
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

extern "C" __global__ void __launch_bounds__(256)
gemv_warp(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y,
          int m, int n) {
    const int lane = threadIdx.x & 31;
    const int warps = gridDim.x * (blockDim.x >> 5);

    for (int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); row < m; row += warps) {
        const float* a = A + (size_t)row * n;
        float sum = 0.0f;
        if ((n & 3) == 0) {
            const float4* a4 = reinterpret_cast<const float4*>(a);
            const float4* x4 = reinterpret_cast<const float4*>(x);
            for (int j = lane; j < n / 4; j += 32) {
                sum = dot4(__ldg(a4 + j), __ldg(x4 + j), sum);
            }
        } else {
            for (int j = lane; j < n; j += 32) {
                sum = fmaf(__ldg(a + j), __ldg(x + j), sum);
            }
        }
        __syncwarp();
        sum = warp_sum(sum);
        if (lane == 0) y[row] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemv_t_chunks(const float* __restrict__ A, const float* __restrict__ w, float* __restrict__ z,
              int m, int n) {
    __shared__ float partial[8][32];

    const int col = blockIdx.x * 32 + threadIdx.x;
    const int begin = blockIdx.y * CHUNK;
    const int end = min(begin + CHUNK, m);

    float sum = 0.0f;
    if (col < n) {
#pragma unroll 4
        for (int i = begin + threadIdx.y; i < end; i += 8) {
            sum = fmaf(__ldg(A + (size_t)i * n + col), __ldg(w + i), sum);
        }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();

    if (threadIdx.y == 0 && col < n) {
        float total = partial[0][threadIdx.x];
#pragma unroll
        for (int r = 1; r < 8; ++r) total += partial[r][threadIdx.x];
        atomicAdd(z + col, total);
    }
}
