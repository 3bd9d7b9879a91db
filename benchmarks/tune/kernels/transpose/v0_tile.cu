/* ---
title = "A tile in shared memory"

[defines]
WIDE = 32
HIGH = 32
ROWS = 8
PAD  = 1

[tune]
WIDE = [16, 32, 64]
HIGH = [16, 32, 64]
ROWS = [4, 8, 16, 32]
PAD  = [0, 1]
requires = "ROWS <= HIGH and WIDE * ROWS <= 1024 and WIDE * ROWS >= 32 and WIDE * ROWS % HIGH == 0"

[[launch]]
kernel = "transpose"
grid   = ["cdiv(N, WIDE)", "cdiv(M, HIGH)"]
block  = ["WIDE", "ROWS"]
args   = ["a", "b", "M", "N"]
--- */
extern "C" __global__ void __launch_bounds__(WIDE * ROWS)
transpose(const float* __restrict__ a, float* __restrict__ b, int m, int n) {
    __shared__ float tile[HIGH][WIDE + PAD];
    const int left = blockIdx.x * WIDE, top = blockIdx.y * HIGH;
#pragma unroll
    for (int i = 0; i < HIGH; i += ROWS) {
        const int row = i + threadIdx.y;
        if (row < HIGH && top + row < m && left + threadIdx.x < n)
            tile[row][threadIdx.x] = a[(size_t)(top + row) * n + left + threadIdx.x];
    }
    __syncthreads();
    // The same threads, HIGH of them a column of the tile.
    const int thread = threadIdx.y * WIDE + threadIdx.x;
    const int row = thread % HIGH, first = thread / HIGH;
    constexpr int STEP = WIDE * ROWS / HIGH;
#pragma unroll
    for (int i = 0; i < WIDE; i += STEP) {
        const int column = i + first;
        if (column < WIDE && left + column < n && top + row < m)
            b[(size_t)(left + column) * m + top + row] = tile[row][column];
    }
}
