/* ---
title = "A warp a row, online maximum and sum"
[[launch]]
kernel = "xent"
grid = ["cdiv(R, 4)"]
block = [32, 4]
args = ["logits", "label", "loss", "grad", "R", "C"]
--- */
struct State { float m, s; };
__device__ inline State join(State a, State b) {
    State big = a.m >= b.m ? a : b, small = a.m >= b.m ? b : a;
    return {big.m, big.s + small.s * __expf(small.m - big.m)};
}
extern "C" __global__ void xent(const float* __restrict__ logits, const long long* __restrict__ label, float* __restrict__ loss, float* __restrict__ grad, int rows, int n) {
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    const float* in = logits + (size_t)r * n;
    State a = {-1e30f, 0.0f};
    for (int i = threadIdx.x; i < n; i += 32) a = join(a, {in[i], 1.0f});
    for (int o = 16; o > 0; o >>= 1) {
        State b = {__shfl_xor_sync(~0u, a.m, o), __shfl_xor_sync(~0u, a.s, o)};
        a = join(a, b);
    }
    int t = (int)label[r];
    if (threadIdx.x == 0) loss[r] = __logf(a.s) + a.m - in[t];
    float inv = 1.0f / a.s, scale = 1.0f / rows;
    for (int i = threadIdx.x; i < n; i += 32)
        grad[(size_t)r * n + i] = (__expf(in[i] - a.m) * inv - (i == t)) * scale;
}
