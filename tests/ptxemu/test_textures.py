"""Textures: what ``tex`` reads, by the rules of the programming guide, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import ptxemu
from ptxemu.texture import Addressing, Texture
from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

HEAD = '#include <cuda_runtime.h>\nextern "C" __global__ void k'
FETCH = (
    HEAD
    + """(cudaTextureObject_t t, float* y) {
    int i = threadIdx.x; y[i] = tex1Dfetch<float>(t, i - 8); }"""
)
AT1 = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, float* y) {
    int i = threadIdx.x; y[i] = tex1D<float>(t, u[i]); }"""
)
AT2 = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, const float* v, float* y) {
    int i = threadIdx.x; y[i] = tex2D<float>(t, u[i], v[i]); }"""
)
RGBA = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, const float* v, float4* y) {
    int i = threadIdx.x; y[i] = tex2D<float4>(t, u[i], v[i]); }"""
)
BYTES = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, const float* v, uchar4* y) {
    int i = threadIdx.x; y[i] = tex2D<uchar4>(t, u[i], v[i]); }"""
)
AT3 = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, float* y) {
    int i = threadIdx.x; y[i] = tex3D<float>(t, u[i], 0.9f * u[i], 2.f - u[i]); }"""
)


def run(cuda: Compile, code: str, arrays: dict[str, Any], texture: Texture, **more: Any) -> Any:
    """Run a kernel whose first argument is a texture over ``t``."""
    module = ptxemu.Module(cuda(code))
    args: dict[str, Any] = {"t": ptxemu.TextureArgument(arrays["t"], texture)}
    args |= {name: each for name, each in arrays.items() if name != "t"}
    block = len(next(each for name, each in arrays.items() if name != "t"))
    return module.kernel("k").run(1, block, args, **more)


def fetched(hopper: Compile, code: str, arrays: dict[str, Any], texture: Texture) -> Any:
    """What a kernel writes whose first argument is a texture over ``t``."""
    names = [name for name in arrays if name != "t"]
    argument = ptxemu.TextureArgument("t", texture)
    block = len(arrays[names[0]])
    return execute(hopper(code), "k", arrays, [argument, *names], block=block, check=True)[0]["y"]


def folded(index: int, size: int, mode: str) -> int | None:
    """A texel's place by its addressing mode, as the guide words it; None: it is 0."""
    if 0 <= index < size:
        return index
    if mode == "border":
        return None
    if mode == "clamp":
        return min(max(index, 0), size - 1)
    turn, at = divmod(index, size)
    return at if mode == "wrap" or turn % 2 == 0 else size - 1 - at


def dealt(shares: list[int]) -> dict[tuple[int, ...], int]:
    """What each neighbour weighs of 256, by the shares of the upper ones along each axis."""
    x, y, z = (*shares, 0, 0)[:3]
    found: dict[tuple[int, ...], int] = {}
    for front, depth in ((0, 256 - z), (1, z)):
        right = floor(Fraction(x * depth, 256) + Fraction(1, 2))
        for side, both in ((0, depth - right), (1, right)):
            part = Fraction(both * y, 256)
            upper = floor(part + Fraction(1, 2)) if side else ceil(part - Fraction(1, 2))
            found |= {(side, 0, front): both - upper, (side, 1, front): upper}
    return {k[: len(shares)]: w for k, w in found.items() if not any(k[len(shares) :])}


