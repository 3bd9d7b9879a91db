/* ---
title = "A block a system, partial pivoting, doubles"
[[launch]]
kernel = "solve"
grid = ["B"]
block = [32]
args = ["a", "b", "x", "N"]
dynamic_shared = "8 * N * (N + 1) + 4 * N"
--- */
#define A(i, j) m[(i) * (n + 1) + (j)]

extern "C" __global__ void solve(const double *a, const double *b, double *x, int n)
{
    extern __shared__ double m[];
    int *pivot = (int *)(m + n * (n + 1));
    int t = threadIdx.x;
    for (int i = t; i < n * n; i += blockDim.x)
        A(i / n, i % n) = a[blockIdx.x * n * n + i];
    if (t < n)
        A(t, n) = b[blockIdx.x * n + t];
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (t == 0) {
            int p = k;
            double best = fabs(A(k, k));
            for (int i = k + 1; i < n; i++) {
                double v = fabs(A(i, k));
                if (v > best) {
                    best = v;
                    p = i;
                }
            }
            pivot[k] = p;
        }
        __syncthreads();
        int p = pivot[k];
        if (p != k && t <= n) {
            double s = A(k, t);
            A(k, t) = A(p, t);
            A(p, t) = s;
        }
        __syncthreads();
        if (t > k && t < n) {
            double f = A(t, k) / A(k, k);
            for (int j = k + 1; j <= n; j++)
                A(t, j) -= f * A(k, j);
        }
        __syncthreads();
    }
    for (int k = n - 1; k >= 0; k--) {
        if (t == k)
            A(k, n) /= A(k, k);
        __syncthreads();
        if (t < k)
            A(t, n) -= A(t, k) * A(k, n);
        __syncthreads();
    }
    if (t < n)
        x[blockIdx.x * n + t] = A(t, n);
}
