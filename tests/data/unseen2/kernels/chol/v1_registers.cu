/* ---
title = "A half warp a matrix, rows in registers, columns by shuffles"
[[launch]]
kernel = "chol"
grid = ["cdiv(B, 8)"]
block = [128]
args = ["a", "l", "B"]
--- */
constexpr int N = 16;

extern "C" __global__ void chol(const float* __restrict__ a, float* __restrict__ l, int batch) {
    int lane = threadIdx.x & 15, m = (blockIdx.x * blockDim.x + threadIdx.x) >> 4;
    bool on = m < batch;
    float r[N];
    const float4* from = reinterpret_cast<const float4*>(a + (m * N + lane) * N);
#pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        float4 v = on ? from[j] : make_float4(1, 1, 1, 1);
        r[4 * j] = v.x;
        r[4 * j + 1] = v.y;
        r[4 * j + 2] = v.z;
        r[4 * j + 3] = v.w;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
        float d = rsqrtf(__shfl_sync(0xffffffff, r[k], k, 16));
        r[k] *= d;
#pragma unroll
        for (int j = k + 1; j < N; ++j) {
            float c = __shfl_sync(0xffffffff, r[k], j, 16);
            r[j] -= r[k] * c;
        }
    }
    if (!on) return;
#pragma unroll
    for (int j = 0; j < N; ++j)
        l[(m * N + lane) * N + j] = j <= lane ? r[j] : 0.0f;
}
