/* ---
title  = "Tensor cores for small matrices: as many tiles as there are SMs"
parent = "v10"
change = "v10's products with tiles so small that there is one for about each SM: 32×32 up to 128 of them, 32×64 and 64×128 after that."
requires     = "max((M + 127) * (K + 63), (K + 63) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[defines]
RING = 8   # stages in shared memory

[[launch]]
kernel = "tiles_32x32"
when   = "cdiv(M, 32) * cdiv(N, 32) <= 132"
grid   = ["cdiv(N, 32)", "cdiv(M, 32)"]
block  = [64]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (32 * 20 + 16 * (32 + 8))"

[[launch]]
kernel = "tiles_32x64"
when   = "cdiv(M, 32) * cdiv(N, 32) > 132 and cdiv(M, 32) * cdiv(N, 64) <= 132"
grid   = ["cdiv(N, 64)", "cdiv(M, 32)"]
block  = [128]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (32 * 20 + 16 * (64 + 8))"

[[launch]]
kernel = "tiles_64x128"
when   = "cdiv(M, 32) * cdiv(N, 64) > 132"
grid   = ["cdiv(N, 128)", "cdiv(M, 64)"]
block  = [256]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * RING * (64 * 20 + 16 * (128 + 8))"

[[expect]]
counter = "duration"
change  = "< 0.4x"
why     = "at n = 1024 there are 128 tiles where v10 has 32, on 132 SMs, and eight warps for each as before. At n = 4096, where v10 has tiles enough, it is slower"

[[expect]]
counter = "l2_read_sectors"
change  = "> 1.8x"
why     = "a tile of 64×128 reads 192 floats for 8,192 products, one of 128×256 384 for 32,768"
--- */
constexpr int DEPTH = 16;           // depth of a tile, and of a sum on the matrix units
constexpr int A_PITCH = DEPTH + 4;  // row-major: eight rows of four floats meet 32 banks

// Copies WIDTH neighbouring floats, one or four, from global to shared memory, or writes
// zeros where they lie outside. Four must be aligned to 16 bytes on both sides.
template <int WIDTH>
__device__ __forceinline__ void copy(unsigned to, const float* from, bool inside) {
    if (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from),
                     "r"(inside ? 4 : 0));
}

// What a matrix unit leaves of x: it looks at the upper 19 bits of a register, so x itself
// serves as the big term, and 11 significant bits of this one as the small term.
__device__ __forceinline__ float rest(float x) {
    return x - __uint_as_float(__float_as_uint(x) & 0xffffe000u);
}

// d += a·b for a 16×8 tile of sums, eight products each.
__device__ __forceinline__ void mma_sync(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
                   "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
                   "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// ROWS×COLUMNS sums of C a block, WM×WN a warp. WIDTH floats are loaded and stored at a time: four
// where rows of A, B and C are aligned to 16 bytes, otherwise one.
template <int ROWS, int COLUMNS, int WM, int WN, int WIDTH>
__device__ __forceinline__ void multiply(const float* __restrict__ A, const float* __restrict__ B,
                                         float* __restrict__ C, int M, int N, int K) {
    constexpr int THREADS = ROWS / WM * (COLUMNS / WN) * 32;
    constexpr int TM = WM / 16, TN = WN / 8;  // matrix tiles of a warp: down its rows, across
    constexpr int B_PITCH = COLUMNS + 8;      // four rows of eight floats meet 32 banks
    constexpr int STAGE = ROWS * A_PITCH + DEPTH * B_PITCH;
    extern __shared__ __align__(16) float ring[];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * ROWS, block_col = blockIdx.x * COLUMNS;

    // Loading: both tiles come in as they lie. What is beyond the last row or column may be
    // anything, since it is not stored: the last one again.
    constexpr int A_LANES = DEPTH / WIDTH, A_ROWS = THREADS / A_LANES;
    constexpr int B_LANES = COLUMNS / WIDTH, B_ROWS = THREADS / B_LANES;
    const int a_row = tid / A_LANES, a_k = tid % A_LANES * WIDTH;
    const int b_k = tid / B_LANES, b_col = tid % B_LANES * WIDTH;
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(ring));
    auto fetch = [&](int stage, int t) {
        const unsigned a_to = base + 4 * (stage * STAGE + a_row * A_PITCH + a_k);
#pragma unroll
        for (int i = 0; i < ROWS; i += A_ROWS)
            copy<WIDTH>(a_to + 4 * i * A_PITCH,
                        A + min(block_row + a_row + i, M - 1) * K + t + a_k, t + a_k < K);
        const unsigned b_to = base + 4 * (stage * STAGE + ROWS * A_PITCH + b_k * B_PITCH + b_col);
#pragma unroll
        for (int i = 0; i < DEPTH; i += B_ROWS)
            copy<WIDTH>(b_to + 4 * i * B_PITCH,
                        B + (t + b_k + i) * N + min(block_col + b_col, N - WIDTH),
                        t + b_k + i < K);
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing. Of a 16×8 tile of A (8 k), ldmatrix gives each lane what mma wants of it.
    // Of B, a lane takes rows lane % 4 and lane % 4 + 4 of 8 k, and four neighbouring columns
    // at once: the first of each four make up one matrix tile, the second the next.
    const int warp = tid / 32, lane = tid % 32;
    const int warp_row = warp / (COLUMNS / WN) * WM, warp_col = warp % (COLUMNS / WN) * WN;
    const unsigned a_at = base + 4 * ((warp_row + lane % 16) * A_PITCH + lane / 16 * 4);
    const float* b_at = ring + ROWS * A_PITCH + lane % 4 * B_PITCH + warp_col + lane / 4 * 4;
    float sum[TM][TN][4] = {};
    float a_next[DEPTH / 8][4], b_big[DEPTH / 8][TN][2];
    auto load_a = [&](int stage, int i) {
#pragma unroll
        for (int k = 0; k < DEPTH / 8; ++k) {
            float(&v)[4] = a_next[k];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                         : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                         : "r"(a_at + 4 * (stage * STAGE + i * 16 * A_PITCH + k * 8)));
        }
    };
    auto load_b = [&](int stage, int j) {
#pragma unroll
        for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float4 v = *reinterpret_cast<const float4*>(
                    b_at + stage * STAGE + (k * 8 + h * 4) * B_PITCH + j * 8);
                b_big[k][j][h] = v.x, b_big[k][j + 1][h] = v.y;
                b_big[k][j + 2][h] = v.z, b_big[k][j + 3][h] = v.w;
            }
    };

