"""What a launch asks of the driver beyond its shape."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from ptxemu import Im2col, TensorMap, Texture
from workbench.engines.gpu import bench
from workbench.engines.gpu.device import DeviceArray, WorkerError
from workbench.engines.gpu.libcuda import (
    DeviceTexture,
    Driver,
    DriverError,
    attributes_of,
    open_device,
)
from workbench.model import Dim3
from workbench.study.launches import ResolvedLaunch, ScalarArg, TextureArg

PLAIN = ResolvedLaunch(kernel="k", grid=(4, 1, 1), block=(32, 1, 1))


@pytest.mark.parametrize(
    ("cluster", "cooperative", "want"),
    [
        (None, False, []),
        ((1, 1, 1), False, []),
        ((2, 1, 1), False, [(4, (2, 1, 1))]),
        (None, True, [(2, (1, 0, 0))]),
        ((2, 2, 1), True, [(4, (2, 2, 1)), (2, (1, 0, 0))]),
    ],
)
def test_attributes_are_laid_out_as_the_driver_reads_them(
    cluster: Dim3 | None, cooperative: bool, want: list[tuple[int, Dim3]]
) -> None:
    launch = msgspec.structs.replace(PLAIN, cluster=cluster, cooperative=cooperative)
    found = attributes_of(launch)
    assert [ctypes.sizeof(each) for each in found] == [72] * len(want)
    raw = [bytes(each) for each in found]
    words = [[int.from_bytes(each[at : at + 4], "little") for at in (0, 8, 12, 16)] for each in raw]
    assert [(number, tuple(value)) for number, *value in words] == want


def test_a_device_is_opened_for_whoever_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    def call(self: Driver, name: str, *given: Any) -> None:
        called.append(name)
        if name == "cuDeviceGet":
            ctypes.memset(given[0], 7, 1)
        if name == "cuDevicePrimaryCtxRetain":
            assert given[1].value == 7

    monkeypatch.setattr(Driver, "__init__", lambda self: None)
    monkeypatch.setattr(Driver, "call", call)
    open_device()
    assert called == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"], "and is not given back"


TILED = TensorMap("bfloat16", (64, 9, 5), (256, 4096), (64, 4, 1), (1, 2, 1), 128, offset=32)
PIXELS = TensorMap(
    "float32", (8, 6, 7, 2), (32, 192, 1344), swizzle=32, fill_nan=True, l2_promotion=256,
    im2col=Im2col((-1, -2), (1, 0), 8, 96),
)  # fmt: skip


@pytest.mark.parametrize(
    ("described", "name", "want"),
    [
        (
            TILED,
            "cuTensorMapEncodeTiled",
            # type, rank, address, dims, strides, box, element strides, then interleave,
            # swizzle, promotion, fill: numbers of cuda.h.
            [9, 3, 4128, [64, 9, 5], [256, 4096], [64, 4, 1], [1, 2, 1], 0, 3, 0, 0],
        ),
        (
            PIXELS,
            "cuTensorMapEncodeIm2col",
            [
                7,
                4,
                4096,
                [8, 6, 7, 2],
                [32, 192, 1344],
                [-1, -2],
                [1, 0],
                8,
                96,
                [1] * 4,
                0,
                1,
                3,
                1,
            ],
        ),
    ],
)
def test_a_tensor_map_is_told_as_the_driver_reads_it(
    monkeypatch: pytest.MonkeyPatch, described: TensorMap, name: str, want: list[Any]
) -> None:
    def call(self: Driver, called: str, place: ctypes.c_void_p, *rest: Any) -> None:
        assert called == name and place.value is not None and place.value % 128 == 0
        assert [list(each) if hasattr(each, "_length_") else each.value for each in rest] == want
        ctypes.memset(place, 0xAB, 128)

    monkeypatch.setattr(Driver, "__init__", lambda self: None)
    monkeypatch.setattr(Driver, "call", call)
    assert Driver().tensor_map(described, 4096) == b"\xab" * 128


class Recorded:
    """A driver that makes handles, and keeps the words of what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.freed: list[tuple[int, int | None]] = []

    def call(self, name: str, *given: Any) -> None:
        structures = [each._obj for each in given if hasattr(each, "_obj")]
        if name == "cuMemcpy3DAsync_v2":
            assert given[-1].value == 0x77, "on the stream of the launches"
        else:
            structures[0].value = 0x5000 + len(self.calls)
            structures = structures[1:]
        words = [word for each in structures for word in words_of(each)]
        self.calls.append((name, words))

    def forget(self, texture: int, array: int | None) -> None:
        self.freed.append((texture, array))


