/* ---
title = "Equal values of a warp found by match, one atomic for each"
[[launch]]
kernel = "zero"
grid   = [1]
block  = [256]
args   = ["bins"]
[[launch]]
kernel = "histogram"
grid   = [132]
block  = [128]
args   = ["data", "bins", "N"]
--- */

extern "C" __global__ void zero(int* bins) { bins[threadIdx.x] = 0; }

extern "C" __global__ void histogram(const unsigned char* __restrict__ data, int* bins, int n) {
    __shared__ int hist[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) hist[i] = 0;
    __syncthreads();
    int lane = threadIdx.x & 31;
    for (int base = blockIdx.x * blockDim.x; base < n; base += blockDim.x * gridDim.x) {
        int i = base + threadIdx.x;
        unsigned active = __ballot_sync(0xffffffff, i < n);
        if (i < n) {
            int value = data[i];
            unsigned peers = __match_any_sync(active, value);
            if (lane == __ffs(peers) - 1) atomicAdd(&hist[value], __popc(peers));
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (hist[i]) atomicAdd(bins + i, hist[i]);
}
