/* ---
title  = "Fragments a step of 16 channels ahead"
parent = "v7"
change = "Registers hold two sets of fragments: while one is multiplied, ldmatrix fills the other, also across the barrier, so that a warp has products left to do while it waits for shared memory."
requires     = "C % 8 == 0 and K % 2 == 0 and max((N*H*W + 127)*max(C, K), 9*(K + 127)*C) < 2**31 and W <= 256"
requires_why = "it copies eight channels and stores two filters at a time, its indices are 32-bit integers, and two rows of the image, which stand in shared memory twice, may have 256 pixels"

[defines]
STAGES = 4

[tune]
STAGES = [3, 4, 5, 6, 8]

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*H*W, 128)", "cdiv(K, 128)"]
block  = [128]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "(8 + 2 * cdiv(130 + 2*W, 8) * 8 + STAGES * 128) * 64"

[[expect]]
counter = "short_scoreboard"
change  = "< 0.5x"
why     = "the products of 16 channels stand between an ldmatrix and its use"

[[expect]]
counter = "registers"
change  = "up"
why     = "a second set of fragments, 32 registers"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "two warps share a tensor core, and it idles when both wait"
learned = "55.1% → 54.6%; presumably the other warp filled those waits already"

[[expect]]
counter = "duration"
change  = "< 0.9x"
why     = "v7 does nothing but wait after each barrier until its fragments have come"
learned = "the same time. Nobody waits for ldmatrix any more (0.41 → 0.07 cycles per instruction), but as long for the tensor cores instead (0.32 → 0.65), and 7% more instructions stand between the products, which a warp issues in order"
--- */
#include <cuda_fp16.h>

constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 32;   // channels of one tap in a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 64;   // filters a warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int ROWS = THREADS / (BK / 8);  // rows of a tile that all threads copy at once

// Where channel c of a row lies in its row: sixteen bytes of neighbouring rows trade places, so
// that the same channels of any eight neighbours are in all 32 banks.
template <typename Row>
__device__ constexpr Row slot(Row row, int c) {
    return c ^ row / (64 / BK) % (BK / 8) * 8;
}

