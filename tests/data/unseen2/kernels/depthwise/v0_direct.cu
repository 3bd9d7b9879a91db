/* ---
title = "Grid-stride over all outputs, as Caffe and PyTorch do"
[[launch]]
kernel = "depthwise"
grid = ["min(cdiv(C * H * W, 256), 64)"]
block = [256]
args = ["x", "w", "b", "y", "C", "H", "W"]
--- */
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

extern "C" __global__ void depthwise(const float *const bottom_data, const float *const weight_data, const float *const bias, float *const top_data, const int channels, const int height, const int width)
{
    CUDA_KERNEL_LOOP(index, channels * height * width) {
        const int c = index / (height * width);
        const int h = (index / width) % height;
        const int w = index % width;
        const float *weight = weight_data + c * 9;
        float value = bias[c];
        for (int kh = 0; kh < 3; ++kh) {
            for (int kw = 0; kw < 3; ++kw) {
                const int h_in = -1 + h + kh;
                const int w_in = -1 + w + kw;
                if ((h_in >= 0) && (h_in < height) && (w_in >= 0) && (w_in < width)) {
                    const int offset = (c * height + h_in) * width + w_in;
                    value += (*weight) * bottom_data[offset];
                }
                ++weight;
            }
        }
        top_data[index] = value;
    }
}
