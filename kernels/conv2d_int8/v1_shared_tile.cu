/* ---
title  = "Shared tiles, filled a channel at a time"
parent = "v0"
change = "A block stages three taps of 64 pixels and of 64 filters in shared memory and computes 64×64 outputs from them, 4×4 per thread. The tiles are filled channel by channel: lanes still walk along the pixels, and along the filters."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17"
requires_why = "its indices and its sums are 32-bit integers"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 64)", "cdiv(K, 64)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "a byte is loaded once per block and used 64 times; v0 loads two for every product"

[[expect]]
counter = "global_load_requests"
change  = "< 0.05x"
why     = "(64 + 64) bytes are loaded for 64·64 products: a 64th of v0's two loads a product"

[[expect]]
counter = "global_load_bytes_per_sector"
change  = "< 1.2"
why     = "both inputs and filters are now read one byte per sector, lanes C and 9·C bytes apart"

[[expect]]
counter = "shared_conflict_ways"
change  = "up"
why     = "a pixel's row is 128 bytes, all 32 banks: the two pixels of a warp meet in one bank, while its 16 filters are neighbouring bytes. Two-way and one-way make the author's 1.5; the stores, 32 pixels in one bank, come on top"
learned = "v0 has no shared accesses to compare with. It is 2.5 ways, 1.33 for the loads and 16.5 for the stores: the compiler fetches two channels of a pixel with one load, so that one load of three is two-way; byte by byte it would be one of two, the author's 1.5"

[[expect]]
counter = "theoretical_occupancy"
change  = "< 0.6x"
why     = "48 KB of tiles per block: four blocks of 256 threads fit on an SM"
--- */
constexpr int THREADS = 256;
constexpr int BM = 64;   // pixels a block
constexpr int BN = 64;   // filters a block
constexpr int CB = 128;  // channels of a tile
constexpr int TAPS = 3;  // taps of a tile: one row of the filter
constexpr int TM = BM / 16;  // pixels a thread
constexpr int TN = BN / 16;  // filters a thread

__device__ __forceinline__ bool in(int i, int n) { return 0 <= i && i < n; }

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    __shared__ __align__(16) signed char As[TAPS][BM][CB];
    __shared__ __align__(16) signed char Bs[TAPS][CB][BN];
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
        const int c0 = chunk % slices * CB, channels = min(CB, C - c0);
        for (int t = 0; t < TAPS; ++t) {
            const int tap = chunk / slices * TAPS + t, dh = tap / 3 - 1, dw = tap % 3 - 1;
            const bool inside = pixel < pixels && in(h + dh, H) && in(w + dw, W);
            const int x = (pixel + dh * W + dw) * C + c0, y = (filter * 9 + tap) * C + c0;
            // A channel at a time: neighbouring lanes read one byte of neighbouring pixels.
            for (int c = tid / BM; c < channels; c += THREADS / BM)
                As[t][tid % BM][c] = inside ? input[x + c] : 0;
            for (int c = tid / BN; c < channels; c += THREADS / BN)
                Bs[t][c][tid % BN] = filter < K ? weight[y + c] : 0;
        }
    };

    const int chunks = 9 / TAPS * slices;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        stage(chunk);
        __syncthreads();
        const int channels = min(CB, C - chunk % slices * CB);
        for (int t = 0; t < TAPS; ++t)
            for (int c = 0; c < channels; ++c) {
                int a[TM], b[TN];
#pragma unroll
                for (int i = 0; i < TM; ++i) a[i] = As[t][ty + 16 * i][c];
#pragma unroll
                for (int j = 0; j < TN; ++j) b[j] = Bs[t][c][tx + 16 * j];
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
            }
        __syncthreads();  // nobody may overwrite a tile that another still reads
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int p = blockIdx.x * BM + ty + 16 * i, k = blockIdx.y * BN + tx + 16 * j;
            if (p < pixels && k < K) output[p * K + k] = sum[i][j];
        }
}
