// Separable Gaussian blur of a grey image, radius 8.
//
// Makefile of the course: nvcc -G -g -arch=sm_90 -o blur blur.cu
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define RADIUS 8

__constant__ float weights[2 * RADIUS + 1];

__global__ void blur_rows(const float *in, float *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) {
        int xx = min(max(x + k, 0), w - 1);
        sum += weights[k + RADIUS] * in[y * w + xx];
    }
    out[y * w + x] = sum;
}

__global__ void blur_columns(const float *in, float *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) {
        int yy = min(max(y + k, 0), h - 1);
        sum += weights[k + RADIUS] * in[yy * w + x];
    }
    out[y * w + x] = sum;
}

int main()
{
    const int w = 3840, h = 2160, frames = 50;
    std::vector<float> image(w * h);
    srand(7);
    for (auto &p : image) p = rand() % 256;
    float g[2 * RADIUS + 1], norm = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) norm += g[k + RADIUS] = expf(-k * k / 32.0f);
    for (float &v : g) v /= norm;
    cudaMemcpyToSymbol(weights, g, sizeof g);

    float *a, *b;
    cudaMalloc(&a, w * h * sizeof(float));
    cudaMalloc(&b, w * h * sizeof(float));
    cudaMemcpy(a, image.data(), w * h * sizeof(float), cudaMemcpyHostToDevice);
    dim3 block(32, 8);
    dim3 grid((w + 31) / 32, (h + 7) / 8);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    blur_rows<<<grid, block>>>(a, b, w, h);
    blur_columns<<<grid, block>>>(b, a, w, h);
    cudaEventRecord(start);
    for (int f = 0; f < frames; f++) {
        blur_rows<<<grid, block>>>(a, b, w, h);
        blur_columns<<<grid, block>>>(b, a, w, h);
    }
    cudaEventRecord(stop);
    cudaMemcpy(image.data(), a, w * h * sizeof(float), cudaMemcpyDeviceToHost);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    printf("%s, middle %.3f, %.3f ms a frame\n", cudaGetErrorString(cudaGetLastError()),
           image[h / 2 * w + w / 2], ms / frames);
    return 0;
}
