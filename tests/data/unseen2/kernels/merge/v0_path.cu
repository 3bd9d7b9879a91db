/* ---
title = "Merge path: diagonals by bisection, tiles in shared memory"
[defines]
TILE = 1024
[[launch]]
kernel = "merge"
grid = ["cdiv(A + B, TILE)"]
block = [128]
args = ["a", "A", "b", "B", "c"]
--- */
template <typename It>
__device__ int merge_path(It a, int na, It b, int nb, int diag)
{
    int begin = max(0, diag - nb);
    int end = min(diag, na);
    while (begin < end) {
        int mid = (begin + end) >> 1;
        if (a[mid] <= b[diag - 1 - mid])
            begin = mid + 1;
        else
            end = mid;
    }
    return begin;
}

extern "C" __global__ void merge(const int *a, int na, const int *b, int nb, int *c)
{
    __shared__ int keys[TILE + 2];
    __shared__ int bounds[2];
    int t = threadIdx.x;
    int d0 = blockIdx.x * TILE, d1 = min(d0 + TILE, na + nb);
    if (t < 2)
        bounds[t] = merge_path(a, na, b, nb, t ? d1 : d0);
    __syncthreads();
    int a0 = bounds[0], a1 = bounds[1];
    int b0 = d0 - a0, b1 = d1 - a1;
    int ca = a1 - a0, cb = b1 - b0;
    for (int i = t; i < ca; i += blockDim.x)
        keys[i] = a[a0 + i];
    for (int i = t; i < cb; i += blockDim.x)
        keys[ca + i] = b[b0 + i];
    __syncthreads();
    int diag = min(t * (TILE / 128), ca + cb);
    int i = merge_path((const int *)keys, ca, (const int *)keys + ca, cb, diag);
    int j = diag - i;
    int out[TILE / 128];
#pragma unroll
    for (int k = 0; k < TILE / 128; k++) {
        bool p = j >= cb || (i < ca && keys[i] <= keys[ca + j]);
        out[k] = p ? keys[i] : keys[ca + j];
        if (p)
            i++;
        else
            j++;
    }
    __syncthreads();
    for (int k = 0; k < TILE / 128; k++)
        keys[t * (TILE / 128) + k] = out[k];
    __syncthreads();
    for (int k = t; k < ca + cb; k += blockDim.x)
        c[d0 + k] = keys[k];
}
