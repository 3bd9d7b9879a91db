/* ---
title = "Radix 2 in shared memory, bits reversed at the start"
[[launch]]
kernel = "fft"
grid   = ["B"]
block  = [256]
args   = ["x", "y"]
--- */

extern "C" __global__ void fft(const float2* x, float2* y) {
    __shared__ float2 s[512];
    int t = threadIdx.x;
    x += blockIdx.x * 512;
    y += blockIdx.x * 512;
    s[__brev(t) >> 23] = x[t];
    s[__brev(t + 256) >> 23] = x[t + 256];
    __syncthreads();
    for (int half = 1; half < 512; half <<= 1) {
        int k = t & (half - 1), i = 2 * (t - k) + k;
        float sn, cs;
        sincospif(-(float)k / half, &sn, &cs);
        float2 a = s[i], b = s[i + half];
        float2 w = make_float2(cs * b.x - sn * b.y, cs * b.y + sn * b.x);
        s[i] = make_float2(a.x + w.x, a.y + w.y);
        s[i + half] = make_float2(a.x - w.x, a.y - w.y);
        __syncthreads();
    }
    y[t] = s[t];
    y[t + 256] = s[t + 256];
}
