/* ---
title = "Depth first with a stack in a local array"
[[fill]]
name = "total"
value = 0
[[launch]]
kernel = "queens"
grid = ["cdiv(N * N * N, 128)"]
block = [128]
args = ["count", "total", "N"]
--- */
extern "C" __global__ void queens(int* count, unsigned long long* total, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * n * n) return;
    const unsigned full = (1u << n) - 1;
    unsigned cols[20], left[20], right[20], open[20];
    int top = 0;
    cols[0] = left[0] = right[0] = 0;
    int prefix[3] = {i / n / n, i / n % n, i % n};
    for (int k = 0; k < 3; ++k) {
        unsigned bit = 1u << prefix[k];
        if ((cols[0] | left[0] | right[0]) & bit) {
            count[i] = 0;
            return;
        }
        cols[0] |= bit;
        left[0] = (left[0] | bit) << 1 & full;
        right[0] = (right[0] | bit) >> 1;
    }
    open[0] = full & ~(cols[0] | left[0] | right[0]);
    int found = 0;
    while (top >= 0) {
        if (open[top] == 0) {
            if (cols[top] == full) ++found;
            --top;
            continue;
        }
        unsigned bit = open[top] & (0u - open[top]);
        open[top] ^= bit;
        cols[top + 1] = cols[top] | bit;
        left[top + 1] = (left[top] | bit) << 1 & full;
        right[top + 1] = (right[top] | bit) >> 1;
        ++top;
        open[top] = full & ~(cols[top] | left[top] | right[top]);
    }
    count[i] = found;
    if (found) atomicAdd(total, (unsigned long long)found);
}
