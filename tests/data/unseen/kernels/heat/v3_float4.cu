/* ---
title = "Four points a thread as float4, neighbours along x by shuffles"
requires = "X % 4 == 0"
requires_why = "it loads float4"
[[launch]]
kernel = "heat"
grid   = ["cdiv(X, 128)", "cdiv(Y, 4)", "Z"]
block  = [32, 4]
args   = ["u", "v", "X // 4", "Y", "Z"]
--- */

__device__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

extern "C" __global__ void heat(const float4* __restrict__ u, float4* __restrict__ v, int nx, int ny, int nz) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, z = blockIdx.z;
    if (y >= ny) return;
    int i = (z * ny + y) * nx + x;
    float4 c = x < nx ? u[i] : make_float4(0, 0, 0, 0);
    float left = __shfl_up_sync(0xffffffff, c.w, 1);
    float right = __shfl_down_sync(0xffffffff, c.x, 1);
    if (x >= nx) return;
    if (y == 0 || y == ny - 1 || z == 0 || z == nz - 1) {
        v[i] = c;
        return;
    }
    if (threadIdx.x == 0 && x > 0) left = reinterpret_cast<const float*>(u)[4 * i - 1];
    if (threadIdx.x == 31 && x < nx - 1) right = reinterpret_cast<const float*>(u)[4 * i + 4];
    float4 s = add(add(u[i - nx], u[i + nx]), add(u[i - nx * ny], u[i + nx * ny]));
    float4 r;
    r.x = x == 0 ? c.x : 0.4f * c.x + 0.1f * (s.x + left + c.y);
    r.y = 0.4f * c.y + 0.1f * (s.y + c.x + c.z);
    r.z = 0.4f * c.z + 0.1f * (s.z + c.y + c.w);
    r.w = x == nx - 1 ? c.w : 0.4f * c.w + 0.1f * (s.w + c.z + right);
    v[i] = r;
}
