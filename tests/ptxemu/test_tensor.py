"""Tensor-core instructions and asynchronous copies against matrix products."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxemu.errors import Unsupported
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Array, Compile, execute
from tests.ptxemu.ptxwords import drawn, registers

pytestmark = pytest.mark.nvcc

RNG = np.random.default_rng(6)

WMMA = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
extern "C" __global__ void tile(const half* A, const half* B, float* C) {
  __shared__ __align__(32) half As[16 * 24], Bs[256];
  for (int i = threadIdx.x; i < 256; i += 32) { As[i / 16 * 24 + i % 16] = A[i]; Bs[i] = B[i]; }
  __syncthreads();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::LAYOUT> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 1.0f);
  wmma::load_matrix_sync(a, As, 24);
  wmma::load_matrix_sync(b, Bs, 16);
  wmma::mma_sync(c, a, b, c);
  for (int i = 0; i < c.num_elements; i++) c.x[i] *= 2.0f;
  wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""


def test_wmma_with_float16_sums(cuda: Compile) -> None:
    text = WMMA.replace("16, 16, 16, float>", "16, 16, 16, half>").replace("float* C", "half* C")
    text = text.replace("fill_fragment(c, 1.0f)", "fill_fragment(c, __float2half(1.0f))")
    text = text.replace("c.x[i] *= 2.0f", "c.x[i] = __hadd(c.x[i], c.x[i])")
    a, b = (RNG.standard_normal((16, 16)).astype("f2") for _ in range(2))
    got, _ = execute(
        cuda(text.replace("LAYOUT", "row_major")), "tile",
        {"A": a, "B": b, "C": np.zeros((16, 16), "f2")}, ["A", "B", "C"],
    )  # fmt: skip
    want = (a.astype("f8") @ b.astype("f8") + 1).astype("f2")
    assert np.array_equal(got["C"], want + want)


@pytest.mark.parametrize(
    ("kind", "layout"), [("f16", "row_major"), ("f16", "col_major"), ("bf16", "row_major")]
)
def test_wmma(cuda: Compile, kind: str, layout: str) -> None:
    text = WMMA.replace("LAYOUT", layout)
    if kind == "bf16":
        text = text.replace("cuda_fp16", "cuda_bf16").replace("half", "__nv_bfloat16")
    (bits, a), (more, b) = drawn(kind, (16, 16)), drawn(kind, (16, 16))
    buffers = {"A": bits, "B": more, "C": np.zeros((16, 16), "f4")}
    got, _ = execute(cuda(text), "tile", buffers, ["A", "B", "C"], check=True)
    want = 2 * (a @ (b if layout == "row_major" else b.T) + 1)
    assert np.abs(got["C"] - want).max() < 1e-5


@pytest.mark.parametrize("matrix", ["a", "b"])
@pytest.mark.parametrize(("first", "taken"), [(0, True), (8, False)])
def test_wmma_takes_the_first_of_what_fragments_hold_twice(
    cuda: Compile, matrix: str, first: int, *, taken: bool
) -> None:
    # Read off ptxas 13.0 for sm_90: of eight registers HMMA takes the first four.
    text = WMMA.replace("LAYOUT", "row_major").replace(
        "  wmma::mma_sync",
        f"  for (int i = {first}; i < {first} + 8; i++) {matrix}.x[i] = __float2half(0.0f);\n"
        "  wmma::mma_sync",
    )
    a, b = (RNG.standard_normal((16, 16)).astype("f2") for _ in range(2))
    given = {"A": a, "B": b, "C": np.zeros((16, 16), "f4")}
    got, _ = execute(cuda(text), "tile", given, ["A", "B", "C"])
    want = 2 * (0 if taken else a.astype("f8") @ b.astype("f8")) + 2
    assert np.abs(got["C"] - want).max() < 1e-5


#: Shape, types of A and B, and the type of the sums.
PRODUCTS = [
    *((f"m16n8k{k}", kind, kind, "f32") for k in (8, 16) for kind in ("f16", "bf16")),
    *((f"m16n8k{k}", "tf32", "tf32", "f32") for k in (4, 8)),
    *((f"m{m}n8k16", "s8", "s8", "s32") for m in (8, 16)),
    ("m16n8k32", "s8", "s8", "s32"), ("m16n8k32", "u8", "u8", "s32"),
    ("m8n8k4", "f64", "f64", "f64"), *((f"m16n8k{k}", "f64", "f64", "f64") for k in (4, 8, 16)),
    *((f"m16n8k{k}", *kinds, "f32") for k in (16, 32)
      for kinds in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2"))),
]  # fmt: skip


def multiplied(opcode: str, held: dict[str, Array]) -> Ptx:
    """A kernel whose lanes load their registers, multiply, and store the sums over C."""
    lines = [HEADER, ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n{",
             ".reg .b64 %rd<5>; .reg .b32 %r<2>; mov.u32 %r1, %tid.x;"]  # fmt: skip
    names = {}
    for n, (letter, each) in enumerate(held.items()):
        count, word = each.shape[1:]
        names[letter] = "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        lines += [f".reg .b{8 * word} %{letter}<{count}>; mul.wide.u32 %rd4, %r1, {count * word};",
                  f"ld.param.u64 %rd{n}, [{letter}]; add.s64 %rd{n}, %rd{n}, %rd4;",
                  *(f"ld.global.b{8 * word} %{letter}{i}, [%rd{n}+{i * word}];"
                    for i in range(count))]  # fmt: skip
    count, word = held["c"].shape[1:]
    lines.append(f"{opcode} {names['c']}, {names['a']}, {names['b']}, {names['c']};")
    lines += [f"st.global.b{8 * word} [%rd2+{i * word}], %c{i};" for i in range(count)]
    return parse("\n".join([*lines, "ret; }"]))


@pytest.mark.parametrize(("shape", "left", "right", "out"), PRODUCTS)
def test_mma(shape: str, left: str, right: str, out: str) -> None:
    m, n, k = map(int, re.findall(r"\d+", shape))
    (a, x), (b, y) = drawn(left, (m, k)), drawn(right, (n, k))
    start = RNG.integers(-9, 9, (m, n)).astype({"f32": "f4", "s32": "i4", "f64": "f8"}[out])
    word = 8 if left == "f64" else 4
    held = {"a": registers(a, word), "b": registers(b, word),
            "c": registers(start, 2 * start.itemsize).reshape(32, -1, start.itemsize)}  # fmt: skip
    opcode = f"mma.sync.aligned.{shape}.row.col.{out}.{left}.{right}.{out}"
    got, _ = execute(multiplied(opcode, held), "k", held, ["a", "b", "c"])
    want = registers((x @ y.T + start).astype(start.dtype), 2 * start.itemsize)
    found, wanted = (each.reshape(-1).view(start.dtype) for each in (got["c"], want))
    bound = {"f32": 1e-6, "s32": 0, "f64": 1e-15}[out] * k
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


PIPELINE = """
extern "C" __global__ void pipe(const float* x, float* y, int n) {
  __shared__ __align__(16) float buffer[2][128];
  unsigned to = __cvta_generic_to_shared(&buffer[0][threadIdx.x * 4]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + threadIdx.x * 4));
  asm volatile("cp.async.commit_group;");
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    unsigned next = __cvta_generic_to_shared(&buffer[(i + 1) % 2][threadIdx.x * 4]);
    int size = i + 1 < n ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(next), "l"(x + (i + 1 < n ? i + 1 : 0) * 128 + threadIdx.x * 4), "r"(size));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group WAIT;");
    __syncthreads();
    for (int k = 0; k < 4; ++k) sum += buffer[i % 2][(threadIdx.x * 4 + k + 32) % 128];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
