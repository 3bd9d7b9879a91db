// What the versions for compute capability 9.0 share: what they ask in PTX of the copy engine, of
// mbarriers and of warpgroups, and how a warp stores its sums.
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

// Four 8×8 matrices from registers; lane 8·m + r names row r of matrix m, 16 bytes.
__device__ __forceinline__ void stmatrix(void* row, const uint32_t (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared(row)), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

// The same, each matrix turned: lane 8·m + r names where column r of matrix m goes.
__device__ __forceinline__ void stmatrix_turned(void* row, const uint32_t (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(shared(row)), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}

__device__ __forceinline__ uint32_t two_halves(float first, float second) {
    const __half2 two = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&two);
}

// d (+)= a·b, both from shared memory: 64 pixels × 16 channels, 16 channels × 128 filters.
__device__ __forceinline__ void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool add) {
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

// d (+)= a·b, both from shared memory: 64 filters × 16 channels, 16 channels × 256 places.
__device__ __forceinline__ void wgmma(float (&d)[128], uint64_t a, uint64_t b, bool add) {
    asm volatile("{.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, "
                 "%88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, "
                 "%104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, add, 1, 1, 0, 0;}"
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
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),
                   "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),
                   "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
                   "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),
                   "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]),
                   "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]),
                   "+f"(d[107]),
                   "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]),
                   "+f"(d[113]),
                   "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]),
                   "+f"(d[119]),
                   "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]),
                   "+f"(d[125]),
                   "+f"(d[126]), "+f"(d[127])
                 : "l"(a), "l"(b), "r"((int)add));
}

struct Place {
    int w, h, n;
};

// Column, row and image of a place in images of `rows` × `pitch`; rounds down below zero as well.
__device__ __forceinline__ Place split(int place, int rows, int pitch) {
    const int per = rows * pitch, n = place >= 0 ? place / per : -1 - (-1 - place) / per;
    const int rest = place - n * per;
    return {rest % pitch, rest / pitch, n};
}

// A warp stores its sums of two matrices of 64 pixels × 128 filters: lane l's `pixel` is where row
// l % 16 of matrix l / 16 goes, or -1, `k` the first of the lane's eight filters. The rows turn in
// the warp's own 4 KB of shared memory, so that a half-warp stores 256 neighbouring bytes.
__device__ __forceinline__ void store_sums(const float (&d)[2][64], uint8_t* turn, __half* output,
                                           int pixel, int k, int K) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 16; j += 2) {
            const int row = lane % 16, chunk = j + lane / 16;
            const uint32_t four[4] = {two_halves(d[m][j * 4], d[m][j * 4 + 1]),
                                      two_halves(d[m][j * 4 + 2], d[m][j * 4 + 3]),
                                      two_halves(d[m][j * 4 + 4], d[m][j * 4 + 5]),
                                      two_halves(d[m][j * 4 + 6], d[m][j * 4 + 7])};
            stmatrix(turn + row * 256 + (chunk ^ row % 8) * 16, four);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 16; i += 2) {
            const int row = i + lane / 16, to = __shfl_sync(~0u, pixel, m * 16 + row);
            const uint8_t* eight = turn + row * 256 + (lane % 16 ^ row % 8) * 16;
            if (to >= 0 && k < K)
                *reinterpret_cast<uint4*>(&output[(size_t)to * K + k]) =
                    *reinterpret_cast<const uint4*>(eight);
        }
    }
}
