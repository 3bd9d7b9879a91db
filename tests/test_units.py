"""Numbers as a reader sees them: three digits, a unit, an SI prefix, a real minus."""

from __future__ import annotations

import math

import pytest

from workbench import units


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (311.744e-6, "s", "312 µs"),
        (4.452e-3, "s", "4.45 ms"),
        (999.7e-6, "s", "1.00 ms"),
        (12.3, "s", "12.3 s"),
        (8.393e6, "byte", "8.39 MB"),
        (27.04e9, "byte/s", "27.0 GB/s"),
        (87.6789, "%", "87.7%"),
        (33_554_432, "", "33.6 M"),
        (1024, "", "1,024"),
        (9_999.4, "", "9,999"),
        (12_345.0, "", "12.3 k"),
        (0.01, "%", "0.0100%"),
        (0.2354, "inst", "0.235"),
        (0, "s", "0 s"),
        (1.98e9, "hz", "1.98 GHz"),
        (None, "s", "—"),
        (math.nan, "s", "NaN"),
        (-math.inf, "", "−∞"),
        ("CachePreferNone", "", "CachePreferNone"),
    ],
)
def test_quantity(value: float | str | None, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(-32_505_856, "", "−32.5 M"), (98e-6, "s", "+98.0 µs"), (0, "s", "±0"), (-3, "", "−3")],
)
def test_signed_always_carries_its_sign(value: float, unit: str, text: str) -> None:
    assert units.signed(value, unit) == text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (100, 0.7, "−99.3%"), (100, 112, "+12.0%"), (10, 96.1, "×9.61"), (5, 5, "±0%"), (0, 3, "—"),
        (2, 4, "×2.00"), (1000, 1999, "+99.9%"), (1000, 1000.4, "±0%"), (1000, 999.4, "−0.1%"),
    ],
)  # fmt: skip
def test_relative(old: float, new: float, text: str) -> None:
    assert units.relative(old, new) == text


def test_an_interval_whose_ends_read_the_same_is_one_number() -> None:
    assert units.span(units.factor(1.381), units.factor(1.384)) == "1.38×"
    assert units.span("1 s", "2 s") == "1 s to 2 s"
    assert units.span("1 s", "2 s", " – ") == "1 s – 2 s"


def test_points_and_factor() -> None:
    assert units.points(24.71) == "+24.7 points"
    assert units.factor(1.391) == "1.39×"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (6.65e-05, "inst", "0.0000665"),
        (-6.65e-05, "", "−0.0000665"),
        (0.0104, "%", "0.0104%"),
        (4e-5, "%", "< 0.01%"),
        (-4e-5, "%", "> −0.01%"),
        (1.234e-7, "", "0.00000012"),
        (0.05, "flop/s", "0.0500 FLOP/s"),
        (3e12, "op/s", "3.00 TOP/s"),
    ],
)
def test_quantities_have_no_exponent(value: float, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


def test_relative_errors_keep_theirs() -> None:
    assert units.digits3(7.6e-07) == "7.6e−07"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ((38, 38), (38, 38), "line 38 → 38"),
        ((3, 5), (3, 6), "lines 3–5 → 3–6"),
        ((3, 3), (3, 6), "lines 3 → 3–6"),
        ((46, 45), (47, 47), "added line 47"),
        ((46, 45), (47, 49), "added lines 47–49"),
        ((12, 13), (12, 11), "removed lines 12–13"),
    ],
)
def test_lines_that_changed(old: tuple[int, int], new: tuple[int, int], words: str) -> None:
    assert units.lines_changed(old, new) == words


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("wavefront", "wavefronts"),
        ("branch", "branches"),
        ("cycle/inst", "cycles/inst"),
        ("byte/sector", "bytes/sector"),
        ("inst", "inst"),
        ("", ""),
    ],
)
def test_units_after_a_number_are_plural(unit: str, text: str) -> None:
    assert units.plural(unit) == text


def test_one_of_a_thing_and_several() -> None:
    assert units.several(1, "block") == "1 block"
    assert units.several(0, "block") == "0 blocks"
    assert units.several(12_000, "launch", "launches") == "12.0 k launches"


def test_an_extent_is_exact() -> None:
    assert units.extent((65_536, 1, 1)) == "65,536"
    assert units.extent((1, 1, 1)) == "1" and units.extent(()) == ""
    assert units.extent((8, 1, 2), " × ") == "8 × 1 × 2"
    assert units.extent((4096, 1, 1), whole=True) == "4096×1×1"


@pytest.mark.parametrize(
    ("speedup", "words"),
    [
        (1.38, "1.38× faster"),
        (1.013, "1.01× faster"),
        (1 / 2.1, "2.10× slower"),
        (1.0004, "0.0400% faster"),
        (1 / 1.0004, "0.0400% slower"),
    ],
)
def test_a_speed_says_its_direction(speedup: float, words: str) -> None:
    assert units.faster(speedup) == words
    assert units.won(speedup) is {"1.38× faster": True, "2.10× slower": False}.get(words)


def test_a_line_begins_with_a_capital_and_keeps_its_other_letters() -> None:
    assert units.capital("the launch of sgemm_V2") == "The launch of sgemm_V2"
    assert units.capital("") == ""


def test_a_unit_stands_beside_a_number_only_where_it_is_not_in_it() -> None:
    assert [units.beside(unit) for unit in ("", "%", "s", "op/s", "inst")] == [
        "",
        "",
        "",
        "",
        "inst",
    ]