def words_of(structure: ctypes.Structure) -> list[int]:
    raw = bytes(structure)
    return [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]


def test_linear_memory_becomes_a_texture_object_as_the_driver_reads_it() -> None:
    """Words of CUDA_RESOURCE_DESC (36) and CUDA_TEXTURE_DESC (26), by the offsets of cuda.h."""
    driver: Any = Recorded()
    made = DeviceTexture(driver, Texture("int32", (100,), 2, layout="linear"), 0x1000, 0x77)
    rows = Texture("uint8", (10, 6), 4, pitch=64, layout="linear", as_float=True, filter="linear",
                   normalized=True, address=("mirror", "border"))  # fmt: skip
    other = DeviceTexture(driver, rows, 0x2000, 0x77)
    (first, one), (second, two) = driver.calls
    assert first == second == "cuTexObjectCreate" and (made.handle, other.handle) == (
        0x5000,
        0x5001,
    )
    assert len(one) == 36 + 26
    assert one[:8] == [2, 0, 0x1000, 0, 0x0A, 2, 800, 0]
    assert one[36:41] == [1, 1, 1, 0, 1], "clamp, point, integers"
    assert two[:12] == [3, 0, 0x2000, 0, 0x01, 4, 10, 0, 6, 0, 64, 0]
    assert two[36:41] == [2, 3, 1, 1, 2], "mirror, border, linear, normalized"
    del made
    assert driver.freed == [(0x5000, None)]


def test_an_array_is_filled_and_freed_with_its_texture() -> None:
    driver: Any = Recorded()
    made = DeviceTexture(driver, Texture("float32", (10, 6), pitch=48), 0x2000, 0x77)
    (make, shape), (copy, moved), (create, described) = driver.calls
    assert (make, create) == ("cuArray3DCreate_v2", "cuTexObjectCreate")
    assert shape == [10, 0, 6, 0, 0, 0, 0x20, 1, 0, 0]
    assert copy == "cuMemcpy3DAsync_v2" and len(moved) == 50
    assert (moved[8], moved[12], moved[18], moved[20]) == (2, 0x2000, 48, 6), "from the buffer"
    assert (moved[30], moved[36]) == (3, 0x5000), "into the array"
    assert moved[44:] == [40, 0, 6, 0, 1, 0], "bytes of a row, rows, planes"
    assert described[:4] == [0, 0, 0x5000, 0] and described[36:41] == [1, 1, 1, 0, 0]
    assert made.handle == 0x5002
    del made
    assert driver.freed == [(0x5002, 0x5000)]


def test_a_version_makes_one_texture_object_for_each_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    class Made:
        def __init__(self, driver: Any, texture: Texture, address: int, stream: int) -> None:
            if address == 0x3000:
                raise DriverError("cuTexObjectCreate: invalid argument")
            made.append(address)
            self.handle = 0x5000 + len(made)

    monkeypatch.setattr(bench, "Driver", lambda: None)
    monkeypatch.setattr(bench, "DeviceTexture", Made)
    cuda = SimpleNamespace(module_from_buffer=bytes)
    session: Any = SimpleNamespace(stream=SimpleNamespace(handle=7), cuda=cuda, doing=nullcontext)
    executable: Any = SimpleNamespace(cubin=__file__, version="v0")
    version = bench.CudaVersion(session, executable)
    argument = TextureArg(buffer="x", texture=Texture("float32", (8, 4)), where="v0.cu:3")

    def handle(address: int, size: int = 32) -> ScalarArg:
        array = DeviceArray(address, (size,), np.dtype("f4"))
        return version._texture(argument, array)

    given = [handle(each) for each in (0x1000, 0x2000, 0x1000)]
    assert made == [0x1000, 0x2000]
    assert [(each.value, each.ctype) for each in given] == [
        (0x5001, "ulong"), (0x5002, "ulong"), (0x5001, "ulong"),
    ]  # fmt: skip
    with pytest.raises(WorkerError, match="reaches over 128 bytes, but buffer `x` has 124"):
        handle(0x1000, 31)
    with pytest.raises(WorkerError, match=r"the texture at v0\.cu:3"):
        handle(0x3000)
