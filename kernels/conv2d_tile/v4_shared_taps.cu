/* ---
title  = "Taps in shared memory"
parent = "v3"
change = "The block keeps a channel's taps in shared memory, output channel last, so that the six for a value come in two wide loads, the same for all lanes."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 8)", "cdiv(P, 4)", "cdiv(K, 6)"]
block  = [8, 4]
args   = ["x", "w", "y", "C", "K", "H", "W", "P", "Q"]

[[expect]]
counter = "global_load_requests"
change  = "< 0.1x"
why     = "seven loads of taps per warp and channel instead of 216, and two of the tile as before"

[[expect]]
counter = "shared_loads"
change  = "> 2x"
why     = "a wide and a half-wide load of taps beside each value's"

[[expect]]
counter = "instructions"
change  = "down"
why     = "three loads for six multiply-adds instead of seven"

[[expect]]
counter = "shared_store_bank_conflicts"
change  = "up"
why     = "taps come in row by row and are stored eight floats apart"

[[expect]]
counter = "duration"
change  = "down"
why     = "fewer loads a multiply-add; a constant bank would need none, but is filled by the host, which launches a kernel and no copies here"
--- */
constexpr int BW = 8;      // outputs a block: columns
constexpr int BH = 4;      // and rows
constexpr int PIECES = 4;  // of 16 bytes in a row of the tile: 13 columns, rounded up
constexpr int PITCH = 24;  // floats a row: four rows of eight lanes lie in 32 different banks
constexpr int TURNS = 2;   // pieces a thread: 36 for 32 threads
constexpr int KT = 6;      // output channels a thread

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
                                  float* __restrict__ y, int C, int K, int H, int W, int P,
                                  int Q) {
    __shared__ __align__(16) float tile[BH + 5][PITCH];
    __shared__ __align__(16) float taps[36][KT + 2];  // output channel last: 16 bytes and 8
    const int lane = threadIdx.y * BW + threadIdx.x;
    const int top = blockIdx.y * BH, first = blockIdx.x * BW;
    const int q = first + threadIdx.x;
    const int p = top + threadIdx.y;
    const int k = blockIdx.z * KT;  // the first of KT output channels
    const bool wide = W % 4 == 0;

    // This thread's pieces of channel c.
    float4 next[TURNS];
    const auto fetch = [&](int c) {
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int i = turn * BW * BH + lane;
            const int row = i / PIECES, col = i % PIECES * 4;
            const int left = i < (BH + 5) * PIECES && top + row < H ? W - (first + col) : 0;
            next[turn] = load_piece(&x[(c * H + top + row) * W + first + col], left, wide);
        }
    };

    float sum[KT] = {};
    fetch(0);
    for (int c = 0; c < C; ++c) {
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const int i = turn * BW * BH + lane;
            if (i < (BH + 5) * PIECES)
                *reinterpret_cast<float4*>(&tile[i / PIECES][i % PIECES * 4]) = next[turn];
        }
        for (int i = lane; i < 36 * KT; i += BW * BH) {
            // A channel beyond the last works with the last one's taps, for nothing.
            const int n = i / 36, tap = i % 36;
            taps[tap][n] = w[(min(k + n, K - 1) * C + c) * 36 + tap];
        }
        __syncthreads();
        if (c + 1 < C) fetch(c + 1);
        for (int r = 0; r < 6; ++r) {
            for (int s = 0; s < 6; ++s) {
                const float value = tile[threadIdx.y + r][threadIdx.x + s];
#pragma unroll
                for (int n = 0; n < KT; ++n) sum[n] += value * taps[r * 6 + s][n];
            }
        }
        __syncthreads();  // nobody may overwrite what another still reads
    }
    if (p < P && q < Q) {
#pragma unroll
        for (int n = 0; n < KT; ++n)
            if (k + n < K) y[((k + n) * P + p) * Q + q] = sum[n];
    }
}
