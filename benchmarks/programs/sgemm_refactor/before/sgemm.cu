// C = alpha * A * B + beta * C, row major, all sizes multiples of 64.
//   make: nvcc -O3 -lineinfo -arch=sm_90 -o sgemm sgemm.cu
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

constexpr int TILE = 64, DEPTH = 16;

__global__ void __launch_bounds__(256)
sgemm(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C)
{
    __shared__ float As[DEPTH][TILE], Bs[DEPTH][TILE];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
    float acc[4][4] = {};

    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += 256) {
            As[i % DEPTH][i / DEPTH] = A[(row0 + i / DEPTH) * K + k0 + i % DEPTH];
            Bs[i / TILE][i % TILE] = B[(k0 + i / TILE) * N + col0 + i % TILE];
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    acc[i][j] += As[k][ty * 4 + i] * Bs[k][tx * 4 + j];
        }
        __syncthreads();
    }

    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            float *c = &C[(row0 + ty * 4 + i) * N + col0 + tx * 4 + j];
            *c = alpha * acc[i][j] + beta * *c;
        }
    }
}

int main()
{
    const int M = 4096, N = 4096, K = 4096;
    std::vector<float> a((size_t)M * K), b((size_t)K * N), c((size_t)M * N);
    srand(42);
    for (auto &x : a) x = rand() / (float)RAND_MAX - 0.5f;
    for (auto &x : b) x = rand() / (float)RAND_MAX - 0.5f;
    for (auto &x : c) x = rand() / (float)RAND_MAX - 0.5f;

    float *A, *B, *C;
    cudaMalloc(&A, a.size() * 4);
    cudaMalloc(&B, b.size() * 4);
    cudaMalloc(&C, c.size() * 4);
    cudaMemcpy(A, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(B, b.data(), b.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(C, c.data(), c.size() * 4, cudaMemcpyHostToDevice);

    dim3 grid(N / TILE, M / TILE);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    sgemm<<<grid, 256>>>(M, N, K, 1.0f, A, B, 0.5f, C);
    cudaEventRecord(start);
    for (int i = 0; i < 10; i++)
        sgemm<<<grid, 256>>>(M, N, K, 1.0f, A, B, 0.5f, C);
    cudaEventRecord(stop);
    cudaMemcpy(c.data(), C, c.size() * 4, cudaMemcpyDeviceToHost);

    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    double checksum = 0;
    for (float x : c) checksum += x;
    printf("checksum %.6e\n", checksum);
    printf("%.3f ms, %.0f GFLOP/s\n", ms / 10, 2e-6 * M * N * K / (ms / 10));
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    return 0;
}
