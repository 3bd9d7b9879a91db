/* ---
title = "Signs as bits: one ballot per row of 32 samples, marching along z"
change = "A sample is read once per block; neighbours come out of words of sign bits in shared memory."
[[fill]]
name = "active"
value = 0
[[launch]]
kernel = "classify"
grid = ["cdiv(NX - 1, 31)", "cdiv(NY - 1, 7)"]
block = [32, 8]
args = ["field", "code", "active", "NX", "NY", "NZ"]
--- */
extern "C" __global__ void __launch_bounds__(256) classify(const float* __restrict__ field, unsigned char* __restrict__ code,
                                                           int* active, int nx, int ny, int nz) {
    __shared__ unsigned int signs[2][8];
    __shared__ int total;
    const int x = blockIdx.x * 31 + threadIdx.x, y = blockIdx.y * 7 + threadIdx.y, lane = threadIdx.x;
    if (lane == 0 && threadIdx.y == 0) total = 0;
    const bool inside = x < nx && y < ny;
    const bool cell = lane < 31 && threadIdx.y < 7 && x < nx - 1 && y < ny - 1;
    int mine = 0, below = 0;
    for (int z = 0; z < nz; ++z) {
        bool sign = inside && field[(z * ny + y) * nx + x] > 0.f;
        unsigned int word = __ballot_sync(0xffffffffu, sign);
        if (lane == 0) signs[z & 1][threadIdx.y] = word;
        __syncthreads();
        if (cell) {
            int here = ((word >> lane) & 3) | (((signs[z & 1][threadIdx.y + 1] >> lane) & 3) << 2);
            if (z > 0) {
                int c = below | (here << 4);
                code[((z - 1) * (ny - 1) + y) * (nx - 1) + x] = (unsigned char)c;
                mine += c != 0 && c != 255;
            }
            below = here;
        }
    }
    mine = __reduce_add_sync(0xffffffffu, mine);
    if (lane == 0 && mine) atomicAdd(&total, mine);
    __syncthreads();
    if (lane == 0 && threadIdx.y == 0 && total) atomicAdd(active, total);
}
