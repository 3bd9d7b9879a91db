/* ---
title = "Bitonic, strides below 32 by shuffles"
[[launch]]
kernel = "bitonic"
grid   = ["S"]
block  = [1024]
args   = ["x", "y"]
--- */

__device__ __forceinline__ int exchange(int v, int partner, bool keep_small) {
    return keep_small ? min(v, partner) : max(v, partner);
}

extern "C" __global__ void __launch_bounds__(1024) bitonic(const int* __restrict__ x, int* __restrict__ y) {
    __shared__ int s[1024];
    const int t = threadIdx.x;
    int v = x[blockIdx.x * 1024 + t];
#pragma unroll
    for (int k = 2; k <= 1024; k <<= 1) {
        const bool up = (t & k) == 0;
#pragma unroll
        for (int j = k >> 1; j > 0; j >>= 1) {
            const bool low = (t & j) == 0;
            int partner;
            if (j >= 32) {
                __syncthreads();
                s[t] = v;
                __syncthreads();
                partner = s[t ^ j];
            } else {
                partner = __shfl_xor_sync(0xffffffff, v, j);
            }
            v = exchange(v, partner, low == up);
        }
    }
    y[blockIdx.x * 1024 + t] = v;
}
