/* ---
title = "All k in one cooperative launch"
[[launch]]
kernel = "copy"
grid = ["cdiv(N * N, 256)"]
block = [256]
args = ["w", "d", "N * N"]
[[launch]]
kernel = "floyd"
grid = [4]
block = [256]
args = ["d", "N"]
cooperative = true
--- */
#include <cooperative_groups.h>
using namespace cooperative_groups;

extern "C" __global__ void copy(const int *w, int *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = w[i];
}

extern "C" __global__ void floyd(int *d, int n)
{
    grid_group g = this_grid();
    for (int k = 0; k < n; k++) {
        for (int i = g.thread_rank(); i < n * n; i += g.size()) {
            int row = i / n, col = i % n;
            int via = d[row * n + k] + d[k * n + col];
            if (via < d[i])
                d[i] = via;
        }
        g.sync();
    }
}
