/* ---
title = "Grid-stride sums, a tree in shared memory, then one block over the partial sums"
[defines]
THREADS = 256
[[scratch]]
name = "partial"
dtype = "float32"
shape = ["4 * min(cdiv(N, THREADS), 512)"]
[[launch]]
kernel = "partial_sums"
grid = ["min(cdiv(N, THREADS), 512)"]
block = ["THREADS"]
args = ["x", "y", "partial", "N"]
[[launch]]
kernel = "final_sums"
grid = [1]
block = ["THREADS"]
args = ["partial", "min(cdiv(N, THREADS), 512)", "dot", "nrm2", "asum"]
--- */

// Adds up the THREADS entries of each of the four rows; the totals end in column 0.
__device__ void tree(float sums[4][THREADS]) {
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (threadIdx.x < stride) {
            for (int q = 0; q < 4; q++)
                sums[q][threadIdx.x] += sums[q][threadIdx.x + stride];
        }
    }
    __syncthreads();
}

extern "C" __global__ void partial_sums(const float* x, const float* y, float* partial, int n) {
    __shared__ float sums[4][THREADS];
    float dot = 0.0f;
    float xx = 0.0f;
    float yy = 0.0f;
    float ax = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        dot += x[i] * y[i];
        xx += x[i] * x[i];
        yy += y[i] * y[i];
        ax += fabsf(x[i]);
    }
    sums[0][threadIdx.x] = dot;
    sums[1][threadIdx.x] = xx;
    sums[2][threadIdx.x] = yy;
    sums[3][threadIdx.x] = ax;
    tree(sums);
    if (threadIdx.x < 4) partial[threadIdx.x * gridDim.x + blockIdx.x] = sums[threadIdx.x][0];
}

extern "C" __global__ void final_sums(const float* partial, int blocks, float* dot, float* nrm2, float* asum) {
    __shared__ float sums[4][THREADS];
    for (int q = 0; q < 4; q++) {
        float sum = 0.0f;
        for (int b = threadIdx.x; b < blocks; b += THREADS) sum += partial[q * blocks + b];
        sums[q][threadIdx.x] = sum;
    }
    tree(sums);
    if (threadIdx.x == 0) {
        dot[0] = sums[0][0];
        nrm2[0] = sqrtf(sums[1][0]);
        nrm2[1] = sqrtf(sums[2][0]);
        asum[0] = sums[3][0];
    }
}
