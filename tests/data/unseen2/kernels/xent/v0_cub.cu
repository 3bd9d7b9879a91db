/* ---
title = "cub::BlockReduce twice, a block a row"
[[launch]]
kernel = "xent"
grid = ["R"]
block = [128]
args = ["logits", "label", "loss", "grad", "R", "C"]
--- */
#include <cub/block/block_reduce.cuh>
#include <cfloat>
struct MaxOp {
    __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
extern "C" __global__ void xent(const float *logits, const long long *label, float *loss, float *grad, int rows, int C)
{
    typedef cub::BlockReduce<float, 128> BlockReduce;
    __shared__ typename BlockReduce::TempStorage temp;
    __shared__ float row_max, row_sum;
    const float *in = logits + blockIdx.x * C;
    float m = -FLT_MAX;
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        m = fmaxf(m, in[i]);
    m = BlockReduce(temp).Reduce(m, MaxOp());
    if (threadIdx.x == 0)
        row_max = m;
    __syncthreads();
    m = row_max;
    float s = 0;
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        s += expf(in[i] - m);
    s = BlockReduce(temp).Sum(s);
    if (threadIdx.x == 0)
        row_sum = s;
    __syncthreads();
    s = row_sum;
    long long t = label[blockIdx.x];
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(s) + m - in[t];
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        float p = expf(in[i] - m) / s;
        grad[blockIdx.x * C + i] = (p - (i == t ? 1.f : 0.f)) / rows;
    }
}
