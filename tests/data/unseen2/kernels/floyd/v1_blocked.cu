/* ---
title = "Blocked, three phases, one block of the matrix each"
[[launch]]
kernel = "floyd"
grid = [1]
block = [16, 16]
args = ["w", "d", "N"]
dynamic_shared = "4 * N * N"
--- */
#define TILE 16

struct Tile {
    int *base;
    int stride;
    __device__ int &operator()(int r, int c) const { return base[r * stride + c]; }
};

static __device__ __forceinline__ void relax(Tile c, Tile a, Tile b, bool dependent)
{
    int x = threadIdx.x, y = threadIdx.y;
    int best = c(y, x);
    for (int k = 0; k < TILE; ++k) {
        best = min(best, a(y, k) + b(k, x));
        if (dependent) {
            __syncthreads();
            c(y, x) = best;
            __syncthreads();
        }
    }
    c(y, x) = best;
}

extern "C" __global__ void floyd(const int *__restrict__ w, int *__restrict__ d, int n)
{
    extern __shared__ int m[];
    int t = threadIdx.y * TILE + threadIdx.x, tiles = n / TILE;
    for (int i = t; i < n * n / 4; i += TILE * TILE)
        reinterpret_cast<int4 *>(m)[i] = reinterpret_cast<const int4 *>(w)[i];
    __syncthreads();
    auto tile = [=](int r, int c) { return Tile{m + r * TILE * n + c * TILE, n}; };
    for (int k = 0; k < tiles; ++k) {
        relax(tile(k, k), tile(k, k), tile(k, k), true);
        __syncthreads();
        for (int j = 0; j < tiles; ++j)
            if (j != k) {
                relax(tile(k, j), tile(k, k), tile(k, j), true);
                relax(tile(j, k), tile(j, k), tile(k, k), true);
            }
        __syncthreads();
        for (int i = 0; i < tiles; ++i)
            for (int j = 0; j < tiles; ++j)
                if (i != k && j != k)
                    relax(tile(i, j), tile(i, k), tile(k, j), false);
        __syncthreads();
    }
    for (int i = t; i < n * n; i += TILE * TILE)
        d[i] = m[i];
}
