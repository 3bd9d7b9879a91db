/* ---
title = "A block culls the spheres against its tile's cone first"
change = "Threads test one sphere each against a cone around the tile, the survivors go to shared memory."
[defines]
CAP = 256
[[launch]]
kernel = "trace"
grid = ["cdiv(W, 16)", "cdiv(H, 16)"]
block = [256]
args = ["sphere", "depth", "W", "H", "S"]
--- */
__device__ __forceinline__ float3 direction(float px, float py, int w, int h) {
    float x = px / w * 2.f - 1.f, y = py / h * 2.f - 1.f;
    float inv = rsqrtf(x * x + y * y + 4.f);
    return make_float3(x * inv, y * inv, 2.f * inv);
}
__device__ __forceinline__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

extern "C" __global__ void __launch_bounds__(256) trace(const float4* __restrict__ sphere, float* __restrict__ depth,
                                                        int w, int h, int count) {
    __shared__ float4 near[CAP];
    __shared__ int kept;
    const int tx = blockIdx.x * 16, ty = blockIdx.y * 16;
    const float3 axis = direction(tx + 8.f, ty + 8.f, w, h);
    float cosine = 1.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) cosine = fminf(cosine, dot(axis, direction(tx + (k & 1) * 16.f, ty + (k >> 1) * 16.f, w, h)));
    const float sine = sqrtf(fmaxf(0.f, 1.f - cosine * cosine));
    const int px = tx + threadIdx.x % 16, py = ty + threadIdx.x / 16;
    const float3 d = direction(px + 0.5f, py + 0.5f, w, h);
    float best = 1e30f;
    for (int base = 0; base < count; base += CAP) {
        if (threadIdx.x == 0) kept = 0;
        __syncthreads();
        const int i = base + threadIdx.x;
        if (i < count) {
            float4 s = sphere[i];
            float along = axis.x * s.x + axis.y * s.y + axis.z * s.z;
            float across = sqrtf(fmaxf(0.f, s.x * s.x + s.y * s.y + s.z * s.z - along * along));
            // Outside of the cone by more than the radius, with some slack for rounding.
            if (across * cosine - along * sine < s.w * 1.01f + 0.02f) near[atomicAdd(&kept, 1)] = s;
        }
        __syncthreads();
        const int n = kept;
        for (int k = 0; k < n; ++k) {
            float4 s = near[k];
            float b = d.x * s.x + d.y * s.y + d.z * s.z;
            if (b - s.w >= best) continue;
            float ex = s.x - b * d.x, ey = s.y - b * d.y, ez = s.z - b * d.z;
            float q = s.w * s.w - (ex * ex + ey * ey + ez * ez);
            if (q > 0.f) {
                float t = b - sqrtf(q);
                if (t > 0.f) best = fminf(best, t);
            }
        }
        __syncthreads();
    }
    if (px < w && py < h) depth[py * w + px] = best < 1e30f ? 1.f / best : 0.f;
}
