/* ---
title  = "Winograd along rows: 12 products for 24"
parent = "v7"
change = "Four neighbouring outputs under six taps are two F(4, 3), of taps 0 to 2 and 3 to 5, which share their six sums: 12 products where there were 24. A thread transforms a row of the input once, for six output channels and three rows of outputs; taps are transformed on their way into shared memory, and sums once, at the end. Products are ordered so that neighbours in time share an operand."
requires     = "max(C * H * W, K * P * Q, 36 * K * C) < 2**31 and K < 2**16 and P < 2**18"
requires_why = "its indices are 32-bit integers, and a grid has less than 65,536 rows and planes"

[[launch]]
kernel = "conv2d"
grid   = ["cdiv(Q, 128)", "cdiv(P, WARPS * TR)", "cdiv(K, KT)"]
block  = [32, "WARPS"]
args   = ["x", "w", "y", "C", "K", "H", "W", "P", "Q"]

[defines]
WARPS  = 4
TR     = 3
KT     = 6
STAGES = 2

[[expect]]
counter = "ffma_threads"
change  = "< 0.65x"
why     = "half of the products, and 24 additions and multiply-adds for each row of nine pixels that a thread transforms"

[[expect]]
counter = "instructions"
change  = "< 0.72x"
why     = "1161 instead of 1803 in a channel's loop for two rows of outputs, products, transforms and loads together, and the taps' transform"

[[expect]]
counter = "shared_wavefronts"
change  = "up"
why     = "twice as many taps are read, and pixels as before"

[[expect]]
counter = "duration"
change  = "< 0.75x"
why     = "issue slots are what v7 is short of, and a third of them are no longer needed; the loads at the beginning and the stores at the end take what they took"
learned = "0.81x: instructions became 0.64x, but are issued more slowly, 2.58 a cycle instead of 3.20. A thread has 108 sums and 36 pixels in 245 registers, so that two warps are left for a scheduler to choose from, and neighbouring products share fewer operands"
--- */
constexpr int THREADS = 32 * WARPS;
constexpr int BH = WARPS * TR;  // rows of outputs a block; its columns are 128, four a lane
constexpr int PITCH = 136;      // floats in a row of the tile: 128 + 5, rounded up to 16 bytes
constexpr int TILE_BYTES = 4 * (BH + 5) * PITCH;
constexpr int TRIPLES = 12 * KT;  // of taps in a channel: two in each row of a filter
constexpr int TAP_TURNS = (TRIPLES + THREADS - 1) / THREADS;  // triples a thread
constexpr int PIECES = (BH + 5) * (PITCH / 4);           // of 16 bytes in a tile
constexpr int TURNS = (PIECES + THREADS - 1) / THREADS;  // pieces a thread

// Asynchronous copies from global to shared memory, which pass no register.
template <int BYTES>
__device__ __forceinline__ void copy(unsigned to, const float* from) {
    if (BYTES == 16)  // the only width that may leave the L1 out
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from),
                     "n"(BYTES));
}

__device__ __forceinline__ unsigned shared_address(const float* of) {
    return static_cast<unsigned>(__cvta_generic_to_shared(of));
}

// 4·N neighbouring floats of shared memory, 16 bytes a load.
template <int N>
__device__ __forceinline__ void load(float (&v)[4 * N], const float* from) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float4 piece = reinterpret_cast<const float4*>(from)[i];
        v[4 * i] = piece.x;
        v[4 * i + 1] = piece.y;
        v[4 * i + 2] = piece.z;
        v[4 * i + 3] = piece.w;
    }
}

// F(4, 3) at the points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, 2016, F(4x4, 3x3) in one
// dimension): six pixels become the factors of six products,
__device__ __forceinline__ void transform_pixels(float* to, const float* d) {
    const float even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1];
    const float even_two = d[4] - d[2], odd_two = d[3] - d[1];
    to[0] = 4 * (d[0] - d[2]) + even_two;
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = even_two + 2 * odd_two;
    to[4] = even_two - 2 * odd_two;
    to[5] = d[5] - d[3] - 4 * odd_two;
}

// three taps the other ones,
__device__ __forceinline__ void transform_taps(float* to, const float* g) {
    const float outer = g[0] + g[2], far = g[0] + 4 * g[2];
    to[0] = g[0] / 4;
    to[1 * KT] = (outer + g[1]) * (-1.0f / 6);
    to[2 * KT] = (outer - g[1]) * (-1.0f / 6);
    to[3 * KT] = (far + 2 * g[1]) * (1.0f / 24);
    to[4 * KT] = (far - 2 * g[1]) * (1.0f / 24);
    to[5 * KT] = g[2];
}

// and sums of such products four outputs.
__device__ __forceinline__ float4 transform_sums(const float* m) {
    const float one = m[1] + m[2], one_odd = m[1] - m[2];
    const float two = m[3] + m[4], two_odd = m[3] - m[4];
    return make_float4(m[0] + one + two, one_odd + 2 * two_odd, one + 4 * two,
                       one_odd + 8 * two_odd + m[5]);
}

