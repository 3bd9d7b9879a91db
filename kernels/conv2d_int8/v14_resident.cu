/* ---
title  = "Filters stay in shared memory, blocks stay on their SM"
parent = "v13"
change = "As many blocks as the GPU has SMs keep all nine taps of 128 filters in shared memory, 144 KB, for their whole life, and take one rectangle of 10×25 pixels after the other. The next one is copied meanwhile. The inner loop has no copies and no barriers: there is one barrier a rectangle, and between two of them a warp may still compute while another writes its sums."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17 and C % 16 == 0 and C <= 128"
requires_why = "its indices and its sums are 32-bit integers, and it loads 16 channels at once; and shared memory holds 128 filters of at most 128 channels"

[defines]
TH = 10      # lines of pixels a rectangle
TW = 25      # pixels of a line: 250 in all, which divides images of 50 and 100
BM = 256     # pixels per block at a time, up to a multiple of a warp's
BN = 128     # filters per block
BK = 128     # channels, all there are
WM = 64      # pixels per warp
WN = 64      # filters per warp
SMS = 132    # blocks: one for each SM of an H200

[[launch]]
kernel = "conv2d"
grid   = ["min(SMS, N * cdiv(H, TH) * cdiv(W, TW))", "cdiv(K, BN)"]
block  = ["32 * (BM // WM) * (BN // WN)"]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "(9 * BN + 2 * (TH + 2) * (TW + 2)) * BK"

[[expect]]
counter = "duration"
change  = "down"
why     = "nothing stands in the way of the tensor cores but ldmatrix"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.3x"
why     = "147 KB of filters are read by 132 blocks instead of 2560; 41 KB of input for 250 pixels instead of 24 KB for 125"

[[expect]]
counter = "barrier_stall"
change  = "< 0.5x"
why     = "one barrier for 250 pixels instead of nine for 125"

[[expect]]
counter = "theoretical_occupancy"
change  = "same"
why     = "one block of eight warps instead of two of four"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "the same products in less time"
--- */
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PIECES = BK / 16;         // 16 channels: what a lane loads, and a row of ldmatrix
constexpr int ROWS = THREADS / PIECES;  // rows that a block loads at once
constexpr int LINE = TW + 2;            // pixels of a line around the rectangle
constexpr int HALO = (TH + 2) * LINE;

__device__ __forceinline__ bool in(int i, int n) { return 0 <= i && i < n; }

// Where 16 channels of a row lie in its tile. Two rows are all 32 banks; the next two have their
// pieces swapped by one bit, and so on: eight rows have one piece in eight different places.
__device__ __forceinline__ int place(int row, int piece) {
    return row * BK + 16 * (piece ^ row / (8 / PIECES) % PIECES);
}

// Four 8×16 blocks of bytes, a row of each from one lane's address. Lane i is given bytes
// 4·(i % 4) to 4·(i % 4) + 3 of row i / 4 of each: how mma.m16n8k32 wants its operands.
__device__ __forceinline__ void ldmatrix(int (&v)[4], const signed char* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from))));
}

