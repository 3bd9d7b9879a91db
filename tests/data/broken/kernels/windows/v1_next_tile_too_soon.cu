/* ---
title = "Wrong: the next tile's places are written while others read the last one's"
[[tensor_map]]
name     = "pixels"
buffer   = "x"
dtype    = "float32"
dims     = [8, "W", "H", "N"]
element_strides = [1, "V", "U", 1]
lower    = ["-Q", "-P"]
upper    = ["Q - S + 1", "P - R + 1"]
channels = 8
pixels   = 64
[[launch]]
kernel = "windows"
grid   = [2]
block  = [96]
args   = ["pixels", "w", "y", "N*OH*OW", "OH", "OW", "R", "S", "U", "V", "P", "Q"]
--- */
#include "windows.cuh"

extern "C" __global__ void windows(const __grid_constant__ CUtensorMap pixels, const float *w,
                                   float *y, int outputs, int OH, int OW, int R, int S, int U,
                                   int V, int P, int Q) {
    __shared__ __align__(128) float ring[2][64][8];
    __shared__ int place[64];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x, step = 0;
    if (t == 0) {
        for (int s = 0; s < 2; ++s) {
            INIT(&full[s], 1);
            INIT(&empty[s], 64);
        }
    }
    __syncthreads();
    if (t >= 64) {
        for (int o = blockIdx.x * 64; t == 64 && o < outputs; o += gridDim.x * 64) {
            int n = o / (OH * OW), top = o / OW % OH * U - P, left = o % OW * V - Q;
            for (int tap = 0; tap < R * S; ++tap, ++step) {
                int s = step % 2;
                WAIT(&empty[s], (step / 2 + 1) % 2);
                EXPECT(&full[s], 2048);
                WINDOWS(ring[s], pixels, left, top, n, tap % S, tap / S, &full[s]);
            }
        }
        return;
    }
    for (int o = blockIdx.x * 64; o < outputs; o += gridDim.x * 64) {
        place[63 - t] = o + 63 - t < outputs ? o + 63 - t : -1;  // <- wrong
        ADDERS();
        float sum = 0;
        for (int tap = 0; tap < R * S; ++tap, ++step) {
            int s = step % 2;
            WAIT(&full[s], step / 2 % 2);
            for (int c = 0; c < 8; ++c) sum += ring[s][t][c] * w[tap * 8 + c];
            ARRIVE(&empty[s]);
        }
        if (place[t] >= 0) y[place[t]] = sum;
    }
}
