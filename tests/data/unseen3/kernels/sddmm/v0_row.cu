/* ---
title = "A warp per row, edges one after the other"
[[launch]]
kernel = "sddmm"
grid = ["cdiv(N, 8)"]
block = [32, 8]
args = ["row", "col", "w", "x", "y", "out", "N", "K"]
--- */
extern "C" __global__ void sddmm(const int* __restrict__ row, const int* __restrict__ col, const float* __restrict__ w,
                                 const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out,
                                 int n, int k) {
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= n) return;
    for (int e = row[r]; e < row[r + 1]; ++e) {
        const float* yr = y + col[e] * k;
        float sum = 0.f;
        for (int c = threadIdx.x; c < k; c += 32) sum += x[r * k + c] * yr[c];
        for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
        if (threadIdx.x == 0) out[e] = sum * w[e];
    }
}
