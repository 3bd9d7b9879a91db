/* ---
title = "One thread per output, everything from global memory"
requires = "B * C * L < 2**31"
requires_why = "indices are 32-bit"
[defines]
TAPS = 16
[[launch]]
kernel = "conv1d"
grid = ["cdiv(B * C * L, 256)"]
block = [256]
args = ["x", "w", "bias", "y", "C", "L", "B * C * L"]
--- */

extern "C" __global__ void conv1d(const float* x, const float* w, const float* bias, float* y, int channels,
                                  int length, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int t = i % length;
    int c = i / length % channels;

    // Tap 15 belongs to the present, tap 0 to 15 steps before; nothing is before the start.
    const float* filter = w + c * TAPS;
    float z = bias[c];
    for (int k = 0; k < TAPS; k++) {
        int back = TAPS - 1 - k;
        if (t - back >= 0) {
            z += filter[k] * x[i - back];
        }
    }
    y[i] = z / (1.0f + expf(-z));
}
