/* ---
title  = "One matrix per thread"
change = "The augmented matrix in a local array, rows swapped as in the textbook."
[[launch]]
kernel = "invert"
grid   = ["cdiv(B, 64)"]
block  = [64]
args   = ["A", "inverse", "B"]
--- */

#define N 8

extern "C" __global__ void invert(const float* A, float* inverse, int count) {
    int matrix = blockIdx.x * blockDim.x + threadIdx.x;
    if (matrix >= count) return;

    const float* in = A + matrix * N * N;
    float a[N][2 * N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = in[i * N + j];
            a[i][N + j] = i == j ? 1.0f : 0.0f;
        }
    }

    for (int k = 0; k < N; k++) {
        // the largest element of what is left of column k
        int pivot = k;
        for (int i = k + 1; i < N; i++) {
            if (fabsf(a[i][k]) > fabsf(a[pivot][k])) pivot = i;
        }
        if (pivot != k) {
            for (int j = k; j < 2 * N; j++) {
                float t = a[k][j];
                a[k][j] = a[pivot][j];
                a[pivot][j] = t;
            }
        }

        float scale = 1.0f / a[k][k];
        for (int j = k; j < 2 * N; j++) a[k][j] *= scale;

        for (int i = 0; i < N; i++) {
            if (i == k) continue;
            float factor = a[i][k];
            for (int j = k; j < 2 * N; j++) a[i][j] -= factor * a[k][j];
        }
    }

    float* out = inverse + matrix * N * N;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) out[i * N + j] = a[i][N + j];
    }
}
