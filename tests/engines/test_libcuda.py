"""What a launch asks of the driver beyond its shape."""

from __future__ import annotations

import ctypes
from typing import Any

import msgspec
import pytest

from ptxemu import Im2col, TensorMap
from workbench.engines.gpu.libcuda import Driver, attributes_of, open_device
from workbench.model import Dim3
from workbench.study.launches import ResolvedLaunch

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
