/* ---
title = "Wrong: more shared memory than a block may declare"
[[launch]]
kernel = "blur"
grid   = ["cdiv(W, 16)", "cdiv(H, 16)"]
block  = [18, 18]
args   = ["image", "weight", "out", "H", "W"]
--- */
#define T 16

__global__ void blur(const float *image, const float *weight, float *out, int H, int W) {
    __shared__ float tile[288][288];  // <- wrong
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * T + tx - 1;
    int row = blockIdx.y * T + ty - 1;
    bool inside = row >= 0 && row < H && col >= 0 && col < W;
    tile[ty][tx] = inside ? image[row * W + col] : 0.0f;
    __syncthreads();
    if (inside && tx >= 1 && tx <= T && ty >= 1 && ty <= T) {
        float sum = 0.0f;
        for (int dy = 0; dy < 3; ++dy)
            for (int dx = 0; dx < 3; ++dx)
                sum += weight[dy * 3 + dx] * tile[ty + dy - 1][tx + dx - 1];
        out[row * W + col] = sum;
    }
}
