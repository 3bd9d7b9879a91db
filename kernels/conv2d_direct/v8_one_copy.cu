/* ---
title  = "One copy a block"
parent = "v7"
change = "One thread asks the copy engine for all of a block's input, of every plane, and for zeros where it leaves the image; an mbarrier tells when it is there. Blocks are short-lived, seven on an SM: while some compute, the others' input is on its way."
requires     = "W % 4 == 0 and C * H * W < 2**31 and U <= 3 and 4 * C * (15*U + 3) * (128 // 2**(U - 1) * U + 8) <= 192 * 1024"
requires_why = "rows of a tensor map are multiples of 16 bytes, its indices are 32-bit integers, its loops over a row are written for strides of 1 to 3, and its input must fit into 192 KiB of shared memory"

[defines]
THREADS = 128
STORE   = 1    # 0: plain, 1: evicted first

[[tensor_map]]
name   = "planes"
buffer = "x"
dtype  = "float32"
dims   = ["W", "H", "C"]
box    = ["128 // 2**(U - 1) * U + 8", "15*U + 3", "C"]
l2_promotion = 256

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128 // 2**(U - 1))", "cdiv(P, 16)"]
block  = ["THREADS"]
args   = ["planes", "w", "y", "C", "P", "Q", "U"]
dynamic_shared = "128 + 4 * C * (15*U + 3) * (128 // 2**(U - 1) * U + 8)"

[[expect]]
counter = "l2_read_sectors"
change  = "< 0.9x"
why     = "18 rows of 136 columns for 16 of 128: v7 asks for 12 rows for every eight, some of which it finds in the L1"
learned = "1.33x: the copy engine asks the L2 for whole lines of 128 bytes. A row of 544 bytes that begins 16 before a line touches six, 24 sectors where 18 hold what is wanted"

[[expect]]
counter = "instructions"
change  = "down"
why     = "no condition and no address for a load"
learned = "0.63x, of which nobody had too many"

[[expect]]
counter = "dram_throughput"
change  = ">= 0.8 of peak"
why     = "seven blocks of 29 KB on an SM, of which several are on their way at any time; blocks of 2,048 outputs are done at nearly the same time everywhere, which v6's were not"
learned = "68%: the L2 is at its limit, 92%, with a third more to pass for the same bytes of memory"

[[expect]]
counter = "duration"
change  = "< 0.98x"
why     = "no warp waits for one plane before it asks for the next"
learned = "1.21x"
--- */
#include <cuda.h>
#include <cstdint>

constexpr int ROWS_A_BLOCK = 16;  // of outputs

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

template <int U>
__device__ __forceinline__ void convolve(const CUtensorMap& planes, const float* __restrict__ w,
                                         float* __restrict__ y, float* tile, uint64_t* there,
                                         int C, int P, int Q) {
    constexpr int COLUMNS = 128 >> (U - 1);  // of outputs a block
    constexpr int PITCH = COLUMNS * U + 8, HEIGHT = (ROWS_A_BLOCK - 1) * U + 3;
    constexpr int LANES = COLUMNS / 4;  // threads for a row of outputs, four each
    constexpr int GROUPS = THREADS / LANES < ROWS_A_BLOCK ? THREADS / LANES : ROWS_A_BLOCK;
    constexpr int DOWN = ROWS_A_BLOCK / GROUPS;  // rows of outputs a thread
    const int first = blockIdx.x * COLUMNS, top = blockIdx.y * ROWS_A_BLOCK;
    if (threadIdx.x == 0) {
        const int bytes = C * HEIGHT * PITCH * 4;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(shared_address(there)), "r"(bytes)
                     : "memory");
        // Four columns before the block's first window, so that the others lie at 16 bytes.
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                     ::"r"(shared_address(tile)), "l"(&planes), "r"(first * U - 4),
                     "r"(top * U - 1), "r"(0), "r"(shared_address(there))
                     : "memory");
    }
    asm volatile("{.reg .pred over;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], 0;\n"
                 "@!over bra AGAIN;}" ::"r"(shared_address(there))
                 : "memory");

    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    if (group >= GROUPS) return;
    const int q = first + lane * 4, p = top + group * DOWN;
    float sum[DOWN][4] = {};
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        float taps[9];
#pragma unroll
        for (int i = 0; i < 9; ++i) taps[i] = w[c * 9 + i];
        const float* slot = &tile[(c * HEIGHT + group * DOWN * U) * PITCH + lane * 4 * U];
#pragma unroll
        for (int i = 0; i < (DOWN - 1) * U + 3; ++i, slot += PITCH) {
            float v[4 * U + 2];  // columns first − 1 to first + 4·U
#pragma unroll
            for (int n = 0; n < U; ++n) {
                const float4 piece = reinterpret_cast<const float4*>(slot)[n + 1];
                v[4 * n + 1] = piece.x;
                v[4 * n + 2] = piece.y;
                v[4 * n + 3] = piece.z;
                v[4 * n + 4] = piece.w;
            }
            if (U == 1) {  // a row of outputs is a warp's: neighbours have the edge columns
                v[0] = __shfl_up_sync(~0u, v[4], 1);
                v[5] = __shfl_down_sync(~0u, v[1], 1);
                if (lane == 0) v[0] = slot[3];
                if (lane == 31) v[5] = slot[8];
            } else {
                v[0] = slot[3];
            }
#pragma unroll
            for (int j = 0; j < DOWN; ++j) {
                const int r = i - j * U;  // the row of the window in which output row j sees it
                if (r < 0 || r > 2) continue;
#pragma unroll
                for (int o = 0; o < 4; ++o)
#pragma unroll
                    for (int s = 0; s < 3; ++s) sum[j][o] += v[o * U + s] * taps[r * 3 + s];
            }
        }
    }

#pragma unroll
    for (int j = 0; j < DOWN; ++j) {
        if (p + j >= P) break;
        float* to = &y[(p + j) * Q + q];
        if (Q % 4 == 0 && q + 4 <= Q) {
            const float4 four = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
            if (STORE == 1)
                __stcs(reinterpret_cast<float4*>(to), four);
            else
                *reinterpret_cast<float4*>(to) = four;
        } else {
#pragma unroll
            for (int o = 0; o < 4; ++o)
                if (q + o < Q) to[o] = sum[j][o];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const __grid_constant__ CUtensorMap planes, const float* __restrict__ w,
       float* __restrict__ y, int C, int P, int Q, int U) {
    extern __shared__ uint8_t memory[];
    __shared__ uint64_t there;
    float* const tile = reinterpret_cast<float*>(memory + (-shared_address(memory) & 127));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&there))
                     : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (U == 1) convolve<1>(planes, w, y, tile, &there, C, P, Q);
    else if (U == 2) convolve<2>(planes, w, y, tile, &there, C, P, Q);
    else convolve<3>(planes, w, y, tile, &there, C, P, Q);
}
