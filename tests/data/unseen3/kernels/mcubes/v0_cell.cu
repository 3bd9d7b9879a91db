/* ---
title = "A thread per cell reads its eight corners"
[[fill]]
name = "active"
value = 0
[[launch]]
kernel = "classify"
grid = ["cdiv(NX - 1, 32)", "cdiv(NY - 1, 4)", "NZ - 1"]
block = [32, 4]
args = ["field", "code", "active", "NX", "NY"]
--- */
extern "C" __global__ void classify(const float* __restrict__ field, unsigned char* __restrict__ code, int* active,
                                    int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    bool surface = false;
    if (x < nx - 1 && y < ny - 1) {
        int c = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float v = field[((z + (k >> 2)) * ny + y + ((k >> 1) & 1)) * nx + x + (k & 1)];
            if (v > 0.f) c |= 1 << k;
        }
        code[(z * (ny - 1) + y) * (nx - 1) + x] = c;
        surface = c != 0 && c != 255;
    }
    int count = __syncthreads_count(surface);
    if (threadIdx.x == 0 && threadIdx.y == 0 && count) atomicAdd(active, count);
}
