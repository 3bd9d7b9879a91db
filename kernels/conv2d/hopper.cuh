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

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait(uint64_t* barrier, int parity) {
    asm volatile("{.reg .pred over;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra AGAIN;}" ::"r"(shared(barrier)), "r"(parity)
                 : "memory");
}

// Waits for the 128 threads of group 1 or 2.
__device__ __forceinline__ void group_barrier(int group) {
    if (group == 1)
        asm volatile("bar.sync 1, 128;" ::: "memory");
    else
        asm volatile("bar.sync 2, 128;" ::: "memory");
}

// Copies pixels of an im2col map from pixel (w, h, n) on, moved by the tap (s, r).
__device__ __forceinline__ void copy_pixels(void* to, const CUtensorMap& map, int c, int w, int h,
                                            int n, int s, int r, uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                 ::"r"(shared(to)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n),
                 "r"(shared(barrier)), "h"((short)s), "h"((short)r)
                 : "memory");
}

// Copies a box of filters: channels from c on of the tap, from filter k on.
__device__ __forceinline__ void copy_filters(void* to, const CUtensorMap& map, int c, int tap,
                                             int k, uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(shared(to)), "l"(&map), "r"(c), "r"(tap), "r"(k), "r"(shared(barrier))
                 : "memory");
}

// A matrix for wgmma: rows of 128 bytes, eight of them 1024 bytes before the next eight, whose
// 16-byte chunks trade places as copies left them: chunk c of the row at address a lies at
// c ^ a / 128 % 8. The address counts, not the row's number: a matrix may start at any row.
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

// d (+)= a·b in TF32, both from shared memory: 64 filters × 8 channels, 8 × 128 outputs.
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

// d (+)= a·b of halves, both from shared memory: 64 filters × 16 channels, 16 × 128 outputs.
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

// 2^n, for n from -126 to 127.
__device__ __forceinline__ float power(int n) { return __int_as_float((n + 127) << 23); }

// 2^-n as two factors, for n from -126 to 126: the product of two first ones, or of two second
// ones, is still within float32's range, where 2^-n·2^-m may not be.
__device__ __forceinline__ float2 opposite(int n) {
    return make_float2(power(-(n / 2)), power(-(n - n / 2)));
}

// Where the outputs of a tile go: `offset` of filter 0's in y, or -1; and the opposite of the power
// of two that their image was multiplied by.
struct __align__(16) Outputs {
    int offset[256];
    float2 scale[256];
};

// 128 threads find out about 256 outputs from `first` on.
__device__ __forceinline__ void find_outputs(Outputs& found, int first, int outputs, int plane,
                                             int K, const int* image_power = nullptr) {
#pragma unroll
    for (int i = threadIdx.x % 128; i < 256; i += 128) {
        const int o = first + i, n = o / plane;
        found.offset[i] = o < outputs ? n * K * plane + o - n * plane : -1;
        if (image_power) found.scale[i] = opposite(o < outputs ? image_power[n] : 0);
    }
}

// A lane of a warpgroup has two neighbouring outputs of each eight, of two filters: it stores its
// sums of 64 filters × 128 outputs, those from `first` on of what was found. Where filters and
// images were multiplied by powers of two, the sums are multiplied by the opposite ones.
__device__ __forceinline__ void store_sums(const float (&sum)[64], float* y, const Outputs& found,
                                           int first, int first_filter, int K, int plane,
                                           const int* filter_power = nullptr) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int k = first_filter + warp * 16 + h * 8 + lane / 4;
        if (k >= K) break;
        float* const to = y + (size_t)k * plane;
        const float2 of = filter_power ? opposite(filter_power[k]) : make_float2(1, 1);
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            const int two = first + j * 8 + lane % 4 * 2;
            const int2 at = *reinterpret_cast<const int2*>(&found.offset[two]);
            float one = sum[j * 4 + h * 2], other = sum[j * 4 + h * 2 + 1];
            if (filter_power) {
                const float4 scale = *reinterpret_cast<const float4*>(&found.scale[two]);
                one = one * (scale.x * of.x) * (scale.y * of.y);
                other = other * (scale.z * of.x) * (scale.w * of.y);
            }
            // Two that a plane of an even number of outputs does not part are neighbours in y.
            if (plane % 2 == 0 && at.x >= 0) {
                *reinterpret_cast<float2*>(to + at.x) = make_float2(one, other);
            } else {
                if (at.x >= 0) to[at.x] = one;
                if (at.y >= 0) to[at.y] = other;
            }
        }
    }
}
