#pragma once
__device__ __forceinline__ float load(const float* p, int i) {
  int at = i;
  return p[at];
}
