/* ---
title = "Global 64-bit atomics, a thread an element"
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["m"]
[[launch]]
kernel = "moments"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["x", "m", "N"]
--- */

extern "C" __global__ void clear(long long* m) {
    m[0] = 0;
    m[1] = 0x7fffffffffffffffLL;
    m[2] = -0x7fffffffffffffffLL;
    m[3] = 0;
}

extern "C" __global__ void moments(const int* x, long long* m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = x[i];
    atomicAdd((unsigned long long*)&m[0], (unsigned long long)v);
    atomicMin(&m[1], v);
    atomicMax(&m[2], v);
    atomicAdd((unsigned long long*)&m[3], (unsigned long long)(v * v));
}
