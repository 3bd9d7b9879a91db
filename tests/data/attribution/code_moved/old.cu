extern "C" __global__ void pipeline(const float* in, float* out, int n) {
  __shared__ float buffer[256];
  int i = threadIdx.x;
  float low = in[i];
  float high = in[i + 256];
  float mid = in[i + 128];
  buffer[i] = 0.5f;
  __syncthreads();
  for (int k = 0; k < n; ++k)
    buffer[i] = buffer[i] * 0.25f + 1.0f;
  __syncthreads();
  out[i] = buffer[255 - i] + low * high + mid;
}
