"""Drawings of how the ladders lay tiles into shared memory's banks, as a page of documentation.

``python docs/swizzles.py > docs/ladders/swizzles.md`` (part of ``make docs``) writes it; a test
holds the file to what this gives, and each rule to the kernels that have it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from textwrap import fill
from typing import NamedTuple

import numpy as np

from ptxemu.ops.tiles import swizzled

BANKS, BANK_BYTES, CHUNK_BYTES, ROWS = 32, 4, 16, 8
#: Where the bytes of a chunk of a row lie: (row, chunk) -> an address from the tile's start.
Place = Callable[[int, int], int]


class Layout(NamedTuple):
    """A way to lay rows of a tile into shared memory.

    Attributes:
        title: Heading.
        text: What it is for, and who has it.
        chunks: Of 16 bytes in a row.
        plain: Without it.
        place: With it.
        written: The rule, as a kernel has it.
        file: That kernel's.
        rows: Of which 128 bytes are read together.
    """

    title: str
    text: str
    chunks: int
    plain: Place
    place: Place
    written: str
    file: str
    rows: int = ROWS


def _rows_of(chunks: int, pitch: int = 0) -> Place:
    return lambda row, chunk: row * (chunks * CHUNK_BYTES + pitch) + chunk * CHUNK_BYTES


def _exchanged(chunks: int, by: Callable[[int], int]) -> Place:
    return lambda row, chunk: row * chunks * CHUNK_BYTES + (chunk ^ by(row)) * CHUNK_BYTES


def by_engine(swizzle: int) -> Place:
    """As the copy engine leaves rows of `swizzle` bytes, by the emulator's rule."""
    plain = _rows_of(swizzle // CHUNK_BYTES)
    return lambda row, chunk: int(swizzled(np.array([plain(row, chunk)]), swizzle)[0])


LAYOUTS = (
    Layout(
        "Rows of 128 bytes",
        "`conv2d_half` v4 to v6, and the copy engine's `swizzle = 128` for every version on "
        "`wgmma` (`conv2d_half` from v13, `conv2d_int8` from v16, `conv2d` v13 to v15, `sgemm` "
        "v11 to v13). Chunk c of row r lies at c ^ r % 8.",
        8,
        _rows_of(8),
        _exchanged(8, lambda row: row % 8),
        "return c ^ row % 8 * 8;",
        "conv2d_half/v4_swizzle.cu",
    ),
    Layout(
        "Rows of 64 bytes",
        "`conv2d_half` v7 to v12 and `conv2d_int8` v11 and v12. Two rows share a line of 128 "
        "bytes, so that neighbours need no exchange: chunk c of row r lies at c ^ r / 2 % 4. "
        "The copy engine's `swizzle = 64` is the same.",
        4,
        _rows_of(4),
        _exchanged(4, lambda row: row // 2 % 4),
        "16 * (piece ^ row / 2 % PIECES)",
        "conv2d_int8/v11_swizzled.cu",
    ),
    Layout(
        "Rows of 64 bytes, halves exchanged",
        "`conv2d` v11 and v12, of 16 taps of a filter. A lane loads 8 bytes, so four filters "
        "are read at a time, of each two chunks: these trade places with the row's other two.",
        4,
        _rows_of(4),
        _exchanged(4, lambda row: row // 2 % 2 * 2),
        "return tap ^ filter / 2 % 2 * 8;",
        "conv2d/v11_tf32x3.cu",
        rows=4,
    ),
    Layout(
        "Padding instead",
        "`sgemm` v5 to v9 keep tiles of A k-major, 128 floats and four of padding a row: a warp"
        " stores four of each of eight k. It costs memory where an exchange costs none, and "
        "neither the copy engine nor `wgmma` knows it.",
        32,
        _rows_of(32),
        _rows_of(32, pitch=16),
        "constexpr int PITCH = BM + 4;",
        "sgemm/v9_issue_slots.cu",
    ),
)


def banks(place: Place, row: int, chunk: int) -> list[int]:
    """The banks in which a row's chunk lies."""
    first = place(row, chunk) // BANK_BYTES
    return [(first + word) % BANKS for word in range(CHUNK_BYTES // BANK_BYTES)]


def read_together(layout: Layout) -> list[tuple[int, int]]:
    """The (row, chunk) of what the drawing marks: 128 bytes, in a column of the tile."""
    each = ROWS // layout.rows
    return [(row, chunk) for row in range(layout.rows) for chunk in range(each)]


def wavefronts(place: Place, chunks: list[tuple[int, int]]) -> int:
    """Turns that reading these chunks takes: as many as the fullest bank holds of their words."""
    found = np.zeros(BANKS, int)
    for row, chunk in chunks:
        found[banks(place, row, chunk)] += 1
    return int(found.max())


def drawing(place: Place, chunks: list[tuple[int, int]]) -> list[str]:
    """Eight rows by 32 banks: a row's number where its chunks lie, a dot elsewhere."""
    lines = [["·"] * BANKS for _ in range(ROWS)]
    for row, chunk in chunks:
        for bank in banks(place, row, chunk):
            lines[row][bank] = str(row)
    return ["".join(line) for line in lines]


_HEAD = """\
# Tiles in banks

<!-- Written by `python docs/swizzles.py > docs/ladders/swizzles.md`. -->

For readers who want to see why the ladders swizzle their tiles. Shared memory has 32 banks of
four bytes; a wavefront gives 128 bytes if all of them are in different banks. A tile is written
along its rows and read down a column, 16 bytes of each of eight rows. In rows of a power of two
these are in the same banks. To exchange chunks of 16 bytes by the row's number (a *swizzle*) puts
them into different ones, for reading and writing alike, and costs an XOR.

Each line is a row of the tile, each character one of the 32 banks; a number marks the words that
one access wants, of the row of that number.
"""


def swizzle_page() -> str:
    """The page."""
    parts = [_HEAD]
    for layout in LAYOUTS:
        chunks = read_together(layout)
        sides = [drawing(place, chunks) for place in (layout.plain, layout.place)]
        turns = [wavefronts(place, chunks) for place in (layout.plain, layout.place)]
        said = [f"{n} wavefront{'s' if n > 1 else ''}" for n in turns]
        rows = [f"{old}   {new}" for old, new in zip(*sides, strict=True)]
        head = f"{'as it is: ' + said[0]:<{BANKS}}   laid out: {said[1]}"
        text = fill(layout.text, 110, break_long_words=False, break_on_hyphens=False)
        parts.append(
            f"\n## {layout.title}\n\n{text}\n\n```text\n"
            + "\n".join([head, *rows])
            + f"\n```\n\nIn `kernels/{layout.file}`: `{layout.written}`.\n"
        )
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(swizzle_page())
