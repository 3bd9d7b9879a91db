/* ---
title = "Thomas, a thread a system, local arrays"
[[launch]]
kernel = "thomas"
grid = ["cdiv(B, 32)"]
block = [32]
args = ["a", "b", "c", "d", "x", "B"]
--- */
#define N 128
extern "C" __global__ void thomas(const float *a, const float *b, const float *c, const float *d, float *x, int batch)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch) return;
    float cp[N], dp[N];
    int o = s * N;
    cp[0] = c[o] / b[o];
    dp[0] = d[o] / b[o];
    for (int i = 1; i < N; i++) {
        float m = 1.0f / (b[o + i] - a[o + i] * cp[i - 1]);
        cp[i] = c[o + i] * m;
        dp[i] = (d[o + i] - a[o + i] * dp[i - 1]) * m;
    }
    float last = dp[N - 1];
    x[o + N - 1] = last;
    for (int i = N - 2; i >= 0; i--) {
        last = dp[i] - cp[i] * last;
        x[o + i] = last;
    }
}
