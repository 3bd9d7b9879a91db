/* ---
title = "Hillis and Steele, double buffered; block sums scanned by one block"
[[scratch]]
name  = "sums"
dtype = "int32"
shape = ["cdiv(N, 512)"]
[[launch]]
kernel = "scan_blocks"
grid   = ["cdiv(N, 512)"]
block  = [512]
args   = ["x", "y", "sums", "N"]
[[launch]]
kernel = "scan_sums"
grid   = [1]
block  = [1024]
args   = ["sums", "cdiv(N, 512)"]
[[launch]]
kernel = "add_sums"
grid   = ["cdiv(N, 512)"]
block  = [512]
args   = ["y", "sums", "N"]
--- */

extern "C" __global__ void scan_blocks(const int* in, int* out, int* sums, int n) {
    __shared__ int temp[2][512];
    int tid = threadIdx.x, i = blockIdx.x * 512 + tid;
    int pout = 0, pin = 1;
    temp[0][tid] = i < n ? in[i] : 0;
    __syncthreads();
    for (int offset = 1; offset < 512; offset *= 2) {
        pout = 1 - pout;
        pin = 1 - pout;
        if (tid >= offset)
            temp[pout][tid] = temp[pin][tid] + temp[pin][tid - offset];
        else
            temp[pout][tid] = temp[pin][tid];
        __syncthreads();
    }
    if (i < n) out[i] = temp[pout][tid];
    if (tid == 511) sums[blockIdx.x] = temp[pout][511];
}

extern "C" __global__ void scan_sums(int* sums, int n) {
    __shared__ int s[1024];
    int tid = threadIdx.x;
    s[tid] = tid < n ? sums[tid] : 0;
    __syncthreads();
    for (int d = 1; d < 1024; d <<= 1) {
        int t = 0;
        if (tid >= d) t = s[tid - d];
        __syncthreads();
        s[tid] += t;
        __syncthreads();
    }
    if (tid < n) sums[tid] = s[tid];
}

extern "C" __global__ void add_sums(int* y, const int* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) y[i] += sums[blockIdx.x - 1];
}
