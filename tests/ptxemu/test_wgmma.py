"""Products of warpgroups against NumPy: every input type, layout and place of the operands.

Images of shared memory are made here, by the tables of the manual: cores of eight rows of 16
bytes where nothing is exchanged, else rows of 32, 64 or 128 bytes as a tensor copy leaves them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from ptxemu.errors import Fault
from ptxemu.launch import TensorArgument
from ptxemu.tensormap import TensorMap
from tests.ptxemu.conftest import Array, Compile, execute, scalar
from tests.ptxemu.ptxwords import PRELUDE, drawn, registers
from tests.ptxemu.test_bulk import unswizzled

pytestmark = pytest.mark.nvcc

RNG = np.random.default_rng(9)
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
#: Largest errors by type of the sums; by that of the operands where a chip's sums are worse.
LIMITS = {"f32": 1e-6, "f16": 2e-3}
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


class Image(NamedTuple):
    """A matrix in shared memory and the offsets of its descriptor; `next` one step of K on."""

    data: Array
    leading: int
    stride: int
    next: int


def by_k(rows: Array, swizzle: int) -> Image:
    """(rows, bytes along K): neighbours along K are neighbours in memory."""
    octets = np.ascontiguousarray(rows).view("u1")
    if swizzle:
        return Image(unswizzled(octets.reshape(-1), swizzle), 16, 8 * swizzle, 32)
    chunks = octets.shape[1] // 16
    cores = octets.reshape(-1, 8, chunks, 16).transpose(0, 2, 1, 3)
    return Image(np.ascontiguousarray(cores).reshape(-1), 128, 128 * chunks, 256)


def by_outer(rows: Array, swizzle: int) -> Image:
    """(rows, 16 along K) of two bytes: neighbours along the other axis are neighbours."""
    across = np.ascontiguousarray(rows.T)  # (16, rows)
    span = swizzle or 16
    octets = across.view("u1").reshape(16, -1, span).transpose(1, 0, 2)
    flat = np.ascontiguousarray(octets).reshape(-1)
    if swizzle:
        return Image(unswizzled(flat, swizzle), 16 * swizzle, 8 * swizzle, 0)
    return Image(flat, 128, 256, 0)  # of K and of the other axis: they trade places


def product(n: int, kind: str, out: str, *, registers: bool, more: str) -> str:
    """A kernel that fills shared memory from an image and multiplies `steps` times along K."""
    count = n // 4 if out == "f16" else n // 2
    k = 32 // SIZES[kind]
    letter, ctype = {"f32": ("f", "float"), "f16": ("r", "unsigned"), "s32": ("r", "int")}[out]
    sums = ", ".join(f"%{i}" for i in range(count))
    places = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    left = f"%{count}"
    if registers:
        left = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
    first = count + 4 if registers else count + 1
    given = ", ".join(f'"r"(f[{i}])' for i in range(4)) if registers else '"l"(da + s * na)'
    fill = "f[i] = frag[(s * 128 + threadIdx.x) * 4 + i];" if registers else "f[i] = 0;"
    return (
        PRELUDE
        + rf"""
