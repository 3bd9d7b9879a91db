/* ---
title = "A warp per packed block, four values a lane, funnel shifts, int4 stores"
change = "Words come in by one coalesced load into shared memory; a lane sums its four deltas before the shuffles."
[[launch]]
kernel = "decode"
grid = ["cdiv(B, 8)"]
block = [256]
args = ["packed", "offset", "width", "first", "value", "B"]
--- */
extern "C" __global__ void __launch_bounds__(256) decode(const unsigned* __restrict__ packed, const int* __restrict__ offset,
                                                         const unsigned char* __restrict__ width, const int* __restrict__ first,
                                                         int4* __restrict__ value, int blocks) {
    __shared__ unsigned stage[8][56];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, b = blockIdx.x * 8 + warp;
    if (b >= blocks) return;
    const int from = offset[b], words = offset[b + 1] - from, w = width[b];
    for (int i = lane; i < words; i += 32) stage[warp][i] = packed[from + i];
    if (lane == 0) stage[warp][words] = 0;
    __syncwarp();
    const unsigned mask = (1u << w) - 1;
    int d[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int bit = (lane * 4 + k) * w, at = bit >> 5;
        d[k] = __funnelshift_r(stage[warp][at], stage[warp][at + 1], bit & 31) & mask;
        if (k) d[k] += d[k - 1];
    }
    int upto = d[3];
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
        const int other = __shfl_up_sync(0xffffffffu, upto, o);
        if (lane >= o) upto += other;
    }
    const int base = __ldg(first + b) + upto - d[3];
    value[b * 32 + lane] = make_int4(base + d[0], base + d[1], base + d[2], base + d[3]);
}
