/* ---
title = "Two halves of a row by two half-blocks, joined in shared memory"
change = "Twice the threads for short latency chains; no break, a predicate instead; streaming loads of the matrix."
[[launch]]
kernel = "ell"
grid = ["cdiv(N, 128)"]
block = [128, 2]
args = ["col", "val", "x", "y", "N", "W"]
--- */
extern "C" __global__ void __launch_bounds__(256) ell(const int* __restrict__ col, const double* __restrict__ val,
                                                      const double* __restrict__ x, double* __restrict__ y, int n, int width) {
    __shared__ double half[128];
    const int r = blockIdx.x * 128 + threadIdx.x;
    double sum = 0.0;
    if (r < n) {
#pragma unroll 4
        for (int k = threadIdx.y; k < width; k += 2) {
            int c = __ldcs(col + k * n + r);
            if (c >= 0) sum = fma(__ldcs(val + k * n + r), __ldg(x + c), sum);
        }
    }
    if (threadIdx.y == 1) half[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && r < n) y[r] = sum + half[threadIdx.x];
}
