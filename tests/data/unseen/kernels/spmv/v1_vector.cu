/* ---
title = "A warp a row, the sum in shared memory"
[[launch]]
kernel = "spmv"
grid   = ["cdiv(R, 8)"]
block  = [256]
args   = ["R", "start", "column", "value", "x", "y"]
--- */

extern "C" __global__ void spmv(int num_rows, const int* ptr, const int* indices, const float* data,
                                const float* x, float* y) {
    __shared__ volatile float vals[256];
    int thread_id = blockDim.x * blockIdx.x + threadIdx.x;
    int warp_id = thread_id / 32;
    int lane = thread_id & (32 - 1);
    int row = warp_id;
    if (row < num_rows) {
        int row_start = ptr[row];
        int row_end = ptr[row + 1];
        float sum = 0;
        for (int jj = row_start + lane; jj < row_end; jj += 32) sum += data[jj] * x[indices[jj]];
        vals[threadIdx.x] = sum;
        __syncwarp();
        if (lane < 16) vals[threadIdx.x] = sum = sum + vals[threadIdx.x + 16];
        __syncwarp();
        if (lane < 8) vals[threadIdx.x] = sum = sum + vals[threadIdx.x + 8];
        __syncwarp();
        if (lane < 4) vals[threadIdx.x] = sum = sum + vals[threadIdx.x + 4];
        __syncwarp();
        if (lane < 2) vals[threadIdx.x] = sum = sum + vals[threadIdx.x + 2];
        __syncwarp();
        if (lane < 1) y[row] = sum + vals[threadIdx.x + 1];
    }
}
