/* ---
title  = "Rows are blended into shared memory first, results leave as words"
change = "A block does 256 pixels of four rows; each source byte of a row pair is read once, and its column taps are found once."
requires     = "SPAN <= 3000"
requires_why = "the blended row stands in shared memory"
[defines]
PIXELS = 256
ROWS   = 4
[[launch]]
kernel = "resize_rows"
grid   = ["cdiv(OW, PIXELS)", "cdiv(OH, ROWS)"]
block  = ["PIXELS"]
args   = ["src", "dst", ["W", "H"], ["OW", "OH"]]
dynamic_shared = "12 * SPAN"
--- */

struct Size {
    int width;
    int height;
};

struct Tap {
    int first;
    int second;
    float weight;
};

__device__ __forceinline__ Tap find_tap(int o, float scale, int limit) {
    const float f = fminf(fmaxf(fmaf(o + 0.5f, scale, -0.5f), 0.0f), limit - 1.0f);
    Tap tap;
    tap.first = __float2int_rd(f);
    tap.second = min(tap.first + 1, limit - 1);
    tap.weight = f - tap.first;
    return tap;
}

__device__ __forceinline__ float lerp(float a, float b, float t) {
    return fmaf(t, b - a, a);
}

extern "C" __global__ void __launch_bounds__(PIXELS)
resize_rows(const unsigned char* __restrict__ src, unsigned char* __restrict__ dst,
            const Size in, const Size out) {
    extern __shared__ float blended[];
    __shared__ unsigned int packed[3 * PIXELS / 4];
    unsigned char* const result = reinterpret_cast<unsigned char*>(packed);

    const float scale_x = (float)in.width / (float)out.width;
    const float scale_y = (float)in.height / (float)out.height;
    const int begin = blockIdx.x * PIXELS;
    const int count = min(PIXELS, out.width - begin);

    // The source columns that this block needs, and this thread's place among them.
    const int lo = find_tap(begin, scale_x, in.width).first;
    const int hi = find_tap(begin + count - 1, scale_x, in.width).second;
    const int span = 3 * (hi - lo + 1);
    const Tap column = find_tap(begin + min((int)threadIdx.x, count - 1), scale_x, in.width);
    const int left = 3 * (column.first - lo);
    const int right = 3 * (column.second - lo);

    for (int r = 0; r < ROWS; ++r) {
        const int oy = blockIdx.y * ROWS + r;
        if (oy >= out.height) break;

        const Tap row = find_tap(oy, scale_y, in.height);
        const unsigned char* upper = src + (row.first * in.width + lo) * 3;
        const unsigned char* lower = src + (row.second * in.width + lo) * 3;
        for (int b = threadIdx.x; b < span; b += PIXELS) {
            blended[b] = lerp(__ldg(upper + b), __ldg(lower + b), row.weight);
        }
        __syncthreads();

#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const float value = lerp(blended[left + c], blended[right + c], column.weight);
            result[3 * threadIdx.x + c] = (unsigned char)(value + 0.5f);
        }
        __syncthreads();

        unsigned char* to = dst + (oy * out.width + begin) * 3;
        if (out.width % 4 == 0) {
            unsigned int* words = reinterpret_cast<unsigned int*>(to);
            for (int i = threadIdx.x; i < 3 * count / 4; i += PIXELS) words[i] = packed[i];
        } else {
            for (int i = threadIdx.x; i < 3 * count; i += PIXELS) to[i] = result[i];
        }
    }
}
