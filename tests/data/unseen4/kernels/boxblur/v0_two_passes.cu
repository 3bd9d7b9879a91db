/* ---
title  = "Two passes, 2R+1 loads per pixel in each"
change = "One thread per pixel and a loop over the window."
[[scratch]]
name  = "rows"
dtype = "float32"
shape = ["H", "W"]
[[launch]]
kernel = "blur_horizontal"
grid   = ["cdiv(W, 32)", "cdiv(H, 8)"]
block  = [32, 8]
args   = ["image", "rows", "W", "H", "R"]
[[launch]]
kernel = "blur_vertical"
grid   = ["cdiv(W, 32)", "cdiv(H, 8)"]
block  = [32, 8]
args   = ["rows", "blurred", "W", "H", "R"]
--- */

#define CLAMP(v, lo, hi) ((v) < (lo) ? (lo) : (v) > (hi) ? (hi) : (v))

extern "C" __global__ void blur_horizontal(const float* in, float* out, int w, int h, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;

    float sum = 0.0f;
    for (int k = -radius; k <= radius; k++) {
        int xx = CLAMP(x + k, 0, w - 1);
        sum += in[y * w + xx];
    }
    out[y * w + x] = sum / (2 * radius + 1);
}

extern "C" __global__ void blur_vertical(const float* in, float* out, int w, int h, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;

    float sum = 0.0f;
    for (int k = -radius; k <= radius; k++) {
        int yy = CLAMP(y + k, 0, h - 1);
        sum += in[yy * w + x];
    }
    out[y * w + x] = sum / (2 * radius + 1);
}
