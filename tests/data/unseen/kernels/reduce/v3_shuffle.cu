/* ---
title = "Grid-stride float4, warp shuffles, one atomic a block"
requires = "N >= 1"
[[launch]]
kernel = "clear"
grid   = [1]
block  = [1]
args   = ["total"]
[[launch]]
kernel = "reduce"
grid   = ["min(264, cdiv(N, 1024))"]
block  = [256]
args   = ["x", "total", "N"]
--- */

__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

__inline__ __device__ float blockReduceSum(float val) {
    static __shared__ float shared[32];
    int lane = threadIdx.x % warpSize;
    int wid = threadIdx.x / warpSize;
    val = warpReduceSum(val);
    if (lane == 0) shared[wid] = val;
    __syncthreads();
    val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0;
    if (wid == 0) val = warpReduceSum(val);
    return val;
}

extern "C" __global__ void clear(float* total) { *total = 0.0f; }

extern "C" __global__ void reduce(const float* __restrict__ in, float* out, int N) {
    float sum = 0.0f;
    const float4* in4 = reinterpret_cast<const float4*>(in);
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = idx; i < N / 4; i += blockDim.x * gridDim.x) {
        float4 v = in4[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int i = idx + N / 4 * 4; i < N; i += blockDim.x * gridDim.x) sum += in[i];
    sum = blockReduceSum(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
