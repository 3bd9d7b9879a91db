/* ---
title  = "Shared memory cut: eight blocks per SM"
parent = "v2"
change = "A tile holds one tap instead of three, and 32 filters instead of 64: 24 KB for the two buffers, and 32 registers per thread. Each is what an eighth of an SM has."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 32)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "theoretical_occupancy"
change  = ">= 100%"
why     = "8 blocks of 256 threads are all that an SM takes"

[[expect]]
counter = "achieved_occupancy"
change  = "> 3x"
why     = "four times as many warps, if they keep coming"

[[expect]]
counter = "duration"
change  = "down"
why     = "with four times the warps an SM has something to issue while others wait"
learned = "49% slower. More warps wait in the same queue: the L1 has 4.43 G lines to look up and wavefronts to pass instead of 2.96 G, because 64 pixels are now staged for 32 filters instead of 64, and it is busy for 98% of the cycles as before"

[[expect]]
counter = "shared_loads"
change  = "up"
why     = "2 filters of 4 pixels per thread: six loads for eight products, where v2 had eight for sixteen"
learned = "the same 553 M. The compiler fetches four channels of a pixel with one load where it took two in v2, which makes up for the rest"

[[expect]]
counter = "global_load_sectors"
change  = "> 1.4x"
why     = "64 pixels are now read again for every 32 filters: 96 bytes for 64·32 products instead of 128 for 64·64"
--- */
constexpr int THREADS = 256;
constexpr int BM = 64;   // pixels a block
constexpr int BN = 32;   // filters a block
constexpr int CB = 128;  // channels of a tile
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

extern "C" __global__ void __launch_bounds__(THREADS, 8)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    __shared__ __align__(16) signed char As[2][BM][CB];
    __shared__ __align__(16) signed char Bs[2][CB][BN];
    const int tid = threadIdx.x, pixels = N * H * W;

    // Staging: every thread has one pixel and one filter, and a share of their channels.
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
        const int tap = chunk / slices, dh = tap / 3 - 1, dw = tap % 3 - 1;
        const bool inside = pixel < pixels && in(h + dh, H) && in(w + dw, W);
        const int x = (pixel + dh * W + dw) * C + c0, y = (filter * 9 + tap) * C + c0;
        // A channel at a time: neighbouring lanes read one byte of neighbouring pixels.
        // Not more than two are unrolled: 32 registers hold no more.
#pragma unroll 2
        for (int c = tid / BM; c < channels; c += THREADS / BM)
            if (inside) copy_byte(&As[buffer][tid % BM][c], &input[x + c]);
            else As[buffer][tid % BM][c] = 0;
#pragma unroll 2
        for (int c = tid / BN; c < channels; c += THREADS / BN)
            if (filter < K) copy_byte(&Bs[buffer][c][tid % BN], &weight[y + c]);
            else Bs[buffer][c][tid % BN] = 0;
        commit();
    };

    const int chunks = 9 * slices;
    stage(0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        wait();
        // One barrier: this tile is complete, and nobody still reads the one to be filled.
        __syncthreads();
        if (chunk + 1 < chunks) stage(chunk + 1);
        const int buffer = chunk % 2;
        const int channels = min(CB, C - chunk % slices * CB);
        for (int c = 0; c < channels; ++c) {
            int a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = As[buffer][ty + 16 * i][c];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[buffer][c][tx + 16 * j];
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
