// A kernel whose buffer holds 6 GB.
//   nvcc -O3 -arch=sm_90 large.cu -o large
#include <cstdio>
#include <cuda_runtime.h>

__global__ void touch(float *x, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += 1.0f;
}

int main()
{
    size_t n = 1500u << 20;
    float *x;
    if (cudaMalloc(&x, n * sizeof(float)) != cudaSuccess)
        return 1;
    cudaMemset(x, 0, n * sizeof(float));
    for (int k = 0; k < 3; k++)
        touch<<<(n + 255) / 256, 256>>>(x, n);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
