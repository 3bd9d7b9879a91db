// Kernels of many kinds whose machine code was counted; tests/emulator/test_ptxas.py.
#define KERNEL(name)                                                             \
    extern "C" __global__ void name(const float* __restrict__ a,                 \
                                    const float* __restrict__ b,                 \
                                    float* __restrict__ c, int n, int m, int k)

KERNEL(matmul) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= n || y >= m) return;
    float s = 0;
    for (int j = 0; j < k; ++j) s += a[y * k + j] * b[j * n + x];
    c[y * n + x] = s;
}

KERNEL(tiled) {
    __shared__ float A[16][16], B[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    float s = 0;
    for (int t = 0; t < k; t += 16) {
        A[ty][tx] = (y < m && t + tx < k) ? a[y * k + t + tx] : 0.f;
        B[ty][tx] = (x < n && t + ty < k) ? b[(t + ty) * n + x] : 0.f;
        __syncthreads();
        for (int j = 0; j < 16; ++j) s += A[ty][j] * B[j][tx];
        __syncthreads();
    }
    if (x < n && y < m) c[y * n + x] = s;
}

KERNEL(window) {  // nine conditions that outlive the loop over planes
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= n || y >= m) return;
    float s = 0;
    for (int z = 0; z < k; ++z) {
#pragma unroll
        for (int r = -1; r <= 1; ++r)
#pragma unroll
            for (int q = -1; q <= 1; ++q) {
                int yy = y + r, xx = x + q;
                if (yy >= 0 && yy < m && xx >= 0 && xx < n)
                    s += a[(z * m + yy) * n + xx] * b[z * 9 + (r + 1) * 3 + q + 1];
            }
    }
    c[y * n + x] = s;
}

KERNEL(window_any) {  // the same for a window whose size only the launch knows
    int p = blockIdx.x * 128 + threadIdx.x;
    if (p >= n * m) return;
    int x = p % n, y = p / n;
    float s = 0;
    for (int z = 0; z < 3; ++z)
        for (int r = 0; r < k; ++r)
            for (int q = 0; q < k; ++q) {
                int yy = y + r - k / 2, xx = x + q - k / 2;
                if (yy < 0 || yy >= m || xx < 0 || xx >= n) continue;
                s += a[(z * m + yy) * n + xx] * b[(z * k + r) * k + q];
            }
    c[p] = s;
}

KERNEL(halo) {
    __shared__ float s[192];
    int t = threadIdx.x, base = blockIdx.x * 128 - k;
    float v = 0;
    for (int z = 0; z < m; ++z) {
        for (int j = t; j < 128 + 2 * k; j += 128) {
            int i = base + j;
            s[j] = (i >= 0 && i < n) ? a[z * n + i] : 0.f;
        }
        __syncthreads();
        for (int j = 0; j <= 2 * k; ++j) v += s[t + j] * b[j];
        __syncthreads();
    }
    int i = base + k + t;
    if (i < n) c[i] = v;
}

KERNEL(transpose) {
    __shared__ float s[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < n && y + j < m) s[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < m && y + j < n) c[(y + j) * m + x] = s[threadIdx.x][threadIdx.y + j];
}

KERNEL(reduce) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += 512) v += a[i];
    s[t] = v;
    __syncthreads();
    for (int o = 128; o > 0; o >>= 1) {
        if (t < o) s[t] += s[t + o];
        __syncthreads();
    }
    if (t == 0) c[blockIdx.x] = s[0];
}

KERNEL(scan) {
    __shared__ float s[2][128];
    int t = threadIdx.x, p = 0;
    s[0][t] = a[blockIdx.x * 128 + t];
    __syncthreads();
    for (int o = 1; o < 128; o *= 2) {
        float v = s[p][t];
        if (t >= o) v += s[p][t - o];
        p ^= 1;
        s[p][t] = v;
        __syncthreads();
    }
    c[blockIdx.x * 128 + t] = s[p][t];
}

KERNEL(rows) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= m) return;
    float s = 0, q = 0;
    for (int j = threadIdx.x; j < n; j += 32) {
        float v = a[row * n + j];
        s += v;
        q += v * v;
    }
    for (int o = 16; o; o >>= 1) {
        s += __shfl_down_sync(~0u, s, o);
        q += __shfl_down_sync(~0u, q, o);
    }
    if (threadIdx.x == 0) {
        c[row] = s;
        c[m + row] = q;
    }
}

KERNEL(edges) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= n || y >= m) return;
    float s[3][3];
    for (int r = 0; r < 3; ++r)
        for (int q = 0; q < 3; ++q)
            s[r][q] = a[min(max(y + r - 1, 0), m - 1) * n + min(max(x + q - 1, 0), n - 1)];
    float u = s[0][2] + 2 * s[1][2] + s[2][2] - s[0][0] - 2 * s[1][0] - s[2][0];
    float v = s[2][0] + 2 * s[2][1] + s[2][2] - s[0][0] - 2 * s[0][1] - s[0][2];
    c[y * n + x] = u * u + v * v;
}

KERNEL(columns) {
    int x = blockIdx.x * 128 + threadIdx.x;
    float s = 0;
    if (x < n) {
        for (int j = blockIdx.y; j < m; j += 2) s += a[j * n + x] * b[j];
        c[blockIdx.y * n + x] = s;
    }
}

KERNEL(shuffle) {  // quotients and remainders of numbers that only the launch knows
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n * m * k * k) return;
    int x = i % (n * k), y = i / (n * k);
    c[i] = a[((y % k * k + x % k) * m + y / k) * n + x / k];
}
