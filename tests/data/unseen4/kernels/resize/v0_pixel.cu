/* ---
title  = "One output pixel per thread"
change = "Twelve byte loads, three byte stores."
[[launch]]
kernel = "resize_bilinear"
grid   = ["cdiv(OW, 32)", "cdiv(OH, 8)"]
block  = [32, 8]
args   = ["src", "dst", ["W", "H"], ["OW", "OH"]]
--- */

struct Size {
    int width;
    int height;
};

extern "C" __global__ void resize_bilinear(const unsigned char* src, unsigned char* dst,
                                           Size in, Size out) {
    const int ox = blockIdx.x * blockDim.x + threadIdx.x;
    const int oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= out.width || oy >= out.height) return;

    const float scale_x = (float)in.width / (float)out.width;
    const float scale_y = (float)in.height / (float)out.height;
    float fx = (ox + 0.5f) * scale_x - 0.5f;
    float fy = (oy + 0.5f) * scale_y - 0.5f;
    fx = fminf(fmaxf(fx, 0.0f), in.width - 1.0f);
    fy = fminf(fmaxf(fy, 0.0f), in.height - 1.0f);

    const int x0 = (int)floorf(fx);
    const int y0 = (int)floorf(fy);
    const int x1 = min(x0 + 1, in.width - 1);
    const int y1 = min(y0 + 1, in.height - 1);
    const float wx = fx - x0;
    const float wy = fy - y0;

    for (int c = 0; c < 3; ++c) {
        const float p00 = src[(y0 * in.width + x0) * 3 + c];
        const float p01 = src[(y0 * in.width + x1) * 3 + c];
        const float p10 = src[(y1 * in.width + x0) * 3 + c];
        const float p11 = src[(y1 * in.width + x1) * 3 + c];
        const float top = p00 * (1.0f - wx) + p01 * wx;
        const float bottom = p10 * (1.0f - wx) + p11 * wx;
        const float value = top * (1.0f - wy) + bottom * wy;
        dst[(oy * out.width + ox) * 3 + c] = (unsigned char)(value + 0.5f);
    }
}
