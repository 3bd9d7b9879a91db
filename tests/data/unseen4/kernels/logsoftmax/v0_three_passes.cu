/* ---
title = "A block per row: a pass for the maximum, one for the sum, one to write"
[defines]
THREADS = 128
[[launch]]
kernel = "log_softmax"
grid = ["R"]
block = ["THREADS"]
args = ["logits", "logp", "best", "C"]
--- */
#include <float.h>

extern "C" __global__ void log_softmax(const float* logits, float* logp, int* best, int columns) {
    __shared__ float value[THREADS];
    __shared__ int place[THREADS];
    const float* row = logits + (size_t)blockIdx.x * columns;
    float* out = logp + (size_t)blockIdx.x * columns;
    int t = threadIdx.x;

    // The maximum and its place; of equal ones the first.
    float top = -FLT_MAX;
    int at = columns;
    for (int c = t; c < columns; c += THREADS) {
        if (row[c] > top) {
            top = row[c];
            at = c;
        }
    }
    value[t] = top;
    place[t] = at;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride >>= 1) {
        if (t < stride) {
            float other = value[t + stride];
            if (other > value[t] || (other == value[t] && place[t + stride] < place[t])) {
                value[t] = other;
                place[t] = place[t + stride];
            }
        }
        __syncthreads();
    }
    top = value[0];
    if (t == 0) best[blockIdx.x] = place[0];
    __syncthreads();

    // The sum of the exponentials.
    float sum = 0.0f;
    for (int c = t; c < columns; c += THREADS) sum += expf(row[c] - top);
    value[t] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride >>= 1) {
        if (t < stride) value[t] += value[t + stride];
        __syncthreads();
    }
    sum = value[0];

    for (int c = t; c < columns; c += THREADS) out[c] = row[c] - top - logf(sum);
}
