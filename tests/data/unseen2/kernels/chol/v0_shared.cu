/* ---
title = "A block a matrix, right-looking in shared memory"
[[launch]]
kernel = "chol"
grid = ["B"]
block = [16, 16]
args = ["a", "l", "N"]
dynamic_shared = "4 * N * N"
--- */
extern "C" __global__ void chol(const float *a, float *l, int n)
{
    extern __shared__ float m[];
    int i = threadIdx.y, j = threadIdx.x;
    a += blockIdx.x * n * n;
    l += blockIdx.x * n * n;
    m[i * n + j] = a[i * n + j];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (i == k && j == k)
            m[k * n + k] = sqrtf(m[k * n + k]);
        __syncthreads();
        if (j == k && i > k)
            m[i * n + k] /= m[k * n + k];
        __syncthreads();
        if (j > k && i >= j)
            m[i * n + j] -= m[i * n + k] * m[j * n + k];
        __syncthreads();
    }
    l[i * n + j] = j <= i ? m[i * n + j] : 0.0f;
}
