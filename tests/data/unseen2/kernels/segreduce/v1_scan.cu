/* ---
title = "Segmented scan over tiles, heads found by bisection, sums by atomicAdd"
[[launch]]
kernel = "clear"
grid = ["cdiv(S, 256)"]
block = [256]
args = ["y", "S"]
[[launch]]
kernel = "segments"
grid = ["cdiv(S * 2 * M, 256)"]
block = [256]
args = ["x", "offsets", "y", "S"]
--- */
extern "C" __global__ void clear(float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 0.0f;
}

__device__ int find(const int* offsets, int n, int i) {
    int lo = 0, hi = n;
    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        (offsets[mid] <= i ? lo : hi) = mid;
    }
    return lo;
}

extern "C" __global__ void segments(const float* x, const int* offsets, float* y, int n) {
    const unsigned full = 0xffffffffu;
    __shared__ float v_s[256];
    __shared__ int s_s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, lane = t & 31;
    int seg = -1;
    float v = 0;
    if (i < offsets[n]) {
        seg = find(offsets, n, i);
        v = x[i];
    }
    for (int d = 1; d < 32; d <<= 1) {
        float up = __shfl_up_sync(full, v, d);
        int s = __shfl_up_sync(full, seg, d);
        if (lane >= d && s == seg) v += up;
    }
    v_s[t] = v;
    s_s[t] = seg;
    __syncthreads();
    bool last = lane == 31 || s_s[t + 1] != seg;
    if (last && seg >= 0) atomicAdd(y + seg, v_s[t]);
}
