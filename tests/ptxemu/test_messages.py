"""``printf``, failed assertions, and barriers that bring something back."""

from __future__ import annotations

import ctypes
import math
import re
import sys

import numpy as np
import pytest

from ptxemu.errors import Fault
from ptxemu.ops import moves
from tests.ptxemu.conftest import Compile, execute

pytestmark = pytest.mark.nvcc

PRINTF = r"""
#include <cstdio>
extern "C" __global__ void k(const float* f, int* taken) {
  int t = threadIdx.x;
  if (t < 2)
    taken[t] = printf("%d: %5.2f|%-6s|%c|%llu|%#x|%*d|%%|%p|%e\n", t, f[t], "abc", 'q',
                      1ull << 40, 255u, 4, -7, (void*)4096, 1e-10);
}
"""

STEERING = r"""
#include <cstdio>
extern "C" __global__ void k(int* n) {
    printf("\033[2Jred\r ");
    printf(":");
    printf("\n:");
    printf(":error file=a::b\n  ::add-mask::c\n##[error]d");
}
"""


def test_printf_steers_nothing(cuda: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither a terminal nor a runner of GitHub, in however many pieces."""
    execute(cuda(STEERING), "k", {"n": np.zeros(1, "i4")}, ["n"], block=1)
    assert capfd.readouterr().err == (
        "·[2Jred· :\n·::error file=a::b\n·  ::add-mask::c\n##·[error]d\n"
    )


def test_printf_prints_as_c_does(cuda: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    got, _ = execute(
        cuda(PRINTF), "k", {"f": np.array([1.5, -2.25], "f4"), "n": np.zeros(2, "i4")}, ["f", "n"]
    )
    tail = "|abc   |q|1099511627776|0xff|  -7|%|0x1000|1.000000e-10\n"
    assert capfd.readouterr().err == f"0:  1.50{tail}1: -2.25{tail}"
    assert got["n"].tolist() == [10, 10]  # the width is one of them


def test_a_kernel_cannot_flood_the_terminal(
    cuda: Compile, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "_MOST", 200)
    text = PRINTF.replace("t < 2", "t < 30").replace("f[t]", "f[0]").replace("taken[t]", "*taken")
    execute(cuda(text), "k", {"f": np.ones(2, "f4"), "n": np.zeros(2, "i4")}, ["f", "n"])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 4 and "more than 200 bytes were printed" in lines[-1]


class Arguments(moves._Memory):
    """A format's arguments as the compiler lays them out, and its strings."""

    def __init__(self, *given: object) -> None:
        self.raw, self.strings = b"", dict[int, bytes]()
        for each in given:
            if isinstance(each, str):
                self.strings[place := 1 << 40 | len(self.strings) << 20] = each.encode() + b"\0"
                each = np.uint64(place)
            value = np.int32(each) if isinstance(each, int) else np.asarray(each)
            self.raw = self.raw.ljust(-(-len(self.raw) // value.nbytes) * value.nbytes, b"\0")
            self.raw += value.tobytes()

    def read(self, address: int, size: int) -> bytes:
        """As of a thread."""
        place = address >> 20 << 20
        return self.strings.get(place, self.raw)[address - place :][:size]


#: Formats, arguments, and what C prints (`snprintf` of glibc).
AS_C = [
    ("%.*d|", (-1, 3)), ("%*d|", (-5, 3)), ("%-*d|", (-5, 3)), ("%.*s|", (-1, "abc")),
    ("%.2s|%.0s|%5.1s|%-5s|", ("abc", "abc", "abc", "abc")), ("%.d|%.0d|%5.0d|", (0, 0, 0)),
    ("%05d|%-05d|%+05d|% 05d|%05.3d|", (7, 7, 7, 7, 7)), ("%+.3d|% d|%+d|", (-7, -7, 7)),
    ("%#x|%#x|%#X|%#08x|%#.4x|%#o|%#o|%#.3o|", (0, 255, 255, 255, 255, 8, 0, 8)),
    ("%hhd|%hd|%hhu|%hu|%hhx|", (300, 70000, 300, 70000, -1)), ("%u|%i|", (-1, -1)),
    ("%lld|%llu|%zx|", (np.int64(-5), np.int64(-5), np.int64(-1))),
    ("%f|%.0f|%#.0f|%.3f|%+f|% f|%08.2f|%-8.2f|", (1.5, 2.5, 2.5, -0.0005, 1.0, 1.0, -1.5, 1.5)),
    ("%e|%.0e|%#.0e|%E|%g|%#g|%.3g|%G|%g|", (1.5, 1.5, 2.5, 1e-9, 1e-5, 1.0, 1234567.0, 1e30, 0.1)),
    ("%05f|%-5f|%+F|%5G|%05e|", (math.inf, -math.inf, math.nan, math.inf, -math.inf)),
    ("%a|%A|%.0a|%.3a|%20a|%-20a|%020a|%.15a|%a|", (1.5, 0.1, 1.5, 0.1, 1.0, 1.0, 1.0, 0.1, -0.0)),
    ("%c%5c|%-5c|", (65, 66, 67)), ("%p|%20p|", (np.uint64(4096), np.uint64(0))),
    ("%.300g|%.2000g|", (0.1, 0.5)), ("100%% of %d", (3,)), ("%", ()), ("%y %d", (1,)),
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
@pytest.mark.parametrize(("form", "given"), AS_C, ids=[form for form, _ in AS_C])
def test_it_is_formatted_as_c_does(form: str, given: tuple[object, ...]) -> None:
    passed = [
        each.encode() if isinstance(each, str)
        else ctypes.c_double(each) if isinstance(each, float)
        else ctypes.c_uint64(int(each) & (1 << 64) - 1) if isinstance(each, np.integer)
        else each
        for each in given
    ]  # fmt: skip
    want = ctypes.create_string_buffer(5000)
    ctypes.CDLL(None).snprintf(want, 5000, form.encode(), *passed)
    # CUDA's NaN is the positive one, as Python's is.
    assert moves.formatted(form, Arguments(*given), 0, 5000)[0] == want.value.decode()


@pytest.mark.parametrize(
    ("form", "given", "taken"),
    [
        ("%2000000000d", (7,), 1), ("%.2000000000f", (1.0,), 1), ("%.2000000000d", (7,), 1),
        ("%-2147483647s", ("x",), 1), ("%*d", (-(1 << 31), 7), 2), ("%.*f", (2**31 - 1, 1.0), 2),
        ("%#.2000000000g", (1.0,), 1), ("%.2000000000a", (1.0,), 1), ("%.2000000000e", (1.0,), 1),
        ("%2000000000c%d", (7, 8), 2), ("%" + "9" * 5000 + "d", (7,), 1), ("%999d" * 9, (1,), 9),
        ("%2000000000p", (np.uint64(5),), 1), ("x" * 5001, (), 0), ("%s" * 9, ("y" * 999,) * 9, 9),
    ],
)  # fmt: skip
def test_what_is_too_long_is_counted_and_not_made(
    form: str, given: tuple[object, ...], taken: int
) -> None:
    assert moves.formatted(form, Arguments(*given), 0, 5000) == (None, taken)


def test_a_width_of_gigabytes_ends_what_is_printed(
    cuda: Compile, capfd: pytest.CaptureFixture[str]
) -> None:
    text = PRINTF.replace("%5.2f", "%2000000000.2f")
    execute(cuda(text), "k", {"f": np.ones(2, "f4"), "n": np.zeros(2, "i4")}, ["f", "n"])
    assert capfd.readouterr().err == (
        "kernel k: more than 1,048,576 bytes were printed; the rest is left out\n"
    )


ASSERT = """
#include <cassert>
extern "C" __global__ void k(const int* x) {
  int v = x[threadIdx.x];
  assert(v < 4 && "small");
}
"""


def test_a_failed_assertion_says_what_cuda_says(
    cuda: Compile, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros(64, "i4")
    x[[9, 40]] = 5
    with pytest.raises(
        Fault, match=r'k\.cu:5: assertion `v < 4 && "small"` failed in thread \(9, 0, 0\)'
    ):
        execute(cuda(ASSERT), "k", {"x": x}, ["x"], block=64)
    said = capfd.readouterr().err.splitlines()
    assert [re.sub(r"^.*?k\.cu", "k.cu", line) for line in said] == [
        f"k.cu:5: void k(const int *): block: [0,0,0], thread: [{thread},0,0] "
        'Assertion `v < 4 && "small"` failed.'
        for thread in (9, 40)
    ]


COUNTED = """
extern "C" __global__ void k(const int* x, int* y) {
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t >= 90) return;
  int many = __syncthreads_count(x[i] > 0);
  int all = __syncthreads_and(x[i] > -50);
  int any = __syncthreads_or(x[i] > 49);
  y[i] = many + 1000 * (all != 0) + 2000 * (any != 0);
}
"""


def test_barriers_that_count(cuda: Compile) -> None:
    x = np.random.default_rng(3).integers(-50, 51, (40, 96)).astype("i4")
    x[7] = np.maximum(x[7], -49)
    got, _ = execute(
        cuda(COUNTED),
        "k",
        {"x": x, "y": np.zeros_like(x)},
        ["x", "y"],
        grid=40,
        block=96,
        check=True,
    )
    live = x[:, :90]
    want = (live > 0).sum(1) + 1000 * (live > -50).all(1) + 2000 * (live > 49).any(1)
    assert np.array_equal(got["y"][:, :90], np.repeat(want[:, None], 90, 1))
    assert not got["y"][:, 90:].any() and len(set(want // 1000)) > 2
