/* ---
title = "Eight threads per block, rows and columns in registers, butterflies"
change = "A row of eight bytes is one load; one transpose through padded shared memory; even and odd halves halve the products."
[[launch]]
kernel = "dct"
grid = ["cdiv(W // 8, 16)", "H // 8"]
block = [8, 16]
args = ["img", "table", "coef", "W"]
--- */
__device__ __forceinline__ void dct8(float (&v)[8]) {
    const float c1 = 0.49039264f, c2 = 0.46193977f, c3 = 0.41573481f, c4 = 0.35355339f, c5 = 0.27778512f,
                c6 = 0.19134172f, c7 = 0.09754516f;
    float s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
    float d0 = v[0] - v[7], d1 = v[1] - v[6], d2 = v[2] - v[5], d3 = v[3] - v[4];
    float p0 = s0 + s3, p1 = s1 + s2, m0 = s0 - s3, m1 = s1 - s2;
    v[0] = (p0 + p1) * c4;
    v[4] = (p0 - p1) * c4;
    v[2] = m0 * c2 + m1 * c6;
    v[6] = m0 * c6 - m1 * c2;
    v[1] = d0 * c1 + d1 * c3 + d2 * c5 + d3 * c7;
    v[3] = d0 * c3 - d1 * c7 - d2 * c1 - d3 * c5;
    v[5] = d0 * c5 - d1 * c1 + d2 * c7 + d3 * c3;
    v[7] = d0 * c7 - d1 * c5 + d2 * c3 - d3 * c1;
}

extern "C" __global__ void __launch_bounds__(128) dct(const unsigned char* __restrict__ img, const float* __restrict__ table,
                                                      short* __restrict__ coef, int w) {
    __shared__ float tile[16][8][9];
    const int lane = threadIdx.x, block = blockIdx.x * 16 + threadIdx.y;
    const bool live = block < w / 8;
    float v[8];
    if (live) {
        uint2 raw = *reinterpret_cast<const uint2*>(img + (blockIdx.y * 8 + lane) * w + block * 8);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = (float)((raw.x >> (8 * k)) & 255u) - 128.f;
            v[k + 4] = (float)((raw.y >> (8 * k)) & 255u) - 128.f;
        }
        dct8(v);
#pragma unroll
        for (int k = 0; k < 8; ++k) tile[threadIdx.y][lane][k] = v[k];
    }
    __syncthreads();
    if (live) {
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = tile[threadIdx.y][k][lane];
        dct8(v);
        short* out = coef + blockIdx.y * 8 * w + block * 8 + lane;
#pragma unroll
        for (int k = 0; k < 8; ++k) out[k * w] = (short)__float2int_rn(__fdividef(v[k], __ldg(table + k * 8 + lane)));
    }
}
