/* ---
title = "Two"
[[launch]]
kernel = "one"
grid = [4]
block = [256]
--- */
extern "C" __global__ void one(float* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
}
