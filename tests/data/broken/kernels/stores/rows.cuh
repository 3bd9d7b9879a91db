#pragma once
#include <cstdint>
#include <cuda_fp16.h>

// Macros, so that each stands on the line where it is used.
#define AT(p) ((uint32_t)__cvta_generic_to_shared(p))
#define INIT(bar, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(AT(bar)), "r"(n) : "memory")
#define ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(AT(bar)) : "memory")
#define WAIT(bar, parity) asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W;}" \
    :: "r"(AT(bar)), "r"(parity) : "memory")
#define GROUP(g) asm volatile("bar.sync %0, 128;" :: "r"(1 + (g)) : "memory")
#define PROXY_FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define DONE() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define STORE(to, from, n) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" \
    :: "l"(to), "r"(AT(from)), "r"(n) : "memory")
#define COMMIT_STORES() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define STORED() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")
// Two chunks of a row are 128 bytes apart, and blocks of eight rows 256.
#define MATRIX(p) ((uint64_t)(AT(p) >> 4) | 8ull << 16 | 16ull << 32)
// d += a·b of 64×16 and 16×32, a from registers.
#define MULTIPLY(d, a, b) asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;" \
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]) \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(MATRIX(b)))
// Four words of a warp's 16 rows of `from`, 16 halves each.
#define LOAD(a, from) for (int i = 0; i < 4; ++i) \
    a[i] = *(const uint32_t *)&from[(t / 32 * 16 + t % 32 / 4 + i % 2 * 8) * 16 + t % 4 * 2 + i / 2 * 8]
