/* ---
title = "A global atomic for each pixel, a scan of 256 bins in shared memory, a table in memory"
requires = "W * H < 16777216"
requires_why = "255 times the number of pixels has to fit into 32 bits"
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
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["image", "counts", "W", "H"]
[[launch]]
kernel = "make_table"
grid = [1]
block = [256]
args = ["counts", "table", "W * H"]
[[launch]]
kernel = "remap"
grid = ["cdiv(W, 32)", "cdiv(H, 8)"]
block = [32, 8]
args = ["image", "table", "equal", "W", "H"]
--- */

extern "C" __global__ void histogram(const unsigned char* image, unsigned int* counts, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    atomicAdd(&counts[image[y * width + x]], 1u);
}

extern "C" __global__ void make_table(const unsigned int* counts, unsigned char* table, int pixels) {
    __shared__ unsigned int upto[256];
    __shared__ unsigned int first;
    int bin = threadIdx.x;
    upto[bin] = counts[bin];
    __syncthreads();

    // Inclusive scan: each step adds what stands `step` bins before.
    for (int step = 1; step < 256; step *= 2) {
        unsigned int before = 0;
        if (bin >= step) before = upto[bin - step];
        __syncthreads();
        upto[bin] += before;
        __syncthreads();
    }

    // The first bin that is not empty has as many pixels up to it as in it.
    if (upto[bin] > 0 && upto[bin] == counts[bin]) first = upto[bin];
    __syncthreads();

    unsigned int rest = pixels - first;
    if (rest == 0) {
        table[bin] = bin;
    } else if (upto[bin] < first) {
        table[bin] = 0;
    } else {
        table[bin] = (255u * (upto[bin] - first) + rest / 2) / rest;
    }
}

extern "C" __global__ void remap(const unsigned char* image, const unsigned char* table, unsigned char* equal,
                                 int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        equal[y * width + x] = table[image[y * width + x]];
    }
}
