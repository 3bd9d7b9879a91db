/* ---
title  = "No input is loaded twice by a block, with tensor cores"
parent = "v12"
change = "A block's pixels are a rectangle of 5×25, and the 7×27 around them are loaded once for all nine taps: what v9 did for dp4a. Only the filters still come in stages. A warp computes 64×64 outputs instead of 64×32."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17 and C % 16 == 0"
requires_why = "its indices and its sums are 32-bit integers, and it loads 16 channels at once"

[defines]
TH = 5       # lines of pixels per block
TW = 25      # pixels of a line: 125 in all, which divides images of 50 and 100
BM = 128     # pixels per block, up to a multiple of a warp's
BN = 128     # filters per block
BK = 128     # channels of a tile
WM = 64      # pixels per warp
WN = 64      # filters per warp
STAGES = 4   # tiles of the filters in shared memory
BLOCKS = 2   # blocks per SM

[[launch]]
kernel = "conv2d"
grid   = ["N * cdiv(H, TH) * cdiv(W, TW)", "cdiv(K, BN)"]
block  = ["32 * (BM // WM) * (BN // WN)"]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "((TH + 2) * (TW + 2) + STAGES * BN) * BK"

[[expect]]
counter = "duration"
change  = "down"
why     = "what a block asks for falls from 295 KB, half of it input, to 172 KB (what the L1 does not have, from 275 KB to 131 KB), and tiles are exchanged nine times per block instead of 18"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.7x"
why     = "189 pixels instead of nine times 128, with the filters as before: 2560 blocks × 172 KB instead of 2500 × 295 KB"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.9x"
why     = "a warp of 64×64 reads 128 rows for 64·64 products, one of 64×32 reads 96 for half of them"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "the same products and 2% more, in less time"

[[expect]]
counter = "shared_wavefronts_excess"
change  = "down"
why     = "v12's copies write half a row of 128 bytes at a time, these write all of it. What is left: where eight rows of ldmatrix cross the end of a line, two pixels of the border lie between, and some rows meet in one place"
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
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }
// Until all groups but the newest `left` are there.
template <int left>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ __align__(128) signed char around[];  // the rectangle and its border
    signed char* tiles = around + HALO * BK;                // then the filters' tiles
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int across = (W + TW - 1) / TW, down = (H + TH - 1) / TH;
    const int w0 = blockIdx.x % across * TW, h0 = blockIdx.x / across % down * TH;
    const int image = blockIdx.x / across / down * H * W;

    // Staging: a thread has 16 channels of every ROWS-th pixel and filter.
    const int piece = tid % PIECES, row = tid / PIECES;

    // Computing: a warp has WM pixels and WN filters, in parts of 16 and of 8.
    const int first_pixel = warp % (BM / WM) * WM, first_filter = warp / (BM / WM) * WN;
    int sum[WM / 16][WN / 8][4] = {};
    // Where this lane's rows for ldmatrix lie, at the first tap. Rows beyond the rectangle's
    // TH·TW pixels compute for nobody, from its first pixel.
    int corner[WM / 16];
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        const int m = first_pixel + 16 * i + lane % 16;
        corner[i] = m < TH * TW ? m / TW * LINE + m % TW : 0;
    }

    for (int c0 = 0; c0 < C; c0 += BK) {
        const int c = c0 + 16 * piece;
        if (c0 > 0) __syncthreads();  // nobody may overwrite the input that another still reads
        // The rectangle and the pixels around it: each is loaded once for all nine taps.
        for (int i = row; i < HALO; i += ROWS) {
            const int h = h0 + i / LINE - 1, w = w0 + i % LINE - 1;
            const bool inside = in(h, H) && in(w, W) && c < C;
            copy(&around[place(i, piece)], &input[inside ? (image + h * W + w) * C + c : 0],
                 inside ? 16 : 0);
        }
        // Copies of the filters are STAGES - 1 taps ahead, and a group is committed for each
        // even where there is none. The first group has the input as well.
        auto copy_filters = [&](int tap) {
            signed char* Bs = tiles + tap % STAGES * BN * BK;
            if (tap < 9) {
#pragma unroll
                for (int i = 0; i < BN / ROWS; ++i) {
                    const int filter = blockIdx.y * BN + row + i * ROWS;
                    const bool inside = filter < K && c < C;
                    copy(&Bs[place(row + i * ROWS, piece)],
                         &weight[inside ? (filter * 9 + tap) * C + c : 0], inside ? 16 : 0);
                }
            }
            commit();
        };

#pragma unroll
        for (int i = 0; i < STAGES - 1; ++i) copy_filters(i);
        for (int tap = 0; tap < 9; ++tap) {
            wait<STAGES - 2>();
            // One barrier: this tile is complete, and nobody still reads the one to be filled.
            __syncthreads();
            const signed char* Bs = tiles + tap % STAGES * BN * BK;
            const int shift = tap / 3 * LINE + tap % 3;
            copy_filters(tap + STAGES - 1);

#pragma unroll
            for (int k = 0; k < PIECES; k += 2) {
                int x[WM / 16][4], y[WN / 16][4];
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
                    ldmatrix(x[i], &around[place(corner[i] + shift, k + lane / 16)]);
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
    }

    // A lane has two neighbouring filters of pixels eight apart: four lanes fill a sector.
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int m = first_pixel + 16 * i + 8 * half + lane / 4;
                const int h = h0 + m / TW, w = w0 + m % TW, p = image + h * W + w;
                const int k = blockIdx.y * BN + first_filter + 8 * j + lane % 4 * 2;
                const int2 v = make_int2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
                if (m < TH * TW && h < H && w < W && k < K)
                    store(&output[p * K + k], v, K % 2 == 0, k + 1 < K);
            }
}
