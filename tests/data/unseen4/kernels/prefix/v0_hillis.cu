/* ---
title = "Scan each tile in shared memory, scan the tiles' sums, add them back"
[defines]
TILE = 512
[[scratch]]
name = "tile_sum"
dtype = "float32"
shape = ["cdiv(N, TILE)"]
[[scratch]]
name = "tile_first"
dtype = "int32"
shape = ["cdiv(N, TILE)"]
[[launch]]
kernel = "scan_tiles"
grid = ["cdiv(N, TILE)"]
block = ["TILE"]
args = ["x", "head", "y", "tile_sum", "tile_first", "N"]
[[launch]]
kernel = "scan_sums"
grid = [1]
block = ["TILE"]
args = ["tile_sum", "tile_first", "cdiv(N, TILE)"]
[[launch]]
kernel = "add_carry"
grid = ["cdiv(N, TILE)"]
block = ["TILE"]
args = ["tile_sum", "tile_first", "y", "N"]
--- */

// Inclusive segmented scan over the block after Hillis and Steele. There are two copies of the
// array, one to read from and one to write to; the result is the copy that is returned.
__device__ int block_scan(float sum[2][TILE], int flag[2][TILE]) {
    int t = threadIdx.x;
    int from = 0;
    __syncthreads();
    for (int step = 1; step < TILE; step *= 2) {
        int to = 1 - from;
        float s = sum[from][t];
        int f = flag[from][t];
        if (t >= step) {
            if (!f) s += sum[from][t - step];
            f |= flag[from][t - step];
        }
        sum[to][t] = s;
        flag[to][t] = f;
        __syncthreads();
        from = to;
    }
    return from;
}

extern "C" __global__ void scan_tiles(const float* x, const unsigned char* head, float* y, float* tile_sum,
                                      int* tile_first, int n) {
    __shared__ float sum[2][TILE];
    __shared__ int flag[2][TILE];
    __shared__ int first;
    int t = threadIdx.x;
    int i = blockIdx.x * TILE + t;
    if (t == 0) first = TILE;
    sum[0][t] = i < n ? x[i] : 0.0f;
    flag[0][t] = i < n ? head[i] : 0;
    __syncthreads();
    if (flag[0][t]) atomicMin(&first, t);

    int result = block_scan(sum, flag);
    if (i < n) y[i] = sum[result][t];
    if (t == TILE - 1) {
        tile_sum[blockIdx.x] = sum[result][t];
        tile_first[blockIdx.x] = first;  // TILE if no segment starts in this tile
    }
}

// One block goes over all tiles, TILE of them at a time.
extern "C" __global__ void scan_sums(float* tile_sum, const int* tile_first, int tiles) {
    __shared__ float sum[2][TILE];
    __shared__ int flag[2][TILE];
    int t = threadIdx.x;
    float carry = 0.0f;
    for (int base = 0; base < tiles; base += TILE) {
        bool inside = base + t < tiles;
        sum[0][t] = inside ? tile_sum[base + t] : 0.0f;
        flag[0][t] = inside && tile_first[base + t] < TILE;
        int result = block_scan(sum, flag);
        float s = sum[result][t];
        if (!flag[result][t]) s += carry;
        if (inside) tile_sum[base + t] = s;
        float last = sum[result][TILE - 1];
        carry = flag[result][TILE - 1] ? last : last + carry;
        __syncthreads();
    }
}

extern "C" __global__ void add_carry(const float* tile_sum, const int* tile_first, float* y, int n) {
    int i = blockIdx.x * TILE + threadIdx.x;
    if (blockIdx.x == 0) return;
    if (i >= n) return;
    if (threadIdx.x < tile_first[blockIdx.x]) y[i] += tile_sum[blockIdx.x - 1];
}
