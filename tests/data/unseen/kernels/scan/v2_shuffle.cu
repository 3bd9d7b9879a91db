/* ---
title = "Scans of warps by shuffles, four elements a thread as int4"
requires = "N % 4 == 0"
requires_why = "it loads int4"
[[scratch]]
name  = "sums"
dtype = "int32"
shape = ["cdiv(N, 1024)"]
[[launch]]
kernel = "block_sums"
grid   = ["cdiv(N, 1024)"]
block  = [256]
args   = ["x", "sums", "N"]
[[launch]]
kernel = "scan_sums"
grid   = [1]
block  = [512]
args   = ["sums", "cdiv(N, 1024)"]
[[launch]]
kernel = "scan"
grid   = ["cdiv(N, 1024)"]
block  = [256]
args   = ["x", "y", "sums", "N"]
--- */

__device__ __forceinline__ int warp_scan(int v) {
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        int t = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += t;
    }
    return v;
}

template <int WARPS>
__device__ __forceinline__ int block_scan(int v) {
    __shared__ int totals[WARPS];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    v = warp_scan(v);
    if (lane == 31) totals[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int t = lane < WARPS ? totals[lane] : 0;
        t = warp_scan(t);
        if (lane < WARPS) totals[lane] = t;
    }
    __syncthreads();
    return warp ? v + totals[warp - 1] : v;
}

extern "C" __global__ void block_sums(const int4* x, int* sums, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    int4 v = make_int4(0, 0, 0, 0);
    if (4 * i < n) v = x[i];
    int s = __reduce_add_sync(0xffffffffu, v.x + v.y + v.z + v.w);
    __shared__ int part[8];
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        int t = 0;
        for (int k = 0; k < 8; ++k) t += part[k];
        sums[blockIdx.x] = t;
    }
}

extern "C" __global__ void scan_sums(int* sums, int n) {
    int v = threadIdx.x < n ? sums[threadIdx.x] : 0;
    v = block_scan<16>(v);
    if (threadIdx.x < n) sums[threadIdx.x] = v;
}

extern "C" __global__ void scan(const int4* x, int4* y, const int* sums, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    int4 v = make_int4(0, 0, 0, 0);
    if (4 * i < n) v = x[i];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    int before = block_scan<8>(v.w) - v.w;
    if (blockIdx.x) before += sums[blockIdx.x - 1];
    v.x += before, v.y += before, v.z += before, v.w += before;
    if (4 * i < n) y[i] = v;
}
