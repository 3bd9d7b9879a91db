/* ---
title = "One thread per element of C, which walks along its sparse row"
[[launch]]
kernel = "spmm"
grid = ["cdiv(M * N, 256)"]
block = [256]
args = [["row_start", "column", "value", "M"], "B", "C", "N"]
--- */

struct Csr {
    const int* row_start;
    const int* column;
    const float* value;
    int rows;
};

extern "C" __global__ void spmm(Csr a, const float* B, float* C, int columns) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= a.rows * columns) return;
    int row = id / columns;
    int n = id % columns;

    float sum = 0.0f;
    int end = a.row_start[row + 1];
    for (int k = a.row_start[row]; k < end; k++) {
        const float* b_row = B + a.column[k] * columns;
        sum += a.value[k] * b_row[n];
    }
    C[id] = sum;
}
