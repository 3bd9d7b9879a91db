/* ---
title = "Centers in constant memory, sums by atomics in shared memory"
[[fill]]
name = "c_centers"
input = "centers"
[[fill]]
name = "sums"
value = 0
[[fill]]
name = "counts"
value = 0
[[launch]]
kernel = "assign"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "label", "sums", "counts", "N", "K"]
dynamic_shared = "K * 20"
--- */
__constant__ float4 c_centers[64];

__device__ inline float sqr(float v) { return v * v; }

extern "C" __global__ void assign(const float4 *points, int *label, float *sums, int *counts, int n, int k)
{
    extern __shared__ char smem[];
    float4 *s_sum = reinterpret_cast<float4 *>(smem);
    int *s_count = reinterpret_cast<int *>(smem + k * sizeof(float4));
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        s_sum[i] = make_float4(0.f, 0.f, 0.f, 0.f);
        s_count[i] = 0;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 p = points[i];
        float best = 3.4e38f;
        int which = 0;
        for (int c = 0; c < k; c++) {
            float d = sqr(p.x - c_centers[c].x) + sqr(p.y - c_centers[c].y) + sqr(p.z - c_centers[c].z) + sqr(p.w - c_centers[c].w);
            if (d < best) {
                best = d;
                which = c;
            }
        }
        label[i] = which;
        atomicAdd(&s_sum[which].x, p.x);
        atomicAdd(&s_sum[which].y, p.y);
        atomicAdd(&s_sum[which].z, p.z);
        atomicAdd(&s_sum[which].w, p.w);
        atomicAdd(&s_count[which], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 4 * k; i += blockDim.x)
        atomicAdd(&sums[i], reinterpret_cast<float *>(s_sum)[i]);
    if (threadIdx.x < k)
        atomicAdd(&counts[threadIdx.x], s_count[threadIdx.x]);
}
