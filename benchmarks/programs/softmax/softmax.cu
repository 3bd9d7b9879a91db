// Softmax over the rows of a matrix, four ways.
//
//   nvcc -O3 -lineinfo -arch=sm_90 -o softmax softmax.cu
//   ./softmax 1
//
// 1  a thread per row
// 2  a block per row, tree reduction in shared memory
// 3  a warp per row, shuffles
// 4  a block per row, shuffles, then one value per warp in shared memory

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t status = (call);                                                      \
        if (status != cudaSuccess) {                                                      \
            printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));        \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

__global__ void softmax_kernel1(float *out, const float *inp, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *x = inp + (size_t)row * cols;
    float *y = out + (size_t)row * cols;
    float top = -FLT_MAX;
    for (int i = 0; i < cols; i++) top = fmaxf(top, x[i]);
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) {
        y[i] = expf(x[i] - top);
        sum += y[i];
    }
    for (int i = 0; i < cols; i++) y[i] /= sum;
}

__global__ void softmax_kernel2(float *out, const float *inp, int rows, int cols) {
    extern __shared__ float shared[];
    int tid = threadIdx.x;
    const float *x = inp + (size_t)blockIdx.x * cols;
    float *y = out + (size_t)blockIdx.x * cols;

    float top = -FLT_MAX;
    for (int i = tid; i < cols; i += blockDim.x) top = fmaxf(top, x[i]);
    shared[tid] = top;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) shared[tid] = fmaxf(shared[tid], shared[tid + half]);
    }
    __syncthreads();
    top = shared[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        float e = expf(x[i] - top);
        y[i] = e;
        sum += e;
    }
    shared[tid] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tid < half) shared[tid] += shared[tid + half];
    }
    __syncthreads();
    sum = shared[0];
    for (int i = tid; i < cols; i += blockDim.x) y[i] = y[i] / sum;
}

__global__ void softmax_kernel3(float *out, const float *inp, int rows, int cols) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    const float *x = inp + (size_t)row * cols;
    float *y = out + (size_t)row * cols;

    float top = -FLT_MAX;
    for (int i = warp.thread_rank(); i < cols; i += 32) top = fmaxf(top, x[i]);
    top = cg::reduce(warp, top, cg::greater<float>());
    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < cols; i += 32) {
        float e = expf(x[i] - top);
        y[i] = e;
        sum += e;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    for (int i = warp.thread_rank(); i < cols; i += 32) y[i] = y[i] / sum;
}

__global__ void softmax_kernel4(float *out, const float *inp, int rows, int cols) {
    __shared__ float tops[32], sums[32];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int tid = threadIdx.x, warps = warp.meta_group_size();
    const float *x = inp + (size_t)blockIdx.x * cols;
    float *y = out + (size_t)blockIdx.x * cols;

    float top = -FLT_MAX;
    for (int i = tid; i < cols; i += blockDim.x) top = fmaxf(top, x[i]);
    top = cg::reduce(warp, top, cg::greater<float>());
    if (warp.thread_rank() == 0) tops[warp.meta_group_rank()] = top;
    block.sync();
    top = tops[0];
    for (int w = 1; w < warps; w++) top = fmaxf(top, tops[w]);

    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        float e = expf(x[i] - top);
        y[i] = e;
        sum += e;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum;
    block.sync();
    sum = sums[0];
    for (int w = 1; w < warps; w++) sum += sums[w];
    for (int i = tid; i < cols; i += blockDim.x) y[i] = y[i] / sum;
}

void launch(int kernel, float *out, const float *inp, int rows, int cols, int block) {
    switch (kernel) {
    case 1: softmax_kernel1<<<(rows + block - 1) / block, block>>>(out, inp, rows, cols); break;
    case 2: softmax_kernel2<<<rows, block, block * sizeof(float)>>>(out, inp, rows, cols); break;
    case 3: {
        int warps = block / 32;
        softmax_kernel3<<<(rows + warps - 1) / warps, block>>>(out, inp, rows, cols);
        break;
    }
    case 4: softmax_kernel4<<<rows, block>>>(out, inp, rows, cols); break;
    default: printf("kernel must be 1 to 4\n"); exit(1);
    }
    CHECK(cudaGetLastError());
}

void softmax_cpu(float *out, const float *inp, int cols) {
    float top = -FLT_MAX;
    for (int i = 0; i < cols; i++) top = fmaxf(top, inp[i]);
    double sum = 0;
    for (int i = 0; i < cols; i++) sum += out[i] = expf(inp[i] - top);
    for (int i = 0; i < cols; i++) out[i] = (float)(out[i] / sum);
}

int main(int argc, char **argv) {
    const int rows = 4096, cols = 8192, repeats = 20;
    int kernel = argc > 1 ? atoi(argv[1]) : 1;
    printf("softmax kernel %d, %d x %d\n", kernel, rows, cols);

    std::vector<float> inp((size_t)rows * cols), out(inp.size()), want(cols);
    srand(137);
    for (auto &v : inp) v = 8.0f * rand() / RAND_MAX - 4.0f;
    float *d_inp, *d_out;
    size_t bytes = inp.size() * sizeof(float);
    CHECK(cudaMalloc(&d_inp, bytes));
    CHECK(cudaMalloc(&d_out, bytes));
    CHECK(cudaMemcpy(d_inp, inp.data(), bytes, cudaMemcpyHostToDevice));

    const int sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int block : sizes) {
        CHECK(cudaMemset(d_out, 0, bytes));
        launch(kernel, d_out, d_inp, rows, cols, block);
        CHECK(cudaMemcpy(out.data(), d_out, bytes, cudaMemcpyDeviceToHost));
        for (int row = 0; row < rows; row += 331) {
            softmax_cpu(want.data(), &inp[(size_t)row * cols], cols);
            for (int i = 0; i < cols; i++) {
                if (fabsf(want[i] - out[(size_t)row * cols + i]) > 1e-6f) {
                    printf("block %d: row %d, column %d is wrong\n", block, row, i);
                    return 1;
                }
            }
        }
    }
    printf("results match the CPU\n");

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    float all = 0;
    for (int block : sizes) {
        launch(kernel, d_out, d_inp, rows, cols, block);
        CHECK(cudaEventRecord(start));
        for (int i = 0; i < repeats; i++) launch(kernel, d_out, d_inp, rows, cols, block);
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        ms /= repeats;
        all += ms;
        printf("block %4d | time %.4f ms | per token %.3f us | %.0f GB/s\n", block, ms,
               ms * 1e3 / rows, 2e-6 * bytes / ms);
    }
    printf("all block sizes: %.4f ms\n", all);
    CHECK(cudaFree(d_inp));
    CHECK(cudaFree(d_out));
    return 0;
}
