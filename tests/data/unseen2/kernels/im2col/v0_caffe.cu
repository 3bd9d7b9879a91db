/* ---
title = "Caffe's im2col"
[[launch]]
kernel = "im2col"
grid = ["cdiv(C * H * W, 128)"]
block = [128]
args = ["C * H * W", "x", "H", "W", "y"]
--- */
extern "C" __global__ void im2col(const int n, const float *data_im, const int height, const int width, float *data_col)
{
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < n; index += blockDim.x * gridDim.x) {
        const int h_index = index / width;
        const int h_col = h_index % height;
        const int w_col = index % width;
        const int c_im = h_index / height;
        const int c_col = c_im * 9;
        const int h_offset = h_col - 1;
        const int w_offset = w_col - 1;
        float *data_col_ptr = data_col;
        data_col_ptr += (c_col * height + h_col) * width + w_col;
        const float *data_im_ptr = data_im;
        data_im_ptr += (c_im * height + h_offset) * width + w_offset;
        for (int i = 0; i < 3; ++i) {
            for (int j = 0; j < 3; ++j) {
                int h_im = h_offset + i;
                int w_im = w_offset + j;
                *data_col_ptr = (h_im >= 0 && w_im >= 0 && h_im < height && w_im < width)
                                    ? data_im_ptr[i * width + j]
                                    : 0;
                data_col_ptr += height * width;
            }
        }
    }
}
