/* ---
title = "Union-find with atomicMin, three kernels"
[[launch]]
kernel = "init"
grid = ["cdiv(W * H, 128)"]
block = [128]
args = ["img", "label", "W * H"]
[[launch]]
kernel = "link"
grid = ["cdiv(W, 16)", "cdiv(H, 16)"]
block = [16, 16]
args = ["img", "label", "W", "H"]
[[launch]]
kernel = "flatten"
grid = ["cdiv(W * H, 128)"]
block = [128]
args = ["label", "W * H"]
--- */
__device__ int find(volatile int *label, int i)
{
    while (label[i] != i)
        i = label[i];
    return i;
}

__device__ void unite(int *label, int a, int b)
{
    bool done;
    do {
        a = find(label, a);
        b = find(label, b);
        if (a < b) {
            int old = atomicMin(&label[b], a);
            done = old == b;
            b = old;
        } else if (b < a) {
            int old = atomicMin(&label[a], b);
            done = old == a;
            a = old;
        } else {
            done = true;
        }
    } while (!done);
}

extern "C" __global__ void init(const unsigned char *img, int *label, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) label[i] = img[i] ? i : -1;
}

extern "C" __global__ void link(const unsigned char *img, int *label, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x;
    if (!img[i]) return;
    if (x > 0 && img[i - 1]) unite(label, i, i - 1);
    if (y > 0 && img[i - w]) unite(label, i, i - w);
}

extern "C" __global__ void flatten(int *label, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && label[i] >= 0) label[i] = find(label, i);
}
