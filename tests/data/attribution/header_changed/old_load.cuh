#pragma once
__device__ __forceinline__ float load(const float* p, int i) {
  int at = i * 2;
  return p[at];
}
