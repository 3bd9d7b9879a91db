// y = A x for the two matrices of the solver: the wide restriction and the tall prolongation.
// nvcc -O3 -lineinfo -arch=sm_90 -o matvec matvec.cu
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ float warp_sum(float x)
{
    for (int o = 16; o > 0; o >>= 1) x += __shfl_down_sync(0xffffffffu, x, o);
    return x;
}

// A block for each row.
__global__ void matvec(const float *A, const float *x, float *y, int columns)
{
    __shared__ float sums[8];
    const float *a = A + (size_t)blockIdx.x * columns;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += a[c] * x[c];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < 8 ? sums[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }
}

void launch(const float *A, const float *x, float *y, int rows, int columns)
{
    matvec<<<rows, 256>>>(A, x, y, columns);
}

struct Problem {
    const char *name;
    int rows, columns;
};

int main()
{
    const Problem problems[] = {{"restriction", 256, 262144}, {"prolongation", 524288, 128}};
    float both = 0;
    for (const Problem &p : problems) {
        std::vector<float> A((size_t)p.rows * p.columns), x(p.columns), y(p.rows);
        unsigned s = 9;
        for (float &v : A) v = (s = s * 1103515245u + 12345u) / 4294967296.0f - 0.5f;
        for (float &v : x) v = (s = s * 1103515245u + 12345u) / 4294967296.0f - 0.5f;
        float *dA, *dx, *dy;
        cudaMalloc(&dA, A.size() * sizeof(float));
        cudaMalloc(&dx, x.size() * sizeof(float));
        cudaMalloc(&dy, y.size() * sizeof(float));
        cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);

        cudaEvent_t start, stop;
        cudaEventCreate(&start);
        cudaEventCreate(&stop);
        launch(dA, dx, dy, p.rows, p.columns);
        cudaEventRecord(start);
        for (int i = 0; i < 50; i++) launch(dA, dx, dy, p.rows, p.columns);
        cudaEventRecord(stop);
        cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);
        float ms;
        cudaEventElapsedTime(&ms, start, stop);
        ms /= 50;
        both += ms;

        double worst = 0;
        for (int r = 0; r < p.rows; r += p.rows / 16) {
            double want = 0;
            for (int c = 0; c < p.columns; c++) want += (double)A[(size_t)r * p.columns + c] * x[c];
            worst = fmax(worst, fabs(want - y[r]));
        }
        printf("%-12s %7d x %-7d %.4f ms, %.0f GB/s, error %.1e\n", p.name, p.rows, p.columns, ms,
               4e-6 * A.size() / ms, worst);
        cudaFree(dA);
        cudaFree(dx);
        cudaFree(dy);
    }
    printf("both: %.4f ms (%s)\n", both, cudaGetErrorString(cudaGetLastError()));
}
