/* ---
title = "Slicing by four, tables in shared memory, uint4 loads"
[[launch]]
kernel = "crc32"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["msg", "table", "crc", "N"]
--- */
#include <cstdint>

extern "C" __global__ void crc32(const uint4* __restrict__ msg, const uint32_t* __restrict__ table, uint32_t* __restrict__ out, int n) {
    __shared__ uint32_t T[4][256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        uint32_t c = table[i];
        T[0][i] = c;
#pragma unroll
        for (int s = 1; s < 4; ++s) {
            c = table[c & 255] ^ (c >> 8);
            T[s][i] = c;
        }
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uint32_t crc = ~0u;
        auto step = [&](uint32_t word) {
            crc ^= word;
            crc = T[3][crc & 0xff] ^ T[2][(crc >> 8) & 0xff] ^ T[1][(crc >> 16) & 0xff] ^ T[0][crc >> 24];
        };
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint4 v = msg[i * 4 + k];
            step(v.x);
            step(v.y);
            step(v.z);
            step(v.w);
        }
        out[i] = ~crc;
    }
}
