/* ---
title = "Float4, the index loaded once a warp and passed on by a shuffle"
requires = "D % 64 == 0"
[[launch]]
kernel = "gather"
grid   = ["cdiv(N, 64)"]
block  = [256]
args   = ["table", "index", "out", "N", "D // 4"]
--- */

extern "C" __global__ void gather(const float4* __restrict__ table, const int* __restrict__ index,
                                  float4* __restrict__ out, int n, int d4) {
    int lane = threadIdx.x & 31, warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int first = warp * 8;
    int mine = 0;
    if (lane < 8 && first + lane < n) mine = index[first + lane];
    int half = lane >> 4, l = lane & 15;
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
        int row = __shfl_sync(0xffffffff, mine, k + half);
        if (first + k + half < n)
            for (int c = l; c < d4; c += 16) out[(first + k + half) * d4 + c] = table[row * d4 + c];
    }
}
