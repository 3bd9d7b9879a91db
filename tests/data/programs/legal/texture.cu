// Right: textures over an array (linear filter, addresses beyond the border) and over linear
// memory; what lies beyond is defined by the address mode.
#include <cstdio>

__global__ void sample(cudaTextureObject_t image, cudaTextureObject_t line, float* out) {
  int i = threadIdx.x;
  out[i] = tex2D<float>(image, i - 1.0f, 1.5f);
  out[16 + i] = tex1Dfetch<float>(line, 15 - i);
}

int main() {
  float h[8][8], l[16], r[32], *linear, *out;
  for (int y = 0; y < 8; y++)
    for (int x = 0; x < 8; x++) h[y][x] = 10 * y + x;
  for (int i = 0; i < 16; i++) l[i] = i * i;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  cudaMallocArray(&array, &format, 8, 8);
  cudaMemcpy2DToArray(array, 0, 0, h, sizeof h[0], sizeof h[0], 8, cudaMemcpyHostToDevice);
  cudaMalloc(&linear, sizeof l);
  cudaMemcpy(linear, l, sizeof l, cudaMemcpyHostToDevice);
  cudaMalloc(&out, sizeof r);
  cudaResourceDesc of_array = {}, of_line = {};
  of_array.resType = cudaResourceTypeArray;
  of_array.res.array.array = array;
  of_line.resType = cudaResourceTypeLinear;
  of_line.res.linear.devPtr = linear;
  of_line.res.linear.desc = format;
  of_line.res.linear.sizeInBytes = sizeof l;
  cudaTextureDesc how = {}, plain = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t image, line;
  cudaCreateTextureObject(&image, &of_array, &how, nullptr);
  cudaCreateTextureObject(&line, &of_line, &plain, nullptr);
  sample<<<1, 16>>>(image, line, out);
  bool right = cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost) == cudaSuccess;
  for (int i = 0; i < 16; i++) {
    float x = i - 1.5f;
    float want = 10 + (x < 0 ? 0 : x > 7 ? 7 : x);
    right &= r[i] == want && r[16 + i] == (15 - i) * (15 - i);
  }
  puts(right ? "right" : "WRONG");
  cudaDestroyTextureObject(image);
  cudaDestroyTextureObject(line);
}
