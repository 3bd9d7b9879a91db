/* ---
title = "Template on K, centers in shared memory, two kernels"
[[launch]]
kernel = "assign16"
grid = ["cdiv(N, 128)"]
block = [128]
args = ["x", "centers", "label", "N"]
[[launch]]
kernel = "update"
grid = ["K"]
block = [128]
args = ["x", "label", "sums", "counts", "N"]
--- */
template <int K, int D>
struct Centers {
    float c[K][D];
    __device__ void load(const float* from) {
        for (int i = threadIdx.x; i < K * D; i += blockDim.x) (&c[0][0])[i] = from[i];
    }
    __device__ int nearest(const float (&p)[D]) const {
        int best = 0;
        float least = INFINITY;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            float d = 0;
#pragma unroll
            for (int j = 0; j < D; ++j) {
                float e = p[j] - c[k][j];
                d = fmaf(e, e, d);
            }
            if (d < least) least = d, best = k;
        }
        return best;
    }
};

extern "C" __global__ void assign16(const float* __restrict__ x, const float* __restrict__ centers, int* __restrict__ label, int n) {
    __shared__ Centers<16, 4> centers_s;
    centers_s.load(centers);
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) p[j] = x[i * 4 + j];
    label[i] = centers_s.nearest(p);
}

extern "C" __global__ void update(const float4* __restrict__ x, const int* __restrict__ label, float4* sums, int* counts, int n) {
    __shared__ float4 part[128];
    __shared__ int number[128];
    float4 s = {};
    int c = 0;
    for (int i = threadIdx.x; i < n; i += 128) {
        if (label[i] == blockIdx.x) {
            float4 p = x[i];
            s.x += p.x, s.y += p.y, s.z += p.z, s.w += p.w;
            ++c;
        }
    }
    part[threadIdx.x] = s;
    number[threadIdx.x] = c;
    __syncthreads();
    for (int d = 64; d > 0; d /= 2) {
        if (threadIdx.x < d) {
            float4 a = part[threadIdx.x], b = part[threadIdx.x + d];
            part[threadIdx.x] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
            number[threadIdx.x] += number[threadIdx.x + d];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0];
        counts[blockIdx.x] = number[0];
    }
}