extern "C" __global__ void product(const uint4* image, const unsigned* frag, const {ctype}* c,
    {ctype}* y, unsigned long long da, unsigned long long db, int na, int nb, int steps,
    int units, int keep) {{
  extern __shared__ __align__(1024) uint4 smem[];
  for (int i = threadIdx.x; i < units; i += 128) smem[i] = image[i];
  proxy_fence();
  __syncthreads();
  da += (at(smem) >> 4); db += (at(smem) >> 4);
  {ctype} d[{count}];
  for (int i = 0; i < {count}; ++i) d[i] = c[i * 128 + threadIdx.x];
  for (int s = 0; s < steps; ++s) {{
    unsigned f[4];
    for (int i = 0; i < 4; ++i) {fill}
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{.reg .pred p; setp.ne.b32 p, %{first + 1}, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{out}.{kind}.{kind} {{{sums}}}, {left}, %{first}, p"
      "{more};}}" : {places} : {given}, "l"(db + s * nb), "r"(s | keep));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
  for (int i = 0; i < {count}; ++i) y[i * 128 + threadIdx.x] = d[i];
}}
"""
    )


def held(matrix: Array, word: int, each: int) -> Array:
    """What the threads of a warpgroup hold of 64 rows: (registers, 128, `each` bytes)."""
    threads = np.concatenate([registers(rows, word) for rows in np.split(matrix, 4)])
    return np.ascontiguousarray(threads.reshape(128, -1, each).swapaxes(0, 1))


class Case(NamedTuple):
    """One product: columns, types, layouts ("k" or "mn" of A, of B), swizzles and signs."""

    n: int = 32
    kind: str = "f16"
    out: str = "f32"
    majors: tuple[str, str] = ("k", "k")
    swizzles: tuple[int, int] = (128, 128)
    registers: bool = False
    signs: tuple[int, int] = (1, 1)
    keep: int = 1


CASES = [
    *(Case(kind=kind, swizzles=(swizzle, swizzle)) for kind in ("f16", "tf32")
      for swizzle in (0, 32, 64, 128)),
    *(Case(n=128, majors=("mn", "mn"), swizzles=(swizzle, swizzle))
      for swizzle in (0, 32, 64, 128)),
    Case(kind="bf16", majors=("mn", "k"), swizzles=(64, 32)),
    Case(kind="bf16", n=64, majors=("k", "mn"), swizzles=(0, 128)),
    Case(kind="bf16", n=256), Case(n=8), Case(keep=0), Case(signs=(-1, 1)), Case(signs=(-1, -1)),
    Case(out="f16", n=64), Case(kind="e4m3"), Case(kind="e5m2", out="f16"),
    Case(kind="s8", out="s32"), Case(kind="u8", out="s32", swizzles=(32, 64)),
    *(Case(kind=kind, registers=True, out="s32" if kind == "s8" else "f32")
      for kind in ("f16", "bf16", "tf32", "e4m3", "s8")),
    Case(registers=True, majors=("k", "mn"), n=64, swizzles=(128, 64)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_product(hopper: Compile, case: Case) -> None:
    n, kind, out, majors, swizzles, in_registers, signs, keep = case
    size = SIZES[kind]
    steps = min(s // 32 if s else 2 for s in swizzles) if majors == ("k", "k") else 1
    # With one major across K the other operand's rows are one step long as well.
    k = steps * 32 // size
    pairs = []
    for rows, major, swizzle in zip((64, n), majors, swizzles, strict=True):
        stored, numbers = drawn(kind, (rows, k))
        wide = np.zeros((rows, max(swizzle, 32 * steps) // size), stored.dtype)
        wide[:, :k] = stored
        pairs.append((stored, numbers, by_k(wide, swizzle) if major == "k"
                      else by_outer(stored, swizzle)))  # fmt: skip
    (stored_a, a, image_a), (_, b, image_b) = pairs
    start = -(-len(image_a.data) // 1024) * 1024
    image = np.zeros(start + len(image_b.data), "u1")
    image[: len(image_a.data)], image[start:] = image_a.data, image_b.data
    descriptors = [
        (at >> 4) | i.leading >> 4 << 16 | i.stride >> 4 << 32 | MODES[swizzle] << 62
        for at, i, swizzle in zip((0, start), (image_a, image_b), swizzles, strict=True)
    ]
    more = ""
    if kind not in ("s8", "u8"):
        more = f", {signs[0]}, {signs[1]}"
    if kind in ("f16", "bf16"):
        turned = [int(major == "mn") for major in majors]
        more += f", {turned[1]}" if in_registers else f", {turned[0]}, {turned[1]}"
    dtype = {"f32": "f4", "f16": "f2", "s32": "i4"}[out]
    c = RNG.integers(-5, 6, (64, n)).astype(dtype)
    sums = held(c, 2 * c.itemsize, 4)
    text = product(n, kind, out, registers=in_registers, more=more)
    # Four registers a step.
    frag = held(stored_a, 4, 4).reshape(steps, 4, 128, 4).swapaxes(1, 2) if in_registers else sums
    got, _ = execute(
        hopper(text), "product", {"image": image, "frag": frag, "c": sums, "y": sums * 0},
        ["image", "frag", "c", "y", *(scalar(each, "ulong") for each in descriptors),
         image_a.next >> 4, image_b.next >> 4, steps, len(image) // 16, keep],
        block=128, shared=len(image),
    )  # fmt: skip
    matrix = signs[0] * signs[1] * (a @ b.T) + keep * c.astype("f8")
    want = held(matrix, 16, 8 * 4 // c.itemsize).view("f8").reshape(-1)
    found = got["y"].reshape(-1).view(dtype).astype("f8")
    if out == "s32":
        assert np.array_equal(found, want)
    else:
        limit = LIMITS.get(kind, LIMITS[out])
        assert np.abs(found - want).max() <= limit * (1 + np.abs(want).max())


def test_half_a_warpgroup_is_named(hopper: Compile) -> None:
    text = (
        PRELUDE
        + r"""
extern "C" __global__ void k(float* y) {
  float d[4] = {1, 2, 3, 4};
  if (threadIdx.x < 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4,"
      " 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(0ull));
  y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}"""
    )
    with pytest.raises(Fault, match=r"k\.cu:\d+: wgmma without its whole warpgroup"):
        execute(hopper(text), "k", {"y": np.zeros(128, "f4")}, ["y"], block=128)


SPECIALISED = (
    PRELUDE
    + r"""
MMA
DEV uint64_t matrix(const void* p) {
  return (uint64_t)(at(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
extern "C" __global__ void gemm(const __grid_constant__ CUtensorMap ma,
    const __grid_constant__ CUtensorMap mb, float* C, int N, int K) {
  extern __shared__ __align__(1024) half smem[];  // two stages of 128x64 and 64x64
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 2); }
  __syncthreads();
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 256)
      for (int i = 0; i < K / 64; ++i) {
        int s = i % 2;
        half* stage = smem + s * 12288;
        wait(&empty[s], (i / 2 + 1) % 2);
        expect(&full[s], 24576);
        tile(stage, &ma, i * 64, blockIdx.y * 128, &full[s]);
        tile(stage + 8192, &mb, i * 64, blockIdx.x * 64, &full[s]);
      }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  int group = threadIdx.x / 128;
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 0;
  for (int i = 0; i < K / 64; ++i) {
    int s = i % 2;
    half* stage = smem + s * 12288;
    wait(&full[s], i / 2 % 2);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < 64; k += 16)
      mma(d, matrix(stage + group * 4096 + k), matrix(stage + 8192 + k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    // The product before this one is done: its stage is free.
    if (i > 0 && threadIdx.x % 128 == 0) arrive(&empty[(i + 1) % 2]);
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  int w = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 32; ++i) {
    int row = blockIdx.y * 128 + 16 * w + 8 * (i / 2 % 2) + g;
    C[row * N + blockIdx.x * 64 + 8 * (i / 4) + 2 * t + i % 2] = d[i];
  }
}
"""
)


@pytest.mark.parametrize("threads", [288, 384])
def test_a_specialized_kernel(hopper: Compile, threads: int) -> None:
    """One warp or warpgroup copies, two multiply: a ring of stages, one product in flight."""
    sums = ", ".join(f"%{i}" for i in range(32))
    places = ", ".join(f'"+f"(d[{i}])' for i in range(32))
    mma = (
        "DEV void mma(float (&d)[32], uint64_t a, uint64_t b) {\n"
        'asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "\n'
        f'"{{{sums}}}, %32, %33, 1, 1, 1, 0, 0;" : {places} : "l"(a), "l"(b)); }}'
    )
    m, n, k = 256, 192, 320
    a, b = (RNG.standard_normal((rows, k)).astype("f2") for rows in (m, n))
    maps = [
        TensorMap("float16", (k, rows), (2 * k,), (64, box), swizzle=128)
        for rows, box in ((m, 128), (n, 64))
    ]
    got, outcome = execute(
        hopper(SPECIALISED.replace("MMA", mma)), "gemm",
        {"a": a, "b": b, "c": np.zeros((m, n), "f4")},
        [TensorArgument("a", maps[0]), TensorArgument("b", maps[1]), "c", n, k],
        grid=(3, 2, 1), block=threads, shared=49152, check=True, unwritten=["c"],
    )  # fmt: skip
    assert np.abs(got["c"] - a.astype("f8") @ b.astype("f8").T).max() < 1e-3
    assert sum(row.operations for row in outcome.rows if row.instr.op == "wgmma") == 2 * m * n * k
    tensor, memory = (
        sum(row.warps for row in outcome.rows if row.kind == kind) for kind in ("tensor", "memory")
    )
    assert tensor == 6 * 8 * (k // 16) and memory > 0
