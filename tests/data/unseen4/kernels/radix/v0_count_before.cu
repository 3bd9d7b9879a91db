/* ---
title = "Counts per tile, a thread per digit adds them up, and every key counts its equals before it"
[defines]
THREADS = 256
ROUNDS = 8
[[scratch]]
name = "counts"
dtype = "uint32"
shape = ["cdiv(N, THREADS * ROUNDS)", 256]
[[launch]]
kernel = "count_digits"
grid = ["cdiv(N, THREADS * ROUNDS)"]
block = ["THREADS"]
args = ["keys", "counts", "N", "SHIFT"]
[[launch]]
kernel = "offsets"
grid = [1]
block = [256]
args = ["counts", "cdiv(N, THREADS * ROUNDS)"]
[[launch]]
kernel = "scatter"
grid = ["cdiv(N, THREADS * ROUNDS)"]
block = ["THREADS"]
args = ["keys", "values", "counts", "sorted_keys", "sorted_values", "N", "SHIFT"]
--- */

#define DIGIT(key) (((key) >> shift) & 255u)

extern "C" __global__ void count_digits(const unsigned* keys, unsigned* counts, int n, int shift) {
    __shared__ unsigned count[256];
    count[threadIdx.x] = 0;
    __syncthreads();
    for (int round = 0; round < ROUNDS; round++) {
        int i = (blockIdx.x * ROUNDS + round) * THREADS + threadIdx.x;
        if (i < n) atomicAdd(&count[DIGIT(keys[i])], 1u);
    }
    __syncthreads();
    counts[blockIdx.x * 256 + threadIdx.x] = count[threadIdx.x];
}

// Turns counts into places: where the first key of this tile with this digit goes.
extern "C" __global__ void offsets(unsigned* counts, int tiles) {
    __shared__ unsigned upto[256];
    int digit = threadIdx.x;
    unsigned total = 0;
    for (int tile = 0; tile < tiles; tile++) total += counts[tile * 256 + digit];

    upto[digit] = total;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        unsigned before = digit >= step ? upto[digit - step] : 0;
        __syncthreads();
        upto[digit] += before;
        __syncthreads();
    }

    unsigned place = upto[digit] - total;
    for (int tile = 0; tile < tiles; tile++) {
        unsigned count = counts[tile * 256 + digit];
        counts[tile * 256 + digit] = place;
        place += count;
    }
}

extern "C" __global__ void scatter(const unsigned* keys, const unsigned* values, const unsigned* places,
                                   unsigned* sorted_keys, unsigned* sorted_values, int n, int shift) {
    __shared__ unsigned place[256];
    __shared__ unsigned digits[THREADS];
    int t = threadIdx.x;
    place[t] = places[blockIdx.x * 256 + t];

    for (int round = 0; round < ROUNDS; round++) {
        int i = (blockIdx.x * ROUNDS + round) * THREADS + t;
        unsigned key = i < n ? keys[i] : 0;
        unsigned digit = DIGIT(key);
        digits[t] = i < n ? digit : 256;
        __syncthreads();

        // Stable: keys with the same digit stay in their order.
        unsigned before = 0;
        for (int j = 0; j < t; j++) {
            if (digits[j] == digit) before++;
        }
        unsigned to = place[digit] + before;
        if (i < n) {
            sorted_keys[to] = key;
            sorted_values[to] = values[i];
        }
        __syncthreads();
        if (i < n) atomicAdd(&place[digit], 1u);
    }
}
