/* ---
title = "A private grid per block in dynamic shared memory"
change = "Atomics stay on the chip; a grid-stride loop gives each block many particles before it flushes."
requires = "G <= 96"
requires_why = "the grid fits into shared memory"
[[fill]]
name = "rho"
value = 0
[[launch]]
kernel = "deposit"
grid = ["min(132, cdiv(N, 512))"]
block = [512]
args = ["pos", "q", "rho", "N", "G"]
dynamic_shared = "4 * G * G"
--- */
extern "C" __global__ void __launch_bounds__(512) deposit(const float2* __restrict__ pos, const float* __restrict__ q,
                                                          float* rho, int n, int g) {
    extern __shared__ float grid[];
    for (int c = threadIdx.x; c < g * g; c += blockDim.x) grid[c] = 0.f;
    __syncthreads();
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) {
        const float2 p = pos[k];
        const float charge = q[k];
        const int i = __float2int_rd(p.x), j = __float2int_rd(p.y);
        const float fx = p.x - i, fy = p.y - j;
        const int i1 = i + 1 == g ? 0 : i + 1;
        float* lower = grid + j * g;
        float* upper = j + 1 == g ? grid : lower + g;
        const float top = charge * fy, bottom = charge - top;
        atomicAdd(lower + i, bottom - bottom * fx);
        atomicAdd(lower + i1, bottom * fx);
        atomicAdd(upper + i, top - top * fx);
        atomicAdd(upper + i1, top * fx);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < g * g; c += blockDim.x) {
        float v = grid[c];
        if (v != 0.f) atomicAdd(rho + c, v);
    }
}
