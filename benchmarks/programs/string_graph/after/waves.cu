// A long string, plucked: leapfrog in time, with damping at the ends and a microphone.
// nvcc -O3 -lineinfo -arch=sm_90 waves.cu -o waves
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

const int N = 8192;

__global__ void accelerate(const float *u, float *v, float c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < N - 1)
        v[i] += c * (u[i - 1] - 2.0f * u[i] + u[i + 1]);
}

__global__ void advance(float *u, const float *v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        u[i] += v[i];
}

__global__ void damp(float *v)
{
    int i = threadIdx.x;
    v[i] *= 1.0f - 0.02f * (256 - i) / 256;
    v[N - 1 - i] *= 1.0f - 0.02f * (256 - i) / 256;
}

__global__ void listen(const float *u, float *signal, int *time)
{
    signal[(*time)++] = u[N / 3];
}

void step(float *u, float *v, float *signal, int *time, cudaStream_t stream)
{
    accelerate<<<N / 256, 256, 0, stream>>>(u, v, 0.4f);
    advance<<<N / 256, 256, 0, stream>>>(u, v);
    damp<<<1, 256, 0, stream>>>(v);
    listen<<<1, 1, 0, stream>>>(u, signal, time);
}

int main()
{
    const int steps = 6000, warm = 1000;
    std::vector<float> start(N, 0.0f), heard(steps);
    for (int i = 0; i < 200; i++)
        start[N / 2 - 100 + i] = 1.0f - abs(i - 100) / 100.0f;
    float *u, *v, *signal;
    int *time;
    cudaMalloc(&u, N * sizeof(float));
    cudaMalloc(&v, N * sizeof(float));
    cudaMalloc(&signal, steps * sizeof(float));
    cudaMalloc(&time, sizeof(int));
    cudaMemcpy(u, start.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(v, 0, N * sizeof(float));
    cudaMemset(time, 0, sizeof(int));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaDeviceSynchronize();

    // A step is four launches of a microsecond or two: record a hundred of them and launch that.
    const int batch = 100;
    cudaGraph_t graph;
    cudaGraphExec_t steps100;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    for (int s = 0; s < batch; s++)
        step(u, v, signal, time, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&steps100, graph, 0);

    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    for (int s = 0; s < steps; s += batch) {
        if (s == warm)
            cudaEventRecord(a, stream);
        cudaGraphLaunch(steps100, stream);
    }
    cudaEventRecord(b, stream);
    cudaStreamSynchronize(stream);

    cudaMemcpy(heard.data(), signal, steps * sizeof(float), cudaMemcpyDeviceToHost);
    double loud = 0;
    for (float x : heard)
        loud += x * x;
    float ms;
    cudaEventElapsedTime(&ms, a, b);
    printf("%s, loudness %.6f\n", cudaGetErrorString(cudaGetLastError()), loud);
    printf("%.3f us a step\n", ms * 1e3 / (steps - warm));
}
