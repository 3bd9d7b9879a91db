/* ---
title = "A histogram per warp in shared memory, 16 pixels a load, table in shared memory"
change = "Atomics go to shared memory, one copy of the bins per warp; the scan uses shuffles; the image is read and written 16 bytes at a time."
requires = "W * H < 16777216"
requires_why = "255 times the number of pixels has to fit into 32 bits"
[defines]
THREADS = 256
[[scratch]]
name = "counts"
dtype = "uint32"
shape = [256]
[[scratch]]
name = "table"
dtype = "uint8"
shape = [256]
[[fill]]
name = "counts"
value = 0
[[launch]]
kernel = "histogram"
grid = ["min(cdiv(W * H, 16 * THREADS), 132)"]
block = ["THREADS"]
args = ["image", "counts", "W * H"]
[[launch]]
kernel = "make_table"
grid = [1]
block = [256]
args = ["counts", "table", "W * H"]
[[launch]]
kernel = "remap"
grid = ["cdiv(W * H, 16 * THREADS)"]
block = ["THREADS"]
args = ["image", "table", "equal", "W * H"]
--- */
typedef unsigned char Pixel;
constexpr unsigned ALL = 0xffffffffu;

__device__ __forceinline__ void count4(unsigned* bins, unsigned word) {
    atomicAdd(&bins[word & 255u], 1u);
    atomicAdd(&bins[(word >> 8) & 255u], 1u);
    atomicAdd(&bins[(word >> 16) & 255u], 1u);
    atomicAdd(&bins[word >> 24], 1u);
}

extern "C" __global__ void histogram(const Pixel* __restrict__ image, unsigned* __restrict__ counts, int pixels) {
    __shared__ unsigned bins[THREADS / 32][256];
    const int warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < (THREADS / 32) * 256; i += THREADS) (&bins[0][0])[i] = 0;
    __syncthreads();

    const uint4* vectors = reinterpret_cast<const uint4*>(image);
    const int id = blockIdx.x * THREADS + threadIdx.x;
    for (int i = id; i < pixels / 16; i += gridDim.x * THREADS) {
        const uint4 v = vectors[i];
        count4(bins[warp], v.x);
        count4(bins[warp], v.y);
        count4(bins[warp], v.z);
        count4(bins[warp], v.w);
    }
    if (id < pixels % 16) atomicAdd(&bins[warp][image[pixels - 1 - id]], 1u);
    __syncthreads();

    for (int bin = threadIdx.x; bin < 256; bin += THREADS) {
        unsigned sum = 0;
#pragma unroll
        for (int w = 0; w < THREADS / 32; ++w) sum += bins[w][bin];
        if (sum != 0) atomicAdd(&counts[bin], sum);
    }
}

extern "C" __global__ void make_table(const unsigned* __restrict__ counts, Pixel* __restrict__ table, int pixels) {
    __shared__ unsigned warp_sum[8], warp_first[8];
    const int bin = threadIdx.x, lane = bin & 31, warp = bin >> 5;
    unsigned upto = counts[bin];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const unsigned before = __shfl_up_sync(ALL, upto, step);
        if (lane >= step) upto += before;
    }
    if (lane == 31) warp_sum[warp] = upto;
    __syncthreads();
    for (int w = 0; w < warp; ++w) upto += warp_sum[w];

    // The smallest sum that is not zero belongs to the first grey value present.
    const unsigned smallest = __reduce_min_sync(ALL, upto == 0 ? ALL : upto);
    if (lane == 0) warp_first[warp] = smallest;
    __syncthreads();
    unsigned first = warp_first[0];
#pragma unroll
    for (int w = 1; w < 8; ++w) first = min(first, warp_first[w]);

    const unsigned rest = pixels - first;
    unsigned grey = bin;
    if (rest != 0) grey = upto < first ? 0u : (255u * (upto - first) + rest / 2) / rest;
    table[bin] = static_cast<Pixel>(grey);
}

__device__ __forceinline__ unsigned look_up4(const Pixel* table, unsigned word) {
    return table[word & 255u] | table[(word >> 8) & 255u] << 8 | table[(word >> 16) & 255u] << 16 |
           static_cast<unsigned>(table[word >> 24]) << 24;
}

extern "C" __global__ void remap(const Pixel* __restrict__ image, const Pixel* __restrict__ table,
                                 Pixel* __restrict__ equal, int pixels) {
    __shared__ Pixel local[256];
    for (int i = threadIdx.x; i < 256; i += THREADS) local[i] = table[i];
    __syncthreads();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < pixels / 16) {
        uint4 v = reinterpret_cast<const uint4*>(image)[i];
        v.x = look_up4(local, v.x);
        v.y = look_up4(local, v.y);
        v.z = look_up4(local, v.z);
        v.w = look_up4(local, v.w);
        reinterpret_cast<uint4*>(equal)[i] = v;
    } else if (i == pixels / 16) {
        for (int k = 16 * i; k < pixels; ++k) equal[k] = local[image[k]];
    }
}
