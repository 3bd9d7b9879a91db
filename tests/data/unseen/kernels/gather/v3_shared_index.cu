/* ---
title = "Indices of a block in shared memory, streaming loads and stores"
[[launch]]
kernel = "gather"
grid   = ["cdiv(N, 32)"]
block  = [64, 4]
args   = ["table", "index", "out", "N", "D"]
--- */

extern "C" __global__ void gather(const float* __restrict__ table, const int* __restrict__ index,
                                  float* __restrict__ out, int n, int d) {
    __shared__ int rows[32];
    int t = threadIdx.y * 64 + threadIdx.x, base = blockIdx.x * 32;
    if (t < 32) rows[t] = base + t < n ? __ldcs(&index[base + t]) : 0;
    __syncthreads();
    for (int r = threadIdx.y; r < 32 && base + r < n; r += 4)
        for (int c = threadIdx.x; c < d; c += 64)
            __stcs(&out[(base + r) * d + c], __ldca(&table[rows[r] * d + c]));
}
