/* ---
title  = "Coalesced: lanes along columns"
parent = "v0"
change = "Consecutive lanes take consecutive columns, so a warp reads and writes 128 bytes in a row."
requires     = "R * C < 2**31"
requires_why = "its indices are 32-bit integers"

[[launch]]
kernel = "scale_add"
grid   = ["cdiv(C, 32)", "cdiv(R, 8)"]
block  = [32, 8]
args   = ["A", "B", 1.25, -0.75, "R", "C"]

[[expect]]
counter = "global_load_sectors_per_request"
change  = "< 0.2x"
why     = "32 floats in a row are four sectors of 32 bytes, not 32"

[[expect]]
counter = "global_store_sectors_per_request"
change  = "< 0.2x"
why     = "the same for what is written"

[[expect]]
counter = "duration"
change  = "< 0.5x"
why     = "stores go through to the L2, and it took eight times the sectors"

[[expect]]
counter = "l1_hit_rate"
change  = "down"
why     = "the eight warps of a v0 block shared their sectors; now each is used once, by one warp"

[[expect]]
counter = "dram_read_bytes"
change  = "same"
why     = "v0 was slow in the L1 and L2: its block used whole sectors, so memory sent each once"
learned = "nearly; 2% of the sectors were sent twice"
--- */

extern "C" __global__ void scale_add(const float* __restrict__ A, float* __restrict__ B,
                                     float a, float b, int R, int C) {
    // Neighbouring lanes are neighbouring floats of one row.
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < R && col < C) B[row * C + col] = a * A[row * C + col] + b;
}
