/* ---
title  = "Copies of 16 bytes, three tiles ahead"
parent = "v11"
change = "Tiles come by cp.async, which needs no register and writes zeros where a tap lies in the padding. Three are on their way while a fourth is used, and there is one barrier per tile instead of two."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17 and C % 16 == 0"
requires_why = "its indices and its sums are 32-bit integers, and it loads 16 channels at once"

[defines]
BM = 128     # pixels per block
BN = 128     # filters per block
BK = 64      # channels of a tile
WM = 64      # pixels per warp
WN = 32      # filters per warp
STAGES = 4   # tiles in shared memory
BLOCKS = 2   # blocks per SM

[tune]
BM = [64, 128, 256]
BN = [64, 128]
BK = [64, 128]
WM = [32, 64]
WN = [32, 64]
STAGES = [3, 4]
# What all threads load at once divides a tile; and the blocks of an SM fit.
requires = "block_x <= 512 and BM % (16 * block_x // BK) == 0 and BN % (16 * block_x // BK) == 0 and BLOCKS * (STAGES * (BM + BN) * BK + 1024) <= 228 * 1024"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, BM)", "cdiv(K, BN)"]
block  = ["32 * (BM // WM) * (BN // WN)"]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "STAGES * (BM + BN) * BK"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "nothing waits for a tile that was asked for three tiles ago"

[[expect]]
counter = "long_scoreboard"
change  = "down"
why     = "copies have no register to wait for"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "one barrier per tile, and warps arrive at it without having waited for memory"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "the same products in less time"
--- */
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PIECES = BK / 16;         // 16 channels: what a lane loads, and a row of ldmatrix
constexpr int ROWS = THREADS / PIECES;  // rows that a block loads at once

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
    extern __shared__ __align__(128) signed char tiles[];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, pixels = N * H * W;

    // Staging: a thread has 16 channels of every ROWS-th pixel and filter.
    const int piece = tid % PIECES, row = tid / PIECES;
    int h[BM / ROWS], w[BM / ROWS];
#pragma unroll
    for (int i = 0; i < BM / ROWS; ++i) {
        const int pixel = blockIdx.x * BM + row + i * ROWS;
        // A pixel beyond the last one is so far above the image that it is never inside.
        h[i] = pixel < pixels ? pixel / W % H : -2;
        w[i] = pixel % W;
    }

    // Computing: a warp has WM pixels and WN filters, in parts of 16 and of 8.
    const int first_pixel = warp % (BM / WM) * WM, first_filter = warp / (BM / WM) * WN;
    int sum[WM / 16][WN / 8][4] = {};

    // Tiles follow each other: the channels of a tap, then the next tap. Copies are STAGES - 1
    // tiles ahead, and a group is committed for each even where there is none.
    int tap = 0, c0 = 0, stage = 0;
    auto copy_next = [&] {
        signed char* As = tiles + stage * (BM + BN) * BK;
        signed char* Bs = As + BM * BK;
        const int dh = tap / 3 - 1, dw = tap % 3 - 1, c = c0 + 16 * piece;
        if (tap < 9) {
#pragma unroll
            for (int i = 0; i < BM / ROWS; ++i) {
                const int pixel = blockIdx.x * BM + row + i * ROWS + dh * W + dw;
                const bool inside = in(h[i] + dh, H) && in(w[i] + dw, W) && c < C;
                copy(&As[place(row + i * ROWS, piece)], &input[inside ? pixel * C + c : 0],
                     inside ? 16 : 0);
            }
#pragma unroll
            for (int i = 0; i < BN / ROWS; ++i) {
                const int filter = blockIdx.y * BN + row + i * ROWS;
                const bool inside = filter < K && c < C;
                copy(&Bs[place(row + i * ROWS, piece)],
                     &weight[inside ? (filter * 9 + tap) * C + c : 0], inside ? 16 : 0);
            }
        }
        commit();
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        c0 += BK;
        if (c0 >= C) c0 = 0, ++tap;
    };

#pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) copy_next();
    const int steps = 9 * ((C + BK - 1) / BK);
    for (int step = 0; step < steps; ++step) {
        wait<STAGES - 2>();
        // One barrier: this tile is complete, and nobody still reads the one to be filled.
        __syncthreads();
        const signed char* As = tiles + step % STAGES * (BM + BN) * BK;
        const signed char* Bs = As + BM * BK;
        copy_next();

#pragma unroll
        for (int k = 0; k < PIECES; k += 2) {
            int x[WM / 16][4], y[WN / 16][4];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                ldmatrix(x[i], &As[place(first_pixel + 16 * i + lane % 16, k + lane / 16)]);
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
                const int p = blockIdx.x * BM + first_pixel + 16 * i + 8 * half + lane / 4;
                const int k = blockIdx.y * BN + first_filter + 8 * j + lane % 4 * 2;
                const int2 v = make_int2(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
                if (p < pixels && k < K) store(&output[p * K + k], v, K % 2 == 0, k + 1 < K);
            }
}
