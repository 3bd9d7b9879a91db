/* ---
title = "A thread per query, keys and values in shared memory as float, softmax on the way"
[defines]
THREADS = 64
KEYS = 32
[[launch]]
kernel = "attention"
grid = ["cdiv(S, THREADS)", "H"]
block = ["THREADS"]
args = ["Q", "K", "V", "O", "S", 0.125]
--- */
#include <cuda_fp16.h>
#include <float.h>

#define D 64

extern "C" __global__ void attention(const half* Q, const half* K, const half* V, half* O, int length, float scale) {
    __shared__ float keys[KEYS][D];
    __shared__ float values[KEYS][D];
    int row = blockIdx.x * THREADS + threadIdx.x;
    size_t head = (size_t)blockIdx.y * length * D;
    bool active = row < length;

    float query[D];
    float out[D];
#pragma unroll
    for (int d = 0; d < D; d++) {
        query[d] = active ? scale * __half2float(Q[head + row * D + d]) : 0.0f;
        out[d] = 0.0f;
    }
    float top = -FLT_MAX;
    float sum = 0.0f;

    // The last query of the block sees the most keys.
    int end = min(length, (blockIdx.x + 1) * THREADS);
    for (int first = 0; first < end; first += KEYS) {
        for (int i = threadIdx.x; i < KEYS * D; i += THREADS) {
            int key = first + i / D;
            bool inside = key < length;
            keys[i / D][i % D] = inside ? __half2float(K[head + key * D + i % D]) : 0.0f;
            values[i / D][i % D] = inside ? __half2float(V[head + key * D + i % D]) : 0.0f;
        }
        __syncthreads();

        int seen = active ? min(KEYS, row + 1 - first) : 0;
        for (int j = 0; j < seen; j++) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < D; d++) score += query[d] * keys[j][d];

            if (score > top) {
                float shrink = expf(top - score);
                sum *= shrink;
#pragma unroll
                for (int d = 0; d < D; d++) out[d] *= shrink;
                top = score;
            }
            float p = expf(score - top);
            sum += p;
#pragma unroll
            for (int d = 0; d < D; d++) out[d] += p * values[j][d];
        }
        __syncthreads();
    }

    if (active) {
#pragma unroll
        for (int d = 0; d < D; d++) O[head + row * D + d] = __float2half(out[d] / sum);
    }
}
