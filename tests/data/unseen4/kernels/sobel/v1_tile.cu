/* ---
title  = "Tile with halo in shared memory, four pixels per thread"
change = "Pixels travel as uchar4; each column's vertical sums are shared by the pixels next to it."
[[launch]]
kernel = "sobel"
grid   = ["cdiv(W, 128)", "cdiv(H, 8)"]
block  = [32, 8]
args   = ["image", "magnitude", "edges", "W", "H", "T"]
--- */

#define TILE_W 128                    // four pixels for each of 32 lanes
#define TILE_H 8
#define PITCH_WORDS (TILE_W / 4 + 2)  // a word of halo at either side

__device__ __forceinline__ int clamped(int i, int limit) {
    return min(max(i, 0), limit - 1);
}

extern "C" __global__ void __launch_bounds__(256)
sobel(const unsigned char* __restrict__ image, unsigned char* __restrict__ magnitude,
      unsigned char* __restrict__ edges, int width, int height, int threshold) {
    __shared__ uchar4 tile[TILE_H + 2][PITCH_WORDS];

    const int lane = threadIdx.x;
    const int x0 = blockIdx.x * TILE_W;
    const int y0 = blockIdx.y * TILE_H;
    const int x = x0 + 4 * lane;
    const bool aligned = width % 4 == 0;

    for (int r = threadIdx.y; r < TILE_H + 2; r += TILE_H) {
        const unsigned char* row = image + clamped(y0 + r - 1, height) * width;
        uchar4 word;
        if (aligned && x < width) {
            word = *reinterpret_cast<const uchar4*>(row + x);
        } else {
            word.x = row[clamped(x, width)];
            word.y = row[clamped(x + 1, width)];
            word.z = row[clamped(x + 2, width)];
            word.w = row[clamped(x + 3, width)];
        }
        tile[r][lane + 1] = word;
        if (lane == 0) {
            tile[r][0] = make_uchar4(0, 0, 0, row[clamped(x0 - 1, width)]);
        } else if (lane == 31) {
            tile[r][PITCH_WORDS - 1] = make_uchar4(row[clamped(x0 + TILE_W, width)], 0, 0, 0);
        }
    }
    __syncthreads();

    const int y = y0 + threadIdx.y;
    if (x >= width || y >= height) return;

    // Six columns: one to the left, the four of this thread, one to the right.
    int smooth[6];
    int slope[6] = {0, 0, 0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 6; ++i) smooth[i] = 0;
#pragma unroll
    for (int r = 0; r < 3; ++r) {
        const uchar4 left = tile[threadIdx.y + r][lane];
        const uchar4 mid = tile[threadIdx.y + r][lane + 1];
        const uchar4 right = tile[threadIdx.y + r][lane + 2];
        const int column[6] = {left.w, mid.x, mid.y, mid.z, mid.w, right.x};
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            smooth[i] += (r == 1 ? 2 : 1) * column[i];
            slope[i] += (r - 1) * column[i];
        }
    }

    unsigned char mag[4];
    unsigned char edge[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int gx = smooth[i + 2] - smooth[i];
        const int gy = slope[i] + 2 * slope[i + 1] + slope[i + 2];
        const int m = min(__float2int_rz(sqrtf(__int2float_rn(gx * gx + gy * gy))), 255);
        mag[i] = m;
        edge[i] = m > threshold ? 255 : 0;
    }

    const int at = y * width + x;
    if (aligned) {
        *reinterpret_cast<uchar4*>(magnitude + at) = make_uchar4(mag[0], mag[1], mag[2], mag[3]);
        *reinterpret_cast<uchar4*>(edges + at) = make_uchar4(edge[0], edge[1], edge[2], edge[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (x + i < width) {
                magnitude[at + i] = mag[i];
                edges[at + i] = edge[i];
            }
        }
    }
}
