/* ---
title  = "Three taps from the same registers"
parent = "v7"
change = "The image is walked with a column of zeros between rows and a row of them between images, so every tap is a plain shift; and row g of 8×8 matrix f holds pixel 8·g + f, so a shift by one pixel is the next matrix: ten of them serve all three taps of a filter row, where each tap loaded eight. Filters are the rows of the product now, because a single matrix of pixels can only be its columns."
requires     = "C % 8 == 0 and K % 8 == 0 and max((N*(H + 1)*(W + 1) + 127)*max(C, K), 9*(K + 127)*C) < 2**31 and W <= 256"
requires_why = "it copies eight channels and stores eight filters at a time, its indices are 32-bit integers, and two rows of the image, which stand in shared memory twice, may have 256 pixels"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(N*(H + 1)*(W + 1), 128)", "cdiv(K, 128)"]
block  = [128]
args   = ["input", "weight", "output", "N", "H", "W", "C", "K"]
dynamic_shared = "cdiv(132 + 2*W, 8) * 8 * (2*64 + 4) + cdiv(132 + 2*W, 8) * 32 + 2*3*128*64"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.8x"
why     = "5 + 3·4 ldmatrix.x4 for three taps of 16 channels, where 3·(4 + 4) were needed; what the copies write stays"
learned = "ldmatrix takes 28% fewer, 16.7 M, but the copies take 16.7 M as well: a row of 64 bytes is a wavefront of its own, half used"

[[expect]]
counter = "barrier_stall"
change  = "down"
why     = "a barrier for three taps instead of one for each"

[[expect]]
counter = "instructions"
change  = "down"
why     = "a third of the steps, and neither masks nor replaced addresses; the work on the zeros between rows and images is 2% more"

[[expect]]
counter = "global_store_sectors_per_request"
change  = "> 1.8x"
why     = "16 bytes per lane"

[[expect]]
counter = "duration"
change  = "< 0.9x"
why     = "a warp issues a product every eight cycles while it does nothing else, but spends more than half of its time on other things; two of them cannot keep a tensor core busy so"
learned = "0.89x, the largest step since v5"
--- */
#include <cuda_fp16.h>

constexpr int BM = 128;  // pixels a block
constexpr int BN = 128;  // filters a block
constexpr int BK = 32;   // channels in a tile
constexpr int WM = 64;   // pixels a warp
constexpr int WN = 64;   // filters a warp
constexpr int F = WM / 8;  // matrices of eight pixels a warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int ROWS = THREADS / (BK / 8);  // rows of a tile that all threads copy at once

// Where channel c of a filter lies in its row: sixteen bytes of neighbouring rows trade places,
// so that the same channels of any eight neighbours are in all 32 banks.
__device__ constexpr int slot(int row, int c) { return c ^ row / (64 / BK) % (BK / 8) * 8; }
// Where a pixel's channels start: 16 bytes are left out after every F pixels, so that the same
// channels of eight pixels at a distance of F are in all 32 banks.
__device__ constexpr int start_of(int row) { return row * BK + row / F * 8; }

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

