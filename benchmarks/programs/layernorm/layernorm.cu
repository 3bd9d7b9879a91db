// Forward pass of LayerNorm: (B, T, C) activations, weight and bias of C.
//
// Build: nvcc -O3 -lineinfo -arch=sm_90 layernorm.cu -o layernorm
// Usage: ./layernorm <version>
//   1: one thread for each (b, t), three loops over the channels
//   2: three kernels: mean, reciprocal deviation, normalization
//   3: one kernel again, a warp for each (b, t)

#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cudaError_t error, int line) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}
#define cudaCheck(x) check((x), __LINE__)

static int ceil_div(int a, int b) { return (a + b - 1) / b; }

__global__ void layernorm_forward1(float* out, float* mean, float* rstd, const float* inp,
                                   const float* weight, const float* bias, int N, int C) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    const float* x = inp + n * C;
    float m = 0.0f;
    for (int c = 0; c < C; c++) m += x[c];
    m /= C;
    float v = 0.0f;
    for (int c = 0; c < C; c++) {
        float d = x[c] - m;
        v += d * d;
    }
    float s = rsqrtf(v / C + 1e-5f);
    for (int c = 0; c < C; c++) out[n * C + c] = s * (x[c] - m) * weight[c] + bias[c];
    mean[n] = m;
    rstd[n] = s;
}

template <typename F>
__device__ float block_sum(F f, int C) {
    extern __shared__ float partial[];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < C; c += blockDim.x) sum += f(c);
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s >= 1; s /= 2) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    return partial[0];
}

__global__ void mean_kernel(float* mean, const float* inp, int C) {
    const float* x = inp + blockIdx.x * C;
    float sum = block_sum([=](int c) { return x[c]; }, C);
    if (threadIdx.x == 0) mean[blockIdx.x] = sum / C;
}

__global__ void rstd_kernel(float* rstd, const float* mean, const float* inp, int C) {
    const float* x = inp + blockIdx.x * C;
    float m = mean[blockIdx.x];
    float sum = block_sum([=](int c) { return (x[c] - m) * (x[c] - m); }, C);
    if (threadIdx.x == 0) rstd[blockIdx.x] = rsqrtf(sum / C + 1e-5f);
}

__global__ void normalize_kernel(float* out, const float* mean, const float* rstd,
                                 const float* inp, const float* weight, const float* bias,
                                 int N, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * C) return;
    int n = i / C, c = i % C;
    out[i] = rstd[n] * (inp[i] - mean[n]) * weight[c] + bias[c];
}

__global__ void layernorm_forward3(float* out, float* mean, float* rstd, const float* inp,
                                   const float* weight, const float* bias, int N, int C) {
    int lane = threadIdx.x % 32;
    int n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (n >= N) return;
    const float* x = inp + n * C;
    float m = 0.0f;
    for (int c = lane; c < C; c += 32) m += x[c];
    for (int o = 16; o > 0; o /= 2) m += __shfl_xor_sync(~0u, m, o);
    m /= C;
    float v = 0.0f;
    for (int c = lane; c < C; c += 32) v += (x[c] - m) * (x[c] - m);
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    float s = rsqrtf(v / C + 1e-5f);
    for (int c = lane; c < C; c += 32)
        __stcs(out + n * C + c, s * (__ldcs(x + c) - m) * weight[c] + bias[c]);
    if (lane == 0) {
        __stcs(mean + n, m);
        __stcs(rstd + n, s);
    }
}

struct Layer {
    float *inp, *weight, *bias, *out, *mean, *rstd;
    int N, C;
};

