/* ---
title = "mma.sync by inline PTX, ldmatrix, cp.async, online softmax"
[[launch]]
kernel = "attention"
grid = ["N // 64"]
block = [128]
args = ["q", "k", "v", "o", "N"]
--- */
#include <cuda_fp16.h>
#include <cstdint>
constexpr int D = 64, PAD = 8, LD = D + PAD;

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void ldsm(uint32_t (&r)[4], const half* p) {
    uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
__device__ __forceinline__ void ldsm_t(uint32_t (&r)[4], const half* p) {
    uint32_t s = __cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
__device__ __forceinline__ void copy_tile(half* to, const half* from) {
    for (int i = threadIdx.x; i < 64 * D / 8; i += 128) {
        int r = i / 8, c = i % 8 * 8;
        uint32_t s = __cvta_generic_to_shared(to + r * LD + c);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(from + r * D + c));
    }
}
extern "C" __global__ void __launch_bounds__(128) attention(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v, float* __restrict__ o, int n) {
    __shared__ __align__(16) half qs[64 * LD], ks[64 * LD], vs[64 * LD];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    copy_tile(qs, q + blockIdx.x * 64 * D);
    asm volatile("cp.async.commit_group;");
    float acc[8][4] = {}, m[2] = {-1e30f, -1e30f}, l[2] = {};
    for (int j = 0; j < n; j += 64) {
        copy_tile(ks, k + j * D);
        copy_tile(vs, v + j * D);
        asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;");
        __syncthreads();
        float s[8][4] = {};
#pragma unroll
        for (int kk = 0; kk < D; kk += 16) {
            uint32_t a[4];
            ldsm(a, qs + (warp * 16 + lane % 16) * LD + kk + lane / 16 * 8);
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                uint32_t b[4];
                ldsm(b, ks + (t * 16 + lane % 8 + lane / 16 * 8) * LD + kk + lane / 8 % 2 * 8);
                mma(s[2 * t], a, b[0], b[1]);
                mma(s[2 * t + 1], a, b[2], b[3]);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float top = m[h];
#pragma unroll
            for (int t = 0; t < 8; ++t) top = fmaxf(top, fmaxf(s[t][2 * h], s[t][2 * h + 1]) * 0.125f);
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            float scale = __expf(m[h] - top), sum = 0;
            m[h] = top;
#pragma unroll
            for (int t = 0; t < 8; ++t) {
                s[t][2 * h] = __expf(s[t][2 * h] * 0.125f - top);
                s[t][2 * h + 1] = __expf(s[t][2 * h + 1] * 0.125f - top);
                sum += s[t][2 * h] + s[t][2 * h + 1];
                acc[t][2 * h] *= scale;
                acc[t][2 * h + 1] *= scale;
            }
            l[h] = l[h] * scale + sum;
        }
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            uint32_t a[4];
            half2 p;
            p = __floats2half2_rn(s[2 * t][0], s[2 * t][1]);
            a[0] = *reinterpret_cast<uint32_t*>(&p);
            p = __floats2half2_rn(s[2 * t][2], s[2 * t][3]);
            a[1] = *reinterpret_cast<uint32_t*>(&p);
            p = __floats2half2_rn(s[2 * t + 1][0], s[2 * t + 1][1]);
            a[2] = *reinterpret_cast<uint32_t*>(&p);
            p = __floats2half2_rn(s[2 * t + 1][2], s[2 * t + 1][3]);
            a[3] = *reinterpret_cast<uint32_t*>(&p);
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                uint32_t b[4];
                ldsm_t(b, vs + (t * 16 + lane % 16) * LD + c * 16 + lane / 16 * 8);
                mma(acc[2 * c], a, b[0], b[1]);
                mma(acc[2 * c + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        l[h] += __shfl_xor_sync(~0u, l[h], 1);
        l[h] += __shfl_xor_sync(~0u, l[h], 2);
        float inv = 1.0f / l[h];
        int row = blockIdx.x * 64 + warp * 16 + lane / 4 + 8 * h;
#pragma unroll
        for (int t = 0; t < 8; ++t)
            *reinterpret_cast<float2*>(o + row * D + t * 8 + lane % 4 * 2) = make_float2(acc[t][2 * h] * inv, acc[t][2 * h + 1] * inv);
    }
}
