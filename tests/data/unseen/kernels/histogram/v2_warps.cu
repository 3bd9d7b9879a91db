/* ---
title = "A histogram a warp, four bytes a load, two passes"
requires = "N >= 4"
[[scratch]]
name  = "partial"
dtype = "uint32"
shape = [64, 256]
[[launch]]
kernel = "histogram256"
grid   = [64]
block  = [192]
args   = ["partial", "data", "N // 4", "N"]
[[launch]]
kernel = "mergeHistogram256"
grid   = [256]
block  = [64]
args   = ["bins", "partial", 64]
--- */

#define WARP_COUNT 6
typedef unsigned int uint;
typedef unsigned char uchar;

inline __device__ void addByte(uint* s_WarpHist, uint data) { atomicAdd(s_WarpHist + data, 1); }

inline __device__ void addWord(uint* s_WarpHist, uint data) {
    addByte(s_WarpHist, (data >> 0) & 0xFFU);
    addByte(s_WarpHist, (data >> 8) & 0xFFU);
    addByte(s_WarpHist, (data >> 16) & 0xFFU);
    addByte(s_WarpHist, (data >> 24) & 0xFFU);
}

extern "C" __global__ void histogram256(uint* d_Partial, const uint* d_Data, uint words, uint bytes) {
    __shared__ uint s_Hist[WARP_COUNT * 256];
    uint* s_WarpHist = s_Hist + (threadIdx.x >> 5) * 256;
#pragma unroll
    for (uint i = 0; i < 256 * WARP_COUNT / (WARP_COUNT * 32); i++)
        s_Hist[threadIdx.x + i * WARP_COUNT * 32] = 0;
    __syncthreads();
    for (uint pos = blockIdx.x * blockDim.x + threadIdx.x; pos < words; pos += blockDim.x * gridDim.x) {
        uint data = d_Data[pos];
        addWord(s_WarpHist, data);
    }
    if (blockIdx.x == 0 && threadIdx.x < bytes - 4 * words)
        addByte(s_WarpHist, ((const uchar*)d_Data)[4 * words + threadIdx.x]);
    __syncthreads();
    for (uint bin = threadIdx.x; bin < 256; bin += WARP_COUNT * 32) {
        uint sum = 0;
        for (uint i = 0; i < WARP_COUNT; i++) sum += s_Hist[bin + i * 256];
        d_Partial[blockIdx.x * 256 + bin] = sum;
    }
}

extern "C" __global__ void mergeHistogram256(uint* d_Histogram, const uint* d_Partial, uint count) {
    uint sum = 0;
    for (uint i = threadIdx.x; i < count; i += 64) sum += d_Partial[blockIdx.x + i * 256];
    __shared__ uint data[64];
    data[threadIdx.x] = sum;
    for (uint stride = 32; stride > 0; stride >>= 1) {
        __syncthreads();
        if (threadIdx.x < stride) data[threadIdx.x] += data[threadIdx.x + stride];
    }
    if (threadIdx.x == 0) d_Histogram[blockIdx.x] = data[0];
}
