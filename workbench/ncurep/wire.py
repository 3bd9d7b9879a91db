"""A scanner for the protobuf wire format: field numbers and raw values, no schema.

Enough to walk a report's frame; see https://protobuf.dev/programming-guides/encoding
for the format. Groups (wire types 3 and 4) are not used by ncu and count as damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Field = tuple[int, int | bytes]
#: The messages of reports have less than a hundredth of this many fields.
MOST = 1 << 17


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def fields(data: bytes) -> Iterator[Field]:
    """A message's fields, (number, int or bytes), in file order; WireError: not protobuf."""
    return ((number, value) for number, value, _, _ in _scan(data))


def messages(data: bytes, number: int) -> Iterator[bytes]:
    """The values of one length-delimited field."""
    return (value for key, value in fields(data) if key == number and isinstance(value, bytes))


def text(data: bytes, number: int) -> str:
    """The first value of a string field; empty if there is none."""
    return next(messages(data, number), b"").decode("utf-8", "replace")


def rewrite(data: bytes, number: int, change: Callable[[bytes], bytes | None]) -> bytes:
    """The message with every length-delimited field `number` changed; None drops one.

    All other fields are copied byte for byte.
    """
    out = bytearray()
    for key, value, start, end in _scan(data):
        if key != number or not isinstance(value, bytes):
            out += data[start:end]
            continue
        changed = change(value)
        if changed is not None:
            out += varint(number << 3 | 2) + varint(len(changed)) + changed
    return bytes(out)


def varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _scan(data: bytes) -> Iterator[tuple[int, int | bytes, int, int]]:
    """(number, value, start, end) of each field."""
    at, size, count = 0, len(data), 0
    while at < size:
        start = at
        count += 1
        if count > MOST:
            raise WireError(f"a message of more than {MOST:,} fields")
        key = data[at]
        if key < 0x80:  # as most keys and lengths are: a call for each would take half of the time
            at += 1
        else:
            key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError("field number 0")
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value, start, at
            continue
        if wire == 2:
            length = data[at] if at < size else 0x80
            if length < 0x80:
                at += 1
            else:
                length, at = _varint(data, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise WireError(f"wire type {wire}")
        if at + length > size:
            raise WireError("a field runs past the end of its message")
        at += length
        yield number, data[at - length : at], start, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends; WireError: cut short, or more than ten bytes."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise WireError("a number runs past the end of its message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number of more than ten bytes")