// Four 8×8 matrices; lane 8·m + r names row r of matrix m, 16 bytes of shared memory.
__device__ __forceinline__ void ldmatrix(unsigned (&to)[4], const __half* row) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// 16 bytes from global to shared memory, past registers and L1; zeros where `inside` is false.
__device__ __forceinline__ void copy(__half* to, const __half* from, bool inside) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// sum += a·b: a is 16 pixels × 16 channels, b is 16 channels × 8 filters.
__device__ __forceinline__ void mma(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two blocks of 128 threads on an SM leave 255 registers a thread, for 128 sums.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
conv2d(const __half* __restrict__ input, const __half* __restrict__ weight,
       __half* __restrict__ output, int N, int H, int W, int C, int K) {
    extern __shared__ __align__(128) __half tiles[];
    // Pixels from one row and one column before the block's first to as far behind its last; in
    // eights, after which the places of channels repeat.
    const int rows = (BM + 2 * W + 2 + 7) / 8 * 8;
    __half* const As = &tiles[8 * BK];  // As[chunk % 2][pixel][channel], after eight rows of zeros
    __half(*Bs)[BN][BK] = reinterpret_cast<__half(*)[BN][BK]>(&As[2 * rows * BK]);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int pixels = N * H * W;
    const int first_pixel = blockIdx.x * BM, first_k = blockIdx.y * BN;
    if (tid < BK) *reinterpret_cast<uint4*>(&tiles[tid * 8]) = make_uint4(0, 0, 0, 0);

    // Copying: a thread has the same eight channels of every ROWS-th row.
    const int copy_row = tid / (BK / 8), copy_c = tid % (BK / 8) * 8;

    // Computing: warps lie BN / WN abreast.
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    // The four matrices of A are rows 0–7 and 8–15, then the same eight channels further;
    // those of B are channels 0–7 and 8–15 of eight filters, then of the next eight.
    const int a_row = warp_row + lane % 16, a_c = lane / 16 * 8;
    const int b_row = warp_col + lane / 16 * 8 + lane % 8, b_c = lane / 8 % 2 * 8;
    float sum[WM / 16][WN / 8][4] = {};

    // Bit 3·r + s: the tap (r, s) of a row lies in the image, not in the padding.
    unsigned inside[WM / 16];
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
        const int pixel = first_pixel + a_row + 16 * i, w = pixel % W, h = pixel / W % H;
        unsigned columns = 2 | (w > 0 ? 1 : 0) | (w + 1 < W ? 4 : 0);
        inside[i] = (h > 0 ? columns : 0) | columns << 3 | (h + 1 < H ? columns << 6 : 0);
    }

    const int chunks = (C + BK - 1) / BK, steps = 9 * chunks;
    // Starts copies of a chunk's pixels, ROWS of every `stride` rows.
    const auto start_pixels = [&](int chunk, int first, int stride) {
        const int c = chunk * BK + copy_c;
        for (int row = first + copy_row; row < rows; row += stride) {
            const int pixel = first_pixel + row - W - 1;
            copy(&As[(chunk % 2 * rows + row) * BK + slot(row, copy_c)], &input[pixel * C + c],
                 c < C && unsigned(pixel) < unsigned(pixels));
        }
    };
    // Starts the copies of one step's filters, a chunk of channels under one tap.
    const auto start_filters = [&](int step) {
        const int tap = step % 9, c = step / 9 * BK + copy_c, stage = step % STAGES;
#pragma unroll
        for (int i = 0; i < BN / ROWS; ++i) {
            const int row = copy_row + i * ROWS;
            copy(&Bs[stage][row][slot(row, copy_c)], &weight[((first_k + row) * 9 + tap) * C + c],
                 c < C && first_k + row < K);
        }
    };

    // A group of copies a step, also where none is left to start: so that the group of a step
    // is always the one that all but the STAGES - 2 newest have.
    start_pixels(0, 0, ROWS);
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        start_filters(step);  // there are at least nine
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    const auto arrive = [] {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // everybody's copies have come, and nobody reads the stage before
    };

    unsigned from[WM / 16];
    // Under a tap, every row of A is as much further in the block's pixels.
    const auto place = [&](int chunk, int tap) {
        const unsigned row = a_row + tap / 3 * W + tap % 3;
        const unsigned at = (8 + chunk % 2 * rows + row) * BK + slot(row, a_c);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)  // zeros from the banks that the row would have used
            from[i] = inside[i] >> tap & 1 ? at + 16 * i * BK : at % (8 * BK);
    };
    unsigned a[2][WM / 16][4], b[2][WN / 16][4];
    const auto load = [&](int stage, int kk) {
        const int set = kk / 16 % 2;
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) ldmatrix(a[set][i], &tiles[from[i] ^ kk]);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j)
            ldmatrix(b[set][j], &Bs[stage][b_row + 16 * j][slot(b_row, kk + b_c)]);
    };

    arrive();
    place(0, 0);
    load(0, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll  // a tap's bit and shift are constants then
        for (int tap = 0; tap < 9; ++tap) {
            const int step = 9 * chunk + tap;
            if (step + STAGES - 1 < steps) start_filters(step + STAGES - 1);
            // The next chunk's pixels must be under way STAGES - 1 steps before its first.
            if (tap <= 10 - STAGES && chunk + 1 < chunks)
                start_pixels(chunk + 1, tap * ROWS, (11 - STAGES) * ROWS);
            asm volatile("cp.async.commit_group;" ::: "memory");

#pragma unroll
            for (int kk = 0; kk < BK; kk += 16) {
                if (kk + 16 < BK) {
                    load(step % STAGES, kk + 16);
                } else if (step + 1 < steps) {
                    arrive();
                    place(tap < 8 ? chunk : chunk + 1, tap < 8 ? tap + 1 : 0);
                    load((step + 1) % STAGES, 0);
                }
                const int set = kk / 16 % 2;
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 8; ++j)
                        mma(sum[i][j], a[set][i], b[set][j / 2][j % 2 * 2],
                            b[set][j / 2][j % 2 * 2 + 1]);
            }
        }
    }

    // A lane holds two neighbouring filters of a pixel, and of the one eight further.
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int pixel = first_pixel + warp_row + 16 * i + 8 * half + lane / 4;
                const int k = first_k + warp_col + 8 * j + lane % 4 * 2;
                if (pixel < pixels && k < K)
                    *reinterpret_cast<__half2*>(&output[pixel * K + k]) =
                        __floats2half2_rn(sum[i][j][2 * half], sum[i][j][2 * half + 1]);
            }
}
