/* ---
title = "Squares of four by four in registers, float4 both ways"
requires = "R % 4 == 0 and C % 4 == 0"
requires_why = "it loads and stores float4"
[[launch]]
kernel = "transpose"
grid   = ["cdiv(C, 32)", "cdiv(R, 64)"]
block  = [8, 16]
args   = ["A", "B", "R", "C"]
--- */

extern "C" __global__ void transpose(const float* A, float* B, int R, int C) {
    int c = (blockIdx.x * 8 + threadIdx.x) * 4, r = (blockIdx.y * 16 + threadIdx.y) * 4;
    if (r >= R || c >= C) return;
    float4 a[4];
    for (int i = 0; i < 4; ++i) a[i] = *(const float4*)(A + (r + i) * C + c);
    *(float4*)(B + (c + 0) * R + r) = make_float4(a[0].x, a[1].x, a[2].x, a[3].x);
    *(float4*)(B + (c + 1) * R + r) = make_float4(a[0].y, a[1].y, a[2].y, a[3].y);
    *(float4*)(B + (c + 2) * R + r) = make_float4(a[0].z, a[1].z, a[2].z, a[3].z);
    *(float4*)(B + (c + 3) * R + r) = make_float4(a[0].w, a[1].w, a[2].w, a[3].w);
}
