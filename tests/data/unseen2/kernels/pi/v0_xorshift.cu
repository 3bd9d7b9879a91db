/* ---
title = "A generator a thread, a block sum and one atomic"
[[fill]]
name = "hits"
value = 0
[[launch]]
kernel = "pi"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["seeds", "hits", "N", "T"]
--- */
struct Random {
    unsigned s;
    __device__ unsigned next()
    {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        return s;
    }
};

extern "C" __global__ void pi(const unsigned *seeds, unsigned *hits, int n, int turns)
{
    __shared__ unsigned total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned mine = 0;
    if (i < n) {
        Random r = {seeds[i]};
        for (int t = 0; t < turns; t++) {
            unsigned x = r.next() >> 16;
            unsigned y = r.next() >> 16;
            if ((unsigned long long)x * x + (unsigned long long)y * y < (1ull << 32))
                mine++;
        }
    }
    atomicAdd(&total, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(hits, total);
}
