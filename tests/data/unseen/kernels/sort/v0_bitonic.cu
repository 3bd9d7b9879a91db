/* ---
title = "Bitonic, an element a thread"
[[launch]]
kernel = "bitonic"
grid   = ["S"]
block  = [1024]
args   = ["x", "y"]
--- */

extern "C" __global__ void bitonic(const int* x, int* y) {
    __shared__ int s[1024];
    int tid = threadIdx.x;
    s[tid] = x[blockIdx.x * 1024 + tid];
    __syncthreads();
    for (int k = 2; k <= 1024; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            int ixj = tid ^ j;
            if (ixj > tid) {
                if ((tid & k) == 0) {
                    if (s[tid] > s[ixj]) {
                        int t = s[tid];
                        s[tid] = s[ixj];
                        s[ixj] = t;
                    }
                } else {
                    if (s[tid] < s[ixj]) {
                        int t = s[tid];
                        s[tid] = s[ixj];
                        s[ixj] = t;
                    }
                }
            }
            __syncthreads();
        }
    }
    y[blockIdx.x * 1024 + tid] = s[tid];
}
