/* ---
title = "Wrong: sums are scaled between products, and no fence follows"
[[launch]]
kernel = "product"
grid   = [1]
block  = [160]
args   = ["a", "b", "c", "k"]
--- */
#include "async.cuh"

extern "C" __global__ void product(const half *a, const half *b, float *c, int k) {
    __shared__ __align__(128) half as[2][1024], bs[2][512];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 2; ++s) {
            INIT(&full[s], 1);
            INIT(&empty[s], 128);
        }
    }
    __syncthreads();
    if (t >= 128) {
        for (int i = 0; t == 128 && i < k / 16; ++i) {
            int s = i % 2;
            WAIT(&empty[s], (i / 2 + 1) % 2);
            EXPECT(&full[s], 3072);
            COPY(as[s], a + i * 1024, 2048, &full[s]);
            COPY(bs[s], b + i * 512, 1024, &full[s]);
        }
        return;
    }
    float d[16] = {};
    for (int i = 0; i < k / 16; ++i) {
        int s = i % 2;
        WAIT(&full[s], i / 2 % 2);
        if (i == 0) FENCE();
        for (int n = 0; n < 16; ++n) d[n] *= 1.0f + (k < 0);
        MULTIPLY(d, as[s], bs[s]);  // <- wrong
        COMMIT();
        DONE(0);
        ARRIVE(&empty[s]);
    }
    int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int n = 0; n < 16; ++n)
        c[(row + n / 2 % 2 * 8) * 32 + n / 4 * 8 + column + n % 2] = d[n];
}
