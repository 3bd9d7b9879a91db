/* ---
title  = "The group stays in shared memory, eight halves per access"
change = "One read and one write of global memory, 16 bytes at a time where rows allow it; sums by shuffles; scale and offset folded into one multiply-add."
requires     = "2 * (C // G) * H * W <= 40000"
requires_why = "a whole group must fit into shared memory"
[defines]
THREADS = 256
[[launch]]
kernel = "group_norm_vector"
grid   = ["B * G"]
block  = ["THREADS"]
args   = ["x", "gamma", "beta", "y", ["G", "C // G", "H * W", 0.00001]]
dynamic_shared = "16 * cdiv((C // G) * H * W, 8)"
when   = "(H * W) % 8 == 0"
[[launch]]
kernel = "group_norm_scalar"
grid   = ["B * G"]
block  = ["THREADS"]
args   = ["x", "gamma", "beta", "y", ["G", "C // G", "H * W", 0.00001]]
dynamic_shared = "16 * cdiv((C // G) * H * W, 8)"
when   = "(H * W) % 8 != 0"
--- */
#include <cuda_fp16.h>

struct Shape {
    int groups;
    int channels;  // of a group
    int pixels;
    float epsilon;
};

template <int WIDTH>
struct alignas(2 * WIDTH) Pack {
    __half h[WIDTH];
};

__device__ __forceinline__ float block_sum(float v, float* partial) {
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = partial[lane % (THREADS / 32)];
#pragma unroll
    for (int offset = THREADS / 64; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    }
    return v;
}

template <int WIDTH>
__device__ __forceinline__ void normalize(const __half* __restrict__ x,
                                          const float* __restrict__ gamma,
                                          const float* __restrict__ beta, __half* __restrict__ y,
                                          const Shape shape, Pack<WIDTH>* cache) {
    __shared__ float partial[2][THREADS / 32];

    const int size = shape.channels * shape.pixels;
    const int packs = size / WIDTH;
    const Pack<WIDTH>* in = reinterpret_cast<const Pack<WIDTH>*>(x + (size_t)blockIdx.x * size);
    Pack<WIDTH>* out = reinterpret_cast<Pack<WIDTH>*>(y + (size_t)blockIdx.x * size);

    float sum = 0.0f;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const Pack<WIDTH> pack = in[i];
        cache[i] = pack;  // read back by this thread alone
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) sum += __half2float(pack.h[k]);
    }
    const float mean = block_sum(sum, partial[0]) / size;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const Pack<WIDTH> pack = cache[i];
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) {
            const float d = __half2float(pack.h[k]) - mean;
            squares = fmaf(d, d, squares);
        }
    }
    const float rstd = rsqrtf(block_sum(squares, partial[1]) / size + shape.epsilon);

    const int first_channel = blockIdx.x % shape.groups * shape.channels;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const int c = first_channel + i * WIDTH / shape.pixels;
        const float scale = rstd * __ldg(gamma + c);
        const float offset = fmaf(-mean, scale, __ldg(beta + c));
        Pack<WIDTH> pack = cache[i];
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) {
            pack.h[k] = __float2half_rn(fmaf(__half2float(pack.h[k]), scale, offset));
        }
        out[i] = pack;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
group_norm_vector(const __half* x, const float* gamma, const float* beta, __half* y, Shape shape) {
    extern __shared__ uint4 storage[];
    normalize<8>(x, gamma, beta, y, shape, reinterpret_cast<Pack<8>*>(storage));
}

extern "C" __global__ void __launch_bounds__(THREADS)
group_norm_scalar(const __half* x, const float* gamma, const float* beta, __half* y, Shape shape) {
    extern __shared__ uint4 storage[];
    normalize<1>(x, gamma, beta, y, shape, reinterpret_cast<Pack<1>*>(storage));
}
