/* ---
title = "Gaussian table in constant memory, __expf"
[[launch]]
kernel = "bilateral"
grid = ["cdiv(W, 16)", "cdiv(H, 16)"]
block = [16, 16]
args = ["img", "out", "W", "H", 2, 0.3]
--- */
__constant__ float cGaussian[5] = {0.60653066f, 0.88249690f, 1.0f, 0.88249690f, 0.60653066f};

__device__ float euclideanLen(float a, float b, float d)
{
    float mod = (b - a) * (b - a);
    return __expf(-mod / (2.f * d * d));
}

__device__ int clampi(int v, int lo, int hi) { return max(lo, min(v, hi)); }

extern "C" __global__ void bilateral(const float *img, float *out, int w, int h, int r, float e_d)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) {
        return;
    }
    float sum = 0.0f;
    float factor;
    float t = 0.f;
    float center = img[y * w + x];
    for (int i = -r; i <= r; i++) {
        for (int j = -r; j <= r; j++) {
            float curPix = img[clampi(y + i, 0, h - 1) * w + clampi(x + j, 0, w - 1)];
            factor = cGaussian[i + r] * cGaussian[j + r] * euclideanLen(curPix, center, e_d);
            t += factor * curPix;
            sum += factor;
        }
    }
    out[y * w + x] = t / sum;
}
