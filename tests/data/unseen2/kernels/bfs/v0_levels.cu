/* ---
title = "A thread per node, level by level"
[[launch]]
kernel = "init"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["level", "N"]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 0]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 1]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 2]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 3]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 4]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 5]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 6]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 7]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 8]
[[launch]]
kernel = "step"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["row", "col", "level", "N", 9]
--- */

extern "C" __global__ void init(int *level, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    level[i] = i == 0 ? 0 : -1;
}

extern "C" __global__ void step(const int *__restrict__ row, const int *__restrict__ col, int *level, int n, int depth)
{
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || level[v] != depth)
        return;
    for (int e = row[v]; e < row[v + 1]; e++) {
        int w = col[e];
        if (level[w] == -1)
            level[w] = depth + 1;
    }
}
