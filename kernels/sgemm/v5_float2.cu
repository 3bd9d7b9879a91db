/* ---
title  = "128×128 block, 8×8 outputs per thread, float2"
parent = "v3"
change = "The same 8×8 outputs per thread as v4 has, a second answer to v3: everything moves as float2, and a thread's outputs are 16 pairs of rows and pairs of columns 32 apart, so that neighbouring lanes read neighbouring pairs."
requires     = "max((M + 127) * (K + 7), (K + 7) * (N + 127), (M + 127) * (N + 127)) < 2**31"
requires_why = "its indices are 32-bit integers, up to the end of the last tile"

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(N, 128)", "cdiv(M, 128)"]
block  = [256]
args   = ["A", "B", "C", "M", "N", "K"]

[[expect]]
counter = "duration"
change  = "< 0.55x"
why     = "v4 took 0.57 of v3's time at n = 1024 with its shared loads conflicting two ways; these do not"
learned = "0.69x, and slower than v4 at every size. The wavefronts went as said: Short scoreboard is 0.08 cycles per instruction, in v4 0.95. But a tile's loads come in two halves, and because of the branches at the edges the compiler issues the second half only after the first is stored: two trips to memory per tile, one after the other, where v4 has one. Long scoreboard takes 86 M warp cycles instead of v4's 53 M, and one block of eight warps an SM has nobody to hide them. At n = 4096, with two blocks, it is 0.21x, 4% behind v4"

[[expect]]
counter = "shared_wavefronts"
change  = "< 0.15x"
why     = "a warp reads eight float2 for 64 multiply-adds, one wavefront each: a sixteenth of v3's two for one, and the stores of the tiles"

[[expect]]
counter = "mio_throttle"
change  = "down"
why     = "fewer and wider shared loads"

[[expect]]
counter = "fma_utilization"
change  = "up"
why     = "64 independent sums per thread keep the FMA pipe fed"

[[expect]]
counter = "registers"
change  = "up"
why     = "64 sums and 16 operands live in registers"

[[expect]]
counter = "global_load_sectors_per_request"
change  = "> 1.2x"
why     = "a warp reads eight sectors of B, or one of each of eight rows of A, where v3 read four"
--- */
constexpr int BM = 128;  // rows of C a block
constexpr int BN = 128;  // columns of C a block
constexpr int BK = 8;    // depth of a tile
constexpr int TM = 8;    // rows of C a thread
constexpr int TN = 8;    // columns of C a thread

// The first `left` of two neighbouring floats, zeros for the rest: rows that are not
// aligned to 8 bytes, and the ends of those that are.
__device__ __forceinline__ float2 load_tail(const float* from, int left) {
    float2 v = make_float2(0.0f, 0.0f);
    if (left > 0) v.x = from[0];
    if (left > 1) v.y = from[1];
    return v;
}

// Two blocks of 256 threads on an SM leave 128 registers a thread: enough for 64 sums.
extern "C" __global__ void __launch_bounds__(256, 2)
sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int M, int N, int K) {
    // k-major, and four floats of padding: the lanes that store a column of four pairs of k
    // by eight rows meet 32 banks.
    __shared__ __align__(16) float As[BK][BM + 4];
    __shared__ __align__(16) float Bs[BK][BN];
    const int tid = threadIdx.x;
    const int block_row = blockIdx.y * BM, block_col = blockIdx.x * BN;

    // Loading: 256 threads × 2 floats are half of a tile of A (64×8) or of B (4×128).
    const int a_row = tid / 4, a_k = tid % 4 * 2;
    const int b_k = tid / 64, b_col = tid % 64 * 2;
    // A float2 needs an address of 8 bytes: so a row must be a multiple of two floats.
    const bool a_wide = K % 2 == 0, b_wide = N % 2 == 0;

    // Computing: thread (ty, tx) of 16×16 owns pairs of rows and of columns, 32 apart.
    const int row = tid / 16 * 2, col = tid % 16 * 2;
    float sum[TM][TN] = {};

    for (int t = 0; t < K; t += BK) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int r = a_row + half * 64;
            const int k_left = block_row + r < M ? K - (t + a_k) : 0;
            const float* a_from = &A[(block_row + r) * K + t + a_k];
            const float2 a = a_wide && k_left >= 2 ? *reinterpret_cast<const float2*>(a_from)
                                                   : load_tail(a_from, k_left);
            const int b_row = b_k + half * 4;
            const int n_left = t + b_row < K ? N - (block_col + b_col) : 0;
            const float* b_from = &B[(t + b_row) * N + block_col + b_col];
            const float2 b = b_wide && n_left >= 2 ? *reinterpret_cast<const float2*>(b_from)
                                                   : load_tail(b_from, n_left);
            As[a_k + 0][r] = a.x;
            As[a_k + 1][r] = a.y;
            *reinterpret_cast<float2*>(&Bs[b_row][b_col]) = b;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float2 ra[TM / 2], rb[TN / 2];
#pragma unroll
            for (int i = 0; i < TM / 2; ++i)
                ra[i] = *reinterpret_cast<const float2*>(&As[k][row + i * 32]);
#pragma unroll
            for (int j = 0; j < TN / 2; ++j)
                rb[j] = *reinterpret_cast<const float2*>(&Bs[k][col + j * 32]);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += (i % 2 ? ra[i / 2].y : ra[i / 2].x) *
                                 (j % 2 ? rb[j / 2].y : rb[j / 2].x);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int r = block_row + row + i / 2 * 32 + i % 2;
        if (r >= M) break;
#pragma unroll
        for (int j = 0; j < TN; j += 2) {
            const int c = block_col + col + j / 2 * 32;
            if (b_wide && c + 2 <= N) {
                *reinterpret_cast<float2*>(&C[r * N + c]) = make_float2(sum[i][j], sum[i][j + 1]);
            } else {
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (c + e < N) C[r * N + c + e] = sum[i][j + e];
            }
        }
    }
}
