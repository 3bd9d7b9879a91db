/* ---
title = "Pairs of bfloat16 unpacked by shifts, tiles of 32 in shared memory"
requires = "M % 32 == 0 and N % 32 == 0 and K % 32 == 0"
[[launch]]
kernel = "gemm"
grid   = ["N // 32", "M // 32"]
block  = [16, 16]
args   = ["A", "B", "C", "M", "N", "K"]
--- */

extern "C" __global__ void gemm(const unsigned* A, const unsigned* B, float* C, int M, int N, int K) {
    __shared__ unsigned As[32][17], Bs[32][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        As[ty][tx] = A[((blockIdx.y * 32 + ty) * K + k0) / 2 + tx];
        As[ty + 16][tx] = A[((blockIdx.y * 32 + ty + 16) * K + k0) / 2 + tx];
        Bs[ty][tx] = B[((k0 + ty) * N + blockIdx.x * 32) / 2 + tx];
        Bs[ty + 16][tx] = B[((k0 + ty + 16) * N + blockIdx.x * 32) / 2 + tx];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k++) {
            unsigned a0 = As[2 * ty][k / 2], a1 = As[2 * ty + 1][k / 2], b = Bs[k][tx];
            float x0 = __uint_as_float(k & 1 ? a0 & 0xffff0000u : a0 << 16);
            float x1 = __uint_as_float(k & 1 ? a1 & 0xffff0000u : a1 << 16);
            float b0 = __uint_as_float(b << 16), b1 = __uint_as_float(b & 0xffff0000u);
            c00 += x0 * b0;
            c01 += x0 * b1;
            c10 += x1 * b0;
            c11 += x1 * b1;
        }
        __syncthreads();
    }
    int row = blockIdx.y * 32 + 2 * ty, col = blockIdx.x * 32 + 2 * tx;
    *(float2*)&C[row * N + col] = make_float2(c00, c01);
    *(float2*)&C[(row + 1) * N + col] = make_float2(c10, c11);
}
