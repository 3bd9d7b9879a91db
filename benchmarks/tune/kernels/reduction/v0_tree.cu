/* ---
title = "A tree in each block, an atomic addition a block"

[defines]
THREADS = 256
ITEMS   = 1
VECTOR  = 1

[tune]
THREADS = [64, 128, 256, 512, 1024]
ITEMS   = [1, 2, 4, 8, 16]
VECTOR  = [1, 2, 4]

[[fill]]
name  = "y"
value = 0

[[launch]]
kernel = "sum"
grid   = ["cdiv(N, THREADS * ITEMS * VECTOR)"]
block  = ["THREADS"]
args   = ["x", "y", "N"]
--- */
struct alignas(4 * VECTOR) Some {
    float of[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS)
sum(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float warps[32];
    const Some* const all = reinterpret_cast<const Some*>(x);
    const int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
    float own = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = first + i * THREADS;
        if ((at + 1) * VECTOR <= n) {
            const Some some = all[at];
#pragma unroll
            for (int e = 0; e < VECTOR; ++e) own += some.of[e];
        } else {
            for (int e = at * VECTOR; e < n && e < (at + 1) * VECTOR; ++e) own += x[e];
        }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) own += __shfl_down_sync(~0u, own, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x < 32) {
        own = threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : 0.0f;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) own += __shfl_down_sync(~0u, own, step);
        if (threadIdx.x == 0) atomicAdd(y, own);
    }
}
