/* ---
title  = "An 8×4 block and its halo"
parent = "v0"
change = "One warp per block: 8×4 outputs, whose 13×9 inputs of a channel come into shared memory in pieces of 16 bytes, dealt out to the 32 threads in turn."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 8)", "cdiv(P, 4)", "K"]
block  = [8, 4]
args   = ["x", "w", "y", "C", "H", "W", "P", "Q"]

[[expect]]
counter = "global_load_requests"
change  = "down"
why     = "two loads of 16 bytes per channel instead of 36 of four; only the taps are still read one by one"

[[expect]]
counter = "achieved_occupancy"
change  = "down"
why     = "an SM holds 32 blocks at most, so 32 warps of its 64"

[[expect]]
counter = "long_scoreboard"
change  = "up"
why     = "a block of one warp has nothing to do while its tile comes"
learned = "it fell, 5.5 → 4.9 cycles per instruction, because there are 75% more instructions; added up it is 308 M → 473 M warp cycles, and 31% of the samples lie where a tile's pieces are waited for. What went away is v0's queue before the L1, 23 of 40 cycles of LG throttle"

[[expect]]
counter = "duration"
change  = "up"
why     = "v0's windows hit the L1; here 144 elements are fetched for 32 outputs, and each channel waits for its own"
--- */
constexpr int BW = 8;      // outputs a block: columns
constexpr int BH = 4;      // and rows
constexpr int PIECES = 4;  // of 16 bytes in a row of the tile: 13 columns, rounded up
constexpr int PITCH = 24;  // floats a row: four rows of eight lanes lie in 32 different banks

// The first `left` of four neighbouring floats, zeros for the rest. Rows that 16 bytes do not
// divide, and the end of those that they do, are loaded float by float.
__device__ __forceinline__ float4 load_piece(const float* from, int left, bool wide) {
    if (wide && left >= 4) return *reinterpret_cast<const float4*>(from);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (left > 0) v.x = from[0];
    if (left > 1) v.y = from[1];
    if (left > 2) v.z = from[2];
    if (left > 3) v.w = from[3];
    return v;
}

extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ w,
                                  float* __restrict__ y, int C, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[BH + 5][PITCH];
    const int lane = threadIdx.y * BW + threadIdx.x;
    const int top = blockIdx.y * BH, first = blockIdx.x * BW;
    const int q = first + threadIdx.x;
    const int p = top + threadIdx.y;
    const int k = blockIdx.z;
    const bool wide = W % 4 == 0;

    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
        // 36 pieces: one for each lane, and a second for the first four.
#pragma unroll
        for (int i = lane; i < (BH + 5) * PIECES; i += BW * BH) {
            const int row = i / PIECES, col = i % PIECES * 4;
            const int left = top + row < H ? W - (first + col) : 0;
            *reinterpret_cast<float4*>(&tile[row][col]) =
                load_piece(&x[(c * H + top + row) * W + first + col], left, wide);
        }
        __syncthreads();
        const float* taps = &w[(k * C + c) * 36];
        for (int r = 0; r < 6; ++r)
            for (int s = 0; s < 6; ++s)
                sum += tile[threadIdx.y + r][threadIdx.x + s] * taps[r * 6 + s];
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }
    if (p < P && q < Q) y[(k * P + p) * Q + q] = sum;
}
