/* ---
title = "Three steps of radix 8 in registers, exchanged through shared memory, real and imaginary parts apart"
[[launch]]
kernel = "fft"
grid   = ["B"]
block  = [64]
args   = ["x", "y"]
--- */

__device__ inline float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ inline float2 mul(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

__device__ inline void fft2(float2& a, float2& b) {
    float2 t = a;
    a = t + b;
    b = t - b;
}

__device__ inline void fft4(float2& a, float2& b, float2& c, float2& d) {
    fft2(a, c);
    fft2(b, d);
    d = make_float2(d.y, -d.x);
    fft2(a, b);
    fft2(c, d);
}

__device__ inline void fft8(float2* a) {
    const float h = 0.70710678f;
    fft2(a[0], a[4]);
    fft2(a[1], a[5]);
    fft2(a[2], a[6]);
    fft2(a[3], a[7]);
    a[5] = mul(a[5], make_float2(h, -h));
    a[6] = make_float2(a[6].y, -a[6].x);
    a[7] = mul(a[7], make_float2(-h, -h));
    fft4(a[0], a[1], a[2], a[3]);
    fft4(a[4], a[5], a[6], a[7]);
}

__constant__ int reversed[8] = {0, 4, 2, 6, 1, 5, 3, 7};

__device__ inline void twiddle(float2* a, int i, int n) {
#pragma unroll
    for (int j = 1; j < 8; j++) {
        const int rev[8] = {0, 4, 2, 6, 1, 5, 3, 7};
        float phi = -6.28318530718f * rev[j] * i / n;
        a[j] = mul(a[j], make_float2(__cosf(phi), __sinf(phi)));
    }
}

extern "C" __global__ void fft(const float2* x, float2* y) {
    __shared__ float smem[8 * 8 * 9];
    const int tid = threadIdx.x, hi = tid >> 3, lo = tid & 7;
    x += blockIdx.x * 512 + tid;
    y += blockIdx.x * 512 + tid;
    const int rev[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    float2 a[8];
#pragma unroll
    for (int i = 0; i < 8; i++) a[i] = x[i * 64];
    fft8(a);
    twiddle(a, tid, 512);
    float* w = smem + hi * 8 + lo;
    float* r = smem + lo * 66 + hi;
#pragma unroll
    for (int i = 0; i < 8; i++) w[rev[i] * 66] = a[i].x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) a[i].x = r[i * 8];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) w[rev[i] * 66] = a[i].y;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) a[i].y = r[i * 8];
    __syncthreads();
    fft8(a);
    twiddle(a, hi, 64);
    w = smem + lo * 72 + hi;
    r = smem + lo * 72 + hi * 9;
#pragma unroll
    for (int i = 0; i < 8; i++) w[rev[i] * 9] = a[i].x;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) a[i].x = r[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) w[rev[i] * 9] = a[i].y;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) a[i].y = r[i];
    fft8(a);
#pragma unroll
    for (int i = 0; i < 8; i++) y[reversed[i] * 64] = a[i];
}
