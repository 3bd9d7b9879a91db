/* ---
title  = "Tensor cores, three TF32 products for one float32"
parent = "v9"
change = "Each operand is cut into two TF32 terms, its upper eleven bits and what they leave, and big·big + big·small + small·big run on the matrix units. These truncate every sum, so none on them is longer than 16 products: those are added up in float32, rounded. Eleven bits more than TF32 alone, and the study's tolerance holds unchanged."
requires     = "max((M + BM - 1) * (K + 16 * STAGES - 1), (K + 16 * STAGES - 1) * (N + BN - 1), (M + BM - 1) * (N + BN - 1)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile that is fetched"

[defines]
BM = 128     # rows of C a block
BN = 256     # columns of C a block
WM = 64      # rows of C a warp
WN = 64      # columns of C a warp
STAGES = 4   # tiles in shared memory

[tune]
BM = [64, 128, 256]
BN = [64, 128, 256]
WM = [32, 64]
WN = [32, 64]
STAGES = [3, 4, 5]
# All threads copy, whole rows of B and a part of A's tile that divides it; and tiles fit.
requires = "block_x <= 512 and block_x % BN == 0 and 4 % (block_x // BN) == 0 and BM % (block_x // 4) == 0 and 4 * STAGES * (BM * 20 + 16 * (BN + 8)) <= 227 * 1024"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, BN)", "cdiv(M, BM)"]
block  = ["BM // WM * (BN // WN) * 32"]
args   = ["A", "B", "C", "M", "N", "K"]
dynamic_shared = "4 * STAGES * (BM * 20 + 16 * (BN + 8))"

[[expect]]
counter = "duration"
change  = "< 0.8x"
why     = "three TF32 products at the rate of mma.sync, 0.6 of the chip's 495 TFLOP/s, are still 1.5 times float32's peak"

[[expect]]
counter = "tensor_utilization"
change  = ">= 0.5 of peak"
why     = "the matrix units are what it should wait for"

[[expect]]
counter = "instructions"
change  = "< 0.3x"
why     = "three instructions on the matrix units do what 32 multiply-adds of a warp did; to them come two for each operand that is split, and one for each sum every 16 products"

[[expect]]
counter = "ffma_threads"
change  = "to 0"
why     = "no product is left to the FMA pipe"

[[expect]]
counter = "fadd_threads"
change  = "up"
why     = "operands are split by a subtraction, and the sums of 16 products are added up"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.5x"
why     = "a warp reads its operands once for 64×64 sums, 64 wavefronts for 16 k; v9 took 192"
learned = "0.52x. What is read is a third, 67.2 M instead of 201.4 M at n = 4096, but what the copies write grew, 50.4 M → 61.2 M. Of these 35.7 M are in excess, at least 23.0 M where 16-byte pieces of A go to rows that lie 80 bytes apart"
--- */
constexpr int BK = 16;           // depth of a tile, and of a sum on the matrix units
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int TM = WM / 16;      // matrix tiles of a warp down its rows
constexpr int TN = WN / 8;       // and across its columns
constexpr int A_PITCH = BK + 4;  // row-major: eight rows of four floats meet 32 banks
constexpr int B_PITCH = BN + 8;  // and so do four rows of eight floats
constexpr int STAGE = BM * A_PITCH + BK * B_PITCH;

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
__device__ __forceinline__ void mma(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
                   "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
                   "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// WIDTH floats are loaded and stored at a time: four where rows of A, B and C are aligned to
// 16 bytes, otherwise one.
template <int WIDTH>
__device__ __forceinline__ void multiply(const float* __restrict__ A, const float* __restrict__ B,
                                         float* __restrict__ C, int M, int N, int K) {
    extern __shared__ __align__(16) float shared[];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: both tiles come in as they lie. What is beyond the last row or column may be
    // anything, since it is not stored: the last one again.
    constexpr int A_LANES = BK / WIDTH, A_ROWS = THREADS / A_LANES;
    constexpr int B_LANES = BN / WIDTH, B_ROWS = THREADS / B_LANES;
    const int a_row = tid / A_LANES, a_k = tid % A_LANES * WIDTH;
    const int b_k = tid / B_LANES, b_col = tid % B_LANES * WIDTH;
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    auto fetch = [&](int stage, int t) {
        const unsigned a_to = base + 4 * (stage * STAGE + a_row * A_PITCH + a_k);
#pragma unroll
        for (int i = 0; i < BM; i += A_ROWS)
            copy<WIDTH>(a_to + 4 * i * A_PITCH,
                        A + min(block_row + a_row + i, M - 1) * K + t + a_k, t + a_k < K);
        const unsigned b_to = base + 4 * (stage * STAGE + BM * A_PITCH + b_k * B_PITCH + b_col);
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS)
            copy<WIDTH>(b_to + 4 * i * B_PITCH,
                        B + (t + b_k + i) * N + min(block_col + b_col, N - WIDTH),
                        t + b_k + i < K);
        asm volatile("cp.async.commit_group;\n");
    };

    // Computing. Of a 16×8 tile of A (8 k), ldmatrix gives each lane what mma wants of it.
    // Of B, a lane takes rows lane % 4 and lane % 4 + 4 of 8 k, and four neighbouring columns
    // at once: the first of each four make up one matrix tile, the second the next.
    const int warp = tid / 32, lane = tid % 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;
    const unsigned a_at = base + 4 * ((warp_row + lane % 16) * A_PITCH + lane / 16 * 4);
    const float* b_at = shared + BM * A_PITCH + lane % 4 * B_PITCH + warp_col + lane / 4 * 4;
    float sum[TM][TN][4] = {};
    float a_big[2][BK / 8][4], b_big[BK / 8][TN][2];
    auto load_a = [&](int to, int stage, int i) {
#pragma unroll
        for (int k = 0; k < BK / 8; ++k) {
            float(&v)[4] = a_big[to][k];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                         : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                         : "r"(a_at + 4 * (stage * STAGE + i * 16 * A_PITCH + k * 8)));
        }
    };
    auto load_b = [&](int stage, int j) {
#pragma unroll
        for (int k = 0; k < BK / 8; ++k)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float4 v = *reinterpret_cast<const float4*>(
                    b_at + stage * STAGE + (k * 8 + h * 4) * B_PITCH + j * 8);
                b_big[k][j][h] = v.x, b_big[k][j + 1][h] = v.y;
                b_big[k][j + 2][h] = v.z, b_big[k][j + 3][h] = v.w;
            }
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s, s * BK);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load_a(0, 0, 0);
#pragma unroll
    for (int j = 0; j < TN; j += 4) load_b(0, j);
