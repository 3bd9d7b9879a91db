/* ---
title = "Welford with warp shuffles, PyTorch style"
[[launch]]
kernel = "statistics"
grid = ["C"]
block = [256]
args = ["x", "mean", "var", "N", "C", "S"]
[[launch]]
kernel = "transform"
grid = ["C", "N"]
block = [128]
args = ["x", "mean", "var", "gamma", "beta", "y", "C", "S"]
--- */
template <typename T>
struct Welford {
    T mean = 0, m2 = 0;
    int n = 0;
    __device__ void add(T v)
    {
        n++;
        T d = v - mean;
        mean += d / n;
        m2 += d * (v - mean);
    }
    __device__ void merge(T other_mean, T other_m2, int other_n)
    {
        if (other_n == 0)
            return;
        int total = n + other_n;
        T d = other_mean - mean;
        T factor = T(1) / total;
        mean = (n * mean + other_n * other_mean) * factor;
        m2 += other_m2 + d * d * n * other_n * factor;
        n = total;
    }
    __device__ void warp()
    {
        for (int o = 1; o < 32; o <<= 1)
            merge(__shfl_xor_sync(0xffffffff, mean, o), __shfl_xor_sync(0xffffffff, m2, o), __shfl_xor_sync(0xffffffff, n, o));
    }
};

extern "C" __global__ void statistics(const float *__restrict__ x, float *mean, float *var, int N, int C, int S)
{
    __shared__ float s_mean[8], s_m2[8];
    __shared__ int s_n[8];
    int c = blockIdx.x;
    Welford<float> w;
    for (int i = threadIdx.x; i < N * S; i += blockDim.x) {
        int batch = i / S, k = i - batch * S;
        w.add(x[(batch * C + c) * S + k]);
    }
    w.warp();
    if (threadIdx.x % 32 == 0) {
        int k = threadIdx.x / 32;
        s_mean[k] = w.mean;
        s_m2[k] = w.m2;
        s_n[k] = w.n;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        Welford<float> t;
        if (threadIdx.x < 8) {
            t.mean = s_mean[threadIdx.x];
            t.m2 = s_m2[threadIdx.x];
            t.n = s_n[threadIdx.x];
        }
        t.warp();
        if (threadIdx.x == 0) {
            mean[c] = t.mean;
            var[c] = t.m2 / t.n;
        }
    }
}

extern "C" __global__ void transform(const float *__restrict__ x, const float *mean, const float *var, const float *gamma, const float *beta, float *__restrict__ y, int C, int S)
{
    int c = blockIdx.x, base = (blockIdx.y * C + c) * S;
    float inv = rsqrtf(var[c] + 1e-5f), m = mean[c], g = gamma[c], b = beta[c];
    for (int i = threadIdx.x; i < S; i += blockDim.x)
        y[base + i] = fmaxf((x[base + i] - m) * inv * g + b, 0.f);
}
