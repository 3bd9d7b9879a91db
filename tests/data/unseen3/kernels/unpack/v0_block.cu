/* ---
title = "A block of 128 threads per packed block, Hillis–Steele scan in shared memory"
[[launch]]
kernel = "decode"
grid = ["B"]
block = [128]
args = ["packed", "offset", "width", "first", "value"]
--- */
extern "C" __global__ void decode(const unsigned* __restrict__ packed, const int* __restrict__ offset,
                                  const unsigned char* __restrict__ width, const int* __restrict__ first, int* __restrict__ value) {
    __shared__ int sums[2][128];
    const int b = blockIdx.x, i = threadIdx.x, w = width[b], bit = i * w;
    const unsigned* src = packed + offset[b] + bit / 32;
    unsigned long long both = src[0];
    if (bit % 32 + w > 32) both |= (unsigned long long)src[1] << 32;
    sums[0][i] = (int)(both >> (bit % 32)) & ((1 << w) - 1);
    __syncthreads();
    int in = 0;
    for (int o = 1; o < 128; o *= 2) {
        sums[1 - in][i] = sums[in][i] + (i >= o ? sums[in][i - o] : 0);
        in = 1 - in;
        __syncthreads();
    }
    value[b * 128 + i] = first[b] + sums[in][i];
}
