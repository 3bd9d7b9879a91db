/* ---
title = "A thread a system in local memory"
[[launch]]
kernel = "solve"
grid = ["cdiv(B, 32)"]
block = [32]
args = ["a", "b", "x", "B"]
--- */
template <int N>
__device__ void eliminate(double (&m)[N][N], double (&r)[N]) {
    for (int k = 0; k < N; ++k) {
        int p = k;
        for (int i = k + 1; i < N; ++i)
            if (fabs(m[i][k]) > fabs(m[p][k])) p = i;
        for (int j = 0; j < N; ++j) {
            double t = m[k][j];
            m[k][j] = m[p][j];
            m[p][j] = t;
        }
        double t = r[k];
        r[k] = r[p];
        r[p] = t;
        double inv = 1.0 / m[k][k];
        for (int i = k + 1; i < N; ++i) {
            double f = m[i][k] * inv;
            for (int j = k; j < N; ++j) m[i][j] -= f * m[k][j];
            r[i] -= f * r[k];
        }
    }
    for (int k = N - 1; k >= 0; --k) {
        for (int j = k + 1; j < N; ++j) r[k] -= m[k][j] * r[j];
        r[k] /= m[k][k];
    }
}

extern "C" __global__ void solve(const double* a, const double* b, double* x, int batch) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= batch) return;
    double m[12][12], r[12];
    for (int i = 0; i < 12; ++i) {
        r[i] = b[s * 12 + i];
        for (int j = 0; j < 12; ++j) m[i][j] = a[(s * 12 + i) * 12 + j];
    }
    eliminate<12>(m, r);
    for (int i = 0; i < 12; ++i) x[s * 12 + i] = r[i];
}