def expected(texels: Any, at: tuple[float, ...], texture: Texture) -> float:
    """One fetch, texel by texel."""
    sizes, modes = texture.dims, texture.modes
    places = [x * n if texture.normalized else x for x, n in zip(at, sizes, strict=True)]
    if texture.filter == "point":
        chosen = {tuple(int(np.floor(place)) for place in places): 256}
    else:
        for axis, (n, mode) in enumerate(zip(sizes, modes, strict=True)):
            places[axis] = min(max(places[axis], 0.5), n - 0.5) if mode == "clamp" else places[axis]
        steps = [int(np.floor((place - 0.5) * 256 + 0.5)) for place in places]
        chosen = {
            tuple(step // 256 + upper for step, upper in zip(steps, key, strict=True)): weight
            for key, weight in dealt([step % 256 for step in steps]).items()
        }
    total = 0.0
    for where, weight in chosen.items():
        index = [folded(i, n, m) for i, n, m in zip(where, sizes, modes, strict=True)]
        if None not in index:
            total += float(texels[tuple(index[::-1])]) * weight / 256
    return total


MEASURED = Path(__file__).parents[1] / "data" / "textures.npz"
VOLUME = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, const float* v, const float* w, float* y) {
    int i = threadIdx.x; y[i] = tex3D<float>(t, u[i], v[i], w[i]); }"""
)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_fetches_between_texels_are_those_of_an_h200(hopper: Compile, axes: int) -> None:
    """What a probe read there at random places, up to a tenth beyond each end."""
    held = np.load(MEASURED)
    texels = held["texels"][(0,) * (3 - axes)].copy()
    code = {1: AT1, 2: AT2, 3: VOLUME}[axes]
    arrays = (
        {"t": texels} | {each: held[each] for each in "uvw"[:axes]} | {"y": np.zeros(400, "f4")}
    )
    out = fetched(hopper, code, arrays, Texture("float32", texels.shape[::-1], filter="linear"))
    assert np.abs(out - held[("line", "plane", "volume")[axes - 1]]).max() <= 2**-24


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int8"])
def test_weighed_integers_end_in_the_steps_of_an_h200(hopper: Compile, dtype: str) -> None:
    held = np.load(MEASURED)
    texture = Texture(dtype, (7, 5), as_float=True, filter="linear")
    arrays = {
        "t": held[f"{dtype}_texels"],
        "u": held["u"],
        "v": held["v"],
        "y": np.zeros(400, "f4"),
    }
    out = fetched(hopper, AT2, arrays, texture)
    apart = np.abs(out - held[dtype]) > 2**-23
    # Of one-byte signed texels the chip's own rounding is not known: one in twenty is a step off.
    assert apart.mean() <= (0.1 if dtype == "int8" else 0)
    assert np.abs(out - held[dtype]).max() <= 1.01 / 32767 * (dtype == "int8") + 2**-23


def test_linear_memory_is_read_by_whole_numbers_and_is_0_outside(hopper: Compile) -> None:
    texels = np.arange(1, 25, dtype="f4")
    arrays = {"t": texels, "y": np.full(40, -1, "f4")}
    out = fetched(hopper, FETCH, arrays, Texture("float32", (24,), layout="linear"))
    assert out.tolist() == [0.0] * 8 + texels.tolist() + [0.0] * 8


@pytest.mark.parametrize("filtered", ["point", "linear"])
@pytest.mark.parametrize(
    ("mode", "normalized"),
    [("clamp", False), ("border", False), *((each, True) for each in get_args(Addressing))],
)
def test_a_fetch_between_and_beyond_texels_is_as_the_guide_has_it(
    hopper: Compile, mode: Any, normalized: bool, filtered: Any
) -> None:
    rng = np.random.default_rng(3)
    texels = rng.standard_normal((5, 7)).astype("f4")
    how: dict[str, Any] = {"address": (mode,), "filter": filtered, "normalized": normalized}
    plane, line = Texture("float32", (7, 5), **how), Texture("float32", (7,), **how)
    width, height = (7.0, 5.0) if normalized else (1.0, 1.0)
    u = ((rng.integers(-1792, 3584, 96) + 0.25) / 256 / width).astype("f4")
    v = ((rng.integers(-1280, 2560, 96) + 0.25) / 256 / height).astype("f4")
    out = fetched(hopper, AT2, {"t": texels, "u": u, "v": v, "y": np.zeros(96, "f4")}, plane)
    want = [expected(texels, (float(a), float(b)), plane) for a, b in zip(u, v, strict=True)]
    assert np.allclose(out, want, rtol=0, atol=1e-6)
    row = texels[0].copy()
    out = fetched(hopper, AT1, {"t": row, "u": u, "y": np.zeros(96, "f4")}, line)
    want = [expected(row, (float(a),), line) for a in u]
    assert np.allclose(out, want, rtol=0, atol=1e-6)


def test_weights_have_8_bits_behind_the_point(hopper: Compile) -> None:
    """Between 0 and 256 a fetch gives whole numbers: the steps of its weight."""
    u = (0.5 + np.arange(64) / 63).astype("f4")
    arrays = {"t": np.array([0, 256], "f4"), "u": u, "y": np.zeros(64, "f4")}
    out = fetched(hopper, AT1, arrays, Texture("float32", (2,), filter="linear"))
    assert (out == np.round(out)).all() and out[0] == 0 and out[-1] == 256
    assert np.abs(out - 256 * (u - 0.5)).max() <= 0.5


@pytest.mark.parametrize(
    ("dtype", "most"), [("u1", 255), ("i1", 127), ("u2", 65535), ("i2", 32767)]
)
def test_integers_are_read_as_numbers_of_0_to_1(hopper: Compile, dtype: str, most: int) -> None:
    rng = np.random.default_rng(4)
    texels = rng.integers(*(np.iinfo(dtype).min, np.iinfo(dtype).max + 1), (3, 4, 4)).astype(dtype)
    texels[0, 0] = np.iinfo(dtype).min
    texture = Texture(np.dtype(dtype).name, (4, 3), channels=4, as_float=True)
    x, y = np.tile(np.arange(4), 3), np.repeat(np.arange(3), 4)
    arrays = {"t": texels, "u": x.astype("f4"), "v": y.astype("f4"), "y": np.zeros((12, 4), "f4")}
    out = fetched(hopper, RGBA, arrays, texture)
    want = np.maximum(texels.reshape(12, 4) / most, -1).astype("f4")
    assert (out == want).all()
    weighed = Texture(np.dtype(dtype).name, (4, 3), channels=4, as_float=True, filter="linear")
    arrays["u"] = (x + 1).astype("f4")  # half-way to the next texel
    arrays["v"] = (y + 0.5).astype("f4")
    out = fetched(hopper, RGBA, arrays, weighed).reshape(3, 4, 4)
    wide = texels / most  # -128 of 127 is below -1 until it has been weighed: so an H200 has it
    # Of one-byte signed texels the chip's own rounding is not known: it may be the next step.
    half = (1.6 if dtype == "i1" else 0.51) / (65535 if dtype[0] == "u" else 32767)
    between = np.maximum((wide[:, :-1] + wide[:, 1:]) / 2, -1)
    assert np.allclose(out[:, :-1], between, rtol=0, atol=half)


def test_texels_of_four_bytes_keep_their_integers_and_rows_their_pitch(cuda: Compile) -> None:
    padded = np.zeros((3, 8, 4), "u1")
    padded[:, :5] = np.random.default_rng(5).integers(0, 256, (3, 5, 4))
    texture = Texture("uint8", (5, 3), channels=4, pitch=32, layout="linear")
    x, y = np.tile(np.arange(5), 3), np.repeat(np.arange(3), 5)
    arrays = {"t": padded, "u": x.astype("f4"), "v": y.astype("f4"), "y": np.zeros((15, 4), "u1")}
    ran = run(cuda, BYTES, arrays, texture)
    assert (ran.outputs["y"].reshape(3, 5, 4) == padded[:, :5]).all()
    (row,) = [each for each in ran.counts.rows if each.instr.op == "tex"]
    assert row.warps == 1 and row.kind == "memory" and row.copied
    assert (row.site.sectors, row.site.requests) == (0, 0), "its cost is not known"


def test_three_axes(hopper: Compile) -> None:
    texels = np.random.default_rng(6).standard_normal((3, 4, 5)).astype("f4")
    texture = Texture("float32", (5, 4, 3), filter="linear", address=("clamp", "clamp", "border"))
    u = (np.arange(64) / 13 - 0.3).astype("f4")
    out = fetched(hopper, AT3, {"t": texels, "u": u, "y": np.zeros(64, "f4")}, texture)
    second, third = (np.float32(0.9) * u).astype("f4"), (np.float32(2) - u).astype("f4")
    places = zip(u, second, third, strict=True)
    want = [expected(texels, tuple(map(float, each)), texture) for each in places]
    assert np.allclose(out, want, rtol=0, atol=1e-5)


PLAIN = {"u": np.zeros(8, "f4"), "v": np.zeros(8, "f4"), "y": np.zeros(8, "f4")}


@pytest.mark.parametrize(
    ("code", "wrong", "words", "right"),
    [
        (AT2, Texture("float32", (32,)), "at 2 coordinates", Texture("float32", (8, 4))),
        (AT2, Texture("int32", (8, 4)), "floating-point numbers from the texture of int32",
         Texture("float32", (8, 4))),
        (AT2, Texture("uint8", (8, 4)), "of uint8", Texture("uint8", (8, 4), as_float=True)),
        (FETCH, Texture("float32", (8,)), "of an array: only tex1D",
         Texture("float32", (8,), layout="linear")),
        (AT1, Texture("float32", (8,), layout="linear"), "of linear memory: only tex1Dfetch",
         Texture("float32", (8,))),
        (RGBA, Texture("float32", (8, 1)), "4 channels", Texture("float32", (8, 1), channels=4)),
    ],
)  # fmt: skip
def test_what_a_kernel_reads_otherwise_is_told_and_the_hint_helps(
    cuda: Compile, code: str, wrong: Texture, words: str, right: Texture
) -> None:
    names = {FETCH: ("y",), AT1: ("u", "y")}.get(code, ("u", "v", "y"))
    arrays = {"t": np.zeros(32, "f4"), **{name: PLAIN[name] for name in names}}
    if code is RGBA:
        arrays["y"] = np.zeros((8, 4), "f4")
    (fault,) = run(cuda, code, arrays, wrong).faults
    assert "k.cu:" in fault.message and words in fault.message and fault.hint
    assert run(cuda, code, arrays, right).faults == ()


def test_a_number_is_no_texture(cuda: Compile) -> None:
    kernel = ptxemu.Module(cuda(FETCH)).kernel("k")
    (fault,) = kernel.run(1, 8, {"t": 77, "y": np.zeros(8, "f4")}).faults
    assert "from no texture of this launch" in fault.message and "TextureArgument" in fault.hint


def test_texels_that_nothing_has_written_are_told(cuda: Compile) -> None:
    arrays = {"t": np.zeros(24, "f4"), "y": np.zeros(24, "f4")}
    texture = Texture("float32", (24,), layout="linear")
    (fault,) = run(cuda, FETCH, arrays, texture, unwritten=["t"]).faults
    assert "reads t[0], which nothing has written" in fault.message


def test_a_texture_beyond_its_array_is_refused(cuda: Compile) -> None:
    with pytest.raises(ptxemu.LaunchError, match="covers 400 bytes, more than t has"):
        run(cuda, FETCH, {"t": np.zeros(24, "f4"), "y": np.zeros(24, "f4")},
            Texture("float32", (100,), layout="linear"))  # fmt: skip


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("dtype", {"dtype": "float64"}),
        ("channels", {"channels": 3}),
        ("dims", {"dims": (4, 4, 4, 4)}),
        ("dims", {"dims": (0, 4)}),
        ("dims", {"dims": (4, 70_000)}),
        ("dims", {"dims": (3, 3), "layout": "linear"}),
        ("pitch", {"pitch": 8}),
        ("pitch", {"pitch": 40, "layout": "linear"}),
        ("address", {"address": ("wrap",)}),
        ("address", {"address": ("clamp", "mirror")}),
        ("address", {"address": ("clamp", "clamp", "clamp")}),
        ("read", {"as_float": True}),
        ("filter", {"dtype": "uint8", "filter": "linear"}),
        ("filter", {"dims": (4,), "layout": "linear", "filter": "linear"}),
        ("normalized", {"dims": (4,), "layout": "linear", "normalized": True}),
    ],
)
def test_what_the_driver_refuses_or_changes_is_refused(key: str, values: dict[str, Any]) -> None:
    with pytest.raises(ptxemu.DescriptorError) as caught:
        Texture(**{"dtype": "float32", "dims": (4, 4), **values})
    assert caught.value.key == key and caught.value.hint


LAYERS = (
    HEAD
    + """(cudaTextureObject_t t, const float* u, float* y) {
    int i = threadIdx.x; y[i] = tex2DLayered<float>(t, u[i], 0.5f, i % 4); }"""
)


def test_layers_lie_behind_each_other_and_the_last_is_taken_beyond_it(cuda: Compile) -> None:
    texels = np.arange(3 * 2 * 8, dtype="f4").reshape(3, 2, 8)
    u = np.arange(8, dtype="f4") + 0.5
    arrays = {"t": texels, "u": u, "y": np.zeros(8, "f4")}
    texture = Texture("float32", (8, 2), layers=3)
    out = run(cuda, LAYERS, arrays, texture).outputs["y"]
    assert out.tolist() == [texels[min(i % 4, 2), 0, i] for i in range(8)]
    with pytest.raises(ptxemu.Fault, match="which has no layers"):
        _ = run(cuda, LAYERS, arrays, Texture("float32", (8, 2))).outputs


def test_textures_are_found_by_the_handles_that_memory_holds(cuda: Compile) -> None:
    code = (
        HEAD
        + """(const cudaTextureObject_t* t, float* y) {
        int i = threadIdx.x; y[i] = tex1D<float>(t[i / 4], i % 4 + 0.5f); }"""
    )
    texels = {"a": np.arange(4, dtype="f4"), "b": np.arange(4, dtype="f4") + 10}
    handles = np.array([0x7B00_0000_1000, 0x7B00_0000_1040], "u8")
    module = ptxemu.Module(cuda(code))
    memory = module.memory({**texels, "t": handles, "y": np.zeros(8, "f4")})
    textures = {
        handle: (Texture("float32", (4,)), memory.address(name))
        for handle, name in zip(handles.tolist(), texels, strict=True)
    }
    kernel = module.kernel("k")
    ran = kernel.run(1, 8, ["t", "y"], memory=memory, textures=textures)
    assert ran.outputs["y"].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    with pytest.raises(ptxemu.Fault, match="from no texture of this launch"):
        _ = kernel.run(1, 8, ["t", "y"], memory=memory).outputs
