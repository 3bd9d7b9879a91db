// A kernel that reads what no argument says outright: a table in constant memory, a counter and a
// table of addresses in device memory, a struct of pointers by value, a pointer inside of a buffer.
//   nvcc -O3 -lineinfo -arch=sm_90 tables.cu -o tables
#include <cstdio>
#include <cuda_runtime.h>

const int N = 1 << 20, PARTS = 8;

__constant__ float weights[16];
__device__ unsigned long long launches;
__device__ float *offsets;

struct Job {
    const float *const *parts; // PARTS addresses, in device memory
    float *out;
    int n;
};

__global__ void gather(Job job, float scale, const int *order)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        launches++;
    if (i < job.n)
        job.out[i] += scale * weights[i % 16] * job.parts[i % PARTS][order[i]] + offsets[i % 4];
}

int main()
{
    float host[16], *parts[PARTS], **table, *out, *few;
    int *order, *numbers = new int[N];
    for (int i = 0; i < 16; i++)
        host[i] = 1.0f / (i + 1);
    cudaMemcpyToSymbol(weights, host, sizeof host);
    cudaMalloc(&few, 4 * sizeof(float));
    cudaMemcpy(few, host, 4 * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(offsets, &few, sizeof few);
    float *values = new float[N];
    for (int p = 0; p < PARTS; p++) {
        for (int i = 0; i < N; i++)
            values[i] = (p + 1) * 0.001f * (i % 1000);
        cudaMalloc(&parts[p], N * sizeof(float));
        cudaMemcpy(parts[p], values, N * sizeof(float), cudaMemcpyHostToDevice);
    }
    // Numbers that look like halves of addresses are none.
    for (int i = 0; i < N; i++)
        numbers[i] = (int)((i * 2654435761u) % N);
    cudaMalloc(&table, sizeof parts);
    cudaMemcpy(table, parts, sizeof parts, cudaMemcpyHostToDevice);
    cudaMalloc(&order, N * sizeof(int));
    cudaMemcpy(order, numbers, N * sizeof(int), cudaMemcpyHostToDevice);
    cudaMalloc(&out, N * sizeof(float));
    cudaMemset(out, 0, N * sizeof(float));
    for (int k = 0; k < 6; k++)
        gather<<<N / 256, 256>>>({table, out, N}, 1.0f + k, order);
    cudaMemcpy(values, out, N * sizeof(float), cudaMemcpyDeviceToHost);
    unsigned long long count = 0;
    cudaMemcpyFromSymbol(&count, launches, sizeof count);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += values[i];
    printf("%s, %llu launches, sum %.6e\n", cudaGetErrorString(cudaGetLastError()), count, sum);
}
