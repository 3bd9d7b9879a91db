/* ---
title  = "Two halves for one float: rows and columns scaled by powers of two"
parent = "v11"
change = "A half has as many bits as a TF32 number and the matrix units multiply it twice as fast; what it lacks is range. So each row of A and each column of B is first multiplied by the power of two that brings its largest element to 2^14, and each sum by the opposite ones at the end: exact, but for what is 2^40 times smaller than its row's largest. The largest of a row is found before the row is split, those of columns in the same launch, before the columns are split."
arch_specific = true
requires     = "K < 2**30 and max(M, N) < 2**21"
requires_why = "coordinates of its tensor maps are 32-bit integers, and a grid has 65,535 rows of blocks"

[defines]
BM = 128     # rows of C a block
BN = 256     # columns of C a block
BK = 32      # depth of a stage: two terms of 32 halves are a row of 128 bytes
STAGES = 4

[[scratch]]
name  = "a_terms"
dtype = "float16"
shape = ["M", "2 * BK * cdiv(K, BK)"]

[[scratch]]
name  = "b_terms"
dtype = "float16"
shape = ["N", "2 * BK * cdiv(K, BK)"]

[[scratch]]
name  = "a_power"
dtype = "int32"
shape = ["M"]

[[scratch]]
name  = "b_power"
dtype = "int32"
shape = ["N"]

[[tensor_map]]
name    = "a"
buffer  = "a_terms"
dtype   = "float16"
dims    = ["2 * BK * cdiv(K, BK)", "M"]
box     = ["2 * BK", "BM"]
swizzle = 128
l2_promotion = 256

[[tensor_map]]
name    = "b"
buffer  = "b_terms"
dtype   = "float16"
dims    = ["2 * BK * cdiv(K, BK)", "N"]
box     = ["2 * BK", "BN"]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "split_rows"
grid   = ["cdiv(N, 32) + cdiv(M, 4)"]
block  = [1024]
args   = ["A", "B", "a_terms", "a_power", "b_power", "M", "N", "K"]

[[launch]]
kernel = "split_columns"
grid   = ["cdiv(K, 64)", "cdiv(N, 64)"]
block  = [256]
args   = ["B", "b_terms", "b_power", "N", "K"]

[[launch]]
kernel = "sgemm"
grid   = ["cdiv(M, BM) * cdiv(N, BN)"]
block  = [384]
args   = ["a", "b", "a_power", "b_power", "C", "M", "N", "K"]
dynamic_shared = "1024 + STAGES * 128 * (BM + BN)"

[[expect]]
counter = "duration"
change  = "< 0.65x"
why     = "the same three products at twice the rate; the split takes as long as before, and under its power limit the chip lowers its clock further"

[[expect]]
counter = "instructions"
change  = "< 0.7x"
why     = "an instruction of the matrix units goes 16 instead of eight deep, and sums are added after 32 of depth instead of 16"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.65x"
why     = "terms are half as large; B is read once more, for its largest elements"
--- */
#include "hopper.cuh"

constexpr int STAGE_A = BM * 128;  // bytes of a stage
constexpr int STAGE_B = BN * 128;

__device__ __forceinline__ float larger(float largest, float4 x) {
    return fmaxf(fmaxf(fmaxf(largest, fabsf(x.x)), fmaxf(fabsf(x.y), fabsf(x.z))), fabsf(x.w));
}

// The power of two that brings it to 2^14, as an exponent; no power is beyond float32's own.
__device__ __forceinline__ int power_for(float largest) {
    const int exponent = (__float_as_int(largest) >> 23) - 127;
    return largest == 0 ? 0 : min(14 - exponent, 126);
}

// 2^n, for n from -126 to 127.
__device__ __forceinline__ float power(int n) { return __int_as_float((n + 127) << 23); }

__device__ __forceinline__ uint2 halves(float x, float y, float z, float w) {
    const __half2 first = __floats2half2_rn(x, y), second = __floats2half2_rn(z, w);
    return make_uint2(*reinterpret_cast<const uint32_t*>(&first),
                      *reinterpret_cast<const uint32_t*>(&second));
}

// Four neighbours of the depth, of a row of A or a column of B: both terms go where they belong.
__device__ __forceinline__ void store_terms(__half* terms, int row, int k, int K, float4 x,
                                            float scale) {
    const int groups = (K + BK - 1) / BK;
    if (k >= groups * BK) return;
    __half* to = terms + ((size_t)row * groups + k / BK) * 2 * BK + k % BK;
    x.x *= scale, x.y *= scale, x.z *= scale, x.w *= scale;
    const uint2 big = halves(x.x, x.y, x.z, x.w);
    const float2 first = __half22float2(*reinterpret_cast<const __half2*>(&big.x));
    const float2 second = __half22float2(*reinterpret_cast<const __half2*>(&big.y));
    *reinterpret_cast<uint2*>(to) = big;
    *reinterpret_cast<uint2*>(to + BK) =
        halves(x.x - first.x, x.y - first.y, x.z - second.x, x.w - second.y);
}

// Eight warps find the largest of a row of A and split the row.
template <bool WIDE>
__device__ __forceinline__ void split_row(float (&found)[32][33], const float* __restrict__ A,
                                          __half* __restrict__ a_terms, int* __restrict__ a_power,
                                          int row, int M, int K) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = threadIdx.x % 256 * 4;
    const float* from = A + (size_t)min(row, M - 1) * K;
    float largest = 0;
