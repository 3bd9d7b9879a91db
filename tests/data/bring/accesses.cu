// Lab 5: ways to walk through memory, good ones and bad ones.
#include <cstdlib>
#include <cuda_runtime.h>
#define T 32

__global__ void transpose_writes(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) out[x * n + y] = in[y * n + x];
}

__global__ void transpose_reads(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = in[x * n + y];
}

__global__ void transpose_tiled(const float *in, float *out, int n) {
    __shared__ float tile[T][T + 1];
    int x = blockIdx.x * T + threadIdx.x;
    int y = blockIdx.y * T + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    int column = blockIdx.y * T + threadIdx.x;
    int row = blockIdx.x * T + threadIdx.y;
    if (column < n && row < n) out[row * n + column] = tile[threadIdx.x][threadIdx.y];
}

__global__ void copy_rows(const float *in, float *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = in[y * n + x];
}

__global__ void multiply_swapped(const float *in, const float *b, float *out, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < n && column < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; k++) sum += in[row * n + k] * b[k * n + column];
        out[row * n + column] = sum;
    }
}

__global__ void sum_rows(const float *in, float *sums, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) {
        float sum = 0.0f;
        for (int c = 0; c < n; c++) sum += in[row * n + c];
        sums[row] = sum;
    }
}

__global__ void move_points(float *points, int count, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        points[4 * i] += dt * points[4 * i + 2];
        points[4 * i + 1] += dt * points[4 * i + 3];
    }
}

__global__ void every_second(const float *in, float *half, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) half[i] = 2.0f * in[2 * i];
}

int main() {
    int n = 256, count = 16384;
    size_t bytes = n * n * sizeof(float);
    float *host = (float *)malloc(bytes);
    for (int i = 0; i < n * n; i++) host[i] = rand() / (float)RAND_MAX;
    float *in, *b, *out, *sums, *points, *half;
    cudaMalloc(&in, bytes);
    cudaMalloc(&b, bytes);
    cudaMalloc(&out, bytes);
    cudaMalloc(&sums, n * sizeof(float));
    cudaMalloc(&points, 4 * count * sizeof(float));
    cudaMalloc(&half, count * sizeof(float));
    cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(points, host, 4 * count * sizeof(float), cudaMemcpyHostToDevice);
    dim3 block(32, 32), grid((n + 31) / 32, (n + 31) / 32);
    transpose_writes<<<grid, block>>>(in, out, n);
    transpose_reads<<<grid, block>>>(in, out, n);
    transpose_tiled<<<grid, block>>>(in, out, n);
    copy_rows<<<grid, block>>>(in, out, n);
    multiply_swapped<<<grid, block>>>(in, b, out, n);
    sum_rows<<<(n + 127) / 128, 128>>>(in, sums, n);
    move_points<<<(count + 255) / 256, 256>>>(points, count, 0.1f);
    every_second<<<(count + 255) / 256, 256>>>(in, half, count);
    cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
    return 0;
}
