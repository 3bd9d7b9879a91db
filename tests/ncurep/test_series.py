"""Instances read as arrays: those that are read one by one, or left to that."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ncurep import report_builder as b
from workbench.ncurep.series import (
    Ids,
    InstanceReader,
    Instances,
    NamedInstances,
    UnsureError,
    series_of,
)
from workbench.ncurep.wire import WireError

whole = st.integers(0, 2**64 - 1) | st.integers(0, 300)
fractions = st.floats(allow_nan=False)
runs = (
    st.lists(st.tuples(whole, whole), min_size=1)
    | st.lists(st.tuples(whole, fractions), min_size=1)
    | st.lists(st.tuples(whole | st.text(), whole | fractions | st.text()), min_size=1)
)


def scalar(value: float | str) -> bytes:
    if isinstance(value, str):
        return b.data(1, value)
    return b.number(5, value) if isinstance(value, int) else b"\x19" + struct.pack("<d", value)


def written(pairs: list[tuple[Any, Any]], end: int | None = 0) -> bytes:
    """Instances as ncu writes them, with the number behind them."""
    each = (b.data(3, b.data(1, scalar(i)) + b.data(2, scalar(v))) for i, v in pairs)
    return b"".join(each) + (b"" if end is None else b.number(4, end))


def pairs_of(series: Any) -> list[tuple[Any, Any]]:
    return list(zip(series.ids.each, series.values, strict=True))


@settings(max_examples=70)
@given(st.lists(st.tuples(runs, st.none() | st.integers(0, 300)), max_size=4))
def test_all_runs_of_a_launch_are_those_that_are_read_one_by_one(
    several: list[tuple[list[tuple[Any, Any]], int | None]],
) -> None:
    data = [written(pairs, end) for pairs, end in several]
    for found, one, (pairs, _) in zip(InstanceReader().read(data), data, several, strict=True):
        assert pairs_of(found) == pairs_of(series_of(one)) == pairs
        assert [type(x) for x in found.values] == [type(x) for _, x in pairs]


@settings(max_examples=70)
@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=6), st.data())
def test_a_changed_byte_is_read_as_one_by_one_or_refused(
    pairs: list[tuple[int, int]], draw: st.DataObject
) -> None:
    run = bytearray(written(pairs))
    place = draw.draw(st.integers(1, len(run) - 1))
    run[place] = draw.draw(st.integers(0, 255))
    other = written([(1 << 40, 7)])
    try:
        expected = pairs_of(series_of(bytes(run)))
    except (UnsureError, WireError, IndexError, UnicodeDecodeError) as error:
        with pytest.raises(type(error)):
            pairs_of(InstanceReader().read([other, bytes(run)])[1])
        return
    assert pairs_of(InstanceReader().read([other, bytes(run)])[1]) == expected


def test_counts_are_arrays_and_share_their_ids() -> None:
    pcs = [(1 << 46) + 16 * place for place in range(300)]
    first, second, third = InstanceReader().read(
        [written([(pc, value) for pc in pcs]) for value in (1, 70_000, 0.5)]
    )
    assert isinstance(first, Instances) and first.counts is not None and second.counts is not None
    assert first.ids is second.ids is third.ids and first.ids.ascending
    assert set(second.counts.tolist()) == {70_000}
    assert third.counts is None and set(third.values) == {0.5}


def test_instances_of_names_are_read_where_they_are_asked_for() -> None:
    good, bad = written([("LDS", 4)]), written([("LDS", 4)]) + b.number(6, 1)
    found, wrong = InstanceReader().read([good, bad])
    assert isinstance(found, NamedInstances) and pairs_of(found) == [("LDS", 4)]
    with pytest.raises(UnsureError):
        wrong.values  # noqa: B018


def test_ids_in_any_other_order_are_not_ascending() -> None:
    for each in ((3, 2), (2, 2), (1, "a"), (1.5, 2.5)):
        assert not Ids(each).ascending
    assert Ids((1, 2, 9)).ascending
