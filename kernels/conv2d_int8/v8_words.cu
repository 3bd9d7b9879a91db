/* ---
title  = "4-byte loads per lane, a warp along the channels"
parent = "v7"
change = "A lane loads four channels as one word and its neighbour the next four, so that a warp reads the 128 channels of one pixel in a row. Where a pixel lies in its image is worked out once and kept in shared memory."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17 and C % 4 == 0"
requires_why = "its indices and its sums are 32-bit integers, and it loads four channels as one aligned word"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 32)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "global_load_bytes_per_sector"
change  = ">= 30"
why     = "128 bytes in a row are four sectors, all of them used"

[[expect]]
counter = "global_load_requests"
change  = "< 0.3x"
why     = "a quarter of the loads, four times as wide"

[[expect]]
counter = "global_load_sectors"
change  = "< 0.05x"
why     = "a 32nd: each sector is asked for once, not once per byte"

[[expect]]
counter = "lg_throttle"
change  = "down"
why     = "a request of four sectors leaves the queue of the load unit sooner than one of 32"

[[expect]]
counter = "duration"
change  = "< 0.6x"
why     = "the copies were what v7 spent its time on"
--- */
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr int BM = 64;   // pixels a block
constexpr int BN = 32;   // filters a block
constexpr int CB = 128;  // channels of a tile
constexpr int TM = BM / 16;  // pixels a thread
constexpr int TN = BN / 16;  // filters a thread

__device__ __forceinline__ int ldg(const signed char* at) {
    return __ldg(reinterpret_cast<const int*>(at));
}
__device__ __forceinline__ int& word(signed char* at) { return *reinterpret_cast<int*>(at); }
__device__ __forceinline__ bool in(int i, int n) { return 0 <= i && i < n; }

extern "C" __global__ void __launch_bounds__(THREADS, 8)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    __shared__ __align__(32) signed char As[2][BM][CB + 4];  // 33 words a row: a column is 32 banks
    __shared__ __align__(32) signed char Bs[2][BN][CB + 4];  // as As: words of four channels
    const int tid = threadIdx.x, pixels = N * H * W;

    // Staging: a warp has a pixel or a filter, and a lane four of its channels.
    const int lane = tid % 32, warp = tid / 32;
    __shared__ int2 place[BM];  // row and column in the image
    if (tid < BM) {
        const int pixel = blockIdx.x * BM + tid;
        // A pixel beyond the last one is so far above the image that it is never inside.
        place[tid] = make_int2(pixel < pixels ? pixel / W % H : -2, pixel % W);
    }
    __syncthreads();
    const int slices = (C + CB - 1) / CB;

    // Computing: a warp has 16 filters of two pixels; 16 pixels and 16 filters lie between
    // neighbouring outputs of a thread.
    const int tx = tid % 16, ty = tid / 16;
    int sum[TM][TN] = {};

    auto stage = [&](int chunk) {
        const int buffer = chunk % 2;
        const int c0 = chunk % slices * CB, channels = min(CB, C - c0);
        const bool some = 4 * lane < channels;
        const int tap = chunk / slices, dh = tap / 3 - 1, dw = tap % 3 - 1;
        // Unrolled: eight loads are under way before the first of them is stored.
#pragma unroll
        for (int row = warp; row < BM; row += WARPS) {
            const int h = place[row].x + dh, w = place[row].y + dw;
            const int at = (blockIdx.x * BM + row + dh * W + dw) * C + c0 + 4 * lane;
            word(&As[buffer][row][4 * lane]) = in(h, H) && in(w, W) && some ? ldg(&input[at]) : 0;
        }
#pragma unroll
        for (int row = warp; row < BN; row += WARPS) {
            const int filter = blockIdx.y * BN + row, at = (filter * 9 + tap) * C + c0 + 4 * lane;
            word(&Bs[buffer][row][4 * lane]) = filter < K && some ? ldg(&weight[at]) : 0;
        }
    };

    const int chunks = 9 * slices;
    stage(0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        // One barrier: this tile is complete, and nobody still reads the one to be filled.
        __syncthreads();
        if (chunk + 1 < chunks) stage(chunk + 1);
        const int buffer = chunk % 2;
        const int channels = min(CB, C - chunk % slices * CB);
#pragma unroll 2  // 32 registers hold no more
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
