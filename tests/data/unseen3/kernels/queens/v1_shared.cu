/* ---
title = "The stack in shared memory, one word and undone moves, sums by warp"
change = "Only the open squares and the last queen are kept per row; diagonals are wide words, shifted back on the way up."
[[fill]]
name = "total"
value = 0
[[launch]]
kernel = "queens"
grid = ["cdiv(N * N * N, 64)"]
block = [64]
args = ["count", "total", "N"]
--- */
extern "C" __global__ void __launch_bounds__(64) queens(int* count, unsigned long long* total, int n) {
    __shared__ unsigned int stack[16][64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    const unsigned full = (1u << n) - 1;
    int found = 0;
    bool legal = i < n * n * n;
    unsigned cols = 0;
    unsigned long long left = 0, right = 0;  // bits 32 and up are the board; nothing falls off
    if (legal) {
        int rest = i;
        for (int k = 0; k < 3; ++k) {
            int q = k == 0 ? rest / (n * n) : k == 1 ? rest / n % n : rest % n;
            unsigned bit = 1u << q;
            if ((cols | (unsigned)(left >> 32) | (unsigned)(right >> 32)) & bit) {
                legal = false;
                break;
            }
            cols |= bit;
            left = (left | (unsigned long long)bit << 32) << 1;
            right = (right | (unsigned long long)bit << 32) >> 1;
        }
    }
    if (legal) {
        int depth = 0;
        unsigned open = full & ~(cols | (unsigned)(left >> 32) | (unsigned)(right >> 32));
        while (true) {
            if (open == 0) {
                found += cols == full;
                if (depth == 0) break;
                unsigned packed = stack[--depth][threadIdx.x];
                unsigned bit = 1u << (packed >> 27);
                open = packed & 0x7ffffffu;
                cols ^= bit;
                left = (left >> 1) ^ ((unsigned long long)bit << 32);
                right = (right << 1) ^ ((unsigned long long)bit << 32);
            } else {
                int q = __ffs(open) - 1;
                unsigned bit = 1u << q;
                open ^= bit;
                stack[depth++][threadIdx.x] = open | (unsigned)q << 27;
                cols |= bit;
                left = (left | (unsigned long long)bit << 32) << 1;
                right = (right | (unsigned long long)bit << 32) >> 1;
                open = full & ~(cols | (unsigned)(left >> 32) | (unsigned)(right >> 32));
            }
        }
    }
    if (i < n * n * n) count[i] = found;
    int sum = __reduce_add_sync(0xffffffffu, found);
    if ((threadIdx.x & 31) == 0 && sum) atomicAdd(total, (unsigned long long)sum);
}
