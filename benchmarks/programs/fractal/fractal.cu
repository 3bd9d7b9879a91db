// Frames of the Mandelbrot set.
//   nvcc -O3 -lineinfo -arch=sm_90 -o fractal fractal.cu
//   ./fractal [centre x] [centre y] [width]
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void escape(unsigned short *image, int size, double left, double top, double pixel, int limit)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= size || py >= size) return;
    float cx = (float)(left + px * pixel), cy = (float)(top - py * pixel);
    float x = 0.0f, y = 0.0f;
    int n = 0;
    while (n < limit && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = t;
        n++;
    }
    image[py * size + px] = n;
}

int main(int argc, char **argv)
{
    double x = argc > 1 ? atof(argv[1]) : -0.5, y = argc > 2 ? atof(argv[2]) : 0.0;
    double width = argc > 3 ? atof(argv[3]) : 3.0;
    const int size = 4096, limit = 2000, frames = 20;
    std::vector<unsigned short> image(size * size);
    unsigned short *d_image;
    cudaMalloc(&d_image, image.size() * 2);
    dim3 block(16, 16), grid(size / 16, size / 16);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    for (int f = -2; f < frames; f++) {
        if (f == 0) cudaEventRecord(start);
        escape<<<grid, block>>>(d_image, size, x - width / 2, y + width / 2, width / size, limit);
    }
    cudaEventRecord(stop);
    cudaMemcpy(image.data(), d_image, image.size() * 2, cudaMemcpyDeviceToHost);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    double sum = 0;
    for (auto n : image) sum += n;
    printf("%.1f iterations a pixel, %.3f ms a frame (%s)\n", sum / image.size(), ms / frames,
           cudaGetErrorString(cudaGetLastError()));
}
