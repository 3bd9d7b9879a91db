// What the probes ask in PTX. One thread asks; a barrier and a phase are reused line after line.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cstdint>
#define DEV __device__ __forceinline__

DEV uint32_t at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV void init(uint64_t *bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;"
                 ::"r"(at(bar)), "r"(count) : "memory");
}
DEV void expect(uint64_t *bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes)
                 : "memory");
}
DEV void wait(uint64_t *bar, int &phase) {
    asm volatile("{.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W;}"
                 ::"r"(at(bar)), "r"(phase) : "memory");
    phase ^= 1;
}
DEV void fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEV void done() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }
