/* ---
title = "Parallel cyclic reduction in shared memory"
[[launch]]
kernel = "pcr"
grid = ["B"]
block = [128]
args = ["a", "b", "c", "d", "x"]
dynamic_shared = "4 * 4 * 128"
--- */
extern "C" __global__ void pcr(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ d, float* __restrict__ x) {
    extern __shared__ char memory[];
    float* sa = (float*)memory;
    float* sb = sa + blockDim.x;
    float* sc = sb + blockDim.x;
    float* sd = sc + blockDim.x;
    const int t = threadIdx.x, n = blockDim.x, i = blockIdx.x * n + t;
    sa[t] = t == 0 ? 0.0f : a[i];
    sb[t] = b[i];
    sc[t] = t == n - 1 ? 0.0f : c[i];
    sd[t] = d[i];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        const int lo = max(t - step, 0), hi = min(t + step, n - 1);
        const float k1 = sa[t] / sb[lo], k2 = sc[t] / sb[hi];
        const float nb = sb[t] - sc[lo] * k1 - sa[hi] * k2;
        const float nd = sd[t] - sd[lo] * k1 - sd[hi] * k2;
        const float na = -sa[lo] * k1, nc = -sc[hi] * k2;
        __syncthreads();
        sa[t] = na;
        sb[t] = nb;
        sc[t] = nc;
        sd[t] = nd;
        __syncthreads();
    }
    x[i] = sd[t] / sb[t];
}
