/* ---
title = "Ranks by match_any in one block per chunk, scan in parallel, 16-byte row copies"
change = "Lanes of one expert find each other by __match_any_sync; the scan takes an expert per warp; rows move as uint4."
requires = "E <= 32 and D % 8 == 0"
requires_why = "experts fit into a warp, rows are whole 16-byte chunks"
[defines]
TPB = 256
[[scratch]]
name = "counts"
dtype = "int32"
shape = ["cdiv(T, TPB) * E"]
[[scratch]]
name = "local"
dtype = "int32"
shape = ["T"]
[[launch]]
kernel = "rank"
grid = ["cdiv(T, TPB)"]
block = ["TPB"]
args = ["expert", "counts", "local", "T", "E"]
[[launch]]
kernel = "scan"
grid = [1]
block = [32, "E"]
args = ["counts", "offset", "cdiv(T, TPB)", "E"]
[[launch]]
kernel = "move"
grid = ["cdiv(T, 8)"]
block = [256]
args = ["expert", "counts", "local", "x", "dest", "y", "T", "D", "E"]
--- */
constexpr int WARPS = TPB / 32;

extern "C" __global__ void __launch_bounds__(TPB) rank(const int* __restrict__ expert, int* __restrict__ counts,
                                                       int* __restrict__ local, int t, int e) {
    __shared__ int per_warp[WARPS][32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = blockIdx.x * TPB + threadIdx.x;
    per_warp[warp][lane] = 0;
    __syncwarp();
    const int mine = i < t ? expert[i] : -1;
    const unsigned same = __match_any_sync(0xffffffffu, mine);
    const int before = __popc(same & ((1u << lane) - 1));
    if (before == 0 && mine >= 0) per_warp[warp][mine] = __popc(same);
    __syncthreads();
    if (warp == 0) {
        int sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            int c = per_warp[w][lane];
            per_warp[w][lane] = sum;
            sum += c;
        }
        if (lane < e) counts[lane * gridDim.x + blockIdx.x] = sum;
    }
    __syncthreads();
    if (mine >= 0) local[i] = per_warp[warp][mine] + before;
}

extern "C" __global__ void scan(int* counts, int* offset, int blocks, int e) {
    __shared__ int start[33];
    const int lane = threadIdx.x, x = threadIdx.y;
    int total = 0;
    for (int b = lane; b < blocks; b += 32) total += counts[x * blocks + b];
    total = __reduce_add_sync(0xffffffffu, total);
    if (lane == 0) start[x + 1] = total;
    if (lane == 0 && x == 0) start[0] = 0;
    __syncthreads();
    if (lane == 0 && x == 0)
        for (int k = 0; k < e; ++k) start[k + 1] += start[k];
    __syncthreads();
    int base = start[x];
    if (lane == 0) offset[x] = base;
    if (lane == 0 && x == e - 1) offset[e] = start[e];
    for (int b0 = 0; b0 < blocks; b0 += 32) {
        const int b = b0 + lane;
        const int c = b < blocks ? counts[x * blocks + b] : 0;
        int sum = c;
#pragma unroll
        for (int o = 1; o < 32; o <<= 1) {
            int up = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += up;
        }
        if (b < blocks) counts[x * blocks + b] = base + sum - c;
        base += __shfl_sync(0xffffffffu, sum, 31);
    }
}

extern "C" __global__ void __launch_bounds__(256) move(const int* __restrict__ expert, const int* __restrict__ counts,
                                                       const int* __restrict__ local, const uint4* __restrict__ x,
                                                       int* __restrict__ dest, uint4* __restrict__ y, int t, int d, int e) {
    const int token = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= t) return;
    const int blocks = (t + TPB - 1) / TPB;
    const int to = counts[expert[token] * blocks + token / TPB] + local[token];
    if (lane == 0) dest[token] = to;
    const int chunks = d / 8;
    for (int c = lane; c < chunks; c += 32) y[to * chunks + c] = x[token * chunks + c];
}
