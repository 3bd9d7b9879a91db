/* ---
title = "Filter in constant memory, a stretch of time in shared memory, four outputs a thread"
change = "A block has one channel, so its taps are the same for all lanes; a thread reads 20 floats from shared memory as five float4 and has four outputs of them."
requires = "C <= 256"
requires_why = "the filters' place in constant memory"
[defines]
TAPS = 16
THREADS = 128
[[fill]]
name = "taps"
input = "w"
[[fill]]
name = "offset"
input = "bias"
[[launch]]
kernel = "conv1d"
grid = ["cdiv(L, 4 * THREADS)", "C", "B"]
block = ["THREADS"]
args = ["x", "y", "C", "L"]
--- */

constexpr int OUTPUTS = 4;
constexpr int STRETCH = OUTPUTS * THREADS;
static_assert(TAPS % 4 == 0, "the window is read as float4");

__constant__ float taps[256 * TAPS];
__constant__ float offset[256];

__device__ __forceinline__ float silu(float z) { return __fdividef(z, 1.f + __expf(-z)); }

extern "C" __global__ void __launch_bounds__(THREADS)
    conv1d(const float* __restrict__ x, float* __restrict__ y, int channels, int length) {
    __shared__ float4 stretch[(TAPS + STRETCH) / 4];
    float* cells = reinterpret_cast<float*>(stretch);
    const int channel = blockIdx.y;
    const size_t row = (static_cast<size_t>(blockIdx.z) * channels + channel) * length;
    const int start = blockIdx.x * STRETCH;

    // cells[j] is time start - TAPS + j.
#pragma unroll
    for (int j = threadIdx.x; j < TAPS + STRETCH; j += THREADS) {
        const int t = start - TAPS + j;
        cells[j] = t >= 0 && t < length ? x[row + t] : 0.f;
    }
    __syncthreads();

    const int t = start + OUTPUTS * threadIdx.x;
    if (t >= length) return;

    float window[TAPS + OUTPUTS];
#pragma unroll
    for (int v = 0; v < (TAPS + OUTPUTS) / 4; ++v) {
        const float4 four = stretch[threadIdx.x + v];
        window[4 * v] = four.x;
        window[4 * v + 1] = four.y;
        window[4 * v + 2] = four.z;
        window[4 * v + 3] = four.w;
    }

    float z[OUTPUTS];
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) z[o] = offset[channel];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {
        const float tap = taps[channel * TAPS + k];
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o) z[o] = fmaf(tap, window[k + o + 1], z[o]);
    }

    if (length % 4 == 0) {
        *reinterpret_cast<float4*>(y + row + t) = make_float4(silu(z[0]), silu(z[1]), silu(z[2]), silu(z[3]));
    } else {
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o) {
            if (t + o < length) y[row + t + o] = silu(z[o]);
        }
    }
}
