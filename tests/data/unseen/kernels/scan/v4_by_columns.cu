/* ---
title = "Reduce, then scan: tiles turned in shared memory, rows of nine by a thread"
[[scratch]]
name  = "sums"
dtype = "int32"
shape = [64]
[[launch]]
kernel = "totals"
grid   = [64]
block  = [128]
args   = ["x", "sums", "cdiv(N, 64)", "N"]
[[launch]]
kernel = "scan"
grid   = [64]
block  = [128]
args   = ["x", "y", "sums", "cdiv(N, 64)", "N"]
--- */

#define T 128
#define PER 9

extern "C" __global__ void totals(const int* x, int* sums, int chunk, int n) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    int begin = blockIdx.x * chunk, end = min(begin + chunk, n), s = 0;
    for (int i = begin + threadIdx.x; i < end; i += T) s += x[i];
    atomicAdd(&total, s);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void scan(const int* x, int* y, const int* sums, int chunk, int n) {
    __shared__ int tile[T * PER];
    __shared__ int rows[T + 1];
    int begin = blockIdx.x * chunk, end = min(begin + chunk, n);
    int carry = 0;
    for (int b = 0; b < blockIdx.x; ++b) carry += sums[b];
    for (int at = begin; at < end; at += T * PER) {
#pragma unroll
        for (int k = 0; k < PER; ++k) {
            int i = at + k * T + threadIdx.x;
            tile[k * T + threadIdx.x] = i < end ? x[i] : 0;
        }
        __syncthreads();
        int s = 0;
#pragma unroll
        for (int k = 0; k < PER; ++k) {
            s += tile[threadIdx.x * PER + k];
            tile[threadIdx.x * PER + k] = s;
        }
        rows[threadIdx.x + 1] = s;
        if (threadIdx.x == 0) rows[0] = carry;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int r = 1; r <= T; ++r) rows[r] += rows[r - 1];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PER; ++k) {
            int j = k * T + threadIdx.x, i = at + j;
            if (i < end) y[i] = tile[j] + rows[j / PER];
        }
        carry = rows[T];
        __syncthreads();
    }
}
