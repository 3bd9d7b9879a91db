// Lab 3: C = A * B, by templates of a tile.
#include <iostream>
#include <vector>
#include <cstdlib>
#include <cuda_runtime.h>
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

template <const int BLOCK>
__global__ void sgemm_coalesced(int M, int N, int K, float alpha, const float *A, const float *B,
                                float beta, float *C) {
    const int row = blockIdx.x * BLOCK + threadIdx.x / BLOCK;
    const int col = blockIdx.y * BLOCK + threadIdx.x % BLOCK;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int i = 0; i < K; i++) sum += A[row * K + i] * B[i * N + col];
        C[row * N + col] = alpha * sum + beta * C[row * N + col];
    }
}

template <const int BLOCK>
__global__ void sgemm_shared(int M, int N, int K, float alpha, const float *A, const float *B,
                             float beta, float *C) {
    __shared__ float As[BLOCK * BLOCK], Bs[BLOCK * BLOCK];
    const int r = threadIdx.x / BLOCK, c = threadIdx.x % BLOCK;
    A += blockIdx.x * BLOCK * K;
    B += blockIdx.y * BLOCK;
    C += blockIdx.x * BLOCK * N + blockIdx.y * BLOCK;
    float sum = 0.0f;
    for (int at = 0; at < K; at += BLOCK) {
        As[r * BLOCK + c] = A[r * K + c];
        Bs[r * BLOCK + c] = B[r * N + c];
        __syncthreads();
        A += BLOCK;
        B += BLOCK * N;
        for (int i = 0; i < BLOCK; i++) sum += As[r * BLOCK + i] * Bs[i * BLOCK + c];
        __syncthreads();
    }
    C[r * N + c] = alpha * sum + beta * C[r * N + c];
}

void run_coalesced(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
    dim3 grid(CEIL_DIV(M, 32), CEIL_DIV(N, 32));
    dim3 block(32 * 32);
    sgemm_coalesced<32><<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
}

void run_shared(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
    dim3 grid(CEIL_DIV(M, 32), CEIL_DIV(N, 32));
    dim3 block(32 * 32);
    sgemm_shared<32><<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
}

void run_kernel(int kernel, int M, int N, int K, float alpha, float *A, float *B, float beta,
                float *C) {
    switch (kernel) {
        case 1:
            run_coalesced(M, N, K, alpha, A, B, beta, C);
            break;
        case 2:
            run_shared(M, N, K, alpha, A, B, beta, C);
            break;
        default:
            throw std::invalid_argument("unknown kernel");
    }
}

void cpu_gemm(int M, int N, int K, float alpha, const std::vector<float> &A,
              const std::vector<float> &B, float beta, std::vector<float> &C) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) sum += A[i * K + k] * B[k * N + j];
            C[i * N + j] = alpha * sum + beta * C[i * N + j];
        }
}

void randomize(std::vector<float> &values) {
    for (auto &value : values) value = rand() / (float)RAND_MAX;
}

int main(int argc, char **argv) {
    int kernel = argc > 1 ? std::atoi(argv[1]) : 1;
    long m = 1024, n = 1024, k = 1024;
    float alpha = 0.5, beta = 3.0;
    std::vector<float> A(m * k), B(k * n), C(m * n), reference;
    randomize(A);
    randomize(B);
    randomize(C);
    reference = C;
    float *dA, *dB, *dC;
    cudaMalloc(&dA, A.size() * sizeof(float));
    cudaMalloc(&dB, B.size() * sizeof(float));
    cudaMalloc(&dC, C.size() * sizeof(float));
    cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, B.data(), B.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dC, C.data(), C.size() * sizeof(float), cudaMemcpyHostToDevice);
    run_kernel(kernel, m, n, k, alpha, dA, dB, beta, dC);
    cudaMemcpy(C.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cpu_gemm(m, n, k, alpha, A, B, beta, reference);
    for (size_t i = 0; i < C.size(); i++)
        if (std::abs(C[i] - reference[i]) > 0.01) {
            std::cout << "wrong at " << i << "\n";
            return 1;
        }
    std::cout << "right\n";
}
