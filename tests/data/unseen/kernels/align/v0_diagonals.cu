/* ---
title = "A block a pair, three diagonals in shared memory"
requires = "L <= 256"
[[launch]]
kernel = "lcs"
grid   = ["P"]
block  = [256]
args   = ["a", "b", "length", "L"]
--- */

extern "C" __global__ void lcs(const signed char* a, const signed char* b, int* length, int L) {
    __shared__ short d[3][257];
    __shared__ signed char sb[256];
    int i = threadIdx.x;
    signed char mine = i < L ? a[blockIdx.x * L + i] : -1;
    if (i < L) sb[i] = b[blockIdx.x * L + i];
    for (int k = i; k < 3 * 257; k += blockDim.x) d[k / 257][k % 257] = 0;
    __syncthreads();
    for (int t = 0; t < 2 * L - 1; t++) {
        short* now = d[t % 3];
        short* one = d[(t + 2) % 3];
        short* two = d[(t + 1) % 3];
        int j = t - i;
        if (i < L && j >= 0 && j < L) {
            short v = max(one[i], j > 0 ? one[i + 1] : (short)0);
            if (mine == sb[j]) v = (j > 0 ? two[i] : 0) + 1;
            now[i + 1] = v;
        }
        __syncthreads();
    }
    if (i == L - 1) length[blockIdx.x] = d[(2 * L - 2) % 3][L];
}
