"""``wmma`` of every shape and type: results against NumPy, accesses against the machine code."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest

from ptxemu.ptx.instructions import Ptx
from ptxemu.sass import Sign
from tests.ptxemu.conftest import Compile, execute
from tests.ptxemu.ptxwords import drawn

#: The machine's load of matrices.
LDSM = 0x03B
RNG = np.random.default_rng(38)

HEAD = "#include <mma.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
TEXT = """
extern "C" __global__ void NAME(const TYPE* A, const TYPE* B, SUM* C) {
  PLACES
  wmma::fragment<wmma::matrix_a, M, N, K, INPUT, wmma::LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, INPUT, wmma::LB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, SUM> fc;
  wmma::load_matrix_sync(fa, a, ROW_A);
  wmma::load_matrix_sync(fb, b, ROW_B);
  wmma::load_matrix_sync(fc, c, ROW_C, wmma::mem_LC);
  for (int i = 0; i < fa.num_elements; i++) fa.x[i] = ROUND(fa.x[i]);
  for (int i = 0; i < fb.num_elements; i++) fb.x[i] = ROUND(fb.x[i]);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, ROW_C, wmma::mem_LC);
  AFTER
}
"""
GLOBAL = "const TYPE *a = A, *b = B; SUM* c = C;"
SHARED = """
  __shared__ __align__(256) TYPE a[M * K], b[N * K];
  __shared__ __align__(256) SUM c[M * N];
  for (int i = threadIdx.x; i < M * K; i += 32) a[i] = A[i];
  for (int i = threadIdx.x; i < N * K; i += 32) b[i] = B[i];
  for (int i = threadIdx.x; i < M * N; i += 32) c[i] = C[i];
  __syncwarp();
"""
AFTER = "__syncwarp(); for (int i = threadIdx.x; i < M * N; i += 32) C[i] = c[i];"

#: Input type of C++ -> its elements in memory, the sums, what they are in PTX and in NumPy.
KINDS: dict[str, tuple[str, str, str, str]] = {
    "half": ("half", "float", "f16", "f4"),
    "half, half": ("half", "half", "f16", "f2"),
    "__nv_bfloat16": ("__nv_bfloat16", "float", "bf16", "f4"),
    "unsigned char": ("unsigned char", "int", "u8", "i4"),
    "signed char": ("signed char", "int", "s8", "i4"),
    "wmma::precision::tf32": ("float", "float", "tf32", "f4"),
    "double": ("double", "double", "f64", "f8"),
}
WIDE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
CASES = [
    *((kind, shape) for kind in list(KINDS)[:5] for shape in WIDE),
    ("wmma::precision::tf32", (16, 16, 8)),
    ("double", (8, 8, 4)),
]
LAYOUTS = (
    ("row_major", "row_major", "row_major"),
    ("row_major", "col_major", "row_major"),
    ("col_major", "col_major", "col_major"),
)


#: Type and shape, layouts, and whether the matrices lie in shared memory: every fifth of all,
#: which are compiled together.
KERNELS = {
    f"k{number}": case
    for number, case in enumerate(itertools.product(CASES, LAYOUTS, (False, True)))
    if number % 5 == 0
}


def program() -> str:
    """All kernels, which are compiled together."""
    text = HEAD
    for name, ((kind, shape), layouts, shared) in KERNELS.items():
        m, n, k = shape
        element, total, *_ = KINDS[kind]
        by_column = [each == "col_major" for each in layouts]
        body = TEXT.replace("PLACES", SHARED if shared else GLOBAL)
        body = body.replace("AFTER", AFTER if shared else "").replace("mem_LC", f"mem_{layouts[2]}")
        words = {
            "NAME": name, "TYPE": element, "SUM": total, "INPUT": kind.partition(",")[0],
            "LA": layouts[0], "LB": layouts[1], "ROW_A": m if by_column[0] else k,
            "ROW_B": k if by_column[1] else n, "ROW_C": m if by_column[2] else n,
            "M": m, "N": n, "K": k, "ROUND": "wmma::__float_to_tf32" if "tf32" in kind else "",
        }  # fmt: skip
        for word, value in words.items():
            body = re.sub(rf"\b{word}\b", str(value), body)
        text += body
    return text


@pytest.fixture(scope="module")
def module(cuda: Compile) -> Ptx:
    return cuda(program())


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_a_product_is_right_and_its_accesses_are_the_machines(module: Ptx, name: str) -> None:
    (kind, (m, n, k)), layouts, _ = KERNELS[name]
    (a, x), (b, y) = (drawn(KINDS[kind][2], shape) for shape in ((m, k), (k, n)))
    if "tf32" in kind:  # which is rounded otherwise than it is read
        a, b = a & 0xFFFFE000, b & 0xFFFFE000
    c = RNG.integers(-9, 9, (m, n)).astype(KINDS[kind][3])
    by_column = [each == "col_major" for each in layouts]
    given = {
        key: np.ascontiguousarray(each.T if turn else each)
        for key, each, turn in zip("ABC", (a, b, c), by_column, strict=True)
    }
    got, counts = execute(module, name, given, ["A", "B", "C"], check=True)
    found = got["C"].reshape((n, m)).T if by_column[2] else got["C"]
    bound = {"f2": 0.02, "f4": 1e-5}.get(KINDS[kind][3], 1e-12)
    assert np.abs(found - (x @ y + c)).max() <= bound
    machine = Counter(
        each.ptx_line
        for each in module.assembled.functions[name]
        if each.sign("wmma") is Sign.FRAGMENT and (each.moves or each.opcode == LDSM)
    )
    asked = {
        row.instr.ptx_line: row.site.requests + row.site.shared_requests
        for row in counts.rows
        if row.instr.op == "wmma" and row.instr.parts[1] != "mma"
    }
    assert asked == {line: machine[line] for line in asked}


STORED = """
extern "C" __global__ void k(float* y) {
  __shared__ float c[256];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
  wmma::fill_fragment(f, 1.0f);
  wmma::store_matrix_sync(c, f, 16, wmma::mem_row_major);
  BETWEEN
  for (int i = threadIdx.x; i < 256; i += 32) y[i] = c[i];
}
"""


@pytest.mark.parametrize(
    ("between", "told"),
    [
        ("", True),
        ("for (int i = threadIdx.x; i < 256; i += 32) c[i] *= 2;", True),
        ("wmma::store_matrix_sync(c, f, 16, wmma::mem_row_major);", True),
        ("__syncwarp();", False),
        ("__syncthreads();", False),
        ("wmma::load_matrix_sync(f, c, 16, wmma::mem_row_major);", False),
    ],
)
def test_a_stored_matrix_is_read_behind_an_order(cuda: Compile, between: str, told: bool) -> None:
    text = HEAD + STORED.replace("BETWEEN", between)
    _, counts = execute(cuda(text), "k", {"y": np.zeros(256, "f4")}, ["y"], check=True)
    assert ["a lane reads" in line for line in counts.warnings] == [True] * told
