// Lab 5: one step of the heat equation on managed memory.
#include <cassert>
#include <cmath>
#include <cstdio>

constexpr int NX = 256;
constexpr int NY = 192;
using real = double;

__device__ __host__ inline int at(int x, int y) { return y * NX + x; }

__global__ void heat(const real *now, real *next, real rate) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && x < NX - 1 && y > 0 && y < NY - 1)
        next[at(x, y)] = now[at(x, y)] + rate * (now[at(x - 1, y)] + now[at(x + 1, y)] +
                                                 now[at(x, y - 1)] + now[at(x, y + 1)] -
                                                 4 * now[at(x, y)]);
    else if (x < NX && y < NY)
        next[at(x, y)] = now[at(x, y)];
}

int main() {
    real *now, *next;
    cudaMallocManaged(&now, NX * NY * sizeof(real));
    cudaMallocManaged(&next, NX * NY * sizeof(real));
    for (int y = 0; y < NY; ++y)
        for (int x = 0; x < NX; ++x) now[at(x, y)] = std::sin(0.1 * x) * std::cos(0.2 * y);
    dim3 threads(32, 8);
    dim3 blocks((NX + threads.x - 1) / threads.x, (NY + threads.y - 1) / threads.y);
    heat<<<blocks, threads>>>(now, next, 0.1);
    cudaDeviceSynchronize();
    for (int y = 0; y < NY; ++y)
        for (int x = 0; x < NX; ++x) {
            real expected = now[at(x, y)];
            if (x > 0 && x < NX - 1 && y > 0 && y < NY - 1)
                expected += 0.1 * (now[at(x - 1, y)] + now[at(x + 1, y)] + now[at(x, y - 1)] +
                                   now[at(x, y + 1)] - 4 * now[at(x, y)]);
            assert(std::fabs(next[at(x, y)] - expected) < 1e-9);
        }
    std::printf("right\n");
}