#pragma unroll 1
    for (int s = 0; s < RING - 1; ++s) fetch(s, s * DEPTH);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(RING - 2) : "memory");
    __syncthreads();
    load_a(0, 0);
#pragma unroll
    for (int j = 0; j < TN; j += 4) load_b(0, j);
#pragma unroll 1
    for (int t = 0, stage = 0; t < K; t += DEPTH) {
        // Into the buffer of the tile before this one; beyond K there are only zeros to write.
        fetch(stage == 0 ? RING - 1 : stage - 1, t + (RING - 1) * DEPTH);
        const int next = stage == RING - 1 ? 0 : stage + 1;
        float b_small[DEPTH / 8][TN][2];
#pragma unroll
        for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
            for (int j = 0; j < TN; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h) b_small[k][j][h] = rest(b_big[k][j][h]);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            float a_big[DEPTH / 8][4], a_small[DEPTH / 8][4];
#pragma unroll
            for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    a_big[k][e] = a_next[k][e], a_small[k][e] = rest(a_next[k][e]);
            if (i < TM - 1) {
                load_a(stage, i + 1);
            } else {
                asm volatile("cp.async.wait_group %0;\n" ::"n"(RING - 2) : "memory");
                // Everybody's copies of the next tile have arrived, and this one is read.
                __syncthreads();
                load_a(next, 0);
            }
            // Four sums side by side. The small products first, while the sums are small. They
            // start from zero: what the matrix units truncate has the sign of these 16 products.
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                float part[4][4] = {};
#pragma unroll
                for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma_sync(part[n], a_small[k], b_big[k][j + n]);
#pragma unroll
                for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma_sync(part[n], a_big[k], b_small[k][j + n]);
#pragma unroll
                for (int k = 0; k < DEPTH / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma_sync(part[n], a_big[k], b_big[k][j + n]);
                // Columns of B that are done with make room for the next tile's.
                if (i == TM - 1) load_b(next, j);
#pragma unroll
                for (int n = 0; n < 4; ++n)
#pragma unroll
                    for (int e = 0; e < 4; ++e) sum[i][j + n][e] += part[n][e];
            }
        }
        stage = next;
    }

    // A lane has columns 2q and 2q + 1 of a matrix tile, q = lane % 4: of the 32 columns that
    // four tiles share these are 8q + j % 4 and 8q + 4 + j % 4, two float4 of four tiles.
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int r = block_row + warp_row + i * 16 + h * 8 + lane / 4;
            if (r >= M) break;
#pragma unroll
            for (int j = 0; j < TN; j += 4)
#pragma unroll
                for (int q = 0; q < 2; ++q) {
                    const int c = block_col + warp_col + j * 8 + lane % 4 * 8 + q * 4;
                    const int e = h * 2 + q;
                    if (WIDTH == 4) {
                        if (c < N)
                            *reinterpret_cast<float4*>(&C[r * N + c]) =
                                make_float4(sum[i][j][e], sum[i][j + 1][e], sum[i][j + 2][e],
                                            sum[i][j + 3][e]);
                    } else {
#pragma unroll
                        for (int n = 0; n < 4; ++n)
                            if (c + n < N) C[r * N + c + n] = sum[i][j + n][e];
                    }
                }
        }
}

#define KERNEL(name, ROWS, COLUMNS, WM, WN)                                                      \
    extern "C" __global__ void __launch_bounds__(ROWS / WM * (COLUMNS / WN) * 32)                \
    name(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, \
         int N, int K) {                                                                         \
        if (K % 4 == 0 && N % 4 == 0)                                                            \
            multiply<ROWS, COLUMNS, WM, WN, 4>(A, B, C, M, N, K);                                \
        else                                                                                     \
            multiply<ROWS, COLUMNS, WM, WN, 1>(A, B, C, M, N, K);                                \
    }
KERNEL(tiles_32x32, 32, 32, 16, 32)
KERNEL(tiles_32x64, 32, 64, 16, 32)
KERNEL(tiles_64x128, 64, 128, 32, 32)
