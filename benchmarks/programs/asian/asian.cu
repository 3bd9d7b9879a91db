// Price of an arithmetic Asian call by Monte Carlo.
//
//   nvcc -O3 -lineinfo -arch=sm_90 asian.cu -o asian
//   ./asian [paths]

#include <cstdio>
#include <cstdlib>
#include <cmath>

struct Option {
    float spot = 100.0f, strike = 102.0f, rate = 0.03f, vol = 0.25f, years = 1.0f;
    int steps = 252;
};

__device__ unsigned next(unsigned &state)
{
    // xorshift32
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

__device__ float uniform(unsigned &state)
{
    return (next(state) >> 8) * 0x1p-24f + 0x1p-25f;
}

__device__ unsigned hash(unsigned x)
{
    x ^= x >> 16; x *= 0x7feb352du;
    x ^= x >> 15; x *= 0x846ca68bu;
    x ^= x >> 16;
    return x | 1u;
}

__global__ void __launch_bounds__(256)
simulate(Option o, int paths, unsigned seed, double *sums)
{
    float dt = o.years / o.steps;
    float drift = (o.rate - 0.5f * o.vol * o.vol) * dt;
    float diffusion = o.vol * sqrtf(dt);
    float total = 0.0f, squares = 0.0f;
    for (int path = blockIdx.x * blockDim.x + threadIdx.x; path < paths; path += gridDim.x * blockDim.x) {
        unsigned state = hash(path * 0x9e3779b9u + seed);
        float x = 0.0f, mean = 0.0f;
        for (int s = 0; s < o.steps; s += 2) {
            // Two normal numbers of two uniform ones (Box and Muller).
            float r = sqrtf(-2.0f * __logf(uniform(state)));
            float a, b;
            __sincosf(6.2831853f * uniform(state), &a, &b);
            x += drift + diffusion * r * a;
            mean += __expf(x);
            x += drift + diffusion * r * b;
            mean += __expf(x);
        }
        float payoff = fmaxf(o.spot * mean / o.steps - o.strike, 0.0f);
        total += payoff;
        squares += payoff * payoff;
    }
    for (int offset = 16; offset; offset >>= 1) {
        total += __shfl_down_sync(0xffffffff, total, offset);
        squares += __shfl_down_sync(0xffffffff, squares, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&sums[0], (double)total);
        atomicAdd(&sums[1], (double)squares);
    }
}

int main(int argc, char **argv)
{
    int paths = argc > 1 ? atoi(argv[1]) : 1 << 22;
    Option option;
    int sms;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    double *sums, host[2];
    cudaMalloc(&sums, sizeof host);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);

    simulate<<<sms * 8, 256>>>(option, paths, 1, sums);
    const int batches = 20;
    cudaEventRecord(start);
    for (int batch = 0; batch < batches; batch++) {
        cudaMemsetAsync(sums, 0, sizeof host);
        simulate<<<sms * 8, 256>>>(option, paths, 77 + batch, sums);
    }
    cudaEventRecord(stop);
    cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
    if (cudaError_t e = cudaGetLastError()) {
        printf("%s\n", cudaGetErrorString(e));
        return 1;
    }
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    double discount = exp(-option.rate * option.years);
    double mean = host[0] / paths, variance = host[1] / paths - mean * mean;
    printf("price %.4f +- %.4f\n", discount * mean, discount * sqrt(variance / paths));
    printf("%.3f ms a batch\n", ms / batches);
}
