/* ---
title = "Spheres in constant memory, every ray tries each"
[defines]
MOST = 1024
[[fill]]
name = "spheres"
input = "sphere"
[[launch]]
kernel = "trace"
grid = ["cdiv(W, 16)", "cdiv(H, 16)"]
block = [16, 16]
args = ["depth", "W", "H", "S"]
--- */
__constant__ float4 spheres[MOST];

struct Ray {
    float x, y, z;
};

__device__ Ray primary(int px, int py, int w, int h) {
    float x = (px + 0.5f) / w * 2.f - 1.f, y = (py + 0.5f) / h * 2.f - 1.f;
    float inv = 1.f / sqrtf(x * x + y * y + 4.f);
    return {x * inv, y * inv, 2.f * inv};
}

__device__ bool hit(const Ray& d, float4 s, float& t) {
    float b = d.x * s.x + d.y * s.y + d.z * s.z;
    // Distance of the centre from the ray, by components: no large squares are subtracted.
    float ex = s.x - b * d.x, ey = s.y - b * d.y, ez = s.z - b * d.z;
    float q = s.w * s.w - (ex * ex + ey * ey + ez * ez);
    if (q <= 0.f) return false;
    t = b - sqrtf(q);
    return t > 0.f;
}

extern "C" __global__ void trace(float* __restrict__ depth, int w, int h, int count) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    Ray ray = primary(px, py, w, h);
    float best = 1e30f;
    for (int i = 0; i < count; ++i) {
        float t;
        if (hit(ray, spheres[i], t) && t < best) best = t;
    }
    depth[py * w + px] = best < 1e30f ? 1.f / best : 0.f;
}
