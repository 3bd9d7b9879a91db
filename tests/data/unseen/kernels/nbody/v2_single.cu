/* ---
title = "Computed in single precision, float4 in shared memory, double atomics over slices"
[[launch]]
kernel = "clear"
grid   = ["cdiv(3 * N, 256)"]
block  = [256]
args   = ["acceleration", "3 * N"]
[[launch]]
kernel = "accelerate"
grid   = ["cdiv(N, 128)", 4]
block  = [128]
args   = ["body", "acceleration", "N"]
--- */

extern "C" __global__ void clear(double* a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 0.0;
}

extern "C" __global__ void accelerate(const double4_16a* body, double* acceleration, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x, slice = (n + 3) / 4;
    int begin = blockIdx.y * slice, end = min(begin + slice, n);
    float4 me = make_float4(0, 0, 0, 0);
    if (i < n) {
        double4_16a b = body[i];
        me = make_float4(b.x, b.y, b.z, b.w);
    }
    float ax = 0, ay = 0, az = 0;
    for (int j0 = begin; j0 < end; j0 += 128) {
        float4 b = make_float4(0, 0, 0, 0);
        if (j0 + (int)threadIdx.x < end) {
            double4_16a d = body[j0 + threadIdx.x];
            b = make_float4(d.x, d.y, d.z, d.w);
        }
        tile[threadIdx.x] = b;
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 128; j++) {
            float4 o = tile[j];
            float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
            float s = o.w * inv * inv * inv;
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
        __syncthreads();
    }
    if (i < n) {
        atomicAdd(&acceleration[3 * i], (double)ax);
        atomicAdd(&acceleration[3 * i + 1], (double)ay);
        atomicAdd(&acceleration[3 * i + 2], (double)az);
    }
}
