/* ---
title = "Double, escape loop"
flags = ["-fmad=false"]
[[launch]]
kernel = "mandel"
grid = ["cdiv(W, 16)", "cdiv(H, 16)"]
block = [16, 16]
args = ["n", "W", "H", "T"]
--- */
extern "C" __global__ void mandel(int *out, int W, int H, int T)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= W || py >= H) return;
    double cr = px * (3.0 / 128) - 2.0, ci = py * (1.0 / 32) - 1.0;
    double zr = 0, zi = 0;
    int n = 0;
    while (n < T && zr * zr + zi * zi < 4.0) {
        double t = zr * zr - zi * zi + cr;
        zi = 2.0 * zr * zi + ci;
        zr = t;
        n++;
    }
    out[py * W + px] = n;
}
