"""Is an output right? Every way in which one can be wrong, on plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engines.host.buffers import compare, poison_byte, unwritten
from workbench.errors import UsageError

RNG = np.random.default_rng(7)


def reference(shape: tuple[int, ...] = (40, 25)) -> dict[str, np.ndarray]:
    return {"y": RNG.standard_normal(shape)}


def output(values: np.ndarray, dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"y": values.astype(dtype)}


def test_far_off_is_a_hundred_times_the_tolerance() -> None:
    """Of the element's own size, or of the output's root mean square, which here is 2."""
    want = {"y": np.tile([2.0, -2.0, np.sqrt(8.0), 0.0], 250_000)}
    for place, least in ((0, 2.0), (2, np.sqrt(8.0)), (3, 2.0)):
        for times, far in ((99, 0), (101, 1)):
            got = want["y"].copy()
            got[place] -= times * 1e-5 * least
            check = compare(output(got, "float64"), want, 1e-5)
            assert check.error is not None and check.error < 1e-5
            assert (check.far_off, check.ok) == (far, not far), (place, times)


def test_the_tolerance_itself_is_allowed() -> None:
    want = {"y": np.full(4, 2.0)}
    assert compare(output(np.full(4, 2.5)), want, 0.25).ok
    assert not compare(output(np.full(4, 2.5)), want, 0.2499).ok


def test_the_worst_element_is_named_with_both_values() -> None:
    want = {"y": np.zeros((3, 4)) + 2.0}
    got = want["y"].copy()
    got[2, 1] = 5.0
    check = compare(output(got), want, 1e-3)
    assert check.worst is not None
    assert (check.worst.output, check.worst.index) == ("y", (2, 1))
    assert (check.worst.got, check.worst.want) == ("5", "2")
    assert check.largest == 3.0 and check.error == pytest.approx(3 / np.sqrt(48))


def test_a_nan_is_never_right_and_its_error_is_no_number() -> None:
    want = reference()
    got = want["y"].copy()
    got[0, 3] = np.nan
    check = compare(output(got), want, 1.0)
    assert not check.ok and check.error is None and check.largest is None
    assert check.not_a_number == 1 and check.unwritten == 0
    assert check.worst is not None and check.worst.index == (0, 3)


def test_an_infinity_is_far_off() -> None:
    want = reference()
    got = want["y"].copy()
    got[1, 1] = np.inf
    check = compare(output(got), want, 1.0)
    assert not check.ok and check.error is None and check.far_off == 1


def test_unwritten_elements_fail_even_where_the_reference_is_never_compared() -> None:
    want = reference()
    got = output(want["y"])
    got["y"][7, :5] = np.frombuffer(b"\xff" * 20, dtype=np.float32)
    sample = {"y": np.array([0, 1, 2])}
    check = compare(got, {"y": want["y"].reshape(-1)[:3]}, 1e-6, sample=sample)
    assert check.unwritten == 5 and not check.ok
    assert check.sampled == 3 and check.compared == 3


def test_a_byte_that_is_the_poison_by_right_was_written() -> None:
    want = np.arange(256, dtype=np.float64)
    got = want.astype("uint8")
    assert compare({"y": got}, {"y": want}, 1e-12).ok
    got[5] = poison_byte(np.dtype("u1"))
    check = compare({"y": got}, {"y": want}, 1.0)
    assert check.unwritten == 1 and not check.ok


def test_the_worst_of_a_sample_is_named_by_its_place_in_the_output() -> None:
    want = np.ones((10, 10))
    got = want.copy()
    got[4, 2] = 3.0
    indices = np.array([5, 42, 77])
    check = compare(output(got), {"y": want.reshape(-1)[indices]}, 1e-6, sample={"y": indices})
    assert check.worst is not None and check.worst.index == (4, 2)


def test_samples_of_several_outputs_add_up() -> None:
    want = {"a": np.ones(3), "b": np.ones(2)}
    got = {"a": np.ones(9, "float32"), "b": np.ones((4, 4), "float32")}
    sample = {"a": np.array([0, 4, 8]), "b": np.array([3, 12])}
    check = compare(got, want, 1e-6, sample=sample)
    assert check.ok and (check.sampled, check.compared) == (5, 5)


def test_a_reference_of_zeros_is_judged_by_the_absolute_error() -> None:
    want = {"y": np.zeros(10)}
    assert compare(output(np.zeros(10)), want, 1e-6).ok
    wrong = compare(output(np.full(10, 1e-3)), want, 1e-6)
    assert not wrong.ok and wrong.error == pytest.approx(np.sqrt(10) * 1e-3, rel=1e-6)


def test_integers_are_compared_exactly_and_poisoned_their_own_way() -> None:
    want = {"y": np.arange(8, dtype=np.float64)}
    assert compare(output(np.arange(8), "int32"), want, 1e-9).ok
    poisoned = np.frombuffer(b"\x7f" * 32, dtype=np.int32).copy()
    assert unwritten(poisoned).all()
    assert {poison_byte(np.dtype(name)) for name in ("int32", "uint8", "bool")} == {0x7F}
    assert not compare({"y": poisoned}, want, 1e9).ok


@pytest.mark.parametrize(
    "dtype", ["bool", "float16", "float32", "float64", "int8", "uint16", "int64"]
)
def test_poison_is_told_from_what_a_kernel_computes(dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    values = np.frombuffer(bytes([poison_byte(np.dtype(dtype))]) * (4 * size), dtype=dtype).copy()
    values[1] = 0
    assert unwritten(values).tolist() == [True, False, True, True]
    if np.dtype(dtype).kind == "f":
        # The NaN of an invalid operation on NVIDIA chips, and NumPy's own.
        values[:] = np.nan
        assert not unwritten(values).any()


def test_a_wide_type_is_compared_byte_by_byte() -> None:
    values = np.frombuffer(b"\xff" * 32, dtype=np.longdouble).copy()
    values[0] = 1
    assert unwritten(values).tolist() == [False, True]


@pytest.mark.parametrize(
    ("want", "word"),
    [
        ({}, "does not return 'y'"),
        ({"y": np.zeros(3)}, "has shape (3,), the output (4,)"),
        ({"y": np.array([1, np.nan, 1, 1])}, "no finite value"),
    ],
)
def test_a_reference_that_is_none_is_the_studys_fault(
    want: dict[str, np.ndarray], word: str
) -> None:
    with pytest.raises((ValueError, UsageError)) as caught:
        compare(output(np.zeros(4)), want, 1e-6)
    assert word in str(caught.value)


@given(st.integers(0, 999), st.floats(0.5, 1e6))
def test_any_single_large_error_is_caught_and_found(place: int, size: float) -> None:
    want = {"y": np.sin(np.arange(1000.0))}
    got = want["y"].copy()
    got[place] += size
    check = compare(output(got), want, 1e-5)
    assert not check.ok and check.worst is not None and check.worst.index == (place,)


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 39), st.sampled_from([0.5, np.nan, np.inf, "poison"]))),
    st.integers(1, 9),
)
def test_pieces_say_what_the_whole_says(
    size: int, faults: list[tuple[int, object]], piece: int
) -> None:
    want = {"y": np.random.default_rng(size).standard_normal(size)}
    got = want["y"].astype("float32")
    for place, fault in faults:
        if fault == "poison":
            got.view(np.uint32)[place % size] = 0xFFFFFFFF
        else:
            got[place % size] += fault
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.engines.host.buffers._PIECE", piece)
        parts = compare({"y": got}, want, 1e-5)
    whole = compare({"y": got}, want, 1e-5)
    if whole.error is None:
        assert parts.error is None
    else:
        assert parts.error == pytest.approx(whole.error, rel=1e-12)
    for name in ("ok", "largest", "compared", "unwritten", "not_a_number", "far_off", "worst"):
        assert getattr(parts, name) == getattr(whole, name), name


def test_a_tolerance_of_zero_wants_every_element() -> None:
    want = {"y": np.arange(1000.0), "z": np.zeros(10)}
    right = {"y": want["y"].astype("i4"), "z": np.zeros(10, "i4")}
    check = compare(right, want, 0.0)
    assert check.ok and check.error == 0 and check.far_off == 0
    for name in want:
        wrong = {key: value.copy() for key, value in right.items()}
        wrong[name][7] += 1
        check = compare(wrong, want, 0.0)
        assert not check.ok and check.far_off == 1 and check.error is not None and check.error > 0


def test_a_comparison_of_nothing_is_no_pass() -> None:
    with pytest.raises(UsageError, match="nothing was compared"):
        compare(output(np.zeros(0)), {"y": np.zeros(0)}, 1e-6)


@pytest.mark.parametrize("dtype", ["O", "S4", "M8[s]", "U2", "V4", "complex64", "i4,f4"])
def test_outputs_hold_numbers_that_a_reference_can_have(dtype: str) -> None:
    with pytest.raises(UsageError, match="not a type of numbers"):
        poison_byte(np.dtype(dtype))
