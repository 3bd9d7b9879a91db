"""Large reports for tests: the launches of a small one, many times over."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from workbench.ncurep.container import SESSION, FileBlock, read_blocks
from workbench.ncurep.excerpt import METRIC_NAMES, encode, packed
from workbench.ncurep.wire import fields

#: Of a result: its metrics, sections and rules.
_METRIC, _SECTIONS, _RULES = 13, 17, 19
#: An instance with a number under 128 that is not nought; a number with a fraction.
_SAMPLED = re.compile(
    rb"(\x1a.\x0a.\x28[\x80-\xff]{5,8}[\x00-\x7f]\x12\x02\x28)[\x01-\x7f]", re.DOTALL
)
_FRACTION = re.compile(rb"(\x12\x09\x19)..(.{4}[^\x00].)", re.DOTALL)
#: A metric of one number is no longer than this; one of every instruction is.
_ONE_NUMBER = 200


def lean(result: bytes) -> bytes:
    """A result as of a run with one metric: single numbers, no sections, no rules."""
    kept = (
        field
        for field in fields(result)
        if field[0] not in (_SECTIONS, _RULES)
        and not (
            field[0] == _METRIC and isinstance(field[1], bytes) and len(field[1]) > _ONE_NUMBER
        )
    )
    return b"".join(encode(field) for field in kept)


def stirred(result: bytes) -> bytes:
    """A result as of another run: other samples of warps, and fractions of other numbers."""
    stirring = random.Random(zlib.crc32(result))
    out = bytearray()
    for key, value in fields(result):
        if key == _METRIC and isinstance(value, bytes):
            value = _SAMPLED.sub(lambda m: m[1] + bytes([stirring.randrange(1, 128)]), value)
            value = _FRACTION.sub(lambda m: m[1] + stirring.randbytes(2) + m[2], value)
        out += encode((key, value))
    return bytes(out)


def enlarge(
    small: bytes, times: int, path: Path, *, change: Callable[[bytes], bytes] = bytes
) -> None:
    """Write the report `small` with all of its results `times` over.

    The names of metrics stand in the header of the first result, and are not repeated.

    Args:
        small: The report.
        times: How often it holds each of its results afterwards.
        path: Where the large one goes.
        change: What is done to the results that are added, to each as it was added before.
    """
    blocks = [(block.header, list(block.results)) for block in read_blocks(small, path)]
    with path.open("wb") as file:
        file.write(small)
        for _ in range(times - 1):
            for fields_, results in blocks:
                if results:
                    header = tuple(x for x in fields_ if x[0] not in (METRIC_NAMES, SESSION))
                    results[:] = map(change, results)
                    file.write(packed(FileBlock(0, 0, header, (), ()), results))
