/* ---
title  = "One position per thread, letter by letter"
change = "Stops at the first letter that differs; every hit is one atomic in global memory."
[[fill]]
name  = "counts"
value = 0
[[launch]]
kernel = "search"
grid   = ["cdiv(N, 256)"]
block  = [256]
args   = ["text", "patterns", "lengths", "marks", "counts", "N", "P"]
--- */

__device__ bool begins_with(const unsigned char* text, const unsigned char* pattern, int length) {
    for (int j = 0; j < length; j++) {
        if (text[j] != pattern[j]) return false;
    }
    return true;
}

extern "C" __global__ void search(const unsigned char* text, const unsigned char* patterns,
                                  const int* lengths, unsigned char* marks, int* counts,
                                  int n, int pattern_count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;

    int mark = 0;
    for (int p = 0; p < pattern_count; p++) {
        int length = lengths[p];
        if (i + length > n) continue;
        if (begins_with(text + i, patterns + 16 * p, length)) {
            mark |= 1 << p;
            atomicAdd(&counts[p], 1);
        }
    }
    marks[i] = mark;
}
