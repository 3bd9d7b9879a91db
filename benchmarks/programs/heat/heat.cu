// Heat on a plate: explicit Euler, five points, fixed border.
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

__device__ __forceinline__ int index(int x, int y, int width) { return y * width + x; }

__device__ float laplacian(const float *u, int x, int y, int width)
{
    float centre = u[index(x, y, width)];
    float east = u[index(x + 1, y, width)], west = u[index(x - 1, y, width)];
    float north = u[index(x, y - 1, width)], south = u[index(x, y + 1, width)];
    return east + west + north + south - 4.0f * centre;
}

__global__ void step(const float *u, float *next, int width, int height, float r)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= width - 1 || y >= height - 1)
        return;
    next[index(x, y, width)] = u[index(x, y, width)] + r * laplacian(u, x, y, width);
}

__global__ void energy(const float *u, int n, float *result)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += u[i];
    atomicAdd(result, sum);
}

int main()
{
    const int width = 4096, height = 4096, steps = 100;
    size_t bytes = sizeof(float) * width * height;
    std::vector<float> plate(width * height, 0.0f);
    for (int y = height / 4; y < height / 2; y++)
        for (int x = width / 4; x < width / 2; x++)
            plate[y * width + x] = 1.0f;

    float *u, *next, *sum, total;
    cudaMalloc(&u, bytes);
    cudaMalloc(&next, bytes);
    cudaMalloc(&sum, sizeof(float));
    cudaMemcpy(u, plate.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(next, plate.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemset(sum, 0, sizeof(float));

    dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
    cudaEvent_t t0, t1;
    cudaEventCreate(&t0);
    cudaEventCreate(&t1);
    for (int i = 0; i < steps; i++) {
        if (i == 10)
            cudaEventRecord(t0);
        step<<<grid, block>>>(u, next, width, height, 0.2f);
        std::swap(u, next);
    }
    cudaEventRecord(t1);
    energy<<<256, 256>>>(u, width * height, sum);
    cudaMemcpy(&total, sum, sizeof(float), cudaMemcpyDeviceToHost);
    float ms;
    cudaEventElapsedTime(&ms, t0, t1);
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    printf("energy %.1f\n%.4f ms a step\n", total, ms / (steps - 10));
}
