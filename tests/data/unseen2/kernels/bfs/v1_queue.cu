/* ---
title = "One cooperative launch, frontier queues with warp-aggregated pushes"
[[scratch]]
name = "queue"
dtype = "int32"
shape = ["2 * N"]
[[scratch]]
name = "sizes"
dtype = "int32"
shape = [2]
[[launch]]
kernel = "bfs"
grid = [8]
block = [128]
args = ["row", "col", "level", "queue", "sizes", "N"]
cooperative = true
--- */
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct Queue {
    int *items;
    int *size;
    __device__ void push(int v)
    {
        auto g = cg::coalesced_threads();
        int base;
        if (g.thread_rank() == 0)
            base = atomicAdd(size, g.size());
        base = g.shfl(base, 0);
        items[base + g.thread_rank()] = v;
    }
};

extern "C" __global__ void bfs(const int *__restrict__ row, const int *__restrict__ col, int *level,
                               int *queue, int *sizes, int n)
{
    cg::grid_group grid = cg::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        level[i] = -1;
    if (grid.thread_rank() == 0) {
        sizes[0] = 1;
        sizes[1] = 0;
        queue[0] = 0;
    }
    grid.sync();
    if (grid.thread_rank() == 0)
        level[0] = 0;
    int now = 0;
    for (int depth = 1; depth <= 10; depth++) {
        grid.sync();
        int count = sizes[now];
        Queue next = {queue + (1 - now) * n, sizes + (1 - now)};
        // a warp for each node of the frontier
        int warp = grid.thread_rank() / 32, lane = threadIdx.x % 32;
        for (int f = warp; f < count; f += grid.size() / 32) {
            int v = queue[now * n + f];
            int end = row[v + 1];
            for (int e = row[v] + lane; e < end; e += 32) {
                int w = col[e];
                if (atomicCAS(&level[w], -1, depth) == -1)
                    next.push(w);
            }
        }
        grid.sync();
        if (grid.thread_rank() == 0)
            sizes[now] = 0;
        now = 1 - now;
    }
}
