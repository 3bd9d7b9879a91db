/* ---
title = "Two half sweeps, threads of the other color leave"
[[launch]]
kernel = "copy"
grid = ["cdiv(W * H, 256)"]
block = [256]
args = ["u0", "u", "W * H"]
[[launch]]
kernel = "sweep"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["u", "f", "W", "H", 0]
[[launch]]
kernel = "sweep"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["u", "f", "W", "H", 1]
--- */
#define IDX(x, y) ((y) * W + (x))

extern "C" __global__ void copy(const float *a, float *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}

extern "C" __global__ void sweep(float *u, const float *__restrict__ f, int W, int H, int color)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= W - 1 || y >= H - 1)
        return;
    if (((x + y) & 1) != color)
        return;
    u[IDX(x, y)] = 0.25f * (u[IDX(x + 1, y)] + u[IDX(x - 1, y)] +
                            u[IDX(x, y + 1)] + u[IDX(x, y - 1)] -
                            f[IDX(x, y)]);
}
