/* ---
title = "64-bit atomics in shared memory, then global ones"
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["m"]
[[launch]]
kernel = "moments"
grid   = [32]
block  = [256]
args   = ["x", "m", "N"]
--- */
typedef unsigned long long ull;

extern "C" __global__ void clear(long long* m) {
    m[0] = 0;
    m[1] = 0x7fffffffffffffffLL;
    m[2] = -0x7fffffffffffffffLL;
    m[3] = 0;
}

extern "C" __global__ void moments(const int* x, long long* m, int n) {
    __shared__ ull sum, square;
    __shared__ long long low, high;
    if (threadIdx.x == 0) {
        sum = square = 0;
        low = 0x7fffffffffffffffLL;
        high = -low;
    }
    __syncthreads();
    long long s = 0, q = 0, lo = 0x7fffffff, hi = -0x7fffffff;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        long long v = x[i];
        s += v;
        q += v * v;
        lo = min(lo, v);
        hi = max(hi, v);
    }
    atomicAdd(&sum, (ull)s);
    atomicAdd(&square, (ull)q);
    atomicMin(&low, lo);
    atomicMax(&high, hi);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd((ull*)&m[0], sum);
        atomicMin(&m[1], low);
        atomicMax(&m[2], high);
        atomicAdd((ull*)&m[3], square);
    }
}
