/* ---
title = "Tensor cores: 16 queries a warp, tiles of 64 keys, cp.async"
change = "Both products are mma.sync, the probabilities stay in registers as the left operand of the second; the next keys arrive while the values are multiplied, and the other way round."
[[launch]]
kernel = "attention"
grid = ["cdiv(S, 64)", "H"]
block = [128]
args = ["Q", "K", "V", "O", "S", 0.18033688]    # log2(e) / 8
--- */
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <stdint.h>

constexpr int D = 64, TILE = 64, PITCH = D + 8;  // rows of 144 bytes: no bank conflicts in ldmatrix
struct alignas(16) Tile {
    half at[TILE][PITCH];
};

#define LDMATRIX(r, p, TRANS)                                                                 \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"  \
                 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                     \
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(p)))                    \
                 : "memory")

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
    const half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ void fetch(Tile& tile, const half* head, int first, int length) {
#pragma unroll
    for (int i = threadIdx.x; i < TILE * D / 8; i += 128) {
        const int row = i / (D / 8), column = i % (D / 8) * 8;
        const bool inside = first + row < length;
        const half* from = inside ? head + (first + row) * D + column : head;
        __pipeline_memcpy_async(&tile.at[row][column], from, 16, inside ? 0 : 16);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    attention(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
              half* __restrict__ O, int length, float scale) {
    __shared__ Tile q, k, v;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const size_t head = static_cast<size_t>(blockIdx.y) * length * D;
    const int low_row = lane & 15, high_half = (lane >> 4) * 8;                         // of A, and of V
    const int key_row = (lane & 7) + (lane >> 4) * 8, key_half = ((lane >> 3) & 1) * 8;  // of K

    fetch(q, Q + head, blockIdx.x * TILE, length);
    fetch(k, K + head, 0, length);
    __pipeline_commit();
    fetch(v, V + head, 0, length);
    __pipeline_commit();

    uint32_t a[D / 16][4];
    float out[D / 8][4] = {};
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};  // of rows lane / 4 and lane / 4 + 8
    const int row = warp * 16 + (lane >> 2), last = blockIdx.x;  // the tile on the diagonal
    for (int tile = 0; tile <= last; ++tile) {
        __pipeline_wait_prior(1);
        __syncthreads();
        if (tile == 0) {
#pragma unroll
            for (int d = 0; d < D / 16; ++d) LDMATRIX(a[d], &q.at[warp * 16 + low_row][d * 16 + high_half], "");
        }
        float s[TILE / 8][4] = {};
#pragma unroll
        for (int d = 0; d < D / 16; ++d) {
#pragma unroll
            for (int n = 0; n < TILE / 16; ++n) {
                uint32_t b[4];
                LDMATRIX(b, &k.at[n * 16 + key_row][d * 16 + key_half], "");
                mma(s[2 * n], a[d], b[0], b[1]);
                mma(s[2 * n + 1], a[d], b[2], b[3]);
            }
        }
        __syncthreads();
        if (tile < last) fetch(k, K + head, (tile + 1) * TILE, length);
        __pipeline_commit();

        // Register c of a fragment: row + 8 * (c / 2), key 8 n + 2 (lane % 4) + c % 2.
        float now[2] = {top[0], top[1]};
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (tile == last && 8 * n + 2 * (lane & 3) + (c & 1) > row + 8 * (c >> 1)) s[n][c] = -INFINITY;
                now[c >> 1] = fmaxf(now[c >> 1], s[n][c]);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            now[h] = fmaxf(now[h], __shfl_xor_sync(0xffffffffu, now[h], 1));
            now[h] = fmaxf(now[h], __shfl_xor_sync(0xffffffffu, now[h], 2));
            const float shrink = exp2f((top[h] - now[h]) * scale);
            top[h] = now[h];
            sum[h] *= shrink;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                out[n][2 * h] *= shrink;
                out[n][2 * h + 1] *= shrink;
            }
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                s[n][c] = exp2f((s[n][c] - top[c >> 1]) * scale);
                sum[c >> 1] += s[n][c];
            }
        }

        __pipeline_wait_prior(1);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TILE / 16; ++j) {
            const uint32_t p[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                                   pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
            for (int n = 0; n < D / 16; ++n) {
                uint32_t b[4];
                LDMATRIX(b, &v.at[j * 16 + low_row][n * 16 + high_half], ".trans");
                mma(out[2 * n], p, b[0], b[1]);
                mma(out[2 * n + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();
        if (tile < last) fetch(v, V + head, (tile + 1) * TILE, length);
        __pipeline_commit();
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
        const int query = blockIdx.x * TILE + row + 8 * h;
        if (query >= length) continue;
        const float inverse = 1.f / sum[h];
        half2* to = reinterpret_cast<half2*>(O + head + query * D + 2 * (lane & 3));
        for (int n = 0; n < D / 8; ++n)
            to[4 * n] = __floats2half2_rn(out[n][2 * h] * inverse, out[n][2 * h + 1] * inverse);
    }
}
