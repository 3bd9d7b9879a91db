/* ---
title = "A block a row; columns by atomics"
[[fill]]
name = "dgamma"
value = 0
[[fill]]
name = "dbeta"
value = 0
[[launch]]
kernel = "backward"
grid = ["R"]
block = [128]
args = ["dy", "x", "gamma", "dx", "dgamma", "dbeta", "C"]
--- */
__device__ float2 block_sum(float2 v)
{
    static __shared__ float2 s[4];
    for (int o = 16; o; o >>= 1) {
        v.x += __shfl_down_sync(~0u, v.x, o);
        v.y += __shfl_down_sync(~0u, v.y, o);
    }
    if ((threadIdx.x & 31) == 0)
        s[threadIdx.x >> 5] = v;
    __syncthreads();
    float2 t = s[0];
    for (int i = 1; i < 4; i++) {
        t.x += s[i].x;
        t.y += s[i].y;
    }
    __syncthreads();
    return t;
}

extern "C" __global__ void backward(const float *dy, const float *x, const float *gamma, float *dx, float *dgamma, float *dbeta, int C)
{
    dy += blockIdx.x * C;
    x += blockIdx.x * C;
    dx += blockIdx.x * C;
    float2 s = make_float2(0, 0);
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        s.x += x[c];
        s.y += x[c] * x[c];
    }
    s = block_sum(s);
    float mean = s.x / C, rstd = rsqrtf(s.y / C - mean * mean + 1e-5f);
    float2 t = make_float2(0, 0);
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float h = (x[c] - mean) * rstd, d = dy[c] * gamma[c];
        t.x += d;
        t.y += d * h;
    }
    t = block_sum(t);
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float h = (x[c] - mean) * rstd;
        float d = dy[c] * gamma[c];
        dx[c] = rstd * (d - t.x / C - h * t.y / C);
        atomicAdd(&dgamma[c], dy[c] * h);
        atomicAdd(&dbeta[c], dy[c]);
    }
}
