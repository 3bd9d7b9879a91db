/* ---
title = "A thread per coefficient, basis in constant memory, two passes over shared memory"
[[fill]]
name = "quant"
input = "table"
[[launch]]
kernel = "dct"
grid = ["W // 8", "H // 8"]
block = [8, 8]
args = ["img", "coef", "W"]
--- */
__constant__ float quant[64];
__constant__ float basis[64] = {
    0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f, 0.35355339f,
    0.49039264f, 0.41573481f, 0.27778512f, 0.09754516f, -0.09754516f, -0.27778512f, -0.41573481f, -0.49039264f,
    0.46193977f, 0.19134172f, -0.19134172f, -0.46193977f, -0.46193977f, -0.19134172f, 0.19134172f, 0.46193977f,
    0.41573481f, -0.09754516f, -0.49039264f, -0.27778512f, 0.27778512f, 0.49039264f, 0.09754516f, -0.41573481f,
    0.35355339f, -0.35355339f, -0.35355339f, 0.35355339f, 0.35355339f, -0.35355339f, -0.35355339f, 0.35355339f,
    0.27778512f, -0.49039264f, 0.09754516f, 0.41573481f, -0.41573481f, -0.09754516f, 0.49039264f, -0.27778512f,
    0.19134172f, -0.46193977f, 0.46193977f, -0.19134172f, -0.19134172f, 0.46193977f, -0.46193977f, 0.19134172f,
    0.09754516f, -0.27778512f, 0.41573481f, -0.49039264f, 0.49039264f, -0.41573481f, 0.27778512f, -0.09754516f};

extern "C" __global__ void dct(const unsigned char* __restrict__ img, short* __restrict__ coef, int w) {
    __shared__ float a[8][8], b[8][8];
    const int x = threadIdx.x, y = threadIdx.y;
    const int at = (blockIdx.y * 8 + y) * w + blockIdx.x * 8 + x;
    a[y][x] = (float)img[at] - 128.f;
    __syncthreads();
    float s = 0.f;
    for (int k = 0; k < 8; ++k) s += a[y][k] * basis[x * 8 + k];
    b[y][x] = s;
    __syncthreads();
    s = 0.f;
    for (int k = 0; k < 8; ++k) s += b[k][x] * basis[y * 8 + k];
    coef[at] = (short)rintf(s / quant[y * 8 + x]);
}
