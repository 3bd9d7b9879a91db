/* ---
title = "A warp per row: entries loaded side by side, handed around by shuffles, float4 rows of B"
change = "32 entries of the row are loaded at once. Eight lanes hold a row of B as float4; four such groups take turns with the entries, and add up at the end."
requires = "N % 4 == 0 and N <= 32"
requires_why = "eight lanes have four columns each"
[defines]
WARPS = 4
[[launch]]
kernel = "spmm"
grid = ["cdiv(M, WARPS)"]
block = [32, "WARPS"]
args = ["row_start", "column", "value", "B", "C", "M", "N // 4"]
--- */

constexpr unsigned FULL = 0xffffffffu;
constexpr int GROUP = 8;              // lanes that share an entry
constexpr int GROUPS = 32 / GROUP;    // entries that a warp does at once

__device__ __forceinline__ void axpy(float4& sum, float a, const float4& x) {
    sum.x = fmaf(a, x.x, sum.x);
    sum.y = fmaf(a, x.y, sum.y);
    sum.z = fmaf(a, x.z, sum.z);
    sum.w = fmaf(a, x.w, sum.w);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    spmm(const int* __restrict__ row_start, const int* __restrict__ column, const float* __restrict__ value,
         const float4* __restrict__ B, float4* __restrict__ C, int rows, int vectors) {
    const int row = blockIdx.x * WARPS + threadIdx.y;
    if (row >= rows) return;  // the whole warp
    const int lane = threadIdx.x;
    const int group = lane / GROUP;
    const int part = lane % GROUP;
    const bool busy = part < vectors;

    const int begin = __ldg(&row_start[row]);
    const int end = __ldg(&row_start[row + 1]);
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);

    for (int base = begin; base < end; base += 32) {
        // Lanes behind the end hold a zero times row 0.
        const int k = base + lane;
        const int my_column = k < end ? __ldg(&column[k]) : 0;
        const float my_value = k < end ? __ldg(&value[k]) : 0.f;
        const int count = min(32, end - base);
        for (int j = 0; j < count; j += GROUPS) {
            const int from = j + group;
            const int c = __shfl_sync(FULL, my_column, from);
            const float v = __shfl_sync(FULL, my_value, from);
            if (busy && from < count) axpy(sum, v, __ldg(&B[c * vectors + part]));
        }
    }

#pragma unroll
    for (int offset = GROUP; offset < 32; offset *= 2) {
        sum.x += __shfl_xor_sync(FULL, sum.x, offset);
        sum.y += __shfl_xor_sync(FULL, sum.y, offset);
        sum.z += __shfl_xor_sync(FULL, sum.z, offset);
        sum.w += __shfl_xor_sync(FULL, sum.w, offset);
    }
    if (group == 0 && busy) C[row * vectors + part] = sum;
}
