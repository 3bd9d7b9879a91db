/* ---
title  = "Tensor cores: mma.sync on 8-bit integers"
parent = "v9"
change = "A block computes 128 pixels × 128 filters, a warp 64×32 of them with mma.m16n8k32. Lanes load 16 channels at once, and ldmatrix hands the tiles, rows of 64 bytes, to the tensor cores. Taps are loaded one by one again."
requires     = "max((N*H*W + 127) * max(C, K), 9*(K + 127)*C) < 2**31 and 9*C < 2**17 and C % 16 == 0"
requires_why = "its indices and its sums are 32-bit integers, and it loads 16 channels at once"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 128)", "cdiv(K, 128)"]
block  = [256]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]

[[expect]]
counter = "duration"
change  = "< 0.3x"
why     = "16384 products per instruction and warp instead of 128"
learned = "0.298x in cycles, 0.328x in time: the SM clock was at 1.80 GHz instead of 1.98, and is at 1.72 to 1.79 in every later version. What holds it up are bank conflicts, 69% of the shared wavefronts"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "no earlier version used it"

[[expect]]
counter = "instructions"
change  = "< 0.1x"
why     = "an mma does the work of 128 dp4a"

[[expect]]
counter = "shared_wavefronts_excess"
change  = "up"
why     = "ldmatrix reads eight rows of 64 bytes: every other one begins in the same bank, so four lie on top of each other"

[[expect]]
counter = "global_load_requests"
change  = "< 0.3x"
why     = "16 bytes per lane instead of four, and tiles in which a byte is used 128 times instead of 32 or 64; the nine taps of an input are loaded again"
--- */
constexpr int THREADS = 256;
constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 64;   // channels of a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 32;   // filters a warp
constexpr int PIECES = BK / 16;         // 16 channels: what a lane loads, and a row of ldmatrix
constexpr int ROWS = THREADS / PIECES;  // rows that a block loads at once

__device__ __forceinline__ bool in(int i, int n) { return 0 <= i && i < n; }

// Where 16 channels of a row lie in its tile.
__device__ __forceinline__ int place(int row, int piece) { return row * BK + 16 * piece; }

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

extern "C" __global__ void __launch_bounds__(THREADS, 2)
conv2d(const signed char* __restrict__ input, const signed char* __restrict__ weight,
       int* __restrict__ output, int N, int H, int W, int C, int K) {
    __shared__ __align__(128) signed char As[BM * BK];
    __shared__ __align__(128) signed char Bs[BN * BK];
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

    for (int tap = 0; tap < 9; ++tap) {
        const int dh = tap / 3 - 1, dw = tap % 3 - 1;
        for (int c0 = 0; c0 < C; c0 += BK) {
            const int c = c0 + 16 * piece;
            int4 a[BM / ROWS], b[BN / ROWS];
#pragma unroll
            for (int i = 0; i < BM / ROWS; ++i) {
                const int pixel = blockIdx.x * BM + row + i * ROWS + dh * W + dw;
                const bool inside = in(h[i] + dh, H) && in(w[i] + dw, W) && c < C;
                a[i] = inside ? __ldg(reinterpret_cast<const int4*>(&input[pixel * C + c]))
                              : make_int4(0, 0, 0, 0);
            }
#pragma unroll
            for (int i = 0; i < BN / ROWS; ++i) {
                const int filter = blockIdx.y * BN + row + i * ROWS;
                const bool inside = filter < K && c < C;
                const int at = (filter * 9 + tap) * C + c;
                b[i] = inside ? __ldg(reinterpret_cast<const int4*>(&weight[at]))
                              : make_int4(0, 0, 0, 0);
            }
            __syncthreads();  // nobody may overwrite a tile that another still reads
#pragma unroll
            for (int i = 0; i < BM / ROWS; ++i)
                *reinterpret_cast<int4*>(&As[place(row + i * ROWS, piece)]) = a[i];
#pragma unroll
            for (int i = 0; i < BN / ROWS; ++i)
                *reinterpret_cast<int4*>(&Bs[place(row + i * ROWS, piece)]) = b[i];
            __syncthreads();

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
