"""Inline PTX that the tests of asynchronous instructions share, as a CUDA prelude."""

PRELUDE = r"""
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>
#define DEV __device__ __forceinline__
DEV uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV void init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory");
}
DEV void arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
DEV void expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    :: "r"(at(bar)), "r"(bytes) : "memory");
}
DEV void wait(uint64_t* bar, int parity) {
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"
    :: "r"(at(bar)), "r"(parity) : "memory");
}
DEV void bulk(void* to, const void* from, int bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%0], [%1], %2, [%3];" :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
DEV void tile(void* to, const CUtensorMap* map, int x, int y, uint64_t* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%0], [%1, {%2, %3}], [%4];"
    :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
DEV void proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEV void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
"""
