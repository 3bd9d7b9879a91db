/* ---
title  = "Double buffering with byte-wise \"asynchronous\" copies"
parent = "v1"
change = "The next tiles are copied while the present ones are used, in the way of cuda::memcpy_async with single bytes. There are no asynchronous copies of one byte: cp.async starts at four, and each call becomes a load and a store, which the thread itself issues before it computes."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 64)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "2 * 3 * 128 * (64 + 64)"

[[expect]]
counter = "duration"
change  = "up"
why     = "the copies are loads and stores in the order of the program, so nothing overlaps that did not before, and half as many warps are there to hide them"
learned = "as fast, −0.4%. The L1 passes one line looked up or one wavefront of shared memory per cycle, and both versions have the same 2.96 G of them, which keep it busy for 98% of the cycles: half of the warps suffice for that"

[[expect]]
counter = "theoretical_occupancy"
change  = "< 0.6x"
why     = "96 KB per block: two blocks fit on an SM, 25%"

[[expect]]
counter = "long_scoreboard"
change  = "up"
why     = "a store waits for its load, and fewer warps can take over"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "one barrier per tile instead of two"

[[expect]]
counter = "global_load_sectors"
change  = "same"
why     = "the same bytes in the same order"
--- */
constexpr int THREADS = 256;
constexpr int BM = 64;   // pixels a block
constexpr int BN = 64;   // filters a block
constexpr int CB = 128;  // channels of a tile
constexpr int TAPS = 3;  // taps of a tile: one row of the filter
constexpr int TM = BM / 16;  // pixels a thread
constexpr int TN = BN / 16;  // filters a thread

__device__ __forceinline__ bool in(int i, int n) { return 0 <= i && i < n; }

// What cuda::memcpy_async makes of one byte: a load and a store, like any other (with CUDA 13.0 and
// a cuda::pipeline in place of these three functions, v2 compiles to the same 1472 instructions).
// The copies of the hardware that need no register, cp.async, are 4, 8 or 16 bytes long.
__device__ __forceinline__ void copy_byte(signed char* to, const signed char* from) { *to = *from; }
// And what it makes of a pipeline's commit and wait: instructions for groups of cp.async, of
// which there are none.
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    // Two tiles of each, 96 KB: more than a block may declare with a fixed size.
    extern __shared__ __align__(16) signed char tiles[];
    auto As = reinterpret_cast<signed char (*)[TAPS][BM][CB]>(tiles);
    auto Bs = reinterpret_cast<signed char (*)[TAPS][CB][BN]>(tiles + 2 * sizeof(*As));
    const int tid = threadIdx.x, pixels = N * H * W;

    // Staging: every thread has one pixel and one filter, and every fourth of their channels.
    const int pixel = blockIdx.x * BM + tid % BM, filter = blockIdx.y * BN + tid % BN;
    const int w = pixel % W, h = pixel / W % H;
    const int slices = (C + CB - 1) / CB;

    // Computing: a warp has 16 filters of two pixels; 16 pixels and 16 filters lie between
    // neighbouring outputs of a thread.
    const int tx = tid % 16, ty = tid / 16;
    int sum[TM][TN] = {};

    auto stage = [&](int chunk) {
        const int buffer = chunk % 2;
        const int c0 = chunk % slices * CB, channels = min(CB, C - c0);
        for (int t = 0; t < TAPS; ++t) {
            const int tap = chunk / slices * TAPS + t, dh = tap / 3 - 1, dw = tap % 3 - 1;
            const bool inside = pixel < pixels && in(h + dh, H) && in(w + dw, W);
            const int x = (pixel + dh * W + dw) * C + c0, y = (filter * 9 + tap) * C + c0;
            // A channel at a time: neighbouring lanes read one byte of neighbouring pixels.
            for (int c = tid / BM; c < channels; c += THREADS / BM)
                if (inside) copy_byte(&As[buffer][t][tid % BM][c], &input[x + c]);
                else As[buffer][t][tid % BM][c] = 0;
            for (int c = tid / BN; c < channels; c += THREADS / BN)
                if (filter < K) copy_byte(&Bs[buffer][t][c][tid % BN], &weight[y + c]);
                else Bs[buffer][t][c][tid % BN] = 0;
        }
        commit();
    };

    const int chunks = 9 / TAPS * slices;
    stage(0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        wait();
        // One barrier: this tile is complete, and nobody still reads the one to be filled.
        __syncthreads();
        if (chunk + 1 < chunks) stage(chunk + 1);
        const int buffer = chunk % 2;
        const int channels = min(CB, C - chunk % slices * CB);
        for (int t = 0; t < TAPS; ++t)
            for (int c = 0; c < channels; ++c) {
                int a[TM], b[TN];
#pragma unroll
                for (int i = 0; i < TM; ++i) a[i] = As[buffer][t][ty + 16 * i][c];
#pragma unroll
                for (int j = 0; j < TN; ++j) b[j] = Bs[buffer][t][c][tx + 16 * j];
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
            }
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int p = blockIdx.x * BM + ty + 16 * i, k = blockIdx.y * BN + tx + 16 * j;
            if (p < pixels && k < K) output[p * K + k] = sum[i][j];
        }
}
