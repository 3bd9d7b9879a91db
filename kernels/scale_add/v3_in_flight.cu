/* ---
title  = "Four float4 in flight per thread"
parent = "v2"
change = "Each thread issues four independent 16-byte loads before it uses the first, a block's width apart, so that every one stays coalesced. A quarter of the blocks."
requires     = "R * C < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "scale_add"
grid   = ["cdiv(R * C, 4096)"]
block  = [256]
args   = ["A", "B", 1.25, -0.75, "R * C"]

[[expect]]
counter = "global_load_requests"
change  = "same"
why     = "the same float4 loads, by fewer threads"

[[expect]]
counter = "blocks"
change  = "< 0.3x"
why     = "a thread does four times as much"

[[expect]]
counter = "registers"
change  = "up"
why     = "16 floats wait in registers until they are stored"

[[expect]]
counter = "instructions"
change  = "down"
why     = "block and thread index are worked out once for four vectors"

[[expect]]
counter = "duration"
change  = "down"
why     = "a warp pays the latency once for four loads; little is left to gain, since v2 already has 32 KiB per SM in flight"
learned = "5% slower. v2 was at the memory's limit, and loads in bursts add LG throttle and drain stalls"

[[expect]]
counter = "dram_throughput"
change  = ">= 0.85 of peak"
why     = "reads and writes mixed do not reach the rated bandwidth, a copy does not either"
learned = "v2 reaches 0.87, this one 0.83"
--- */
constexpr int THREADS = 256;
constexpr int DEPTH = 4;  // float4 loads in flight a thread

extern "C" __global__ void scale_add(const float* __restrict__ A, float* __restrict__ B,
                                     float a, float b, int n) {
    const int vectors = n / 4;
    const int first = blockIdx.x * (DEPTH * THREADS) + threadIdx.x;
    const float4* from = reinterpret_cast<const float4*>(A);
    float4* to = reinterpret_cast<float4*>(B);

    // Two loops, not one: all loads are issued before the first of them is waited for.
    float4 v[DEPTH];
#pragma unroll
    for (int j = 0; j < DEPTH; ++j)
        if (first + j * THREADS < vectors) v[j] = from[first + j * THREADS];
#pragma unroll
    for (int j = 0; j < DEPTH; ++j)
        if (first + j * THREADS < vectors)
            to[first + j * THREADS] = make_float4(a * v[j].x + b, a * v[j].y + b,
                                                  a * v[j].z + b, a * v[j].w + b);

    // At most three floats are left after the last float4; any one thread can do them.
    if (blockIdx.x == 0 && threadIdx.x == 0)
#pragma unroll 1  // three turns at most: unrolled, they would only cost registers
        for (int k = 4 * vectors; k < n; ++k) B[k] = a * A[k] + b;
}