static void forward(int version, const Layer& l, int block) {
    if (version == 1) {
        layernorm_forward1<<<ceil_div(l.N, block), block>>>(l.out, l.mean, l.rstd, l.inp, l.weight,
                                                            l.bias, l.N, l.C);
    } else if (version == 2) {
        size_t shared = block * sizeof(float);
        cudaCheck(cudaMemsetAsync(l.mean, 0, l.N * sizeof(float)));
        mean_kernel<<<l.N, block, shared>>>(l.mean, l.inp, l.C);
        cudaCheck(cudaMemsetAsync(l.rstd, 0, l.N * sizeof(float)));
        rstd_kernel<<<l.N, block, shared>>>(l.rstd, l.mean, l.inp, l.C);
        normalize_kernel<<<ceil_div(l.N * l.C, 256), 256>>>(l.out, l.mean, l.rstd, l.inp, l.weight,
                                                            l.bias, l.N, l.C);
    } else if (version == 3) {
        layernorm_forward3<<<ceil_div(l.N * 32, block), block>>>(l.out, l.mean, l.rstd, l.inp,
                                                                 l.weight, l.bias, l.N, l.C);
    } else {
        fprintf(stderr, "versions are 1, 2 and 3\n");
        exit(EXIT_FAILURE);
    }
    cudaCheck(cudaGetLastError());
}

static float* upload(const float* host, size_t count) {
    float* device;
    cudaCheck(cudaMalloc((void**)&device, count * sizeof(float)));
    cudaCheck(cudaMemcpy(device, host, count * sizeof(float), cudaMemcpyHostToDevice));
    return device;
}

static float* uniform(size_t count) {
    float* values = (float*)malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) values[i] = 2.0f * rand() / (float)RAND_MAX - 1.0f;
    return values;
}

int main(int argc, char** argv) {
    const int B = 16, T = 1024, C = 1024, N = B * T, rounds = 30;
    int version = argc > 1 ? atoi(argv[1]) : 1;
    srand(0);
    float *inp = uniform((size_t)N * C), *weight = uniform(C), *bias = uniform(C);
    float* got = (float*)malloc((size_t)N * C * sizeof(float));
    Layer l = {upload(inp, (size_t)N * C), upload(weight, C), upload(bias, C),
               upload(inp, (size_t)N * C), upload(inp, N), upload(inp, N), N, C};

    int blocks[] = {32, 64, 128, 256, 512, 1024};
    cudaEvent_t t0, t1;
    cudaCheck(cudaEventCreate(&t0));
    cudaCheck(cudaEventCreate(&t1));
    float total = 0;
    for (int k = 0; k < 6; k++) {
        forward(version, l, blocks[k]);
        cudaCheck(cudaMemcpy(got, l.out, (size_t)N * C * sizeof(float), cudaMemcpyDeviceToHost));
        for (int n = 0; n < N; n += 997) {
            double m = 0, v = 0;
            for (int c = 0; c < C; c++) m += inp[n * C + c];
            m /= C;
            for (int c = 0; c < C; c++) v += (inp[n * C + c] - m) * (inp[n * C + c] - m);
            double s = 1 / sqrt(v / C + 1e-5);
            for (int c = 0; c < C; c++) {
                double want = s * (inp[n * C + c] - m) * weight[c] + bias[c];
                if (fabs(want - got[n * C + c]) > 1e-4) {
                    printf("mismatch at (%d, %d): %f, not %f\n", n, c, got[n * C + c], want);
                    return EXIT_FAILURE;
                }
            }
        }
        cudaCheck(cudaEventRecord(t0));
        for (int r = 0; r < rounds; r++) forward(version, l, blocks[k]);
        cudaCheck(cudaEventRecord(t1));
        cudaCheck(cudaEventSynchronize(t1));
        float ms;
        cudaCheck(cudaEventElapsedTime(&ms, t0, t1));
        total += ms / rounds;
        printf("block_size %4d | ok | %.4f ms | %.1f GB/s\n", blocks[k], ms / rounds,
               2.0 * N * C * sizeof(float) / (ms / rounds) / 1e6);
    }
    printf("version %d, sum over block sizes: %.4f ms\n", version, total);
    return 0;
}
