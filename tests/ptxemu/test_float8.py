"""8-bit floats: every code, and rounding to the nearest of them by exact fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.ptxemu.conftest import Array, elementwise

#: Digits, bias, code of the greatest number.
FORMATS = {"e4m3x2": (3, 7, 0x7E), "e5m2x2": (2, 15, 0x7B)}


@cache
def decoded(code: int, pair: str) -> Fraction:
    digits, bias, _ = FORMATS[pair]
    power, rest = (code & 0x7F) >> digits, code & ((1 << digits) - 1)
    size = Fraction(rest + (1 << digits if power else 0)) * Fraction(2) ** (
        max(power, 1) - bias - digits
    )
    return -size if code & 0x80 else size


def nearest(x: float, pair: str, relu: bool) -> int:
    if np.isnan(x):
        return 0x7F
    if relu and x <= 0:
        return 0
    sign = 0x80 if np.signbit(x) else 0
    top = FORMATS[pair][2]
    if np.isinf(x):
        return sign | top
    size = abs(Fraction(x))
    return sign | min(range(top + 1), key=lambda code: (abs(decoded(code, pair) - size), code % 2))


def inputs(pair: str) -> Array:
    """Every number, what lies in the middle of two, its neighbours, and what is beyond."""
    top = FORMATS[pair][2]
    known = np.array([float(decoded(code, pair)) for code in range(top + 1)])
    middle = ((known[1:] + known[:-1]) / 2).astype("f4")
    beyond = np.array([known[-1] * 1.04, known[-1] * 1.2, 1e30, np.inf, np.nan, 1e-30], "f4")
    near = [np.nextafter(middle, np.float32(side)) for side in (0, np.inf)]
    every = np.concatenate([known.astype("f4"), middle, *near, beyond])
    return np.concatenate([every, -every])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("pair", FORMATS)
def test_float32_is_rounded_to_the_nearest(pair: str, relu: bool) -> None:
    high = inputs(pair)
    low = np.random.default_rng(1).permutation(high)
    name = f"cvt.rn.satfinite{'.relu' if relu else ''}.{pair}.f32"
    got = elementwise(name, ["f32", "f32"], [high, low], "b16")
    want = [
        nearest(float(h), pair, relu) << 8 | nearest(float(w), pair, relu)
        for h, w in zip(high, low, strict=True)
    ]
    assert got.tolist() == want


@pytest.mark.parametrize("pair", FORMATS)
def test_halves_become_pairs(pair: str) -> None:
    with np.errstate(over="ignore"):
        values = inputs(pair).astype("f2")
    halves = np.stack([values, values[::-1]], axis=1)
    got = elementwise(f"cvt.rn.satfinite.{pair}.f16x2", ["b32"], [halves.view("u4")[:, 0]], "b16")
    want = [nearest(float(h), pair, False) << 8 | nearest(float(w), pair, False) for w, h in halves]
    assert got.tolist() == want


@pytest.mark.parametrize("pair", FORMATS)
def test_pairs_become_halves(pair: str) -> None:
    codes = np.arange(256, dtype="u2")
    both = codes | (codes[::-1] << 8)
    got = elementwise(f"cvt.rn.f16x2.{pair}", ["b16"], [both], "b32").view("f2").reshape(-1, 2)
    top = FORMATS[pair][2]
    for low, (one, two) in enumerate(got):
        for code, half in ((low, one), (255 - low, two)):
            if code & 0x7F <= top:
                assert Fraction(float(half)) == decoded(code, pair)
                assert np.signbit(half) == (code >= 128)
            elif pair == "e5m2x2" and code & 0x7F == 0x7C:
                assert half == (-np.inf if code & 0x80 else np.inf)
            else:
                assert np.isnan(half)
