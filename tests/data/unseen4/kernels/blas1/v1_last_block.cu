/* ---
title = "float4 loads, warp shuffles, and the last block to finish adds up the rest"
change = "One launch: the block that draws the last ticket does the second stage. 16-byte loads, shuffles instead of a tree in shared memory."
[defines]
THREADS = 256
BLOCKS = 264
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["BLOCKS", 4]
[[scratch]]
name = "ticket"
dtype = "uint32"
shape = [1]
[[fill]]
name = "ticket"
value = 0
[[launch]]
kernel = "dot_norms"
grid = ["BLOCKS"]
block = ["THREADS"]
args = ["x", "y", "partial", "ticket", "dot", "nrm2", "asum", "N"]
--- */

struct Sums {
    float dot, xx, yy, ax;

    __device__ __forceinline__ void add(float a, float b) {
        dot = fmaf(a, b, dot);
        xx = fmaf(a, a, xx);
        yy = fmaf(b, b, yy);
        ax += fabsf(a);
    }
    __device__ __forceinline__ void add(const float4& a, const float4& b) {
        add(a.x, b.x);
        add(a.y, b.y);
        add(a.z, b.z);
        add(a.w, b.w);
    }
    template <int LANES>
    __device__ __forceinline__ void reduce() {
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset >>= 1) {
            dot += __shfl_down_sync(0xffffffffu, dot, offset);
            xx += __shfl_down_sync(0xffffffffu, xx, offset);
            yy += __shfl_down_sync(0xffffffffu, yy, offset);
            ax += __shfl_down_sync(0xffffffffu, ax, offset);
        }
    }
};

// The sum over the block, valid in thread 0.
__device__ Sums block_sum(Sums sums, float4* of_warps) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    sums.reduce<32>();
    if (lane == 0) of_warps[warp] = make_float4(sums.dot, sums.xx, sums.yy, sums.ax);
    __syncthreads();
    if (warp == 0) {
        const float4 v = lane < THREADS / 32 ? of_warps[lane] : make_float4(0.f, 0.f, 0.f, 0.f);
        sums = {v.x, v.y, v.z, v.w};
        sums.reduce<THREADS / 32>();
    }
    return sums;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dot_norms(const float* __restrict__ x, const float* __restrict__ y, float4* partial, unsigned* ticket,
              float* dot, float* nrm2, float* asum, int n) {
    __shared__ float4 of_warps[THREADS / 32];
    __shared__ bool last;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    const float4* y4 = reinterpret_cast<const float4*>(y);
    const int id = blockIdx.x * THREADS + threadIdx.x;

    Sums sums = {0.f, 0.f, 0.f, 0.f};
#pragma unroll 2
    for (int i = id; i < n / 4; i += BLOCKS * THREADS) sums.add(__ldg(&x4[i]), __ldg(&y4[i]));
    if (id < n % 4) sums.add(x[n - 1 - id], y[n - 1 - id]);

    sums = block_sum(sums, of_warps);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = make_float4(sums.dot, sums.xx, sums.yy, sums.ax);
        __threadfence();  // the partial sum is there before the ticket is drawn
        last = atomicAdd(ticket, 1u) == BLOCKS - 1;
    }
    __syncthreads();
    if (!last) return;

    __threadfence();
    Sums total = {0.f, 0.f, 0.f, 0.f};
    for (int b = threadIdx.x; b < BLOCKS; b += THREADS) {
        const float4 v = __ldcg(&partial[b]);
        total.dot += v.x;
        total.xx += v.y;
        total.yy += v.z;
        total.ax += v.w;
    }
    total = block_sum(total, of_warps);
    if (threadIdx.x == 0) {
        *dot = total.dot;
        nrm2[0] = sqrtf(total.xx);
        nrm2[1] = sqrtf(total.yy);
        *asum = total.ax;
    }
}
