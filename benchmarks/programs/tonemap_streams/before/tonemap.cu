// Tone mapping of a scan that arrives in slabs: each is copied in, mapped and copied out.
// nvcc -O3 -lineinfo -arch=sm_90 -o tonemap tonemap.cu
#include <cstdio>
#include <cstdlib>

static const int SLABS = 16;
static const int PIXELS = 1 << 22;

__global__ void tonemap(const float *in, float *out, int n, float exposure)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = in[i] * exposure;
    // The response of the sensor has no closed inverse: Newton, a fixed number of rounds.
    float t = v;
    for (int round = 0; round < 96; round++) {
        float e = expf(-t);
        t -= (t + 0.5f * (1.0f - e) - v) / (1.0f + 0.5f * e);
    }
    out[i] = t / (1.0f + t);
}

int main()
{
    size_t bytes = PIXELS * sizeof(float);
    float *in, *out;
    cudaMallocHost(&in, SLABS * bytes);
    cudaMallocHost(&out, SLABS * bytes);
    for (size_t i = 0; i < (size_t)SLABS * PIXELS; i++) in[i] = (i * 2654435761u % 4096) / 1024.0f;

    float *d_in, *d_out;
    cudaMalloc(&d_in, bytes);
    cudaMalloc(&d_out, bytes);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    float ms;
    for (int scan = 0; scan < 6; scan++) {
        cudaEventRecord(start);
        for (int s = 0; s < SLABS; s++) {
            cudaMemcpy(d_in, in + (size_t)s * PIXELS, bytes, cudaMemcpyHostToDevice);
            tonemap<<<(PIXELS + 255) / 256, 256>>>(d_in, d_out, PIXELS, 1.5f);
            cudaMemcpy(out + (size_t)s * PIXELS, d_out, bytes, cudaMemcpyDeviceToHost);
        }
        cudaEventRecord(stop);
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&ms, start, stop);
        printf("scan %d: %.3f ms\n", scan, ms);
    }
    double sum = 0;
    for (size_t i = 0; i < (size_t)SLABS * PIXELS; i += 1001) sum += out[i];
    printf("%s, checksum %.3f\n", cudaGetErrorString(cudaGetLastError()), sum);
    return 0;
}
