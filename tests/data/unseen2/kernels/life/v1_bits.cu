/* ---
title = "A lane a cell, ballot packs the word, DSMEM free tile of rows in shared memory"
[[launch]]
kernel = "life"
grid = ["W", "cdiv(H, 8)"]
block = [32, 8]
args = ["cells", "next", "W", "H"]
--- */
extern "C" __global__ void life(const unsigned* __restrict__ in, unsigned* __restrict__ out, int w, int h) {
    __shared__ unsigned rows[10][3];
    const int lane = threadIdx.x, ty = threadIdx.y, y0 = blockIdx.y * 8, x = blockIdx.x;
    const int t = ty * 32 + lane;
    if (t < 30) {
        int r = t / 3, c = t % 3;
        rows[r][c] = in[((y0 + r - 1 + h) % h) * w + (x + c - 1 + w) % w];
    }
    __syncthreads();
    int n = 0;
#pragma unroll
    for (int dy = 0; dy < 3; ++dy) {
        const unsigned long long lo = (unsigned long long)rows[ty + dy][1] << 1 | rows[ty + dy][0] >> 31;
        const unsigned long long all = lo | (unsigned long long)(rows[ty + dy][2] & 1) << 33;
        n += __popc((unsigned)(all >> lane) & 7);
    }
    const bool alive = rows[ty + 1][1] >> lane & 1;
    n -= alive;
    const unsigned word = __ballot_sync(0xffffffff, n == 3 || (n == 2 && alive));
    if (lane == 0 && y0 + ty < h) out[(y0 + ty) * w + x] = word;
}
