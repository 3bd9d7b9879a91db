// Sum of an array, the classic ladder.
//   nvcc -O3 -lineinfo -arch=sm_90 reduce.cu -o reduce && ./reduce 0 ... ./reduce 5
//
// v0 interleaved, divergent     v1 interleaved, strided     v2 sequential addresses
// v3 first addition on loading  v4 the last warp unrolled   v5 all loops unrolled

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

const int BLOCK = 256;

__global__ void reduce_v0(const float *in, float *out)
{
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (int stride = 1; stride < BLOCK; stride *= 2) {
        if (t % (2 * stride) == 0)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

__global__ void reduce_v1(const float *in, float *out)
{
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (int stride = 1; stride < BLOCK; stride *= 2) {
        int i = 2 * stride * t;
        if (i < BLOCK)
            s[i] += s[i + stride];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

__global__ void reduce_v2(const float *in, float *out)
{
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * BLOCK + t];
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

__global__ void reduce_v3(const float *in, float *out)
{
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    int i = blockIdx.x * (BLOCK * 2) + t;
    s[t] = in[i] + in[i + BLOCK];
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}

__device__ void last_warp(volatile float *s, int t)
{
    float x = s[t] + s[t + 32];
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_down_sync(0xffffffff, x, offset);
    if (t == 0)
        s[0] = x;
}

__global__ void reduce_v4(const float *in, float *out)
{
    __shared__ float s[BLOCK];
    int t = threadIdx.x;
    int i = blockIdx.x * (BLOCK * 2) + t;
    s[t] = in[i] + in[i + BLOCK];
    __syncthreads();
    for (int stride = BLOCK / 2; stride > 32; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t < 32)
        last_warp(s, t);
    if (t == 0)
        out[blockIdx.x] = s[0];
}

template <int SIZE>
__global__ void reduce_v5(const float *in, float *out)
{
    __shared__ float s[SIZE];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * SIZE + t];
    __syncthreads();
    if (SIZE >= 512) {
        if (t < 256) s[t] += s[t + 256];
        __syncthreads();
    }
    if (SIZE >= 256) {
        if (t < 128) s[t] += s[t + 128];
        __syncthreads();
    }
    if (SIZE >= 128) {
        if (t < 64) s[t] += s[t + 64];
        __syncthreads();
    }
    if (t < 32)
        last_warp(s, t);
    if (t == 0)
        out[blockIdx.x] = s[0];
}

int main(int argc, char **argv)
{
    int version = argc > 1 ? atoi(argv[1]) : 0;
    const int n = 1 << 26;
    int grid = version >= 3 ? n / (2 * BLOCK) : n / BLOCK;

    std::vector<float> in(n), partial(grid);
    srand(2024);
    for (float &x : in)
        x = (rand() & 0xff) / 256.0f;
    float *d_in, *d_out;
    cudaMalloc(&d_in, n * sizeof(float));
    cudaMalloc(&d_out, grid * sizeof(float));
    cudaMemcpy(d_in, in.data(), n * sizeof(float), cudaMemcpyHostToDevice);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    const int runs = 50;
    for (int i = -3; i < runs; i++) {
        if (i == 0)
            cudaEventRecord(start);
        switch (version) {
        case 0: reduce_v0<<<grid, BLOCK>>>(d_in, d_out); break;
        case 1: reduce_v1<<<grid, BLOCK>>>(d_in, d_out); break;
        case 2: reduce_v2<<<grid, BLOCK>>>(d_in, d_out); break;
        case 3: reduce_v3<<<grid, BLOCK>>>(d_in, d_out); break;
        case 4: reduce_v4<<<grid, BLOCK>>>(d_in, d_out); break;
        default: reduce_v5<BLOCK><<<grid, BLOCK>>>(d_in, d_out); break;
        }
    }
    cudaEventRecord(stop);
    cudaMemcpy(partial.data(), d_out, grid * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float x : partial)
        sum += x;
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    ms /= runs;
    printf("v%d: sum %.0f, %.4f ms, %.1f GB/s (%s)\n", version, sum, ms,
           n * sizeof(float) / ms * 1e-6, cudaGetErrorString(cudaGetLastError()));
}
