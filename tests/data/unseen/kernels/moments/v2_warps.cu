/* ---
title = "Reduced by redux and shuffles, compare-and-swap for the squares in double precision"
[[scratch]]
name  = "squares"
dtype = "float64"
shape = [1]
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["m", "squares"]
[[launch]]
kernel = "moments"
grid   = [48]
block  = [128]
args   = ["x", "m", "squares", "N"]
[[launch]]
kernel = "finish"
grid   = [1]
block  = [1]
args   = ["m", "squares"]
--- */

extern "C" __global__ void clear(long long* m, double* squares) {
    m[0] = 0;
    m[1] = 0x7fffffffffffffffLL;
    m[2] = -0x7fffffffffffffffLL;
    *squares = 0;
}

__device__ double atomicAddByCAS(double* address, double val) {
    unsigned long long int* address_as_ull = (unsigned long long int*)address;
    unsigned long long int old = *address_as_ull, assumed;
    do {
        assumed = old;
        old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void moments(const int* x, long long* m, double* squares, int n) {
    int low = 0x7fffffff, high = -0x7fffffff;
    long long sum = 0;
    double square = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int v = x[i];
        low = min(low, v);
        high = max(high, v);
        sum += v;
        square += (double)v * v;
    }
    low = __reduce_min_sync(~0u, low);
    high = __reduce_max_sync(~0u, high);
    for (int o = 16; o; o >>= 1) {
        sum += __shfl_down_sync(~0u, sum, o);
        square += __shfl_down_sync(~0u, square, o);
    }
    if (threadIdx.x % 32 == 0) {
        atomicMin(&m[1], (long long)low);
        atomicMax(&m[2], (long long)high);
        atomicAdd((unsigned long long*)&m[0], (unsigned long long)sum);
        atomicAddByCAS(squares, square);
    }
}

extern "C" __global__ void finish(long long* m, const double* squares) { m[3] = __double2ll_rn(*squares); }
