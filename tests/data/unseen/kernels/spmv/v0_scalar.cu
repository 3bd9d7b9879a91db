/* ---
title = "A thread a row"
[[launch]]
kernel = "spmv"
grid   = ["cdiv(R, 256)"]
block  = [256]
args   = ["R", "start", "column", "value", "x", "y"]
--- */

extern "C" __global__ void spmv(int num_rows, const int* ptr, const int* indices, const float* data,
                                const float* x, float* y) {
    int row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < num_rows) {
        float dot = 0;
        int row_start = ptr[row];
        int row_end = ptr[row + 1];
        for (int jj = row_start; jj < row_end; jj++) dot += data[jj] * x[indices[jj]];
        y[row] = dot;
    }
}
