"""mbarriers, bulk copies and tensor tiles against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxemu.errors import DescriptorError, Fault, LaunchError, Unsupported
from ptxemu.launch import TensorArgument
from ptxemu.tensormap import Im2col, TensorMap, decode
from tests.ptxemu.conftest import Array, Compile, execute, scalar
from tests.ptxemu.ptxwords import PRELUDE

pytestmark = pytest.mark.nvcc

RNG = np.random.default_rng(16)

RING = (
    PRELUDE
    + r"""
extern "C" __global__ void ring(const float* x, float* y, int n) {
  __shared__ __align__(128) float stage[2][128];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) { init(&full[i], 1); init(&empty[i], 128); }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128)
      for (int i = 0; i < n; ++i) {
        int s = i % 2;
        wait(&empty[s], (i / 2 + 1) & 1);
        expect(&full[s], 512);
        bulk(stage[s], x + (blockIdx.x * n + i) * 128, 512, &full[s]);
      }
  } else {
    float sum = 0;
    for (int i = 0; i < n; ++i) {
      int s = i % 2;
      wait(&full[s], (i / 2) & 1);
      sum += stage[s][127 - threadIdx.x];
      arrive(&empty[s]);
    }
    y[blockIdx.x * 128 + threadIdx.x] = sum;
  }
}
"""
)


@pytest.mark.parametrize("check", [False, True])
def test_a_ring_of_stages(hopper: Compile, check: bool) -> None:
    x = RNG.standard_normal((5, 7, 128)).astype("f4")
    got, _ = execute(
        hopper(RING), "ring", {"x": x, "y": np.zeros((5, 128), "f4")}, ["x", "y", 7],
        grid=5, block=160, check=check, unwritten=["y"] if check else [],
    )  # fmt: skip
    assert np.abs(got["y"] - x[:, :, ::-1].astype("f8").sum(1)).max() < 1e-5


def test_counts_tokens_and_drops(hopper: Compile) -> None:
    """What `arrive` gives says which phase it was; a dropped arrival is expected no more."""
    text = (
        PRELUDE
        + r"""
    extern "C" __global__ void k(int* y) {
      __shared__ uint64_t bar;
      if (threadIdx.x == 0) init(&bar, 64);
      __syncthreads();
      uint64_t state; int left, done;
      asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at(&bar)));
      asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(left) : "l"(state));
      asm volatile("{.reg .pred p; W: mbarrier.test_wait.shared::cta.b64 p, [%1], %2;"
        "@!p bra W; selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(at(&bar)), "l"(state));
      y[threadIdx.x] = left * 10 + done;
      if (threadIdx.x >= 32) {
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" :: "r"(at(&bar)));
      } else {
        arrive(&bar); wait(&bar, 1);
        arrive(&bar); wait(&bar, 0);   // 32 arrivals are enough now
      }
      y[64 + threadIdx.x] = 1;
    }"""
    )
    got, _ = execute(hopper(text), "k", {"y": np.zeros(128, "i4")}, ["y"], block=64, check=True)
    assert (got["y"][:64] % 10 == 1).all() and set(got["y"][:64] // 10) <= set(range(1, 65))
    assert (got["y"][64:] == 1).all()


def test_small_copies_arrive(hopper: Compile) -> None:
    """`cp.async` of one warp, whose end another learns from an mbarrier."""
    text = (
        PRELUDE
        + r"""
    extern "C" __global__ void k(const float* x, float* y) {
      __shared__ __align__(16) float tile_[128];
      __shared__ uint64_t bar;
      if (threadIdx.x == 0) init(&bar, 32);
      __syncthreads();
      if (threadIdx.x < 32) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;"
          :: "r"(at(&tile_[threadIdx.x * 4])), "l"(x + threadIdx.x * 4) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&bar)));
      } else {
        wait(&bar, 0);
        int t = threadIdx.x - 32;
        for (int i = 0; i < 4; ++i) y[t * 4 + i] = tile_[127 - t * 4 - i];
      }
    }"""
    )
    x = RNG.standard_normal(128).astype("f4")
    got, _ = execute(
        hopper(text), "k", {"x": x, "y": np.zeros(128, "f4")}, ["x", "y"], block=64, check=True,
    )  # fmt: skip
    assert np.array_equal(got["y"], x[::-1])
    with pytest.raises(Fault, match="lacks 1 of 33 arrivals"):
        execute(
            hopper(text.replace("init(&bar, 32)", "init(&bar, 33)")), "k",
            {"x": x, "y": np.zeros(128, "f4")}, ["x", "y"], block=64,
        )  # fmt: skip


TILES = (
    PRELUDE
    + r"""
