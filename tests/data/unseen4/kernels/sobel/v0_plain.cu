/* ---
title  = "One pixel per thread, nine loads from global memory"
change = "The definition, written down."
[[launch]]
kernel = "sobel"
grid   = ["cdiv(W, 16)", "cdiv(H, 16)"]
block  = [16, 16]
args   = ["image", "magnitude", "edges", "W", "H", "T"]
--- */

__device__ int clamp_index(int i, int limit) {
    if (i < 0) return 0;
    if (i >= limit) return limit - 1;
    return i;
}

extern "C" __global__ void sobel(const unsigned char* image, unsigned char* magnitude,
                                 unsigned char* edges, int width, int height, int threshold) {
    const int weights[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};

    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    int gx = 0;
    int gy = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            int row = clamp_index(y + dy, height);
            int col = clamp_index(x + dx, width);
            int pixel = image[row * width + col];
            gx += weights[dy + 1][dx + 1] * pixel;
            gy += weights[dx + 1][dy + 1] * pixel;  // the transposed filter
        }
    }

    int m = (int)sqrtf((float)(gx * gx + gy * gy));
    if (m > 255) m = 255;
    magnitude[y * width + x] = (unsigned char)m;
    edges[y * width + x] = m > threshold ? 255 : 0;
}
