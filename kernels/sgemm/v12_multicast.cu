/* ---
title  = "Thread block clusters of two, which share columns of B by multicast"
parent = "v11"
change = "Two blocks, one below the other, need the same columns of B: each copies half of them, into the shared memory of both. A stage is free when the groups of both blocks are done with it."
arch_specific = true
requires     = "K < 2**30 and max(M, N) < 2**21"
requires_why = "coordinates of its tensor maps are 32-bit integers, and a grid has 65,535 rows of blocks"

[defines]
BM = 128     # rows of C a block
BN = 256     # columns of C a block
BK = 16      # depth of a stage: two terms of 16 floats are a row of 128 bytes
STAGES = 4

[[scratch]]
name  = "a_terms"
dtype = "float32"
shape = ["M", "2 * BK * cdiv(K, BK)"]

[[scratch]]
name  = "b_terms"
dtype = "float32"
shape = ["N", "2 * BK * cdiv(K, BK)"]

[[tensor_map]]
name    = "a"
buffer  = "a_terms"
dtype   = "float32"
dims    = ["2 * BK * cdiv(K, BK)", "M"]
box     = ["2 * BK", "BM"]
swizzle = 128
l2_promotion = 256

[[tensor_map]]
name    = "b"
buffer  = "b_terms"
dtype   = "float32"
dims    = ["2 * BK * cdiv(K, BK)", "N"]
box     = ["2 * BK", "BN // 2"]
swizzle = 128
l2_promotion = 256

[[launch]]
kernel = "split"
grid   = ["cdiv(K, 64)", "cdiv(M, 64) + cdiv(N, 64)"]
block  = [256]
args   = ["A", "B", "a_terms", "b_terms", "M", "N", "K"]

[[launch]]
kernel = "sgemm"
grid   = ["2 * cdiv(M, 2 * BM) * cdiv(N, BN)"]
cluster = [2]
block  = [384]
args   = ["a", "b", "C", "M", "N", "K"]
dynamic_shared = "1024 + STAGES * 128 * (BM + BN)"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.75x"
why     = "a stage of a block takes 16 KB of A and, from now on, 16 instead of 32 KB of B from L2; what the split reads stays"
learned = "0.99x: ncu's count of sectors that L2 reads did not fall with what is asked of it"

[[expect]]
counter = "tensor_utilization"
change  = "up"
why     = "48 KB in the 1,536 cycles of a stage's products are 32 bytes a cycle and SM, more than L2 gives to all at once; 32 KB are 21"

[[expect]]
counter = "duration"
change  = "< 0.95x"
why     = "the products wait for fewer copies"
learned = "1.006x: v11's tensor pipe is 97.5% busy at n = 4096 and waits for nothing; L2 does give 32 bytes a cycle to each SM. Arrivals at the other block with .release.cluster, which each wait for a warp's memory accesses, made it 1.3x"
--- */
#include "hopper.cuh"

constexpr int STAGE_A = BM * 128;  // bytes of a stage
constexpr int STAGE_B = BN * 128;

// What is left of TF32's eleven bits, rounded.
__device__ __forceinline__ float tf32(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

// Four neighbours of the depth, of a row of A or a column of B: both terms go where they belong.
__device__ __forceinline__ void store_terms(float* terms, int row, int k, int K, float4 x) {
    const int groups = (K + BK - 1) / BK;
    if (k >= groups * BK) return;
    float* to = terms + ((size_t)row * groups + k / BK) * 2 * BK + k % BK;
    const float4 big = make_float4(tf32(x.x), tf32(x.y), tf32(x.z), tf32(x.w));
    *reinterpret_cast<float4*>(to) = big;
    *reinterpret_cast<float4*>(to + BK) = make_float4(
        tf32(x.x - big.x), tf32(x.y - big.y), tf32(x.z - big.z), tf32(x.w - big.w));
}

template <bool WIDE>
__device__ __forceinline__ void split_a(const float* A, float* a_terms, int row, int k, int M,
                                        int K) {
    float4 x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        x[i] = load_four<WIDE>(A + (size_t)min(row + i * 16, M - 1) * K + k, K - k);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (row + i * 16 < M) store_terms(a_terms, row + i * 16, k, K, x[i]);
}

// A block splits 64 rows of A, or 64 columns of B, over 64 of the depth. Columns turn in shared
// memory.
extern "C" __global__ void __launch_bounds__(256)
split(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ a_terms,
      float* __restrict__ b_terms, int M, int N, int K) {
    __shared__ float tile[64][65];
    const int four = threadIdx.x % 16 * 4, line = threadIdx.x / 16;
    const int k = blockIdx.x * 64 + four, a_blocks = (M + 63) / 64;
    if (blockIdx.y < a_blocks) {
        const int row = blockIdx.y * 64 + line;
        K % 4 ? split_a<false>(A, a_terms, row, k, M, K) : split_a<true>(A, a_terms, row, k, M, K);
        return;
    }
    const int first = (blockIdx.y - a_blocks) * 64;
    N % 4 ? load_tile<false>(tile, B, blockIdx.x * 64, first, N, K)
          : load_tile<true>(tile, B, blockIdx.x * 64, first, N, K);
#pragma unroll
    for (int i = line; i < 64; i += 16) {
        if (first + i >= N) break;
        store_terms(b_terms, first + i, k, K,
                    make_float4(tile[four][i], tile[four + 1][i], tile[four + 2][i],
                                tile[four + 3][i]));
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
sgemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
      float* __restrict__ C, int M, int N, int K) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    uint8_t* const As = memory + (-shared(memory) & 1023);
    uint8_t* const Bs = As + STAGES * STAGE_A;
    const int2 pair = tile_of(blockIdx.x / 2, (M + 2 * BM - 1) / (2 * BM), (N + BN - 1) / BN);
    const int rank = cluster_rank(), row = (2 * pair.x + rank) * BM, column = pair.y * BN;
    const int steps = (K + BK - 1) / BK;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_barrier();  // nobody speaks of a barrier that is not there yet

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
                copy_box_to(3, Bs + stage * STAGE_B + rank * STAGE_B / 2, b, step * 2 * BK,
                            column + rank * BN / 2, &full[stage]);
                if (++stage == STAGES) stage = 0, phase ^= 1;
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float sum[2][64] = {}, part[64];
        int stage = 0, phase = 0;
        for (int step = 0; step < steps; ++step) {
            wait(&full[stage], phase);
            const uint64_t A = matrix(As + stage * STAGE_A + (group - 1) * 64 * 128);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint64_t B = matrix(Bs + stage * STAGE_B + half * 128 * 128);
                // The small term lies 64 bytes behind the big one, and eight floats are 32 bytes.
                // The small products first, while the sums are small.
                wgmma_fence();
                wgmma_tf32(part, A + 4, B, false);
                wgmma_tf32(part, A + 6, B + 2, true);
                wgmma_tf32(part, A, B + 4, true);
                wgmma_tf32(part, A + 2, B + 6, true);
                wgmma_tf32(part, A, B, true);
                wgmma_tf32(part, A + 2, B + 2, true);
                wgmma_commit();
                wgmma_wait<0>();
                if (half == 1 && threadIdx.x % 128 < 2)
                    arrive_at(&empty[stage], threadIdx.x % 128);
#pragma unroll
                for (int i = 0; i < 64; ++i) sum[half][i] += part[i];
            }
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
            store_sums(sum[half], C, row + (group - 1) * 64, column + half * 128, M, N);
    }
    cluster_barrier();  // the other block still copies here and tells of it
}
