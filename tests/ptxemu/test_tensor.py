"""Tensor-core instructions and asynchronous copies against matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxemu.errors import Unsupported
from ptxemu.ptx.parser import parse
from tests.ptxemu.conftest import HEADER, Compile, execute

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


def test_wmma_of_bfloat16(cuda: Compile) -> None:
    text = WMMA.replace("cuda_fp16", "cuda_bf16").replace("half", "__nv_bfloat16")
    bits = [RNG.standard_normal((16, 16)).astype("f4").view("u4") >> 16 for _ in range(2)]
    a, b = ((each << 16).view("f4").astype("f8") for each in bits)
    got, _ = execute(
        cuda(text.replace("LAYOUT", "row_major")), "tile",
        {"A": bits[0].astype("u2"), "B": bits[1].astype("u2"), "C": np.zeros((16, 16), "f4")},
        ["A", "B", "C"], check=True,
    )  # fmt: skip
    assert np.abs(got["C"] - 2 * (a @ b + 1)).max() < 1e-5


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


SMALL = """
extern "C" __global__ void frag(const TYPE* A, const TYPE* B, OUT* C) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  OUT c0 = 5, c1 = 6;
  asm volatile("mma.sync.aligned.SHAPE {%0, %1}, {%2}, {%3}, {%0, %1};"
    : "+LETTER"(c0), "+LETTER"(c1) : "INPUT"(A[g * 4 + t]), "INPUT"(B[g * 4 + t]));
  C[g * 8 + 2 * t] = c0; C[g * 8 + 2 * t + 1] = c1;
}
"""


def small(**words: str) -> str:
    text = SMALL
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def test_mma_of_eight_rows(cuda: Compile) -> None:
    start = np.array([[5, 6] * 4] * 8)
    text = small(
        SHAPE="m8n8k16.row.col.s32.s8.s8.s32", TYPE="unsigned", OUT="int", LETTER="r", INPUT="r"
    )
    a, b = (RNG.integers(-128, 128, (8, 16)).astype("i1") for _ in range(2))
    got, _ = execute(
        cuda(text), "frag", {"A": a, "B": b, "C": np.zeros((8, 8), "i4")}, ["A", "B", "C"]
    )
    assert np.array_equal(got["C"], a.astype(int) @ b.T.astype(int) + start)
    text = small(
        SHAPE="m8n8k4.row.col.f64.f64.f64.f64", TYPE="double", OUT="double", LETTER="d", INPUT="d"
    )
    p, q = RNG.standard_normal((8, 4)), RNG.standard_normal((8, 4))
    got, _ = execute(cuda(text), "frag", {"A": p, "B": q, "C": np.zeros((8, 8))}, ["A", "B", "C"])
    assert np.abs(got["C"] - (p @ q.T + start)).max() < 1e-12


@pytest.mark.parametrize("layout", ["row_major", "col_major"])
def test_wmma(cuda: Compile, layout: str) -> None:
    a, b = (RNG.standard_normal((16, 16)).astype("f2") for _ in range(2))
    got, _ = execute(
        cuda(WMMA.replace("LAYOUT", layout)), "tile",
        {"A": a, "B": b, "C": np.zeros((16, 16), "f4")}, ["A", "B", "C"], check=True,
    )  # fmt: skip
    right = b if layout == "row_major" else b.T
    want = 2 * (a.astype("f8") @ right.astype("f8") + 1)
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


def fragments(shape: str, kind: str, out: str, a: str, b: str) -> str:
    """A kernel that fills fragments by the manual's figures and writes D out."""
    m, n, k = (int(x) for x in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    del n, k
    names_a = ", ".join(f"%{i + 4}" for i in range(a.count("|") + 1))
    count_a, count_b = a.count("|") + 1, b.count("|") + 1
    names_b = ", ".join(f"%{i + 4 + count_a}" for i in range(count_b))
    letter = "f" if out == "f32" else "r"
    ctype = "float" if out == "f32" else "int"
    values = (
        ", ".join(f'"r"(a{i})' for i in range(count_a))
        + ", "
        + ", ".join(f'"r"(b{i})' for i in range(count_b))
    )
    lines_a = "".join(f"unsigned a{i} = {e};" for i, e in enumerate(a.split("|")))
    lines_b = "".join(f"unsigned b{i} = {e};" for i, e in enumerate(b.split("|")))
    assert m == 16
    return f"""
extern "C" __global__ void frag(const unsigned* A, const unsigned* B, {ctype}* C) {{
  int l = threadIdx.x, g = l / 4, t = l % 4;
  {lines_a} {lines_b}
  {ctype} c0 = 1, c1 = 2, c2 = 3, c3 = 4;
  asm volatile("mma.sync.aligned.{shape}.row.col.{out}.{kind}.{kind}.{out} {{%0,%1,%2,%3}},"
    "{{{names_a}}},{{{names_b}}},{{%0,%1,%2,%3}};"
    : "+{letter}"(c0), "+{letter}"(c1), "+{letter}"(c2), "+{letter}"(c3) : {values});
  C[g * 8 + 2 * t] = c0; C[g * 8 + 2 * t + 1] = c1;
  C[(g + 8) * 8 + 2 * t] = c2; C[(g + 8) * 8 + 2 * t + 1] = c3;
}}"""


#: shape, type, K: words a row of A and of B's columns hold; lane (g, t) reads word t (+4) of a row.
SHAPES = [
    ("m16n8k8", "f16", 4), ("m16n8k8", "bf16", 4), ("m16n8k16", "f16", 8),
    ("m16n8k16", "bf16", 8), ("m16n8k4", "tf32", 4), ("m16n8k8", "tf32", 8),
    ("m16n8k16", "s8", 4), ("m16n8k32", "s8", 8), ("m16n8k32", "u8", 8),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kind", "row"), SHAPES)
def test_mma(cuda: Compile, shape: str, kind: str, row: int) -> None:
    a = "|".join(
        f"A[(g + {half}) * {row} + t + {block}]" for block in range(0, row, 4) for half in (0, 8)
    )
    b = "|".join(f"B[g * {row} + t + {block}]" for block in range(0, row, 4))
    out = "s32" if kind in ("s8", "u8") else "f32"
    per = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}[kind]
    k = row * per
    if kind in ("s8", "u8"):
        dtype = "i1" if kind == "s8" else "u1"
        info = np.iinfo(dtype)
        left = RNG.integers(info.min, info.max + 1, (16, k)).astype(dtype)
        right = RNG.integers(info.min, info.max + 1, (8, k)).astype(dtype)
        x, y = left.astype("i8"), right.astype("i8")
    elif kind == "f16":
        left, right = (RNG.standard_normal((rows, k)).astype("f2") for rows in (16, 8))
        x, y = left.astype("f8"), right.astype("f8")
    else:
        drop = 16 if kind == "bf16" else 13
        cut = [
            RNG.standard_normal((rows, k)).astype("f4").view("u4") >> drop << drop
            for rows in (16, 8)
        ]
        x, y = (bits.view("f4").astype("f8") for bits in cut)
        left, right = ((bits >> 16).astype("u2") if kind == "bf16" else bits for bits in cut)
    start = np.array([[1, 2] * 4] * 8 + [[3, 4] * 4] * 8)
    got, _ = execute(
        cuda(fragments(shape, kind, out, a, b)), "frag",
        {"A": np.ascontiguousarray(left), "B": np.ascontiguousarray(right),
         "C": np.zeros((16, 8), "i4" if out == "s32" else "f4")},
        ["A", "B", "C"],
    )  # fmt: skip
    want = x @ y.T + start
    if out == "s32":
        assert np.array_equal(got["C"], want)
    else:
        assert np.abs(got["C"] - want).max() < 1e-5


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


@pytest.mark.parametrize(("pitch", "wavefronts"), [(4, 4), (8, 8), (12, 4), (32, 32)])
@pytest.mark.parametrize("turned", [False, True])
def test_ldmatrix(cuda: Compile, pitch: int, wavefronts: int, turned: bool) -> None:
    text = LDMATRIX.replace("PITCH", str(pitch)).replace("TRANS", ".trans" if turned else "")
    halves = RNG.integers(0, 1 << 16, (4, 8, 8)).astype("u2")
    got, outcome = execute(
        cuda(text), "rows", {"x": halves.view("u4"), "y": np.zeros((4, 32), "u4")}, ["x", "y"],
        check=True,
    )  # fmt: skip
    want = np.swapaxes(halves, 1, 2) if turned else halves
    assert np.array_equal(got["y"].view("u2").reshape(4, 8, 8), want)
    (row,) = [row for row in outcome.rows if row.instr.op == "ldmatrix"]
    assert (row.site.wavefronts, row.site.wideal) == (wavefronts, 4)


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
def test_stmatrix(hopper: Compile, turned: bool) -> None:
    text = STMATRIX.replace("PITCH", "12").replace("TRANS", ".trans" if turned else "")
    halves = RNG.integers(0, 1 << 16, (4, 8, 8)).astype("u2")
    got, _ = execute(
        hopper(text), "rows", {"x": halves.view("u4"), "y": np.zeros((4, 32), "u4")}, ["x", "y"],
        check=True,
    )  # fmt: skip
    want = np.swapaxes(halves, 1, 2) if turned else halves
    assert np.array_equal(got["y"].view("u2").reshape(4, 8, 8), want)


def test_shapes_that_are_not_there_are_named(cuda: Compile) -> None:
    text = """extern "C" __global__ void k(int* y) {
      int d0, d1;
      asm volatile("mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32 {%0, %1}, {%2}, {%3}, {%2, %3};"
        : "=r"(d0), "=r"(d1) : "r"(1), "r"(2));
      y[0] = d0 + d1;
    }"""
    with pytest.raises(Unsupported, match=r"k\.cu:[34]: kernel k: .*m8n8k32"):
        execute(cuda(text), "k", {"y": np.zeros(1, "i4")}, ["y"])


def numbers_of_bytes(codes: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """8-bit floats as float64, by the format's own definition."""
    digits, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[kind]
    power, rest = (codes & 0x7F) >> digits, codes & ((1 << digits) - 1)
    size = np.where(
        power > 0,
        (1 + rest / (1 << digits)) * 2.0 ** (power.astype(int) - bias),
        rest / (1 << digits) * 2.0 ** (1 - bias),
    )
    return np.where(codes > 127, -size, size)


@pytest.mark.parametrize(("left", "right"), [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2")])
@pytest.mark.parametrize("depth", [16, 32])
def test_mma_of_bytes_that_are_floats(left: str, right: str, depth: int) -> None:
    words = depth // 16  # registers of half a row of four threads
    a, b = "{%r1,%r2,%r3,%r4}", "{%r5,%r6}"
    if words == 1:
        a, b = "{%r1,%r2}", "{%r5}"
    text = f"""{HEADER.replace("8.4", "8.7").replace("sm_90", "sm_89")}
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc)
{{
    .reg .b32 %r<12>; .reg .f32 %f<8>; .reg .b64 %rd<12>;
    mov.u32 %r8, %tid.x;
    mul.wide.u32 %rd8, %r8, 16;
    ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pc];
    add.u64 %rd1, %rd1, %rd8; add.u64 %rd2, %rd2, %rd8; add.u64 %rd3, %rd3, %rd8;
    ld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%rd1];
    ld.global.v2.u32 {{%r5,%r6}}, [%rd2];
    mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
    mma.sync.aligned.m16n8k{depth}.row.col.f32.{left}.{right}.f32
        {{%f1,%f2,%f3,%f4}}, {a}, {b}, {{%f1,%f2,%f3,%f4}};
    st.global.v4.f32 [%rd3], {{%f1,%f2,%f3,%f4}};
    ret;
}}
"""
    x, y = (RNG.integers(0, 0x78, (rows, depth)).astype("u1") for rows in (16, 8))
    x, y = (each | (RNG.integers(0, 2, each.shape) << 7).astype("u1") for each in (x, y))
    lanes, t = np.arange(32) // 4, np.arange(32) % 4
    at, bt, want = np.zeros((32, 4, 4), "u1"), np.zeros((32, 4, 4), "u1"), np.zeros((32, 4))
    product = numbers_of_bytes(x, left) @ numbers_of_bytes(y, right).T + 1
    for word in range(words):
        for byte in range(4):
            column = 16 * word + 4 * t + byte
            for half in (0, 1):
                at[:, 2 * word + half, byte] = x[lanes + 8 * half, column]
            bt[:, word, byte] = y[lanes, column]
    for half in (0, 1):
        for each in (0, 1):
            want[:, 2 * half + each] = product[lanes + 8 * half, 2 * t + each]
    got, _ = execute(
        parse(text), "k", {"pa": at, "pb": bt, "pc": np.zeros((32, 4), "f4")}, ["pa", "pb", "pc"]
    )
    assert np.array_equal(got["pc"], want.astype("f4"))


@pytest.mark.parametrize("depth", [4, 8, 16])
def test_mma_of_float64_of_sixteen_rows(cuda: Compile, depth: int) -> None:
    # Fragments as the manual draws them: row t / 4 and eight further, four columns apart.
    of_a, of_b = depth // 2, depth // 4
    named = [
        ", ".join(f"%{start + at}" for at in range(count))
        for start, count in ((0, 4), (4, of_a), (4 + of_a, of_b))
    ]
    loads = [
        *(f'"d"(A[(g + {8 * (i % 2)}) * {depth} + t + {4 * (i // 2)}])' for i in range(of_a)),
        *(f'"d"(B[g * {depth} + t + {4 * i}])' for i in range(of_b)),
    ]
    text = f"""extern "C" __global__ void k(const double* A, const double* B, double* C) {{
      int g = threadIdx.x / 4, t = threadIdx.x % 4;
      double c[4] = {{1, 2, 3, 4}};
      asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.f64.f64.f64.f64 {{{named[0]}}}, "
        "{{{named[1]}}}, {{{named[2]}}}, {{{named[0]}}};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3]) : {", ".join(loads)});
      for (int i = 0; i < 4; i++) C[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
    }}"""
    a, b = RNG.standard_normal((16, depth)), RNG.standard_normal((8, depth))
    got, _ = execute(cuda(text), "k", {"A": a, "B": b, "C": np.zeros((16, 8))}, ["A", "B", "C"])
    start = np.tile(np.array([[1.0, 2.0]]), (16, 4)) + np.repeat([[0.0], [2.0]], 8, axis=0)
    assert np.abs(got["C"] - (a @ b.T + start)).max() < 1e-12


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
