__constant__ float weight[64];
extern "C" __global__ void fir(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float acc = 0.f;
  for (int k = 0; k < 64; ++k)
    acc += weight[k] * in[i + k];
  out[i] = acc;
}
