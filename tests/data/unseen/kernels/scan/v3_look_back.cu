/* ---
title = "Decoupled look-back, one pass, tiles handed out by a ticket"
[[scratch]]
name  = "ticket"
dtype = "uint32"
shape = [1]
[[scratch]]
name  = "state"
dtype = "uint64"
shape = ["cdiv(N, 2048)"]
[[launch]]
kernel = "init"
grid   = ["cdiv(cdiv(N, 2048), 128)"]
block  = [128]
args   = ["ticket", "state", "cdiv(N, 2048)"]
[[launch]]
kernel = "scan"
grid   = ["cdiv(N, 2048)"]
block  = [256]
args   = ["x", "y", "ticket", "state", "N"]
--- */

typedef unsigned long long u64;
#define ITEMS 8

extern "C" __global__ void init(unsigned* ticket, u64* state, int tiles) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *ticket = 0;
    if (i < tiles) state[i] = 0;
}

// The upper word is a flag: 1, the sum of the tile; 2, of all up to it.
extern "C" __global__ void scan(const int* __restrict__ x, int* __restrict__ y, unsigned* ticket,
                                volatile u64* state, int n) {
    __shared__ int tile_s, warp_sums[8], prefix_s;
    if (threadIdx.x == 0) tile_s = atomicAdd(ticket, 1);
    __syncthreads();
    int tile = tile_s, first = tile * 256 * ITEMS + threadIdx.x * ITEMS;
    int v[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        v[k] = first + k < n ? x[first + k] : 0;
        if (k) v[k] += v[k - 1];
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = v[ITEMS - 1];
    for (int d = 1; d < 32; d *= 2) {
        int t = __shfl_up_sync(0xffffffff, sum, d);
        if (lane >= d) sum += t;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int before = sum - v[ITEMS - 1], total = 0;
    for (int w = 0; w < 8; ++w) {
        if (w < warp) before += warp_sums[w];
        total += warp_sums[w];
    }
    if (threadIdx.x == 0) {
        int prefix = 0;
        if (tile == 0) {
            state[0] = (2ull << 32) | (unsigned)total;
        } else {
            state[tile] = (1ull << 32) | (unsigned)total;
            for (int back = tile - 1; back >= 0; --back) {
                u64 s;
                do {
                    s = state[back];
                } while ((s >> 32) == 0);
                prefix += (int)(unsigned)s;
                if ((s >> 32) == 2) break;
            }
            __threadfence();
            state[tile] = (2ull << 32) | (unsigned)(prefix + total);
        }
        prefix_s = prefix;
    }
    __syncthreads();
    before += prefix_s;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        if (first + k < n) y[first + k] = v[k] + before;
}
