/* ---
title  = "16 bytes per lane"
parent = "v1"
change = "Each thread loads and stores a float4. The matrix is taken as one array of R·C floats, so that rows of any length stay aligned; one thread does the last one to three."
requires     = "R * C < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "scale_add"
grid   = ["cdiv(R * C, 1024)"]
block  = [256]
args   = ["A", "B", 1.25, -0.75, "R * C"]

[[expect]]
counter = "global_load_requests"
change  = "< 0.3x"
why     = "a quarter of the loads, four times as wide"

[[expect]]
counter = "global_load_sectors_per_request"
change  = "> 3x"
why     = "a warp asks for 512 bytes: 16 sectors, all of them used"

[[expect]]
counter = "instructions"
change  = "< 0.5x"
why     = "index arithmetic and bounds are paid once for four elements"

[[expect]]
counter = "dram_throughput"
change  = "up"
why     = "2048 resident threads of an SM ask for 32 KiB instead of 8 KiB: more bytes in flight to hide the latency"

[[expect]]
counter = "duration"
change  = "down"
why     = "the same bytes at a higher rate"
--- */
constexpr int THREADS = 256;

extern "C" __global__ void scale_add(const float* __restrict__ A, float* __restrict__ B,
                                     float a, float b, int n) {
    // A float4 needs an address of 16 bytes. Buffers start at one; the second row of an
    // odd-sized matrix does not, so rows are ignored and the array is cut in fours.
    const int vectors = n / 4;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < vectors) {
        const float4 v = reinterpret_cast<const float4*>(A)[i];
        reinterpret_cast<float4*>(B)[i] =
            make_float4(a * v.x + b, a * v.y + b, a * v.z + b, a * v.w + b);
    } else if (i == vectors) {
        // The thread after the last whole float4 takes what is left, if anything.
#pragma unroll 1  // three turns at most: unrolled, they would only cost registers
        for (int k = 4 * vectors; k < n; ++k) B[k] = a * A[k] + b;
    }
}
