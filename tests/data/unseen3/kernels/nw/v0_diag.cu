/* ---
title = "A block per pair, anti-diagonals in three shared buffers"
[[launch]]
kernel = "align"
grid = ["B"]
block = [128]
args = ["a", "b", "score", "M", "L"]
dynamic_shared = "12 * (M + 1) + M + L"
--- */
__device__ __forceinline__ int max3(int a, int b, int c) { return max(a, max(b, c)); }

extern "C" __global__ void align(const unsigned char* __restrict__ a, const unsigned char* __restrict__ b,
                                 int* __restrict__ score, int m, int l) {
    extern __shared__ int smem[];
    int* prev2 = smem;
    int* prev = smem + (m + 1);
    int* now = smem + 2 * (m + 1);
    unsigned char* sa = reinterpret_cast<unsigned char*>(smem + 3 * (m + 1));
    unsigned char* sb = sa + m;
    for (int i = threadIdx.x; i < m; i += blockDim.x) sa[i] = a[blockIdx.x * m + i];
    for (int i = threadIdx.x; i < l; i += blockDim.x) sb[i] = b[blockIdx.x * l + i];
    __syncthreads();
    for (int d = 0; d <= m + l; ++d) {
        int lo = max(0, d - l), hi = min(m, d);
        for (int i = lo + threadIdx.x; i <= hi; i += blockDim.x) {
            int j = d - i, v;
            if (i == 0 || j == 0)
                v = -2 * d;
            else
                v = max3(prev2[i - 1] + (sa[i - 1] == sb[j - 1] ? 2 : -1), prev[i - 1] - 2, prev[i] - 2);
            now[i] = v;
        }
        __syncthreads();
        int* t = prev2;
        prev2 = prev;
        prev = now;
        now = t;
    }
    if (threadIdx.x == 0) score[blockIdx.x] = prev[m];
}
