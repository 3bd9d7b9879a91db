// Lab 2: 2-D convolution. ./convolution 1 | 2 | 3
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define RADIUS 2
#define WIDTH (2 * RADIUS + 1)
#define TILE 16
#define CHECK(call)                                                             \
    do {                                                                        \
        cudaError_t status = (call);                                            \
        if (status != cudaSuccess) {                                            \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

__constant__ float c_mask[WIDTH * WIDTH];

__global__ void convNaive(const float *in, const float *mask, float *out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int i = -RADIUS; i <= RADIUS; i++)
        for (int j = -RADIUS; j <= RADIUS; j++) {
            int r = y + i, c = x + j;
            if (r >= 0 && r < height && c >= 0 && c < width)
                sum += in[r * width + c] * mask[(i + RADIUS) * WIDTH + j + RADIUS];
        }
    out[y * width + x] = sum;
}

__global__ void convConstant(const float *in, float *out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int i = -RADIUS; i <= RADIUS; i++)
        for (int j = -RADIUS; j <= RADIUS; j++) {
            int r = y + i, c = x + j;
            if (r >= 0 && r < height && c >= 0 && c < width)
                sum += in[r * width + c] * c_mask[(i + RADIUS) * WIDTH + j + RADIUS];
        }
    out[y * width + x] = sum;
}

__global__ void convTiled(const float *in, float *out, int height, int width) {
    __shared__ float tile[TILE + 2 * RADIUS][TILE + 2 * RADIUS];
    int x = blockIdx.x * TILE + threadIdx.x - RADIUS;
    int y = blockIdx.y * TILE + threadIdx.y - RADIUS;
    bool inside = x >= 0 && x < width && y >= 0 && y < height;
    tile[threadIdx.y][threadIdx.x] = inside ? in[y * width + x] : 0.0f;
    __syncthreads();
    if (threadIdx.x < RADIUS || threadIdx.x >= TILE + RADIUS) return;
    if (threadIdx.y < RADIUS || threadIdx.y >= TILE + RADIUS || !inside) return;
    float sum = 0.0f;
    for (int i = -RADIUS; i <= RADIUS; i++)
        for (int j = -RADIUS; j <= RADIUS; j++)
            sum += tile[threadIdx.y + i][threadIdx.x + j] * c_mask[(i + RADIUS) * WIDTH + j + RADIUS];
    out[y * width + x] = sum;
}

void convCPU(const float *in, const float *mask, float *out, int height, int width) {
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float sum = 0.0f;
            for (int i = -RADIUS; i <= RADIUS; i++)
                for (int j = -RADIUS; j <= RADIUS; j++) {
                    int r = y + i, c = x + j;
                    if (r >= 0 && r < height && c >= 0 && c < width)
                        sum += in[r * width + c] * mask[(i + RADIUS) * WIDTH + j + RADIUS];
                }
            out[y * width + x] = sum;
        }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        printf("usage: %s kernel\n", argv[0]);
        return 1;
    }
    int version = atoi(argv[1]);
    const int height = 1080, width = 1920;
    size_t bytes = sizeof(float) * height * width;
    float *h_in = (float *)malloc(bytes), *h_out = (float *)malloc(bytes);
    float *h_ref = (float *)malloc(bytes), h_mask[WIDTH * WIDTH];
    for (int i = 0; i < height * width; i++) h_in[i] = (float)rand() / RAND_MAX - 0.5f;
    for (int i = 0; i < WIDTH * WIDTH; i++) h_mask[i] = (float)rand() / RAND_MAX;

    float *d_in, *d_out, *d_mask;
    CHECK(cudaMalloc((void **)&d_in, bytes));
    CHECK(cudaMalloc((void **)&d_out, bytes));
    CHECK(cudaMalloc((void **)&d_mask, sizeof(h_mask)));
    CHECK(cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_mask, h_mask, sizeof(h_mask), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(c_mask, h_mask, sizeof(h_mask)));

    dim3 block(TILE, TILE);
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
    if (version == 1) {
        convNaive<<<grid, block>>>(d_in, d_mask, d_out, height, width);
    } else if (version == 2) {
        convConstant<<<grid, block>>>(d_in, d_out, height, width);
    } else {
        dim3 halo(TILE + 2 * RADIUS, TILE + 2 * RADIUS);
        convTiled<<<grid, halo>>>(d_in, d_out, height, width);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));

    convCPU(h_in, h_mask, h_ref, height, width);
    for (int i = 0; i < height * width; i++)
        if (fabs(h_out[i] - h_ref[i]) > 1e-4) {
            printf("wrong at %d\n", i);
            return 1;
        }
    printf("right\n");
    return 0;
}
