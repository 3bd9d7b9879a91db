/* ---
title = "A thread a place, early exit; counted by ballot"
[[fill]]
name = "count"
value = 0
[[launch]]
kernel = "match"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["text", "N", "pattern", "M", "hit", "count"]
dynamic_shared = "256 + M"
--- */
typedef unsigned char u8;
__device__ bool equal(const u8 *a, const u8 *b, int m)
{
    switch (m) {
    case 0:
        return true;
    case 1:
        return a[0] == b[0];
    case 2:
        return a[0] == b[0] && a[1] == b[1];
    default:
        for (int i = 0; i < m; i++)
            if (a[i] != b[i])
                return false;
        return true;
    }
}
extern "C" __global__ void match(const u8 *text, int n, const u8 *pattern, int m, u8 *hit, int *count)
{
    extern __shared__ u8 buf[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = threadIdx.x; j < blockDim.x + m; j += blockDim.x) {
        int at = blockIdx.x * blockDim.x + j;
        buf[j] = at < n ? text[at] : 0;
    }
    __syncthreads();
    bool yes = i + m <= n && equal(buf + threadIdx.x, pattern, m);
    if (i < n)
        hit[i] = yes;
    unsigned votes = __ballot_sync(0xffffffff, yes);
    if ((threadIdx.x & 31) == 0 && votes)
        atomicAdd(count, __popc(votes));
}
