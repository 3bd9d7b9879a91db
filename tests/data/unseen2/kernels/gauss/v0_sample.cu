/* ---
title = "Rows and columns as the CUDA sample convolutionSeparable does"
requires = "W % 32 == 0 and H % 8 == 0"
[[fill]]
name = "c_Kernel"
input = "taps"
[[scratch]]
name = "tmp"
dtype = "float32"
shape = ["H", "W"]
[[launch]]
kernel = "rows"
grid = ["W // 32", "cdiv(H, 4)"]
block = [16, 4]
args = ["img", "tmp", "W", "H"]
[[launch]]
kernel = "columns"
grid = ["W // 16", "cdiv(H, 32)"]
block = [16, 8]
args = ["tmp", "out", "W", "H"]
--- */
#define RADIUS 8
#define KLEN (2 * RADIUS + 1)
__constant__ float c_Kernel[KLEN];

#define RX 16
#define RY 4
#define STEPS 2
#define HALO 1

extern "C" __global__ void rows(const float *d_Src, float *d_Dst, int imageW, int imageH)
{
    __shared__ float s_Data[RY][(STEPS + 2 * HALO) * RX];
    const int baseX = (blockIdx.x * STEPS - HALO) * RX + threadIdx.x;
    const int baseY = blockIdx.y * RY + threadIdx.y;
    d_Src += baseY * imageW + baseX;
    d_Dst += baseY * imageW + baseX;
#pragma unroll
    for (int i = HALO; i < HALO + STEPS; i++)
        s_Data[threadIdx.y][threadIdx.x + i * RX] = d_Src[i * RX];
#pragma unroll
    for (int i = 0; i < HALO; i++)
        s_Data[threadIdx.y][threadIdx.x + i * RX] = (baseX >= -i * RX) ? d_Src[i * RX] : 0;
#pragma unroll
    for (int i = HALO + STEPS; i < HALO + STEPS + HALO; i++)
        s_Data[threadIdx.y][threadIdx.x + i * RX] = (imageW - baseX > i * RX) ? d_Src[i * RX] : 0;
    __syncthreads();
#pragma unroll
    for (int i = HALO; i < HALO + STEPS; i++) {
        float sum = 0;
#pragma unroll
        for (int j = -RADIUS; j <= RADIUS; j++)
            sum += c_Kernel[RADIUS + j] * s_Data[threadIdx.y][threadIdx.x + i * RX + j];
        d_Dst[i * RX] = sum;
    }
}

#define CX 16
#define CY 8
#define CSTEPS 4

extern "C" __global__ void columns(const float *d_Src, float *d_Dst, int imageW, int imageH)
{
    __shared__ float s_Data[CX][(CSTEPS + 2) * CY + 1];
    const int baseX = blockIdx.x * CX + threadIdx.x;
    const int baseY = (blockIdx.y * CSTEPS - 1) * CY + threadIdx.y;
    d_Src += baseY * imageW + baseX;
    d_Dst += baseY * imageW + baseX;
#pragma unroll
    for (int i = 1; i < 1 + CSTEPS; i++)
        s_Data[threadIdx.x][threadIdx.y + i * CY] = (imageH - baseY > i * CY) ? d_Src[i * CY * imageW] : 0;
    s_Data[threadIdx.x][threadIdx.y] = (baseY >= 0) ? d_Src[0] : 0;
    s_Data[threadIdx.x][threadIdx.y + (CSTEPS + 1) * CY] =
        (imageH - baseY > (CSTEPS + 1) * CY) ? d_Src[(CSTEPS + 1) * CY * imageW] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 1; i < 1 + CSTEPS; i++) {
        float sum = 0;
#pragma unroll
        for (int j = -RADIUS; j <= RADIUS; j++)
            sum += c_Kernel[RADIUS + j] * s_Data[threadIdx.x][threadIdx.y + i * CY + j];
        if (imageH - baseY > i * CY)
            d_Dst[i * CY * imageW] = sum;
    }
}
