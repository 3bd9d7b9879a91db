/* ---
title = "A tile with a padding column"
[[launch]]
kernel = "transpose"
grid   = ["cdiv(C, 32)", "cdiv(R, 32)"]
block  = [32, 8]
args   = ["A", "B", "R", "C"]
--- */

#define TILE_DIM 32
#define BLOCK_ROWS 8

extern "C" __global__ void transpose(const float* idata, float* odata, int height, int width) {
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
