/* ---
title = "Grid-stride, __reduce_add_sync, floats"
[[fill]]
name = "hits"
value = 0
[[launch]]
kernel = "pi"
grid = [4]
block = [256]
args = ["seeds", "hits", "N", "T"]
--- */
__device__ __forceinline__ unsigned xorshift32(unsigned& state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

extern "C" __global__ void __launch_bounds__(256) pi(const unsigned* __restrict__ seeds, unsigned* hits, unsigned n, unsigned turns) {
    unsigned count = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned state = seeds[i];
        while (true) {
            for (unsigned t = 0; t != turns; ++t) {
                float x = __uint2float_rn(xorshift32(state) >> 16) * 0x1p-16f;
                float y = __uint2float_rn(xorshift32(state) >> 16) * 0x1p-16f;
                double d = (double)x * x + (double)y * y;
                count += d < 1.0;
            }
            break;
        }
    }
    count = __reduce_add_sync(0xffffffff, count);
    if ((threadIdx.x & 31) == 0) atomicAdd(hits, count);
}
