// Right: one block of dynamic shared memory, above 48 KiB after asking for it, is cut into a double,
// a float and a byte array, each aligned for its type.
#include <cstdio>

__global__ void mix(const double* in, double* out, int n) {
  extern __shared__ __align__(16) unsigned char space[];
  double* d = reinterpret_cast<double*>(space);
  float* f = reinterpret_cast<float*>(d + n);
  unsigned char* c = reinterpret_cast<unsigned char*>(f + n);
  for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = in[i], f[i] = float(i), c[i] = i % 7;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int j = n - 1 - i;
    out[i] = d[j] + f[j] + c[j];
  }
}

int main() {
  const int n = 5000, bytes = n * (sizeof(double) + sizeof(float) + 1);
  static double h[n];
  for (int i = 0; i < n; i++) h[i] = 1000.0 * i;
  double *in, *out;
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&out, sizeof h);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  bool right = cudaFuncSetAttribute(mix, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess;
  mix<<<2, 256, bytes>>>(in, out, n);
  right &= cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost) == cudaSuccess;
  for (int i = 0, j = n - 1; i < n; i++, j--) right &= h[i] == 1000.0 * j + j + j % 7;
  puts(right ? "right" : "WRONG");
}
