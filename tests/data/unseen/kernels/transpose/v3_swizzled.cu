/* ---
title = "A tile whose columns are swizzled by their row"
[[launch]]
kernel = "transpose"
grid   = ["cdiv(C, 32)", "cdiv(R, 32)"]
block  = [256]
args   = ["A", "B", "R", "C"]
--- */

extern "C" __global__ void transpose(const float* __restrict__ A, float* __restrict__ B, int R, int C) {
    __shared__ float tile[32 * 32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int i = warp; i < 32; i += 8) {
        const int r = blockIdx.y * 32 + i, c = blockIdx.x * 32 + lane;
        if (r < R && c < C) tile[i * 32 + (lane ^ i)] = A[(size_t)r * C + c];
    }
    __syncthreads();
#pragma unroll
    for (int i = warp; i < 32; i += 8) {
        const int r = blockIdx.y * 32 + lane, c = blockIdx.x * 32 + i;
        if (r < R && c < C) B[(size_t)c * R + r] = tile[lane * 32 + (i ^ lane)];
    }
}