extern "C" __global__ void tiles(const __grid_constant__ CUtensorMap map, unsigned char* y,
                                 int bytes, int dx, int dy, int left) {
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    init(&bar, 1);
    expect(&bar, bytes);
    tile(smem, &map, blockIdx.x * dx - left, blockIdx.y * dy - 2, &bar);
  }
  __syncthreads();
  wait(&bar, 0);
  int block = blockIdx.y * gridDim.x + blockIdx.x;
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) y[block * bytes + i] = smem[i];
}
"""
)


def unswizzled(data: Array, swizzle: int) -> Array:
    """Rows of 128-byte lines with their chunks in order again, by the manual's tables."""
    tables = {
        0: [list(range(8))],
        32: [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]],
        64: [
            [0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5],
            [3, 2, 1, 0, 7, 6, 5, 4],
        ],
        128: [[chunk ^ row for chunk in range(8)] for row in range(8)],
    }  # fmt: skip
    lines = data.reshape(-1, 8, 16)
    out = np.empty_like(lines)
    for number, line in enumerate(lines):
        order = tables[swizzle][number % len(tables[swizzle])]
        for place, chunk in enumerate(order):
            out[number, chunk] = line[place]
    return out.reshape(-1)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_tiles_with_each_swizzle(hopper: Compile, swizzle: Any, dtype: str) -> None:
    """Tiles that begin outside, lie inside and end outside of the tensor."""
    size = np.dtype(dtype).itemsize
    width, left = (swizzle or 48) // size, max(8, 16 // size)
    shape = (37, 3 * width // 16 * 16)
    pitch = -(-shape[1] * size // 16) * 16 + 32
    stored = np.zeros((shape[0], pitch // size), dtype)
    x = RNG.integers(1, 100, shape).astype(dtype)
    stored[:, : shape[1]] = x
    stored[:, shape[1] :] = 99  # between the rows
    rows, grid = 16, (4, 3, 1)
    m = TensorMap(dtype, shape[::-1], (pitch,), (width, rows), swizzle=swizzle)
    total = rows * width * size
    got, _ = execute(
        hopper(TILES), "tiles", {"x": stored, "y": np.zeros((12, total), "u1")},
        [TensorArgument("x", m), "y", total, width, rows, left],
        grid=grid, block=64, shared=total, check=True, unwritten=["y"],
    )  # fmt: skip
    padded = np.zeros((80, left + 5 * width), dtype)
    padded[2 : 2 + shape[0], left : left + shape[1]] = x
    for block in range(12):
        column, row = block % 4 * width, block // 4 * rows
        tile = unswizzled(got["y"][block], swizzle).view(dtype).reshape(rows, width)
        assert np.array_equal(tile, padded[row : row + rows, column : column + width])


IM2COL = (
    PRELUDE
    + r"""
extern "C" __global__ void pixels(const __grid_constant__ CUtensorMap map, float* y, int bytes,
                                  int c, int w, int h, int n, int dw, int dh) {
  extern __shared__ __align__(1024) float smem[];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    init(&bar, 1);
    expect(&bar, bytes);
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::"
      "complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
      :: "r"(at(smem)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(at(&bar)),
      "h"((short)dw), "h"((short)dh) : "memory");
  }
  __syncthreads();
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) y[i] = smem[i];
}
"""
)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("tap", [(0, 0), (2, 1)])
def test_im2col_is_a_convolutions_window(hopper: Compile, step: int, tap: tuple[int, int]) -> None:
    """Pixels of a 3×3 convolution with a border of 1, in steps, on into the next image."""
    images, height, width, channels = 3, 5, 6, 16
    x = RNG.standard_normal((images, height, width, channels)).astype("f4")
    strides = tuple(4 * channels * each for each in (1, width, width * height))
    pixels = 40
    m = TensorMap(
        "float32", (channels, width, height, images), strides, element_strides=(1, step, step, 1),
        im2col=Im2col((-1, -1), (-1, -1), 8, pixels),
    )  # fmt: skip
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    across, down = -(-width // step), -(-height // step)
    start = (1, 2, 1)  # image, row and column of the output
    want = np.zeros((pixels, 8), "f4")
    first = (start[0] * down + start[1]) * across + start[2]
    for number in range(pixels):
        rest, column = divmod(first + number, across)
        image, row = divmod(rest, down)
        if image < images:
            want[number] = padded[image, row * step + tap[1], column * step + tap[0], 8:]
    got, _ = execute(
        hopper(IM2COL), "pixels", {"x": x, "y": np.zeros((pixels, 8), "f4")},
        [TensorArgument("x", m), "y", 32 * pixels, 8, start[2] * step - 1,
         start[1] * step - 1, start[0], *tap],
        shared=32 * pixels,
    )  # fmt: skip
    assert np.array_equal(got["y"], want)


@pytest.mark.parametrize(
    ("pixel", "inside"),
    [
        ((-1, -1, 0), True), ((4, 3, 0), True), ((0, 0, -2), True), ((0, 0, 7), True),
        ((-2, 0, 0), False), ((5, 0, 0), False), ((0, -2, 0), False), ((0, 4, 0), False),
    ],
)  # fmt: skip
def test_im2col_copies_start_in_their_bounding_box(
    hopper: Compile, pixel: tuple[int, int, int], inside: bool
) -> None:
    """As on an H200, where W and H outside of it are an illegal instruction, and any N is fine."""
    x = np.ones((2, 5, 6, 16), "f4")
    m = TensorMap(
        "float32", (16, 6, 5, 2), (64, 384, 1920), im2col=Im2col((-1, -1), (-1, -1), 8, 4)
    )

    def copy() -> None:
        execute(
            hopper(IM2COL), "pixels", {"x": x, "y": np.zeros((4, 8), "f4")},
            [TensorArgument("x", m), "y", 128, 0, *pixel, 0, 0], shared=128,
        )  # fmt: skip

    if inside:
        copy()
    else:
        with pytest.raises(Fault, match=r"starts at pixel .* outside of its bounding box"):
            copy()


@pytest.mark.parametrize(("count", "lanes"), [(1, 1), (32, 32), (32, 64), (16, 64), (64, 64)])
def test_warps_arrive_one_after_another(hopper: Compile, count: int, lanes: int) -> None:
    """On an H200 a warp of 32 may end the phase of 32 and the next warp the one after it."""
    text = (
        PRELUDE
        + f"""
extern "C" __global__ void k(float* y) {{
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) init(&bar, {count});
  __syncthreads();
  if (threadIdx.x < {lanes}) arrive(&bar);
  __syncthreads();
  y[threadIdx.x] = 1.0f;
}}"""
    )
    if count == 16:
        with pytest.raises(Fault, match="arrive together"):
            execute(hopper(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64)
    else:
        got, _ = execute(hopper(text), "k", {"y": np.zeros(64, "f4")}, ["y"], block=64)
        assert (got["y"] == 1).all()


OUT = (
    PRELUDE
    + r"""
extern "C" __global__ void out(const __grid_constant__ CUtensorMap map, const float* x,
                               float* sums, int n) {
  __shared__ __align__(128) float tile_[8][16];
  int t = threadIdx.x;
  tile_[t / 16][t % 16] = x[blockIdx.x * 128 + t];
  proxy_fence();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
      :: "l"(&map), "r"(blockIdx.x * 16), "r"(n), "r"(at(tile_)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
      :: "l"(sums), "r"(at(tile_)), "r"(512) : "memory");
    commit();
    WAIT_READ(0);
    tile_[0][0] = 0;
  }
}
"""
)


def test_tiles_and_sums_go_out(hopper: Compile) -> None:
    """What lies outside of the tensor is not written; sums of all blocks are added up."""
    x = RNG.integers(-50, 50, (4, 8, 16)).astype("f4")
    m = TensorMap("float32", (56, 5), (256,), (16, 8))
    got, _ = execute(
        hopper(OUT), "out", {"y": np.full((5, 64), 7, "f4"), "x": x, "sums": np.zeros(128, "f4")},
        [TensorArgument("y", m), "x", "sums", 1], grid=4, block=128,
    )  # fmt: skip
    want = np.full((5, 64), 7, "f4")
    want[1:, :56] = x[:, :4].transpose(1, 0, 2).reshape(4, 64)[:, :56]
    assert np.array_equal(got["y"], want)
    assert np.array_equal(got["sums"], x.sum(0).reshape(-1))


@pytest.mark.parametrize(
    ("dtype", "code"),
    [("uint8", 0), ("float16", 6), ("float32_ftz", 8), ("float64", 9), ("bfloat16", 10)],
)
def test_a_map_is_read_as_it_was_written(dtype: str, code: int) -> None:
    """Types by the numbers of ``tensormap.replace``; the address first, as in the driver's own."""
    box, steps = (16, 8, 1), (1, 2, 1)
    m = TensorMap(dtype, (64, 9, 1 << 32), (512, 4608), box, steps, fill_nan=code > 5)
    data = m.encoded(1 << 20)
    assert (data[:8], data[83]) == ((1 << 20).to_bytes(8, "little"), code)
    assert decode(data) == (m, 1 << 20)
    for wrong in (bytes(128), data[:8] + bytes(120), data[:83] + b"\r" + data[84:], b"\1" + data):
        with pytest.raises(DescriptorError):
            decode(wrong[:128])


def test_an_argument_that_is_no_map(hopper: Compile) -> None:
    module = hopper(TILES)
    m = TensorMap("float32", (64, 64, 4), (256, 16384), (16, 8, 1))
    buffers = {"x": np.zeros((4, 64, 64), "f4"), "y": np.zeros(512, "u1")}
    with pytest.raises(Fault, match=r"k\.cu:\d+: the tensor map is tiled with 3 axes"):
        execute(module, "tiles", buffers, [TensorArgument("x", m), "y", 512, 0, 0, 8], shared=512)
    with pytest.raises(LaunchError, match="argument 1 has 4 bytes"):
        execute(module, "tiles", buffers, [scalar(3), "y", 512, 0, 0, 8], shared=512)


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        (TILES, (2, 4), r"starts at element -4 of a row, -8 bytes"),
        (TILES, (0, 12), r"starts at element -12 of a row, -24 bytes"),
        (OUT, (-2,), r"a store of a tile at \(0, -2\), before the tensor's start"),
    ],
)
def test_coordinates_that_the_chip_refuses(
    hopper: Compile, text: str, values: tuple[int, ...], words: str
) -> None:
    """Seen on an H200: an illegal instruction."""
    m = TensorMap("float16" if text == TILES else "float32", (64, 5), (256,), (16, 8))
    buffers = {"x": np.zeros((5, 128), "f2"), "y": np.zeros((5, 64), "f4")}
    if text == TILES:
        args: list[Any] = [TensorArgument("x", m), "y", 256, 0, *values]
    else:
        buffers["x"] = np.zeros((4, 8, 16), "f4")
        args = [TensorArgument("y", m), "x", "x", *values]
    name = "tiles" if text == TILES else "out"
    with pytest.raises(Fault, match=rf"k\.cu:\d+: .*{words}"):
        execute(hopper(text), name, buffers, args, block=128, shared=256)


WAITS = {
    "too few bytes": ("expect(&bar, 512); bulk(tile, x, 256, &bar);", "0 of 1 arrivals and 256"),
    "too few arrivals": ("expect(&bar, 0);", "lacks 1 of 2 arrivals and 0 bytes"),
    "too many arrivals": ("arrive(&bar); arrive(&bar); arrive(&bar);", "never completes"),
}  # fmt: skip


def test_waits_without_end(hopper: Compile) -> None:
    for name, (body, words) in WAITS.items():
        count = 2 if name == "too few arrivals" else 3 if "many" in name else 1
        text = PRELUDE + (
            'extern "C" __global__ void k(const float* x, float* y) {\n'
            "__shared__ __align__(128) float tile[128]; __shared__ uint64_t bar;\n"
            f"if (threadIdx.x == 0) {{ init(&bar, {count}); {body} }}\n__syncthreads();\n"
            f"wait(&bar, {int('many' in name)}); if ({int('many' in name)}) wait(&bar, 1);\n"
            "y[threadIdx.x] = tile[threadIdx.x]; }"
        )
        with pytest.raises(Fault, match=words):
            execute(hopper(text), "k", {"x": np.ones(128, "f4"), "y": np.zeros(64, "f4")},
                    ["x", "y"], block=64)  # fmt: skip


WRONG = {
    "nobody initialized it": ("arrive(&bar);", r"k\.cu:\d+: mbarrier bar: it has not been"),
    "no address of one": (
        "init((uint64_t*)((char*)&bar + 4), 1);", r"misaligned access: .* not a multiple of 8",
    ),
    "a count of none": ("init(&bar, 0);", r"a count of 0"),
    "more than it counts": (
        "init(&bar, 2); asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0], 3;\""
        " :: \"r\"(at(&bar))); expect(&bar, 64); expect(&bar, 0);", r"more arrivals than",
    ),
    "a warp that is too many": (
        "init(&bar, 1); } if (threadIdx.x < 3) { arrive(&bar);",
        r"more lanes of a warp arrive together than its phase still expects, 1 in all: thread \(1,",
    ),
    "half a chunk": ("init(&bar, 1); bulk(s, x, 24, &bar);", r"a bulk copy of 24 bytes"),
    "past the array": (
        "init(&bar, 1); bulk(s, x + 96, 256, &bar);",
        r"k\.cu:\d+: out of bounds: a copy by thread \(0, 0, 0\) .* reads 256 bytes at "
        r"x\[96\], the last 128 of them past the end of x",
    ),
    "past shared memory": (
        "init(&bar, 1); bulk(s + 96, x, 1024, &bar);", r"out of bounds: .* points to s \+ 384",
    ),
    "not waited for": (
        "init(&bar, 1); expect(&bar, 256); bulk(s, x, 256, &bar); y[0] = s[3];",
        r"reads s \+ 12 bytes, which the copy at .* may still be writing",
    ),
    "no proxy fence": (
        "s[0] = 1; s[1] = s[2] = s[3] = 2; OUT", r"missing proxy fence: .* copies from s \+ 0 ",
    ),
    "source overwritten": (
        "s[0] = 1; s[1] = s[2] = s[3] = 2; proxy_fence(); OUT commit(); s[1] = 3; WAIT_READ(0);",
        r"writes s \+ 4 bytes, which k\.cu:\d+ may still be reading",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_with_copies(hopper: Compile, name: str) -> None:
    body, words = WRONG[name]
    out = (
        'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"'
        ' :: "l"(y), "r"(at(s)) : "memory");'
    )
    text = PRELUDE + (
        'extern "C" __global__ void k(const float* x, float* y) {\n'
        "__shared__ __align__(128) float s[128]; __shared__ uint64_t bar;\n"
        f"if (threadIdx.x == 0) {{ {body.replace('OUT', out)} }}\n}}"
    )
    with pytest.raises(Fault, match=words):
        execute(
            hopper(text), "k", {"x": np.ones(128, "f4"), "y": np.zeros(128, "f4")}, ["x", "y"],
            block=64, check=True,
        )  # fmt: skip


def test_layouts_that_are_not_documented_are_refused(hopper: Compile) -> None:
    maps = [
        TensorMap("float16", (64, 64), (128,), (32, 8), swizzle=128),
        TensorMap("float16", (64, 64), (128,), (16, 8), swizzle=64),
    ]
    for m in maps:
        with pytest.raises(Unsupported, match=r"k\.cu:\d+: .* not documented"):
            execute(
                hopper(TILES), "tiles", {"x": np.zeros((64, 64), "f2"), "y": np.zeros(2048, "u1")},
                [TensorArgument("x", m), "y", 512, 0, 0, 8], shared=2048,
            )  # fmt: skip


def test_tiles_with_steps_and_nan(hopper: Compile) -> None:
    """Every second row is taken; what lies outside is NaN."""
    x = RNG.standard_normal((20, 16)).astype("f4")
    m = TensorMap(
        "float32", (16, 20), (64,), (16, 16), element_strides=(1, 2), fill_nan=True
    )  # fmt: skip
    got, _ = execute(
        hopper(TILES), "tiles", {"x": x, "y": np.zeros((2, 512), "u1")},
        [TensorArgument("x", m), "y", 512, 0, 16, 8], grid=(1, 2, 1), shared=512, check=True,
    )  # fmt: skip
    padded = np.full((40, 24), np.nan, "f4")
    padded[2:22, 8:] = x
    for block in range(2):
        want = padded[16 * block : 16 * block + 16 : 2, :16]
        assert np.array_equal(got["y"][block].view("f4").reshape(8, 16), want, equal_nan=True)


HERALDS = (
    PRELUDE
    + r"""
extern "C" __global__ void k(int* y) {
  __shared__ int box[64];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) init(&bar, 1);
  if (threadIdx.x < 64) {
    box[threadIdx.x] = threadIdx.x * 3;
    if (threadIdx.x < 32) {
      asm volatile("bar.arrive 1, 128;" ::: "memory");
      y[threadIdx.x] = -1;
    } else {
      asm volatile("bar.arrive 1, 128; // the second" ::: "memory");
      LATE
      y[threadIdx.x] = -1;
    }
  } else {
    int t = threadIdx.x - 64;
    asm volatile("bar.sync 1, 128;" ::: "memory");
    y[threadIdx.x] = box[63 - t];
  }
}
"""
)


def test_who_arrives_and_goes_on_is_ordered_only_as_far_as_it_had_come(hopper: Compile) -> None:
    buffers = {"y": np.zeros(128, "i4")}
    got, _ = execute(
        hopper(HERALDS.replace("LATE", "")), "k", buffers, ["y"], block=128, check=True
    )
    assert got["y"].tolist() == [-1] * 64 + [3 * (63 - t) for t in range(64)]
    late = hopper(HERALDS.replace("LATE", "((volatile int*)box)[threadIdx.x] = 7;"))
    with pytest.raises(Fault, match=r"shared-memory race: .* box"):
        execute(late, "k", buffers, ["y"], block=128, check=True)
    alone = hopper(HERALDS.replace("LATE", "").replace("bar.arrive", "// bar.arrive"))
    with pytest.raises(Fault, match=r"k\.cu:\d+: barrier not reached .* needs 128 threads"):
        execute(alone, "k", buffers, ["y"], block=128)


def test_stores_that_report_to_an_mbarrier_are_refused(hopper: Compile) -> None:
    text = (
        PRELUDE
        + r"""
    extern "C" __global__ void k() {
      __shared__ int box[2];
      __shared__ uint64_t bar;
      asm volatile("WHAT [%0], %1, [%2];" :: "r"(at(box)), "r"(3), "r"(at(&bar)));
    }
    """
    )
    for what in (
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32",
    ):
        with pytest.raises(Unsupported, match=rf"k\.cu:\d+: .* does not support `{what[:8]}"):
            execute(hopper(text.replace("WHAT", what)), "k", {}, [])


CHANGED = (
    PRELUDE
    + r"""
#define CHANGE(field, bits, axis, kind, value) asm volatile("tensormap.replace.tile." field \
    ".shared::cta.b1024." bits " [%0], " axis "%1;" :: "r"(at(made)), kind(value) : "memory")
extern "C" __global__ void changed(const __grid_constant__ CUtensorMap map, const float* x,
                                   float* y, unsigned* kept, int fresh, int width, int step) {
  __shared__ __align__(1024) float smem[256];
  __shared__ __align__(128) unsigned made[32];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  made[t] = fresh ? 0 : ((const unsigned*)&map)[t];
  __syncwarp();
  if (t == 0) {
    CHANGE("global_address", "b64", "", "l", x);
    CHANGE("global_dim", "b32", "0, ", "r", width);
    CHANGE("global_dim", "b32", "1, ", "r", 7);
    if (fresh) {
      CHANGE("rank", "b32", "", "n", 1);
      CHANGE("global_stride", "b64", "0, ", "l", 256ll);
      CHANGE("box_dim", "b32", "0, ", "r", 32);
      CHANGE("box_dim", "b32", "1, ", "r", 8);
      CHANGE("element_stride", "b32", "0, ", "r", 1);
      CHANGE("element_stride", "b32", "1, ", "r", step);
      CHANGE("elemtype", "b32", "", "n", 7);
      CHANGE("swizzle_mode", "b32", "", "n", 3);
      CHANGE("fill_mode", "b32", "", "n", 1);
    }
    init(&bar, 1);
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
    ".aligned [%0], [%1], 128;" :: "l"(kept), "r"(at(made)) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(kept) : "memory");
  if (t == 0) { expect(&bar, 1024); tile(smem, (CUtensorMap*)kept, 32, 3, &bar); }
  __syncwarp();
  wait(&bar, 0);
  for (int i = t; i < 256; i += 32) y[i] = smem[i];
}
"""
)


@pytest.mark.parametrize("fresh", [False, True], ids=["a map of the host's", "a new one"])
def test_maps_that_a_kernel_changes_or_makes(hopper: Compile, fresh: bool) -> None:
    x = RNG.standard_normal((8, 64)).astype("f4")
    m = TensorMap("float32", (8, 1), (256,), (32, 8), (1, 1), 128, fill_nan=True)
    buffers = {"x": x, "y": np.zeros(256, "f4"), "kept": np.zeros(32, "u4")}
    args: list[Any] = [TensorArgument("x", m), "x", "y", "kept", int(fresh)]
    got, _ = execute(
        hopper(CHANGED), "changed", buffers, [*args, 44, 1], check=True, unwritten=["y", "kept"]
    )
    want = np.full((8, 32), np.nan, "f4")
    want[:4, :12] = x[3:7, 32:44]
    tile = unswizzled(got["y"].view("u1"), 128).view("f4").reshape(8, 32)
    assert np.array_equal(tile, want, equal_nan=True)
    for step in (0, 9) if fresh else ():
        with pytest.raises(Fault, match=r"k\.cu:\d+: .*element strides must be 1 to 8"):
            execute(hopper(CHANGED), "changed", buffers, [*args, 44, step])
    with pytest.raises(Fault, match=r"k\.cu:\d+: out of bounds: a copy .* past the end of x"):
        execute(hopper(CHANGED), "changed", buffers | {"x": x[:6]}, [*args, 44, 1])
