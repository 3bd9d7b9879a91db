/* ---
title = "A thread a message, table in constant memory, bytes"
[[fill]]
name = "c_table"
input = "table"
[[launch]]
kernel = "crc32"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["msg", "crc", "N"]
--- */
__constant__ unsigned int c_table[256];

extern "C" __global__ void crc32(const unsigned char *msg, unsigned int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned int crc = 0xFFFFFFFFu;
    const unsigned char *p = msg + i * 64;
    for (int k = 0; k < 64; k++)
        crc = c_table[(crc ^ *p++) & 0xFF] ^ (crc >> 8);
    out[i] = ~crc;
}
