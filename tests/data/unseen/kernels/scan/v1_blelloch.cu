/* ---
title = "Blelloch's up-sweep and down-sweep, padded against bank conflicts"
[[scratch]]
name  = "sums"
dtype = "int32"
shape = ["cdiv(N, 1024)"]
[[launch]]
kernel = "prescan"
grid   = ["cdiv(N, 1024)"]
block  = [512]
args   = ["x", "y", "sums", "N"]
dynamic_shared = "4 * (1024 + 32)"
[[launch]]
kernel = "scan_sums"
grid   = [1]
block  = [512]
args   = ["sums", "cdiv(N, 1024)"]
[[launch]]
kernel = "add_sums"
grid   = ["cdiv(N, 1024)"]
block  = [1024]
args   = ["y", "sums", "N"]
--- */

#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

extern "C" __global__ void prescan(const int* g_idata, int* g_odata, int* sums, int n) {
    extern __shared__ int temp[];
    const int m = 1024;
    int thid = threadIdx.x, base = blockIdx.x * m;
    int offset = 1;
    int ai = thid, bi = thid + m / 2;
    int bankOffsetA = CONFLICT_FREE_OFFSET(ai), bankOffsetB = CONFLICT_FREE_OFFSET(bi);
    int va = base + ai < n ? g_idata[base + ai] : 0;
    int vb = base + bi < n ? g_idata[base + bi] : 0;
    temp[ai + bankOffsetA] = va;
    temp[bi + bankOffsetB] = vb;
    for (int d = m >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            ai += CONFLICT_FREE_OFFSET(ai);
            bi += CONFLICT_FREE_OFFSET(bi);
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (thid == 0) {
        sums[blockIdx.x] = temp[m - 1 + CONFLICT_FREE_OFFSET(m - 1)];
        temp[m - 1 + CONFLICT_FREE_OFFSET(m - 1)] = 0;
    }
    for (int d = 1; d < m; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1;
            int bi = offset * (2 * thid + 2) - 1;
            ai += CONFLICT_FREE_OFFSET(ai);
            bi += CONFLICT_FREE_OFFSET(bi);
            int t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    if (base + ai < n) g_odata[base + ai] = temp[ai + bankOffsetA] + va;
    if (base + bi < n) g_odata[base + bi] = temp[bi + bankOffsetB] + vb;
}

extern "C" __global__ void scan_sums(int* sums, int n) {
    __shared__ int s[512];
    int tid = threadIdx.x;
    s[tid] = tid < n ? sums[tid] : 0;
    for (int d = 1; d < 512; d <<= 1) {
        __syncthreads();
        int t = tid >= d ? s[tid - d] : 0;
        __syncthreads();
        s[tid] += t;
    }
    if (tid < n) sums[tid] = s[tid];
}

extern "C" __global__ void add_sums(int* y, const int* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int before;
    if (threadIdx.x == 0) before = blockIdx.x ? sums[blockIdx.x - 1] : 0;
    __syncthreads();
    if (i < n) y[i] += before;
}
