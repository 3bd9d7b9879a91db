"""The protobuf scanner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ncurep.report_builder import data, number
from workbench.ncurep.wire import WireError, fields, messages, rewrite, text, varint

Message = list[tuple[int, int | bytes]]
values = st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=40))
records = st.lists(st.tuples(st.integers(1, 2**20), values), max_size=12)


def encode(message: Message) -> bytes:
    return b"".join(
        number(key, value) if isinstance(value, int) else data(key, value) for key, value in message
    )


@given(records)
def test_fields_come_back_as_they_were_written(message: Message) -> None:
    assert list(fields(encode(message))) == message


@given(st.binary(max_size=200))
def test_any_bytes_give_fields_or_one_error(raw: bytes) -> None:
    try:
        read = list(fields(raw))
    except WireError as error:
        assert str(error)
    else:
        assert all(key > 0 for key, _ in read)


def test_fixed_width_fields_are_read_as_bytes() -> None:
    assert list(fields(varint(3 << 3 | 1) + b"12345678" + varint(4 << 3 | 5) + b"abcd")) == [
        (3, b"12345678"),
        (4, b"abcd"),
    ]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x08", "runs past the end"),
        (b"\x0a\x05abc", "runs past the end"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 11, "more than ten bytes"),
    ],
)
def test_damage_is_named(raw: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        list(fields(raw))


def test_rewrite_changes_one_field_and_copies_the_rest() -> None:
    raw = number(1, 300) + data(2, "old") + varint(9 << 3 | 5) + b"1234" + data(2, "gone")
    changed = rewrite(raw, 2, lambda v: b"new" if v == b"old" else None)
    assert changed == number(1, 300) + data(2, "new") + varint(9 << 3 | 5) + b"1234"


def test_first_text_wins_and_a_missing_one_is_empty() -> None:
    raw = data(5, "a") + data(5, b"\xff") + number(6, 1)
    assert text(raw, 5) == "a"
    assert text(raw, 7) == ""
    assert list(messages(raw, 6)) == []
