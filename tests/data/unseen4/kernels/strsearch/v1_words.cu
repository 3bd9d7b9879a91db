/* ---
title  = "Four positions per thread, compared a word at a time"
change = "The text comes through shared memory as words, patterns from constant memory; counts are packed into one register, summed by the warp and then by the block."
requires     = "P <= 4"
requires_why = "four counts of a warp fit into one 32-bit word"
[defines]
THREADS = 256
[[fill]]
name  = "counts"
value = 0
[[fill]]
name  = "pattern_words"
input = "patterns"
[[fill]]
name  = "pattern_lengths"
input = "lengths"
[[launch]]
kernel = "search_words"
grid   = ["cdiv(N, 4 * THREADS)"]
block  = ["THREADS"]
args   = ["text", "marks", "counts", "N", "P"]
--- */

#define MAX_PATTERNS 4
#define PATTERN_WORDS 4

__constant__ unsigned int pattern_words[MAX_PATTERNS * PATTERN_WORDS];
__constant__ int pattern_lengths[MAX_PATTERNS];

// The word of text at byte 4*w. Behind the end there are zeros, which no pattern holds.
__device__ __forceinline__ unsigned int text_word(const unsigned char* __restrict__ text, int w, int n) {
    if (4 * w + 4 <= n) return __ldg(reinterpret_cast<const unsigned int*>(text) + w);
    unsigned int word = 0;
    for (int b = 0; 4 * w + b < n; ++b) word |= (unsigned int)text[4 * w + b] << (8 * b);
    return word;
}

__device__ __forceinline__ unsigned int byte_mask(int bytes) {
    return bytes >= 4 ? 0xffffffffu : (1u << (8 * bytes)) - 1u;
}

extern "C" __global__ void __launch_bounds__(THREADS)
search_words(const unsigned char* __restrict__ text, unsigned char* __restrict__ marks,
             int* __restrict__ counts, int n, int pattern_count) {
    __shared__ unsigned int words[THREADS + PATTERN_WORDS];
    __shared__ int block_counts[MAX_PATTERNS];

    const int t = threadIdx.x;
    const int first_word = blockIdx.x * THREADS;
    words[t] = text_word(text, first_word + t, n);
    if (t < PATTERN_WORDS) words[THREADS + t] = text_word(text, first_word + THREADS + t, n);
    if (t < MAX_PATTERNS) block_counts[t] = 0;
    __syncthreads();

    unsigned int window[PATTERN_WORDS + 1];
#pragma unroll
    for (int j = 0; j <= PATTERN_WORDS; ++j) window[j] = words[t + j];

    unsigned int packed_marks = 0;
    unsigned int packed_counts = 0;
    for (int p = 0; p < pattern_count; ++p) {
        const int length = pattern_lengths[p];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            unsigned int differs = 0;
#pragma unroll
            for (int j = 0; j < PATTERN_WORDS; ++j) {
                if (4 * j >= length || differs != 0) break;
                const unsigned int letters = __funnelshift_r(window[j], window[j + 1], 8 * k);
                differs = (letters ^ pattern_words[p * PATTERN_WORDS + j]) & byte_mask(length - 4 * j);
            }
            if (differs == 0) {
                packed_marks |= 1u << (8 * k + p);
                packed_counts += 1u << (8 * p);
            }
        }
    }

    const int i = 4 * (first_word + t);
    if (i + 4 <= n) {
        reinterpret_cast<unsigned int*>(marks)[first_word + t] = packed_marks;
    } else {
        for (int k = 0; i + k < n; ++k) marks[i + k] = (packed_marks >> (8 * k)) & 0xff;
    }

    // A lane has at most four hits of a pattern, a warp 128: no byte overflows.
    __syncwarp();
    packed_counts = __reduce_add_sync(0xffffffffu, packed_counts);
    if (t % 32 < pattern_count) {
        atomicAdd(&block_counts[t % 32], (packed_counts >> (8 * (t % 32))) & 0xff);
    }
    __syncthreads();
    if (t < pattern_count && block_counts[t] > 0) atomicAdd(counts + t, block_counts[t]);
}
