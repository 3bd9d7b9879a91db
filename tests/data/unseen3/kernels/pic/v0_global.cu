/* ---
title = "A thread per particle, four atomics in global memory"
[[fill]]
name = "rho"
value = 0
[[launch]]
kernel = "deposit"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["pos", "q", "rho", "N", "G"]
--- */
extern "C" __global__ void deposit(const float2* __restrict__ pos, const float* __restrict__ q, float* rho, int n, int g) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    float2 p = pos[k];
    float charge = q[k];
    int i = (int)floorf(p.x), j = (int)floorf(p.y);
    float fx = p.x - i, fy = p.y - j;
    int i1 = i + 1 == g ? 0 : i + 1, j1 = j + 1 == g ? 0 : j + 1;
    atomicAdd(&rho[j * g + i], charge * (1.f - fx) * (1.f - fy));
    atomicAdd(&rho[j * g + i1], charge * fx * (1.f - fy));
    atomicAdd(&rho[j1 * g + i], charge * (1.f - fx) * fy);
    atomicAdd(&rho[j1 * g + i1], charge * fx * fy);
}
