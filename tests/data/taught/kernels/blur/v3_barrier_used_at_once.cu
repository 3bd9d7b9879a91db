/* ---
title = "Wrong: nothing waits for the barrier to be initialised"
[[launch]]
kernel = "blur"
grid   = ["cdiv(W, 16)", "cdiv(H, 16)"]
block  = [18, 18]
args   = ["image", "weight", "out", "H", "W"]
--- */
#include <cuda/barrier>
#define T 16

__global__ void blur(const float *image, const float *weight, float *out, int H, int W) {
    __shared__ float tile[T + 2][T + 2];
    __shared__ cuda::barrier<cuda::thread_scope_block> loaded;
    int tx = threadIdx.x, ty = threadIdx.y;
    if (tx == 0 && ty == 0) init(&loaded, blockDim.x * blockDim.y);
    int col = blockIdx.x * T + tx - 1;
    int row = blockIdx.y * T + ty - 1;
    bool inside = row >= 0 && row < H && col >= 0 && col < W;
    tile[ty][tx] = inside ? image[row * W + col] : 0.0f;
    loaded.arrive_and_wait();  // <- wrong
    if (inside && tx >= 1 && tx <= T && ty >= 1 && ty <= T) {
        float sum = 0.0f;
        for (int dy = 0; dy < 3; ++dy)
            for (int dx = 0; dx < 3; ++dx)
                sum += weight[dy * 3 + dx] * tile[ty + dy - 1][tx + dx - 1];
        out[row * W + col] = sum;
    }
}
