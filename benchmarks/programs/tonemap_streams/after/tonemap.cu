// Tone mapping of a scan that arrives in slabs: each is copied in, mapped and copied out.
// nvcc -O3 -lineinfo -arch=sm_90 -o tonemap tonemap.cu
#include <cstdio>
#include <cstdlib>

static const int SLABS = 16;
static const int PIXELS = 1 << 22;
static const int STREAMS = 4;

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

    cudaStream_t stream[STREAMS];
    float *d_in[STREAMS], *d_out[STREAMS];
    for (int k = 0; k < STREAMS; k++) {
        cudaStreamCreate(&stream[k]);
        cudaMalloc(&d_in[k], bytes);
        cudaMalloc(&d_out[k], bytes);
    }

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    float ms;
    for (int scan = 0; scan < 6; scan++) {
        cudaEventRecord(start);
        for (int s = 0; s < SLABS; s++) {
            int k = s % STREAMS;
            cudaMemcpyAsync(d_in[k], in + (size_t)s * PIXELS, bytes, cudaMemcpyHostToDevice, stream[k]);
            tonemap<<<(PIXELS + 255) / 256, 256, 0, stream[k]>>>(d_in[k], d_out[k], PIXELS, 1.5f);
            cudaMemcpyAsync(out + (size_t)s * PIXELS, d_out[k], bytes, cudaMemcpyDeviceToHost, stream[k]);
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
