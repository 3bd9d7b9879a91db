// Value at risk of a portfolio: simulated returns, sorted, and their moments.
// nvcc -O3 -lineinfo -arch=sm_90 quantiles.cu -o quantiles
#include <cstdio>

#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>

using real = float;

struct Return {
    unsigned seed;
    __host__ __device__ real operator()(unsigned i) const
    {
        // The sum of twelve uniform numbers is nearly normal.
        unsigned x = i * 747796405u + seed;
        real sum = -6;
        for (int k = 0; k < 12; k++) {
            x = x * 1664525u + 1013904223u;
            sum += (x ^ (x >> 16)) * real(2.3283064365386963e-10);
        }
        return real(0.0004) + real(0.012) * sum;
    }
};

struct SquaredDeviation {
    real mean;
    __host__ __device__ real operator()(real x) const { return (x - mean) * (x - mean); }
};

int main()
{
    const int n = 1 << 25, days = 12;
    thrust::device_vector<real> returns(n);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    real risk = 0, deviation = 0;
    for (int day = 0; day < days; day++) {
        if (day == 2) cudaEventRecord(start);
        auto index = thrust::counting_iterator<unsigned>(0);
        thrust::transform(index, index + n, returns.begin(), Return{unsigned(day) * 2891336453u});
        real mean = thrust::reduce(returns.begin(), returns.end(), real(0)) / n;
        real squares = thrust::transform_reduce(returns.begin(), returns.end(), SquaredDeviation{mean},
                                                real(0), thrust::plus<real>());
        thrust::sort(returns.begin(), returns.end());
        risk = -returns[n / 100];
        deviation = sqrt(squares / n);
    }
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    printf("VaR(99%%) %.9f, deviation %.9f\n", risk, deviation);
    printf("%.3f ms a day\n", ms / (days - 2));
}
