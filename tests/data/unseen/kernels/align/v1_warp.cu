/* ---
title = "A warp a pair, eight rows a lane, neighbours by shuffles"
requires = "L <= 256"
[[launch]]
kernel = "lcs"
grid   = ["cdiv(P, 4)"]
block  = [128]
args   = ["a", "b", "length", "P", "L"]
--- */

#define R 8

extern "C" __global__ void lcs(const signed char* __restrict__ a, const signed char* __restrict__ b,
                               int* length, int P, int L) {
    int pair = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (pair >= P) return;
    signed char mine[R];
    int row[R] = {};
#pragma unroll
    for (int k = 0; k < R; k++) {
        int i = lane * R + k;
        mine[k] = i < L ? a[pair * L + i] : -1;
    }
    int diagonal = 0, answer = 0;
    for (int t = 0; t < L + 31; t++) {
        int above = __shfl_up_sync(0xffffffff, row[R - 1], 1);
        if (lane == 0) above = 0;
        int j = t - lane, corner = diagonal;
        if (j >= 0 && j < L) {
            signed char c = __ldg(&b[pair * L + j]);
            diagonal = above;
#pragma unroll
            for (int k = 0; k < R; k++) {
                int old = row[k];
                row[k] = mine[k] == c ? corner + 1 : max(above, old);
                corner = old;
                above = row[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < R; k++)
        if (lane * R + k == L - 1) answer = row[k];
    if ((L - 1) / R == lane) length[pair] = answer;
}