#pragma unroll 4
    for (int k = first; k < K; k += 1024)
        largest = larger(largest, load_four<WIDE>(from + k, K - k));
    found[warp][lane] = largest;
    __syncthreads();
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, found[warp / 8 * 8 + i][lane]);
#pragma unroll
    for (int i = 16; i > 0; i /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, i));
    if (row >= M) return;
    const int exponent = power_for(largest);
    if (first == 0) a_power[row] = exponent;
#pragma unroll 4
    for (int k = first; k < (K + BK - 1) / BK * BK; k += 1024)
        store_terms(a_terms, row, k, K, load_four<WIDE>(from + k, K - k), power(exponent));
}

// The first blocks find the largest of 32 columns of B each: a warp goes down every 32nd row. The
// others have four rows of A each.
extern "C" __global__ void __launch_bounds__(1024)
split_rows(const float* __restrict__ A, const float* __restrict__ B, __half* __restrict__ a_terms,
           int* __restrict__ a_power, int* __restrict__ b_power, int M, int N, int K) {
    __shared__ float found[32][33];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, b_blocks = (N + 31) / 32;
    if (blockIdx.x >= b_blocks) {
        const int row = (blockIdx.x - b_blocks) * 4 + threadIdx.x / 256;
        K % 4 ? split_row<false>(found, A, a_terms, a_power, row, M, K)
              : split_row<true>(found, A, a_terms, a_power, row, M, K);
        return;
    }
    const int column = blockIdx.x * 32 + lane;
    float largest = 0;
    if (column < N) {
#pragma unroll 16
        for (int k = warp; k < K; k += 32)
            largest = fmaxf(largest, fabsf(B[(size_t)k * N + column]));
    }
    found[warp][lane] = largest;
    __syncthreads();
    if (warp > 0 || column >= N) return;
    for (int i = 1; i < 32; ++i) largest = fmaxf(largest, found[i][lane]);
    b_power[column] = power_for(largest);
}

// A block splits 64 columns of B over 64 of the depth. They turn in shared memory.
extern "C" __global__ void __launch_bounds__(256)
split_columns(const float* __restrict__ B, __half* __restrict__ b_terms,
              const int* __restrict__ b_power, int N, int K) {
    __shared__ float tile[64][65];
    const int four = threadIdx.x % 16 * 4, k = blockIdx.x * 64, first = blockIdx.y * 64;
    N % 4 ? load_tile<false>(tile, B, k, first, N, K) : load_tile<true>(tile, B, k, first, N, K);
#pragma unroll
    for (int i = threadIdx.x / 16; i < 64; i += 16) {
        if (first + i >= N) break;
        store_terms(b_terms, first + i, k + four, K,
                    make_float4(tile[four][i], tile[four + 1][i], tile[four + 2][i],
                                tile[four + 3][i]),
                    power(b_power[first + i]));
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
sgemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
      const int* __restrict__ a_power, const int* __restrict__ b_power, float* __restrict__ C,
      int M, int N, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    __shared__ int powers[BN];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * STAGE_A;
    const int2 tile = tile_of(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
    const int row = tile.x * BM, column = tile.y * BN, steps = (K + BK - 1) / BK;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], 2);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // Known to be the same in a warp, so that descriptors stay in uniform registers.
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {  // copies, and leaves its registers to the others
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int stage = 0, phase = 1;
            for (int step = 0; step < steps; ++step) {
                wait(&empty[stage], phase);
                expect(&full[stage], STAGE_A + STAGE_B);
                copy_box(As + stage * STAGE_A, a, step * 2 * BK, row, &full[stage]);
                copy_box(Bs + stage * STAGE_B, b, step * 2 * BK, column, &full[stage]);
                if (++stage == STAGES) stage = 0, phase ^= 1;
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    // Each of these 256 threads fetches the power of a column, long before they are needed.
    const int mine = column + (group - 1) * 128 + threadIdx.x % 128;
    powers[mine - column] = mine < N ? b_power[mine] : 0;
    asm volatile("bar.sync 1, 256;" ::: "memory");
    float sum[2][64] = {}, part[64];
    int stage = 0, phase = 0;
    for (int step = 0; step < steps; ++step) {
        wait(&full[stage], phase);
        const uint64_t A = matrix(As + stage * STAGE_A + (group - 1) * 64 * 128);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint64_t B = matrix(Bs + stage * STAGE_B + half * 128 * 128);
            // The small term lies 64 bytes behind the big one, and 16 halves are 32 bytes. The
            // small products first, while the sums are small.
            wgmma_fence();
            wgmma_half(part, A + 4, B, false);
            wgmma_half(part, A + 6, B + 2, true);
            wgmma_half(part, A, B + 4, true);
            wgmma_half(part, A + 2, B + 6, true);
            wgmma_half(part, A, B, true);
            wgmma_half(part, A + 2, B + 2, true);
            wgmma_commit();
            wgmma_wait<0>();
            if (half == 1 && threadIdx.x % 128 == 0) arrive(&empty[stage]);
#pragma unroll
            for (int i = 0; i < 64; ++i) sum[half][i] += part[i];
        }
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
        store_sums(sum[half], C, row + (group - 1) * 64, column + half * 128, M, N, a_power,
                   powers + half * 128);
}