// sum += a·b: a is 16 filters × 16 channels, b is 16 channels × 8 pixels.
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
    // A place is a pixel of an image with a column of zeros at its right and a row of them below:
    // these are its neighbours' zeros as well, so a tap is a shift by the same number anywhere.
    const int pitch = W + 1, places = N * (H + 1) * pitch;
    // Places from one row and one column before the block's first to as far behind its last.
    const int rows = (BM + 2 * pitch + 2 + F - 1) / F * F, chunk_size = start_of(rows);
    __half(*Bs)[3][BN][BK] = reinterpret_cast<__half(*)[3][BN][BK]>(tiles);  // Bs[stage][s][filter]
    __half* const As = &Bs[2][0][0][0];  // As[chunk % 2][start_of(place)][channel]
    int* const source = reinterpret_cast<int*>(&As[2 * chunk_size]);  // a place's pixel, or -1
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int first_place = blockIdx.x * BM, first_k = blockIdx.y * BN;

    for (int row = tid; row < rows; row += THREADS) {
        const int place = first_place + row - pitch - 1;
        const int h = place / pitch, w = place % pitch, n = h / (H + 1);
        const bool inside = place >= 0 && place < places && w < W && h % (H + 1) < H;
        source[row] = inside ? (h - n) * W + w : -1;
    }
    __syncthreads();

    // Copying: a thread has the same eight channels of every ROWS-th row.
    const int copy_row = tid / (BK / 8), copy_c = tid % (BK / 8) * 8;

    // Computing: warps lie BN / WN abreast.
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    // Row g of matrix f is the warp's place F·g + f. Four matrices of pixels are channels 0–7 and
    // 8–15 of matrix f, then of the next; those of filters are eight filters and the next eight,
    // then their next eight channels.
    const int a_row = warp_row + lane % 8 * F + lane / 16, a_c = lane / 8 % 2 * 8;
    const int b_row = warp_col + lane % 16, b_c = lane / 16 * 8;
    float sum[WN / 16][F][4] = {};

    const int chunks = (C + BK - 1) / BK, steps = 3 * chunks;
    // Starts copies of a chunk's pixels, ROWS of every `stride` rows.
    const auto start_pixels = [&](int chunk, int first, int stride) {
        const int c = chunk * BK + copy_c;
        for (int row = first + copy_row; row < rows; row += stride) {
            const int pixel = source[row];
            copy(&As[chunk % 2 * chunk_size + start_of(row) + copy_c], &input[pixel * C + c],
                 c < C && pixel >= 0);
        }
    };
    // Starts the copies of one step's filters, a chunk of channels under a row of three taps.
    const auto start_filters = [&](int step) {
        const int r = step % 3, c = step / 3 * BK + copy_c;
#pragma unroll
        for (int i = 0; i < BN / ROWS; ++i) {
            const int row = copy_row + i * ROWS;
            const __half* from = &weight[((first_k + row) * 9 + 3 * r) * C + c];
#pragma unroll
            for (int s = 0; s < 3; ++s)
                copy(&Bs[step % 2][s][row][slot(row, copy_c)], &from[s * C],
                     c < C && first_k + row < K);
        }
    };

    start_pixels(0, 0, ROWS);
    start_filters(0);
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();  // everybody's copies have come, and nobody reads the stage before
        const int chunk = step / 3, r = step % 3;
        if (step + 1 < steps) start_filters(step + 1);
        if (chunk + 1 < chunks) start_pixels(chunk + 1, r * ROWS, 3 * ROWS);

        const __half* from[F / 2 + 1];
#pragma unroll
        for (int i = 0; i <= F / 2; ++i)
            from[i] = &As[chunk % 2 * chunk_size + start_of(a_row + r * pitch + 2 * i) + a_c];
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            unsigned a[F / 2 + 1][4];
#pragma unroll
            for (int i = 0; i <= F / 2; ++i) ldmatrix(a[i], &from[i][kk]);
#pragma unroll
            for (int s = 0; s < 3; ++s) {
                unsigned b[WN / 16][4];
#pragma unroll
                for (int j = 0; j < WN / 16; ++j)
                    ldmatrix(b[j], &Bs[step % 2][s][b_row + 16 * j][slot(b_row, kk + b_c)]);
                // Under tap s, matrix f is the one that was loaded for place f + s.
#pragma unroll
                for (int j = 0; j < WN / 16; ++j)
#pragma unroll
                    for (int f = 0; f < F; ++f)
                        mma(sum[j][f], b[j], a[(f + s) / 2][(f + s) % 2 * 2],
                            a[(f + s) / 2][(f + s) % 2 * 2 + 1]);
            }
        }
    }

    // A lane holds two filters of two places. Through shared memory, the filters of a place come
    // together; sixteen bytes trade places as in the tiles.
    __syncthreads();
    __half* const through = &tiles[warp * WM * WN];
#pragma unroll
    for (int j = 0; j < WN / 16; ++j)
#pragma unroll
        for (int f = 0; f < F; ++f)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int g = lane % 4 * 2 + e % 2, k = 16 * j + e / 2 * 8 + lane / 4;
                through[(g * F + f) * WN + (k ^ g % (WN / 8) * 8)] = __float2half(sum[j][f][e]);
            }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < WM * WN / 8; i += 32) {
        const int row = i / (WN / 8), c = i % (WN / 8) * 8, k = first_k + warp_col + c;
        const int pixel = source[warp_row + row + pitch + 1];
        if (pixel >= 0 && k < K)
            *reinterpret_cast<uint4*>(&output[pixel * K + k]) =
                *reinterpret_cast<const uint4*>(&through[row * WN + (c ^ row / F % (WN / 8) * 8)]);
    }
}
