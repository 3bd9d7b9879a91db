/* ---
title = "Radix select with a histogram in shared memory, then a small bitonic sort"
[[launch]]
kernel = "topk"
grid = ["R"]
block = [256]
args = ["x", "y", "C"]
--- */
__device__ unsigned ordered(float f)
{
    unsigned u = __float_as_uint(f);
    return u ^ ((u >> 31) ? 0xffffffffu : 0x80000000u);
}
__device__ float original(unsigned u)
{
    return __uint_as_float(u ^ ((u >> 31) ? 0x80000000u : 0xffffffffu));
}

extern "C" __global__ void topk(const float *__restrict__ x, float *__restrict__ y, int n)
{
    __shared__ int hist[256];
    __shared__ unsigned prefix;
    __shared__ int want, filled;
    __shared__ unsigned list[8];
    const float *row = x + blockIdx.x * n;
    int t = threadIdx.x;
    if (t == 0) {
        prefix = 0;
        want = 8;
        filled = 0;
    }
    unsigned mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        hist[t] = 0;
        __syncthreads();
        unsigned have = prefix;
        for (int i = t; i < n; i += blockDim.x) {
            unsigned u = ordered(row[i]);
            if ((u & mask) == have)
                atomicAdd(&hist[(u >> shift) & 255], 1);
        }
        __syncthreads();
        if (t == 0) {
            int need = want, digit = 255;
            while (digit > 0 && hist[digit] < need) {
                need -= hist[digit];
                digit--;
            }
            want = need;
            prefix = have | (unsigned)digit << shift;
        }
        mask |= 255u << shift;
        __syncthreads();
    }
    unsigned limit = prefix;
    for (int i = t; i < n; i += blockDim.x) {
        unsigned u = ordered(row[i]);
        if (u > limit)
            list[atomicAdd(&filled, 1)] = u;
    }
    __syncthreads();
    if (t < 8 && t >= filled)
        list[t] = limit;
    __syncthreads();
    if (t < 8) {
        int rank = 0;
        for (int j = 0; j < 8; j++)
            rank += list[j] > list[t] || (list[j] == list[t] && j < t);
        y[blockIdx.x * 8 + rank] = original(list[t]);
    }
}
