/* ---
title  = "A block per row, butterflies in place in global memory"
change = "One barrier after each of the log2(N) stages."
[[launch]]
kernel = "walsh_hadamard"
grid   = ["R"]
block  = [128]
args   = ["x", "y", "N"]
--- */

extern "C" __global__ void walsh_hadamard(const float* x, float* y, int n) {
    const float* in = x + blockIdx.x * n;
    float* row = y + blockIdx.x * n;

    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        row[i] = in[i];
    }
    __syncthreads();

    for (int h = 1; h < n; h *= 2) {
        for (int t = threadIdx.x; t < n / 2; t += blockDim.x) {
            // pair t: its upper element has bit h clear, its lower one has it set
            int i = (t / h) * 2 * h + t % h;
            float a = row[i];
            float b = row[i + h];
            row[i] = a + b;
            row[i + h] = a - b;
        }
        __syncthreads();
    }

    float scale = 1.0f / sqrtf((float)n);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        row[i] *= scale;
    }
}