"""


def test_asynchronous_copies_land_when_waited_for(cuda: Compile) -> None:
    x = RNG.standard_normal((5, 128)).astype("f4")
    buffers = {"x": x, "y": np.zeros(32, "f4")}
    want = np.roll(x, -32, axis=1).reshape(5, 32, 4).astype("f8").sum((0, 2))
    right, outcome = execute(
        cuda(PIPELINE.replace("WAIT", "1")), "pipe", buffers, ["x", "y", 5], check=True
    )
    assert np.abs(right["y"] - want).max() < 1e-5
    copies = [
        row for row in outcome.rows if row.instr.parts[:2] == ("cp", "async") and row.site.width
    ]
    assert sum(row.site.sectors for row in copies) == 5 * 16
    # Each lands in four passes; the last one copies nothing but zeros.
    assert sum(row.site.wavefronts for row in copies) == 6 * 4
    late, _ = execute(cuda(PIPELINE.replace("WAIT", "2")), "pipe", buffers, ["x", "y", 5])
    assert np.abs(late["y"] - want).max() > 0.1  # the newest two groups were not waited for


LDMATRIX = """
extern "C" __global__ void rows(const unsigned* x, unsigned* y) {
  __shared__ __align__(16) unsigned tile[32 * PITCH];
  for (int i = threadIdx.x; i < 128; i += 32) tile[i / 4 * PITCH + i % 4] = x[i];
  __syncthreads();
  unsigned at = __cvta_generic_to_shared(&tile[threadIdx.x * PITCH]), r0, r1, r2, r3;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4TRANS.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at));
  y[threadIdx.x] = r0; y[32 + threadIdx.x] = r1; y[64 + threadIdx.x] = r2; y[96 + threadIdx.x] = r3;
}
"""


STMATRIX = """
extern "C" __global__ void rows(const unsigned* x, unsigned* y) {
  __shared__ __align__(16) unsigned tile[32 * PITCH];
  unsigned at = __cvta_generic_to_shared(&tile[threadIdx.x * PITCH]), t = threadIdx.x;
  asm volatile("stmatrix.sync.aligned.m8n8.x4TRANS.shared.b16 [%0], {%1, %2, %3, %4};"
    :: "r"(at), "r"(x[t]), "r"(x[32 + t]), "r"(x[64 + t]), "r"(x[96 + t]) : "memory");
  __syncwarp();
  for (int i = t; i < 128; i += 32) y[i] = tile[i / 4 * PITCH + i % 4];
}
"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("pitch", "wavefronts"), [(4, 4), (8, 8), (12, 4), (32, 32)])
@pytest.mark.parametrize("text", [LDMATRIX, STMATRIX], ids=["ldmatrix", "stmatrix"])
def test_rows_of_matrices(
    hopper: Compile, text: str, pitch: int, wavefronts: int, turned: bool
) -> None:
    text = text.replace("PITCH", str(pitch)).replace("TRANS", ".trans" if turned else "")
    halves = RNG.integers(0, 1 << 16, (4, 8, 8)).astype("u2")
    got, outcome = execute(
        hopper(text), "rows", {"x": halves.view("u4"), "y": np.zeros((4, 32), "u4")}, ["x", "y"],
        check=True,
    )  # fmt: skip
    want = np.swapaxes(halves, 1, 2) if turned else halves
    assert np.array_equal(got["y"].view("u2").reshape(4, 8, 8), want)
    (row,) = [row for row in outcome.rows if row.instr.op.endswith("matrix")]
    assert (row.site.wavefronts, row.site.wideal) == (wavefronts, 4)


def test_shapes_that_are_not_there_are_named(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(int* y) {
      int d0, d1;
      asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32 {%0, %1}, {%2}, {%3}, {%2, %3};"
        : "=r"(d0), "=r"(d1) : "r"(1), "r"(2));
      y[0] = d0 + d1;
    }"""
    with pytest.raises(Unsupported, match=r"k\.cu:[34]: kernel k: .*m8n8k32"):
        execute(cuda(text), "k", {"y": np.zeros(1, "i4")}, ["y"])


def test_movmatrix(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(const unsigned* x, unsigned* y) {
      unsigned d;
      asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(x[threadIdx.x]));
      y[threadIdx.x] = d;
    }"""
    x = RNG.integers(0, 1 << 16, (2, 8, 8)).astype("u2")
    got, _ = execute(
        cuda(text), "k", {"x": x.view("u4"), "y": np.zeros(64, "u4")}, ["x", "y"], block=64
    )
    assert np.array_equal(got["y"].view("u2").reshape(2, 8, 8), np.swapaxes(x, 1, 2))
