/* ---
title = "flash-attention-minimal: tiles of K and V in dynamic shared memory, a thread a row"
[[launch]]
kernel = "attention"
grid = ["N // 32"]
block = [32]
args = ["q", "k", "v", "o", "N"]
dynamic_shared = "4 * (3 * 32 * 64 + 32 * 32)"
--- */
#include <cuda_fp16.h>
extern "C" __global__ void attention(const half *Q, const half *K, const half *V, float *O, int N)
{
    const int d = 64, Bc = 32, Br = 32;
    int tx = threadIdx.x, bx = blockIdx.x;
    extern __shared__ float sram[];
    float *Qi = sram;
    float *Kj = &sram[Br * d];
    float *Vj = &sram[Br * d + Bc * d];
    float *S = &sram[Br * d + 2 * Bc * d];
    for (int x = 0; x < d; x++)
        Qi[tx * d + x] = __half2float(Q[(bx * Br + tx) * d + x]);
    float m = -INFINITY, l = 0, acc[64];
    for (int x = 0; x < d; x++)
        acc[x] = 0;
    for (int j = 0; j < N / Bc; j++) {
        for (int x = 0; x < d; x++) {
            Kj[tx * d + x] = __half2float(K[(j * Bc + tx) * d + x]);
            Vj[tx * d + x] = __half2float(V[(j * Bc + tx) * d + x]);
        }
        __syncthreads();
        float row_m = -INFINITY;
        for (int y = 0; y < Bc; y++) {
            float sum = 0;
            for (int x = 0; x < d; x++)
                sum += Qi[tx * d + x] * Kj[y * d + x];
            sum *= 0.125f;
            S[Bc * tx + y] = sum;
            if (sum > row_m)
                row_m = sum;
        }
        float new_m = fmaxf(m, row_m), old = __expf(m - new_m), row_l = 0;
        for (int y = 0; y < Bc; y++) {
            S[Bc * tx + y] = __expf(S[Bc * tx + y] - new_m);
            row_l += S[Bc * tx + y];
        }
        for (int x = 0; x < d; x++) {
            float pv = 0;
            for (int y = 0; y < Bc; y++)
                pv += S[Bc * tx + y] * Vj[y * d + x];
            acc[x] = acc[x] * old + pv;
        }
        l = l * old + row_l;
        m = new_m;
        __syncthreads();
    }
    for (int x = 0; x < d; x++)
        O[(bx * Br + tx) * d + x] = acc[x] / l;
}