// 16 pixels × 8 filters × 32 channels.
__device__ __forceinline__ void mma(int (&sum)[4], const int (&a)[4], int b0, int b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two neighbours at once where the address is one of eight bytes.
__device__ __forceinline__ void store(int* to, int2 v, bool aligned, bool both) {
    if (aligned) {
        *reinterpret_cast<int2*>(to) = v;
    } else {
        to[0] = v.x;
        if (both) to[1] = v.y;
    }
}

// 16 bytes from global to shared memory without a register between them; zeros instead of the
// bytes beyond `size`.
__device__ __forceinline__ void copy(signed char* to, const signed char* from, int size) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(size));
}
// Until all of this thread's copies are there.
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(THREADS, 1)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ __align__(128) signed char filters[];  // all taps, for the block's life
    signed char* around = filters + 9 * BN * BK;  // two rectangles and their borders
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int across = (W + TW - 1) / TW, down = (H + TH - 1) / TH;

    // Staging: a thread has 16 channels of every ROWS-th pixel and filter.
    const int piece = tid % PIECES, row = tid / PIECES;

    // Computing: a warp has WM pixels and WN filters, in parts of 16 and of 8.
    const int first_pixel = warp % (BM / WM) * WM, first_filter = warp / (BM / WM) * WN;
    // Where this lane's rows for ldmatrix lie, at the first tap. Rows beyond the rectangle's
    // TH·TW pixels compute for nobody, from its first pixel.
    int corner[WM / 16];
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        const int m = first_pixel + 16 * i + lane % 16;
        corner[i] = m < TH * TW ? m / TW * LINE + m % TW : 0;
    }

    // A block takes one rectangle after the other.
    const int rectangles = N * across * down;
    auto w0 = [&](int i) { return i % across * TW; };
    auto h0 = [&](int i) { return i / across % down * TH; };
    auto image = [&](int i) { return i / across / down * H * W; };
    auto copy_input = [&](int i, int buffer) {
        const int top = h0(i) - 1, left = w0(i) - 1, first = image(i);
        for (int j = row; j < HALO; j += ROWS) {
            const int h = top + j / LINE, w = left + j % LINE;
            const bool inside = in(h, H) && in(w, W) && 16 * piece < C;
            copy(&around[buffer * HALO * BK + place(j, piece)],
                 &input[inside ? (first + h * W + w) * C + 16 * piece : 0], inside ? 16 : 0);
        }
    };

    // Once for all rectangles: every tap of the block's filters.
    for (int i = row; i < 9 * BN; i += ROWS) {
        const int filter = blockIdx.y * BN + i % BN;
        const bool inside = filter < K && 16 * piece < C;
        copy(&filters[place(i, piece)],
             &weight[inside ? (filter * 9 + i / BN) * C + 16 * piece : 0], inside ? 16 : 0);
    }
    copy_input(blockIdx.x, 0);

    int buffer = 0;
    for (int tile = blockIdx.x; tile < rectangles; tile += gridDim.x) {
        // One barrier a rectangle: this one is complete, and nobody still reads the last one. From
        // here on each warp computes and writes at its own pace.
        wait();
        __syncthreads();
        const int next = tile + gridDim.x;
        if (next < rectangles) copy_input(next, 1 - buffer);
        const signed char* As = around + buffer * HALO * BK;
        buffer = 1 - buffer;

        int sum[WM / 16][WN / 8][4] = {};
        for (int tap = 0; tap < 9; ++tap) {
            const signed char* Bs = filters + tap * BN * BK;
            const int shift = tap / 3 * LINE + tap % 3;
#pragma unroll
            for (int k = 0; k < PIECES; k += 2) {
                if (16 * k >= C) break;
                int x[WM / 16][4], y[WN / 16][4];
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
                    ldmatrix(x[i], &As[place(corner[i] + shift, k + lane / 16)]);
                // Two parts of 8 filters at once: channels 0-15 and 16-31 of each.
#pragma unroll
                for (int j = 0; j < WN / 16; ++j)
                    ldmatrix(y[j], &Bs[place(first_filter + 16 * j + lane / 16 * 8 + lane % 8,
                                             k + lane / 8 % 2)]);
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 8; ++j)
                        mma(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
            }
        }

        // A lane has two neighbouring filters of pixels eight apart: four lanes fill a sector.
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int m = first_pixel + 16 * i + 8 * half + lane / 4;
                    const int h = h0(tile) + m / TW, w = w0(tile) + m % TW;
                    const int p = image(tile) + h * W + w;
                    const int k = blockIdx.y * BN + first_filter + 8 * j + lane % 4 * 2;
                    const int2 v = make_int2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
                    if (m < TH * TW && h < H && w < W && k < K)
                        store(&output[p * K + k], v, K % 2 == 0, k + 1 < K);
                }
    }
}
