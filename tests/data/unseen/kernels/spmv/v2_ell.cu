/* ---
title = "ELLPACK by columns, made by a first kernel"
[[scratch]]
name  = "ell_column"
dtype = "int32"
shape = ["W", "R"]
[[scratch]]
name  = "ell_value"
dtype = "float32"
shape = ["W", "R"]
[[launch]]
kernel = "to_ell"
grid   = ["cdiv(R, 128)"]
block  = [128]
args   = ["R", "W", "start", "column", "value", "ell_column", "ell_value"]
[[launch]]
kernel = "spmv_ell"
grid   = ["cdiv(R, 128)"]
block  = [128]
args   = ["R", "W", "ell_column", "ell_value", "x", "y"]
--- */

extern "C" __global__ void to_ell(int rows, int width, const int* start, const int* column,
                                  const float* value, int* ell_column, float* ell_value) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int begin = start[row], length = start[row + 1] - begin;
    for (int k = 0; k < width; k++) {
        bool there = k < length;
        ell_column[k * rows + row] = there ? column[begin + k] : -1;
        ell_value[k * rows + row] = there ? value[begin + k] : 0.0f;
    }
}

extern "C" __global__ void spmv_ell(int rows, int width, const int* __restrict__ column,
                                    const float* __restrict__ value, const float* __restrict__ x,
                                    float* __restrict__ y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < width; k++) {
        int c = column[k * rows + row];
        if (c < 0) break;
        sum += value[k * rows + row] * __ldg(&x[c]);
    }
    y[row] = sum;
}
