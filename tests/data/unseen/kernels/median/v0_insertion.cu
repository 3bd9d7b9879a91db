/* ---
title = "Insertion sort of a local array"
[[launch]]
kernel = "median"
grid   = ["cdiv(W, 16)", "cdiv(H, 16)"]
block  = [16, 16]
args   = ["image", "out", "W", "H"]
--- */

extern "C" __global__ void median(const unsigned char* image, unsigned char* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    unsigned char v[25];
    int n = 0;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            int sx = min(max(x + dx, 0), w - 1), sy = min(max(y + dy, 0), h - 1);
            unsigned char p = image[sy * w + sx];
            int k = n++;
            while (k > 0 && v[k - 1] > p) {
                v[k] = v[k - 1];
                k--;
            }
            v[k] = p;
        }
    out[y * w + x] = v[12];
}
