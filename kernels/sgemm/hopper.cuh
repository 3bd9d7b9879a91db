// What the versions for compute capability 9.0 share: what they ask in PTX of the copy engine, of
// mbarriers and of warpgroups, and how a warpgroup stores its sums.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ __forceinline__ uint32_t shared(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(barrier)), "r"(arrivals)
                 : "memory");
}

// Arrives, and lets the phase wait for that many bytes of copies besides.
__device__ __forceinline__ void expect(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(barrier)),
                 "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared(barrier)) : "memory");
}

// Arrives at the barrier in the same place of a block of the cluster. It says that something has
// been read; where something written had to be seen there, it would have to release it.
__device__ __forceinline__ void arrive_at(uint64_t* barrier, int block) {
    asm volatile("{.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 ::"r"(shared(barrier)), "r"(block)
                 : "memory");
}

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait(uint64_t* barrier, int parity) {
    asm volatile("{.reg .pred over;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra AGAIN;}" ::"r"(shared(barrier)), "r"(parity)
                 : "memory");
}

// All threads of the cluster's blocks.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Copies a box of a tensor map of two dimensions: from element x of row y on.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap& map, int x, int y,
                                         uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared(to)), "l"(&map), "r"(x), "r"(y), "r"(shared(barrier))
                 : "memory");
}

// The same into the same place of each block of the cluster whose bit is set, and each one's
// barrier is told.
__device__ __forceinline__ void copy_box_to(unsigned blocks, void* to, const CUtensorMap& map,
                                            int x, int y, uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(shared(to)), "l"(&map), "r"(x), "r"(y), "r"(shared(barrier)),
                 "h"((short)blocks)
                 : "memory");
}

// A matrix for wgmma: rows of 128 bytes, eight of them 1024 bytes before the next eight, whose
// 16-byte chunks trade places as copies left them: chunk c of row r lies at c ^ r % 8.
__device__ __forceinline__ uint64_t matrix(const void* rows) {
    return (uint64_t)(shared(rows) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until no more than so many groups of products are under way.
template <int GROUPS>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

// d (+)= a·b in TF32, both from shared memory: 64 rows × 8, 8 × 128 columns.
__device__ __forceinline__ void wgmma_tf32(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile("{.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1;}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"((int)add));
}

// d (+)= a·b of halves, both from shared memory: 64 rows × 16, 16 × 128 columns.
__device__ __forceinline__ void wgmma_half(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile("{.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1, 0, 0;}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"((int)add));
}

// Which tile of C is the i-th: bands of 16 rows of tiles, each gone through column by column, so
// that the blocks that run at once need few rows of A and few columns of B.
__device__ __forceinline__ int2 tile_of(int i, int rows, int columns) {
    const int band = i / (16 * columns) * 16, height = min(16, rows - band);
    i -= band * columns;
    return make_int2(band + i % height, i / height);
}

// As many of four neighbouring floats as there are, and zeros after them. WIDE says that they are
// aligned to 16 bytes, and that there are four or none.
template <bool WIDE>
__device__ __forceinline__ float4 load_four(const float* from, int there) {
    if (WIDE)
        return there > 0 ? *reinterpret_cast<const float4*>(from) : make_float4(0, 0, 0, 0);
    return make_float4(there > 0 ? from[0] : 0, there > 1 ? from[1] : 0, there > 2 ? from[2] : 0,
                       there > 3 ? from[3] : 0);
}

// 256 threads load 64×64 floats of B, rows k and columns n, zeros where B has none.
template <bool WIDE>
__device__ __forceinline__ void load_tile(float (&tile)[64][65], const float* B, int k, int n,
                                          int N, int K) {
    const int four = threadIdx.x % 16 * 4, line = threadIdx.x / 16;
    float4 x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = k + line + i * 16;
        x[i] = load_four<WIDE>(B + (size_t)row * N + n + four, row < K ? N - n - four : 0);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float* to = &tile[line + i * 16][four];
        to[0] = x[i].x, to[1] = x[i].y, to[2] = x[i].z, to[3] = x[i].w;
    }
    __syncthreads();
}

// x·2^n, for n from -252 to 254: in two steps, since one power alone may be beyond float32.
__device__ __forceinline__ float times_power(float x, int n) {
    const int half = n / 2;
    return x * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}

// A lane of a warpgroup has two neighbouring columns of each eight in two rows: it stores its sums
// of 64 rows × 128 columns of C, those that C has. Where rows and columns were multiplied by
// powers of two, the sums are divided by them: `powers` are those of the 128 columns.
__device__ __forceinline__ void store_sums(const float (&sum)[64], float* C, int first_row,
                                           int first_column, int M, int N,
                                           const int* row_power = nullptr,
                                           const int* powers = nullptr) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = first_row + warp * 16 + h * 8 + lane / 4;
        if (row >= M) break;
        const int from_row = row_power ? row_power[row] : 0;
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const int in_tile = j * 8 + lane % 4 * 2, column = first_column + in_tile;
            float* to = C + (size_t)row * N + column;
            float first = sum[j * 4 + h * 2], second = sum[j * 4 + h * 2 + 1];
            if (powers) {
                first = times_power(first, -(from_row + powers[in_tile]));
                second = times_power(second, -(from_row + powers[in_tile + 1]));
            }
            if (N % 2 == 0 && column < N) {
                *reinterpret_cast<float2*>(to) = make_float2(first, second);
            } else {
                if (column < N) to[0] = first;
                if (column + 1 < N) to[1] = second;
            }
        }
    }
}
