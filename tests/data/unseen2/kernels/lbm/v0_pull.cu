/* ---
title = "Pull scheme, structure of arrays, constant tables"
[[launch]]
kernel = "lbm"
grid = ["cdiv(W, 32)", "cdiv(H, 4)"]
block = [32, 4]
args = ["f", "g", "W", "H"]
--- */
__constant__ int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float wt[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};

extern "C" __global__ void lbm(const float *__restrict__ f, float *__restrict__ g, int W, int H)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H)
        return;
    float v[9];
    float rho = 0, ux = 0, uy = 0;
    for (int k = 0; k < 9; k++) {
        int xs = (x - cx[k] + W) % W;
        int ys = (y - cy[k] + H) % H;
        v[k] = f[(k * H + ys) * W + xs];
        rho += v[k];
        ux += cx[k] * v[k];
        uy += cy[k] * v[k];
    }
    ux /= rho;
    uy /= rho;
    float uu = 1.5f * (ux * ux + uy * uy);
    for (int k = 0; k < 9; k++) {
        float cu = 3.0f * (cx[k] * ux + cy[k] * uy);
        float eq = wt[k] * rho * (1.0f + cu + 0.5f * cu * cu - uu);
        g[(k * H + y) * W + x] = v[k] + 1.2f * (eq - v[k]);
    }
}
