"""What a launch asks of the driver beyond its shape."""

from __future__ import annotations

import ctypes

import msgspec
import pytest

from workbench.engines.gpu.libcuda import attributes_of
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