#pragma unroll 1
    for (int t = 0, stage = 0; t < K; t += BK) {
        // Into the buffer of the tile before this one; beyond K there are only zeros to write.
        fetch(stage == 0 ? STAGES - 1 : stage - 1, t + (STAGES - 1) * BK);
        const int next = stage == STAGES - 1 ? 0 : stage + 1;
        float b_small[BK / 8][TN][2];
#pragma unroll
        for (int k = 0; k < BK / 8; ++k)
#pragma unroll
            for (int j = 0; j < TN; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h) b_small[k][j][h] = rest(b_big[k][j][h]);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            if (i < TM - 1) {
                load_a((i + 1) % 2, stage, i + 1);
            } else {
                asm volatile("cp.async.wait_group %0;\n" ::"n"(STAGES - 2) : "memory");
                // Everybody's copies of the next tile have arrived, and this one is read.
                __syncthreads();
                load_a((i + 1) % 2, next, 0);
            }
            float a_small[BK / 8][4];
#pragma unroll
            for (int k = 0; k < BK / 8; ++k)
#pragma unroll
                for (int e = 0; e < 4; ++e) a_small[k][e] = rest(a_big[i % 2][k][e]);
            // Four sums side by side. The small products first, while the sums are small. They
            // start from zero: what the matrix units truncate has the sign of these 16 products.
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                float part[4][4] = {};
#pragma unroll
                for (int k = 0; k < BK / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma(part[n], a_small[k], b_big[k][j + n]);
#pragma unroll
                for (int k = 0; k < BK / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma(part[n], a_big[i % 2][k], b_small[k][j + n]);
#pragma unroll
                for (int k = 0; k < BK / 8; ++k)
#pragma unroll
                    for (int n = 0; n < 4; ++n) mma(part[n], a_big[i % 2][k], b_big[k][j + n]);
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

// One block of 256 threads on an SM leaves 255 registers a thread.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    if (K % 4 == 0 && N % 4 == 0)
        multiply<4>(A, B, C, M, N, K);
    else
        multiply<1>(A, B, C, M, N, K);
}
