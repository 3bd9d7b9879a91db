/* ---
title = "Radix, a bit at a time: split by ballots"
[[launch]]
kernel = "radix"
grid   = ["S"]
block  = [1024]
args   = ["x", "y"]
--- */

extern "C" __global__ void radix(const int* x, int* y) {
    __shared__ unsigned keys[1024];
    __shared__ int zeros[32];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    unsigned key = (unsigned)x[blockIdx.x * 1024 + t] ^ 0x80000000u;
    for (int bit = 0; bit < 32; ++bit) {
        bool one = (key >> bit) & 1;
        unsigned votes = __ballot_sync(0xffffffff, !one);
        int total = __syncthreads_count(!one);
        if (lane == 0) zeros[warp] = __popc(votes);
        __syncthreads();
        int before = 0;
        for (int w = 0; w < warp; ++w) before += zeros[w];
        before += __popc(votes & ((1u << lane) - 1));
        int to = one ? total + t - before : before;
        keys[to] = key;
        __syncthreads();
        key = keys[t];
    }
    y[blockIdx.x * 1024 + t] = (int)(key ^ 0x80000000u);
}