// Products i and i + 1 of row r of the filter: TR rows of pixels by KT taps, there and back, so
// that two neighbours have an operand in common, which is then fetched from its register once.
__device__ __forceinline__ void multiply(float (&sum)[KT][TR][6], const float (&value)[TR][12],
                                         const float (&tap)[2 * KT], int r, int i) {
#pragma unroll
    for (int n = 0; n < 2 * KT; ++n)
#pragma unroll
        for (int m = 0; m < TR; ++m) {
            const int j = n % 2 == 0 ? m : TR - 1 - m;
            sum[n % KT][j][(i + n / KT) % 6] += value[(r + j) % TR][i + n / KT] * tap[n];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
conv2d(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int C,
       int K, int H, int W, int P, int Q) {
    __shared__ __align__(16) float tile[STAGES][BH + 5][PITCH];
    __shared__ __align__(16) float taps[2][6][12][KT];  // transformed: [buffer][r][product]
    const int tid = threadIdx.y * 32 + threadIdx.x;
    const int top = blockIdx.y * BH, first = blockIdx.x * 128;
    const int p = top + threadIdx.y * TR;
    const int k = blockIdx.z * KT;
    const bool wide = W % 4 == 0;

    // The pieces that this thread copies of every channel: where from and where to, one channel
    // further with each. What lies beyond the input or the last output channel is of no weight in
    // any output that exists, if it is a number at all: so the nearest element stands there.
    const float* from[TURNS];
    unsigned to[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = turn * THREADS + tid;
        const int row = i / (PITCH / 4), col = i % (PITCH / 4) * 4;
        from[turn] = &x[min(top + row, H - 1) * W + min(first + col, W - 4)];
        to[turn] = shared_address(&tile[0][0][0]) + 4 * (row * PITCH + col);
    }

    const auto fetch = [&](int c, int stage) {
        const bool last = stage == STAGES - 1;  // the next channel goes to the first buffer again
        if (wide) {
#pragma unroll
            for (int turn = 0; turn < TURNS; ++turn) {
                if (turn < TURNS - 1 || tid < PIECES - turn * THREADS)
                    copy<16>(to[turn], from[turn]);
                from[turn] += H * W;
                to[turn] += last ? -(STAGES - 1) * TILE_BYTES : TILE_BYTES;
            }
        } else {
            const float* plane = &x[c * H * W];
#pragma unroll 1
            for (int i = tid; i < (BH + 5) * PITCH; i += THREADS) {
                const int row = i / PITCH, col = i % PITCH;
                copy<4>(shared_address(&tile[stage][row][col]),
                        &plane[min(top + row, H - 1) * W + min(first + col, W - 1)]);
            }
        }
        asm volatile("cp.async.commit_group;");
    };

    // And its three taps, which wait in registers for a channel: then they are transformed.
    float triple[TAP_TURNS][3];
    const auto read_taps = [&](int c) {
#pragma unroll
        for (int turn = 0; turn < TAP_TURNS; ++turn) {
            const int i = turn * THREADS + tid, n = i % KT, at = i / KT * 3;
            if (i < TRIPLES)
#pragma unroll
                for (int s = 0; s < 3; ++s)
                    triple[turn][s] = w[(min(k + n, K - 1) * C + c) * 36 + at + s];
        }
    };
    const auto write_taps = [&](int c) {
#pragma unroll
        for (int turn = 0; turn < TAP_TURNS; ++turn) {
            const int i = turn * THREADS + tid, n = i % KT, at = i / KT;
            if (i < TRIPLES) transform_taps(&taps[c % 2][at / 2][at % 2 * 6][n], triple[turn]);
        }
    };

    float sum[KT][TR][6] = {};
    read_taps(0);
#pragma unroll
    for (int c = 0; c < STAGES - 1; ++c) {
        if (c < C) fetch(c, c);
        else asm volatile("cp.async.commit_group;");
    }
    write_taps(0);
    if (C > 1) read_taps(1);
    int stage = 0;
#pragma unroll 1
    for (int c = 0; c < C; ++c) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();  // channel c is here for all; nobody reads the buffer before it any more
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        if (c + STAGES - 1 < C) fetch(c + STAGES - 1, free);
        else asm volatile("cp.async.commit_group;");
        if (c + 1 < C) write_taps(c + 1);
        if (c + 2 < C) read_taps(c + 2);

        // A ring of TR input rows slides down: each is transformed once.
        const float* rows = &tile[stage][threadIdx.y * TR][threadIdx.x * 4];
        float value[TR][12];
        const auto next_row = [&](float(&v)[12]) {
            float pixel[12];
            load<3>(pixel, rows);
            transform_pixels(v, pixel);
            transform_pixels(v + 6, pixel + 3);
            rows += PITCH;
        };
#pragma unroll
        for (int j = 0; j < TR - 1; ++j) next_row(value[j]);
#pragma unroll
        for (int r = 0; r < 6; ++r) {
            next_row(value[(r + TR - 1) % TR]);
#pragma unroll
            for (int i = 0; i < 12; i += 2) {
                float tap[2 * KT];  // two of 12, of all output channels; all lanes read the same
                load<KT / 2>(tap, taps[c % 2][r][i]);
                multiply(sum, value, tap, r, i);
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    // Nobody reads the buffer that channel C would have had. Each warp takes TR rows of it.
    float(*rows)[PITCH] = &tile[stage][threadIdx.y * TR];
#pragma unroll
    for (int n = 0; n < KT; ++n) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TR; ++j)
            *reinterpret_cast<float4*>(&rows[j][threadIdx.x * 4]) = transform_sums(sum[n][j]);
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TR; ++j)
#pragma unroll
            for (int o = 0; o < 128; o += 32) {
                const int col = o + threadIdx.x;
                if (k + n < K && p + j < P && first + col < Q)
                    y[((k + n) * P + p + j) * Q + first + col] = rows[j][col];
            }
    }
}
