/* ---
title  = "Tiles aligned to 32 bytes"
parent = "v4"
change = "Both tiles start at a multiple of 32 bytes, the size of a sector, instead of 16."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 32)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "duration"
change  = "same"
why     = "sectors of 32 bytes are a matter of global memory; shared memory has banks of four, and a byte is loaded as a byte, wherever its tile starts"

[[expect]]
counter = "shared_wavefronts"
change  = "same"
why     = "a shift of a whole tile moves all lanes by the same number of banks"

[[expect]]
counter = "instructions"
change  = "same"
why     = "no load becomes wider by it"
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
    __shared__ __align__(32) signed char As[2][BM][CB + 4];  // 33 words a row: a column is 32 banks
    __shared__ __align__(32) signed char Bs[2][CB][BN];
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
