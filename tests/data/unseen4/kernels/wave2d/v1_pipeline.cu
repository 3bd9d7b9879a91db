/* ---
title = "Tiles with a halo, copied asynchronously one tile ahead"
change = "A block goes down a strip of tiles. While it works on one, cp.async brings the next with its halo into the other half of shared memory, 16 bytes a thread."
requires = "NX % 4 == 0"
requires_why = "rows are copied 16 bytes at a time"
[defines]
TILES = 4
[[scratch]]
name = "after"
dtype = "float32"
shape = ["NY", "NX"]
[[launch]]
kernel = "wave_step"
grid = ["cdiv(NX, 64)", "cdiv(NY, 16 * TILES)"]
block = [64, 4]
args = ["prev", "now", "courant", "after", "NX", "NY"]
[[launch]]
kernel = "wave_step"
grid = ["cdiv(NX, 64)", "cdiv(NY, 16 * TILES)"]
block = [64, 4]
args = ["now", "after", "courant", "wave", "NX", "NY"]
--- */
#include <cuda_pipeline.h>

constexpr int R = 4;                       // also the floats of one copy
constexpr int W = 64, H = 16;              // a tile
constexpr int SW = W + 2 * R, SH = H + 2 * R;
constexpr int ROWS = 4;                    // thread rows; each does H / ROWS cells of a column
constexpr float C0 = -205.f / 72.f, C1 = 8.f / 5.f, C2 = -1.f / 5.f, C3 = 8.f / 315.f, C4 = -1.f / 560.f;

struct alignas(16) Tile {
    float cell[SH][SW];
};

// Starts the copies for the tile whose first own cell is (x0, y0). NX is a multiple of four and so
// is x0: four cells are either all in the grid or all out of it, and those become zeros.
__device__ __forceinline__ void fetch(Tile& tile, const float* now, int x0, int y0, int nx, int ny) {
    constexpr int VECTORS = SW / 4;
    for (int i = threadIdx.y * W + threadIdx.x; i < SH * VECTORS; i += W * ROWS) {
        const int row = i / VECTORS, vector = i % VECTORS;
        const int y = y0 - R + row, x = x0 - R + 4 * vector;
        const bool inside = y >= 0 && y < ny && x >= 0 && x < nx;
        const float* from = inside ? now + y * nx + x : now;
        __pipeline_memcpy_async(&tile.cell[row][4 * vector], from, 16, inside ? 0 : 16);
    }
}

__device__ __forceinline__ float around(const Tile& tile, int y, int x, int r) {
    return (tile.cell[y][x - r] + tile.cell[y][x + r]) + (tile.cell[y - r][x] + tile.cell[y + r][x]);
}

extern "C" __global__ void __launch_bounds__(W * ROWS)
    wave_step(const float* __restrict__ prev, const float* __restrict__ now, const float* __restrict__ courant,
              float* __restrict__ next, int nx, int ny) {
    __shared__ Tile tiles[2];
    const int x0 = blockIdx.x * W;
    const int top = blockIdx.y * (H * TILES);
    const int x = x0 + threadIdx.x;
    const int count = min(TILES, (ny - top + H - 1) / H);

    fetch(tiles[0], now, x0, top, nx, ny);
    __pipeline_commit();
    for (int k = 0; k < count; ++k) {
        const int y0 = top + k * H;
        if (k + 1 < count) fetch(tiles[(k + 1) & 1], now, x0, y0 + H, nx, ny);
        __pipeline_commit();          // empty behind the last tile
        __pipeline_wait_prior(1);     // this tile is there, the next may be under way
        __syncthreads();

        const Tile& tile = tiles[k & 1];
#pragma unroll
        for (int j = 0; j < H / ROWS; ++j) {
            const int row = threadIdx.y + j * ROWS;
            const int y = y0 + row;
            if (x < nx && y < ny) {
                const int i = y * nx + x, sx = R + threadIdx.x, sy = R + row;
                const float here = tile.cell[sy][sx];
                float second = 2.f * C0 * here;
                second = fmaf(C1, around(tile, sy, sx, 1), second);
                second = fmaf(C2, around(tile, sy, sx, 2), second);
                second = fmaf(C3, around(tile, sy, sx, 3), second);
                second = fmaf(C4, around(tile, sy, sx, 4), second);
                next[i] = fmaf(courant[i], second, 2.f * here - prev[i]);
            }
        }
        __syncthreads();              // nobody reads this tile any more when it is overwritten
    }
}
