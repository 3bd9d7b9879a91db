/* ---
title  = "dp4a: four products per instruction"
parent = "v5"
change = "Four neighbouring channels of a pixel and of a filter are loaded as one word each and multiplied by one instruction. The filters' tile is turned, so that their channels are neighbours too. The compiler may have used dp4a before (nvcc 13 does, see IDP in the machine code of v0 to v5), but it had to put the filters' words together byte by byte."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 32)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "shared_loads"
change  = "< 0.3x"
why     = "one load for four channels"
learned = "0.5x. In v5's machine code four channels of a pixel come as one word already, 1152 loads a warp; only the filters' fell to a quarter, from 2304 to 576"

[[expect]]
counter = "instructions"
change  = "< 0.5x"
why     = "a quarter of the multiply-adds, loads and loop steps; the copies stay"
learned = "0.79x. v5 executes as many dp4a, 2304 per warp; what went away are the filters' loads of single bytes and 1728 of the 2178 instructions that put words together. Half of what is left are the copies"

[[expect]]
counter = "duration"
change  = "down"
why     = "less to issue; the copies, byte by byte, are what is left"

[[expect]]
counter = "global_load_sectors"
change  = "same"
why     = "the copies stay as they were"

[[expect]]
counter = "shared_conflict_ways"
change  = "<= 1.05"
why     = "rows of the filters have 33 words as well"
--- */
constexpr int THREADS = 256;
constexpr int BM = 64;   // pixels a block
constexpr int BN = 32;   // filters a block
constexpr int CB = 128;  // channels of a tile
constexpr int TM = BM / 16;  // pixels a thread
constexpr int TN = BN / 16;  // filters a thread

__device__ __forceinline__ int word(const signed char* at) {
    return *reinterpret_cast<const int*>(at);
}
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
    __shared__ __align__(32) signed char Bs[2][BN][CB + 4];  // as As: words of four channels
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
        const int whole = (channels + 3) / 4 * 4;  // the last word is filled up with zeros
        const int tap = chunk / slices, dh = tap / 3 - 1, dw = tap % 3 - 1;
        const bool inside = pixel < pixels && in(h + dh, H) && in(w + dw, W);
        const int x = (pixel + dh * W + dw) * C + c0, y = (filter * 9 + tap) * C + c0;
        // A channel at a time: neighbouring lanes read one byte of neighbouring pixels.
        // Not more than two are unrolled: 32 registers hold no more.
#pragma unroll 2
        for (int c = tid / BM; c < whole; c += THREADS / BM)
            if (inside && c < channels) copy_byte(&As[buffer][tid % BM][c], &input[x + c]);
            else As[buffer][tid % BM][c] = 0;
#pragma unroll 2
        for (int c = tid / BN; c < whole; c += THREADS / BN)
            if (filter < K && c < channels) copy_byte(&Bs[buffer][tid % BN][c], &weight[y + c]);
            else Bs[buffer][tid % BN][c] = 0;
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
#pragma unroll 2  // as above
        for (int c = 0; c < channels; c += 4) {
            int a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = word(&As[buffer][ty + 16 * i][c]);
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = word(&Bs[buffer][tx + 16 * j][c]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) sum[i][j] = __dp4a(a[i], b[j], sum[i][j]);
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
