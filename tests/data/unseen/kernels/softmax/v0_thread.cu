/* ---
title = "A thread a row"
[[launch]]
kernel = "softmax"
grid   = ["cdiv(R, 64)"]
block  = [64]
args   = ["x", "y", "R", "C"]
--- */

extern "C" __global__ void softmax(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float maxval = -INFINITY;
        for (int i = 0; i < cols; i++) maxval = fmaxf(maxval, x[row * cols + i]);
        float sum = 0.0f;
        for (int i = 0; i < cols; i++) {
            float e = expf(x[row * cols + i] - maxval);
            y[row * cols + i] = e;
            sum += e;
        }
        for (int i = 0; i < cols; i++) y[row * cols + i] /= sum;
    }
}
