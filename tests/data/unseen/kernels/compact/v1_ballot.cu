/* ---
title = "Places by ballots, counts of blocks scanned by one warp"
[[scratch]]
name  = "offset"
dtype = "int32"
shape = ["cdiv(N, 1024)"]
[[launch]]
kernel = "count_kept"
grid   = ["cdiv(N, 1024)"]
block  = [256]
args   = ["x", "offset", "N"]
[[launch]]
kernel = "scan_counts"
grid   = [1]
block  = [32]
args   = ["offset", "count", "cdiv(N, 1024)"]
[[launch]]
kernel = "scatter"
grid   = ["cdiv(N, 1024)"]
block  = [1024]
args   = ["x", "offset", "count", "y", "N"]
--- */

extern "C" __global__ void count_kept(const int* x, int* offset, int n) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int c = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        c += __popc(__ballot_sync(~0u, i < n && x[i] > 0));
    }
    if (threadIdx.x % 32 == 0) atomicAdd(&total, c);
    __syncthreads();
    if (threadIdx.x == 0) offset[blockIdx.x] = total;
}

extern "C" __global__ void scan_counts(int* offset, int* count, int blocks) {
    int carry = 0;
    for (int b = 0; b < blocks; b += 32) {
        int mine = b + threadIdx.x < blocks ? offset[b + threadIdx.x] : 0, v = mine;
        for (int d = 1; d < 32; d *= 2) {
            int t = __shfl_up_sync(~0u, v, d);
            if (threadIdx.x >= d) v += t;
        }
        if (b + threadIdx.x < blocks) offset[b + threadIdx.x] = carry + v - mine;
        carry += __shfl_sync(~0u, v, 31);
    }
    if (threadIdx.x == 0) *count = carry;
}

extern "C" __global__ void scatter(const int* x, const int* offset, const int* count, int* y, int n) {
    __shared__ int warps[32];
    int i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int v = i < n ? x[i] : 0;
    unsigned votes = __ballot_sync(~0u, v > 0);
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    if (warp == 0) {
        int c = warps[lane];
        int s = c;
        for (int d = 1; d < 32; d <<= 1) {
            int t = __shfl_up_sync(~0u, s, d);
            if (lane >= d) s += t;
        }
        warps[lane] = s - c;
    }
    __syncthreads();
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    if (v > 0) y[offset[blockIdx.x] + warps[warp] + __popc(votes & below)] = v;
    if (i >= *count && i < n) y[i] = 0;
}
