/* ---
title = "One"
[[launch]]
kernel = "one"
grid = [8]
block = [128]
--- */
extern "C" __global__ void one(float* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
}
