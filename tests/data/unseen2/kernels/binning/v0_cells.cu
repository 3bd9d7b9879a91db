/* ---
title = "Cells by float4 positions, atomics of three kinds, match_any"
[[fill]]
name = "count"
value = 0
[[fill]]
name = "total"
value = 0
[[launch]]
kernel = "bin"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["pos", "mass", "count", "total", "order", "N", "G"]
--- */
__device__ int3 cell_of(float4 p, int g)
{
    int3 c;
    c.x = min((int)floorf(p.x * g), g - 1);
    c.y = min((int)floorf(p.y * g), g - 1);
    c.z = min((int)floorf(p.z * g), g - 1);
    return c;
}
extern "C" __global__ void bin(const float4 *pos, const float *mass, int *count, float *total, int *order, int n, int g)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int3 c = cell_of(pos[i], g);
    int cell = c.x + g * (c.y + g * c.z);
    order[i] = cell;
    unsigned same = __match_any_sync(__activemask(), cell);
    if ((threadIdx.x & 31) == __ffs(same) - 1)
        atomicAdd(&count[cell], __popc(same));
    atomicAdd(&total[cell], mass[i]);
}
