/* ---
title = "Flags scanned in shared memory, three kernels"
[[scratch]]
name  = "offset"
dtype = "int32"
shape = ["cdiv(N, 256) + 1"]
[[launch]]
kernel = "count_kept"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["x", "offset", "N"]
[[launch]]
kernel = "scan_counts"
grid   = [1]
block  = [1]
args   = ["offset", "count", "cdiv(N, 256)"]
[[launch]]
kernel = "scatter"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["x", "offset", "count", "y", "N"]
--- */

extern "C" __global__ void count_kept(const int* x, int* offset, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    int kept = __syncthreads_count(i < n && x[i] > 0);
    if (threadIdx.x == 0) offset[blockIdx.x] = kept;
}

extern "C" __global__ void scan_counts(int* offset, int* count, int blocks) {
    int sum = 0;
    for (int b = 0; b < blocks; b++) {
        int c = offset[b];
        offset[b] = sum;
        sum += c;
    }
    *count = sum;
}

extern "C" __global__ void scatter(const int* x, const int* offset, const int* count, int* y, int n) {
    __shared__ int s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    int v = i < n ? x[i] : 0;
    s[t] = v > 0;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int add = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += add;
        __syncthreads();
    }
    if (v > 0) y[offset[blockIdx.x] + s[t] - 1] = v;
    if (i >= *count && i < n) y[i] = 0;
}
