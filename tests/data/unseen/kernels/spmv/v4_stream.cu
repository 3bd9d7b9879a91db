/* ---
title = "CSR-stream: products of 64 rows into shared memory, then a thread a row"
[[launch]]
kernel = "spmv"
grid   = ["cdiv(R, 64)"]
block  = [128]
args   = ["R", "start", "column", "value", "x", "y"]
--- */

#define ROWS 64
#define BUFFER 1024

extern "C" __global__ void spmv(int n, const int* __restrict__ start, const int* __restrict__ column,
                                const float* __restrict__ value, const float* __restrict__ x,
                                float* __restrict__ y) {
    __shared__ float products[BUFFER];
    int first = blockIdx.x * ROWS, last = min(first + ROWS, n);
    int row = first + threadIdx.x;
    bool mine = threadIdx.x < ROWS && row < n;
    int begin = 0, end = 0;
    if (mine) {
        begin = start[row];
        end = start[row + 1];
    }
    float sum = 0;
    int from = start[first], to = start[last];
    for (int base = from; base < to; base += BUFFER) {
        int count = min(BUFFER, to - base);
        for (int i = threadIdx.x; i < count; i += blockDim.x)
            products[i] = value[base + i] * x[column[base + i]];
        __syncthreads();
        int lo = max(begin, base) - base, hi = min(end, base + count) - base;
        for (int i = lo; i < hi; i++) sum += products[i];
        __syncthreads();
    }
    if (mine) y[row] = sum;
}
