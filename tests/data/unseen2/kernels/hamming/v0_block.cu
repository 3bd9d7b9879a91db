/* ---
title = "A block a query, packed minimum by atomicMin of 64 bits"
[[launch]]
kernel = "nearest"
grid = ["Q"]
block = [128]
args = ["q", "base", "best", "dist", "M"]
--- */
extern "C" __global__ void nearest(const ulonglong2 *q, const ulonglong2 *base, int *best, int *dist, int m)
{
    __shared__ unsigned long long least;
    if (threadIdx.x == 0)
        least = ~0ull;
    __syncthreads();
    ulonglong2 a = q[blockIdx.x * 2], b = q[blockIdx.x * 2 + 1];
    unsigned long long mine = ~0ull;
    for (int i = threadIdx.x; i < m; i += blockDim.x) {
        ulonglong2 c = base[i * 2], d = base[i * 2 + 1];
        int bits = __popcll(a.x ^ c.x) + __popcll(a.y ^ c.y) + __popcll(b.x ^ d.x) + __popcll(b.y ^ d.y);
        unsigned long long key = (unsigned long long)bits << 32 | (unsigned)i;
        mine = min(mine, key);
    }
    atomicMin(&least, mine);
    __syncthreads();
    if (threadIdx.x == 0) {
        best[blockIdx.x] = (int)(least & 0xffffffffu);
        dist[blockIdx.x] = (int)(least >> 32);
    }
}
