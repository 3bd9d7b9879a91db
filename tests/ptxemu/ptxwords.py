"""What the tests of asynchronous instructions and of matrices share: inline PTX, elements."""

from __future__ import annotations

import numpy as np

from tests.ptxemu.conftest import Array

RNG = np.random.default_rng(9)

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


def drawn(kind: str, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Elements as they are stored, and as numbers."""
    if kind in ("s8", "u8"):
        bits = RNG.integers(0, 256, shape).astype("u1")
        return bits, bits.view("i1" if kind == "s8" else "u1").astype("f8")
    if kind == "f64":
        return (numbers := RNG.standard_normal(shape)), numbers
    if kind == "f16":
        values = RNG.standard_normal(shape).astype("f2")
        return values.view("u2"), values.astype("f8")
    if kind == "e5m2":
        bits = RNG.integers(0, 256, shape).astype("u1") & 0xBF  # below 2
        return bits, (bits.astype("u2") << 8).view("f2").astype("f8")
    if kind == "e4m3":
        bits = RNG.integers(0, 256, shape).astype("u1") & 0xBF  # below 2
        of_codes = [
            (-1) ** (b >> 7) * ((b & 7) / 8 * 2.0**-6 if not b >> 3 & 15
                                else (1 + (b & 7) / 8) * 2.0 ** ((b >> 3 & 15) - 7))
            for b in map(int, bits.reshape(-1))
        ]  # fmt: skip
        return bits, np.array(of_codes).reshape(shape)
    drop = 16 if kind == "bf16" else 13
    whole = RNG.standard_normal(shape).astype("f4").view("u4")
    numbers32 = (whole >> drop << drop).view("f4").astype("f8")
    return ((whole >> 16).astype("u2") if kind == "bf16" else whole), numbers32


def registers(matrix: Array, word: int) -> Array:
    """What lanes hold of (rows, bytes along K), by the manual's figures: (32, registers, bytes).

    Lane 4 g + t has of rows g and g + 8 the t-th of every four words.
    """
    parts = (
        np.ascontiguousarray(matrix)
        .view("u1")
        .reshape(-1, 8, matrix.nbytes // len(matrix) // (4 * word), 4, word)
    )
    return np.ascontiguousarray(parts.transpose(1, 3, 2, 0, 4)).reshape(32, -1, word)
