/* ---
title = "Wrong: four floats at once from an address of no multiple of 16 bytes"
[[launch]]
kernel = "blur"
grid   = ["cdiv(W, 64)", "H"]
block  = [16]
args   = ["image", "weight", "out", "H", "W"]
--- */
__global__ void blur(const float *image, const float *weight, float *out, int H, int W) {
    int row = blockIdx.y;
    int col = (blockIdx.x * 16 + threadIdx.x) * 4;
    if (col >= W) return;
    float sum[4] = {};
    for (int dy = -1; dy <= 1; ++dy) {
        if (row + dy < 0 || row + dy >= H) continue;
        const float *line = image + (row + dy) * W + col;
        float v[6] = {};
        if (col > 0) v[0] = line[-1];
        if (col + 4 < W) v[5] = line[4];
        if (col + 3 < W) {
            float4 four = *(const float4 *)line;  // <- wrong
            v[1] = four.x, v[2] = four.y, v[3] = four.z, v[4] = four.w;
        } else {
            for (int i = 0; i < 4; ++i)
                if (col + i < W) v[1 + i] = line[i];
        }
        for (int i = 0; i < 4; ++i)
            for (int dx = 0; dx < 3; ++dx) sum[i] += weight[(dy + 1) * 3 + dx] * v[i + dx];
    }
    for (int i = 0; i < 4; ++i)
        if (col + i < W) out[row * W + col + i] = sum[i];
}
