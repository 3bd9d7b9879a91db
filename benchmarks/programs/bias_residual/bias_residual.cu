/* out = residual + (x + bias), bf16, rows x channels: the tail of every linear layer of the decoder.
 *
 * $ nvcc -O3 -lineinfo -arch=sm_90 bias_residual.cu -o bias_residual
 * $ ./bias_residual 1        # one element a thread
 * $ ./bias_residual 2        # eight elements a thread
 */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using bf16 = __nv_bfloat16;

#define CU(x) if (auto e = (x); e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); }

__global__ void bias_residual1(bf16 *out, const bf16 *x, const bf16 *residual, const bf16 *bias, int n, int channels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = __float2bfloat16(__bfloat162float(residual[i]) + __bfloat162float(x[i]) +
                                  __bfloat162float(bias[i % channels]));
}

struct alignas(16) Pack {
    bf16 v[8];
};

__global__ void bias_residual2(bf16 *out, const bf16 *x, const bf16 *residual, const bf16 *bias, int n, int channels)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (i >= n)
        return;
    Pack a = *reinterpret_cast<const Pack *>(x + i);
    Pack r = *reinterpret_cast<const Pack *>(residual + i);
    Pack b = *reinterpret_cast<const Pack *>(bias + i % channels);
    Pack o;
#pragma unroll
    for (int k = 0; k < 8; ++k)
        o.v[k] = __float2bfloat16(__bfloat162float(r.v[k]) + __bfloat162float(a.v[k]) + __bfloat162float(b.v[k]));
    *reinterpret_cast<Pack *>(out + i) = o;
}

static void run(int which, bf16 *out, const bf16 *x, const bf16 *residual, const bf16 *bias, int n, int channels, int block)
{
    int threads = which == 1 ? n : n / 8;
    int grid = (threads + block - 1) / block;
    if (which == 1)
        bias_residual1<<<grid, block>>>(out, x, residual, bias, n, channels);
    else
        bias_residual2<<<grid, block>>>(out, x, residual, bias, n, channels);
    CU(cudaGetLastError());
}

int main(int argc, char **argv)
{
    const int rows = 16384, channels = 4096, n = rows * channels;
    const int which = argc > 1 ? atoi(argv[1]) : 1;
    if (which != 1 && which != 2) {
        fprintf(stderr, "usage: %s 1|2\n", argv[0]);
        return 2;
    }
    std::vector<bf16> x(n), residual(n), bias(channels), out(n);
    unsigned seed = 1;
    auto next = [&] { seed = seed * 1664525u + 1013904223u; return __float2bfloat16((seed >> 9) / 8388608.0f - 0.5f); };
    for (auto &v : x) v = next();
    for (auto &v : residual) v = next();
    for (auto &v : bias) v = next();

    bf16 *dx, *dr, *db, *dout;
    CU(cudaMalloc(&dx, n * sizeof(bf16)));
    CU(cudaMalloc(&dr, n * sizeof(bf16)));
    CU(cudaMalloc(&db, channels * sizeof(bf16)));
    CU(cudaMalloc(&dout, n * sizeof(bf16)));
    CU(cudaMemcpy(dx, x.data(), n * sizeof(bf16), cudaMemcpyHostToDevice));
    CU(cudaMemcpy(dr, residual.data(), n * sizeof(bf16), cudaMemcpyHostToDevice));
    CU(cudaMemcpy(db, bias.data(), channels * sizeof(bf16), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    CU(cudaEventCreate(&begin));
    CU(cudaEventCreate(&end));
    float sum = 0;
    for (int block : {64, 128, 256, 384, 512, 1024}) {
        run(which, dout, dx, dr, db, n, channels, block);
        CU(cudaMemcpy(out.data(), dout, n * sizeof(bf16), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; i += 1237) {
            float want = __bfloat162float(residual[i]) + __bfloat162float(x[i]) + __bfloat162float(bias[i % channels]);
            if (std::fabs(want - __bfloat162float(out[i])) > 0.01f) {
                printf("wrong at %d\n", i);
                return 1;
            }
        }
        CU(cudaEventRecord(begin));
        for (int i = 0; i < 100; ++i)
            run(which, dout, dx, dr, db, n, channels, block);
        CU(cudaEventRecord(end));
        CU(cudaEventSynchronize(end));
        float ms;
        CU(cudaEventElapsedTime(&ms, begin, end));
        sum += ms / 100;
        printf("block %4d: %7.2f us, %6.0f GB/s\n", block, ms * 10, 6e-6 * n / (ms / 100));
    }
    printf("kernel %d, mean of the block sizes: %.2f us\n", which, sum / 6 * 1e3);
    return 0;
}
