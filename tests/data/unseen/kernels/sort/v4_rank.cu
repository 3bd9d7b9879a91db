/* ---
title = "Rank by counting, four keys a broadcast"
[[launch]]
kernel = "rank"
grid   = ["S"]
block  = [1024]
args   = ["x", "y"]
--- */

extern "C" __global__ void rank(const int* x, int* y) {
    __shared__ int4 s4[256];
    int* s = reinterpret_cast<int*>(s4);
    const int t = threadIdx.x;
    const int mine = x[blockIdx.x * 1024 + t];
    s[t] = mine;
    __syncthreads();
    int place = 0;
    for (int i = 0; i < 256; ++i) {
        int4 q = s4[i];
        place += q.x < mine || (q.x == mine && 4 * i < t);
        place += q.y < mine || (q.y == mine && 4 * i + 1 < t);
        place += q.z < mine || (q.z == mine && 4 * i + 2 < t);
        place += q.w < mine || (q.w == mine && 4 * i + 3 < t);
    }
    y[blockIdx.x * 1024 + place] = mine;
}
