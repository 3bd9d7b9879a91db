/* ---
title  = "Streaming loads and stores"
parent = "v2"
change = "Loads leave no line in the L1 and stores are marked as evicted first (st.global.cs): neither is used again, so that L2 has the room for what is on its way."
requires     = "R * C < 2**31"
requires_why = "its indices are 32-bit integers"

[defines]
THREADS = 128
LOAD = 1     # 0: plain, 1: no line in the L1, 2: evicted first
STORE = 1    # 0: plain, 1: evicted first

[[launch]]
kernel = "scale_add"
grid   = ["cdiv(R * C, 4 * THREADS)"]
block  = ["THREADS"]
args   = ["A", "B", 1.25, -0.75, "R * C"]

[[expect]]
counter = "dram_throughput"
change  = "up"
why     = "v2's stores stay in the L2 until their lines are replaced, one after the other between reads; those that go first may go together, and memory turns from reading to writing less often"
learned = "87 to 85%: v2's stores were not what held it back"

[[expect]]
counter = "duration"
change  = "< 0.99x"
why     = "memory is 86.8% busy in v2, and a turn between reading and writing is among what is left"
learned = "1.01x under the profiler, 1.036x outside of it. In turns the loads' hint costs 2% at n8192 and n16384, in all but one of the pairs that were tried, and that of the stores changes nothing. At n4096 v4 takes 3% less than v2, and in blocks of 256 threads 2% more"
--- */
__device__ __forceinline__ float4 load(const float4* from) {
    float4 v;
    if (LOAD == 1)
        asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "l"(from));
    else
        v = LOAD == 2 ? __ldcs(from) : *from;
    return v;
}

extern "C" __global__ void scale_add(const float* __restrict__ A, float* __restrict__ B,
                                     float a, float b, int n) {
    // A float4 needs an address of 16 bytes. Buffers start at one; the second row of an
    // odd-sized matrix does not, so rows are ignored and the array is cut in fours.
    const int vectors = n / 4;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < vectors) {
        const float4 v = load(&reinterpret_cast<const float4*>(A)[i]);
        const float4 sum = make_float4(a * v.x + b, a * v.y + b, a * v.z + b, a * v.w + b);
        float4* const to = &reinterpret_cast<float4*>(B)[i];
        if (STORE == 1)
            __stcs(to, sum);
        else
            *to = sum;
    } else if (i == vectors) {
        // The thread after the last whole float4 takes what is left, if anything.
#pragma unroll 1  // three turns at most: unrolled, they would only cost registers
        for (int k = 4 * vectors; k < n; ++k) B[k] = a * A[k] + b;
    }
}
