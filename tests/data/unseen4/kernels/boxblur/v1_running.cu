/* ---
title  = "Running sums: along rows in shared memory, down columns in registers"
change = "Each thread slides a window over eight pixels of a row or 32 of a column: two loads per pixel, whatever the radius."
requires     = "R <= 32"
requires_why = "the halo in shared memory is 32 pixels wide"
[defines]
THREADS = 128
PER     = 8
STRIP   = 32
[[scratch]]
name  = "rows"
dtype = "float32"
shape = ["H", "W"]
[[launch]]
kernel = "blur_rows"
grid   = ["cdiv(W, THREADS * PER)", "H"]
block  = ["THREADS"]
args   = ["image", "rows", "W", "R"]
[[launch]]
kernel = "blur_columns"
grid   = ["cdiv(W, 64)", "cdiv(H, STRIP)"]
block  = [64]
args   = ["rows", "blurred", "W", "H", "R"]
--- */

#define SEGMENT (THREADS * PER)
#define MAX_RADIUS 32
#define PADDED(i) ((i) + ((i) >> 5))  // one empty word in 33: lanes that are PER apart do not collide

extern "C" __global__ void blur_rows(const float* __restrict__ in, float* __restrict__ out,
                                     int w, int radius) {
    __shared__ float line[PADDED(SEGMENT + 2 * MAX_RADIUS)];

    const int x0 = blockIdx.x * SEGMENT;
    const float* row = in + (size_t)blockIdx.y * w;
    for (int i = threadIdx.x; i < SEGMENT + 2 * radius; i += THREADS) {
        const int x = min(max(x0 + i - radius, 0), w - 1);
        line[PADDED(i)] = row[x];
    }
    __syncthreads();

    // line[i] is pixel x0 + i - radius, so the window of output i is line[i .. i + 2*radius].
    const float scale = 1.0f / (2 * radius + 1);
    const int first = threadIdx.x * PER;
    float result[PER];
    float sum = 0.0f;
    for (int k = 0; k <= 2 * radius; ++k) sum += line[PADDED(first + k)];
    result[0] = sum * scale;
#pragma unroll
    for (int j = 1; j < PER; ++j) {
        sum += line[PADDED(first + j + 2 * radius)] - line[PADDED(first + j - 1)];
        result[j] = sum * scale;
    }
    __syncthreads();

    // Back through shared memory, so that the stores are coalesced.
#pragma unroll
    for (int j = 0; j < PER; ++j) line[PADDED(first + j)] = result[j];
    __syncthreads();

    const int count = min(SEGMENT, w - x0);
    float* to = out + (size_t)blockIdx.y * w + x0;
    for (int i = threadIdx.x; i < count; i += THREADS) to[i] = line[PADDED(i)];
}

extern "C" __global__ void blur_columns(const float* __restrict__ in, float* __restrict__ out,
                                        int w, int h, int radius) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;

    const int begin = blockIdx.y * STRIP;
    const int end = min(begin + STRIP, h);
    const float scale = 1.0f / (2 * radius + 1);
    const float* column = in + x;

    float sum = 0.0f;
    for (int k = begin - radius; k <= begin + radius; ++k) {
        sum += __ldg(column + min(max(k, 0), h - 1) * w);
    }
    out[begin * w + x] = sum * scale;

#pragma unroll 4
    for (int y = begin + 1; y < end; ++y) {
        const int enters = min(y + radius, h - 1);
        const int leaves = max(y - radius - 1, 0);
        sum += __ldg(column + enters * w) - __ldg(column + leaves * w);
        out[y * w + x] = sum * scale;
    }
}
