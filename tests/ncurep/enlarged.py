"""Large reports for tests: the launches of a small one, many times over."""

from __future__ import annotations

from pathlib import Path

from workbench.ncurep.container import FileBlock, read_blocks
from workbench.ncurep.excerpt import packed


def enlarge(small: bytes, times: int, path: Path) -> None:
    """Write the report `small` with all of its results `times` over.

    The names of metrics stand in the header of the first result, and are not repeated.
    """
    blocks = list(read_blocks(small, path))
    with path.open("wb") as file:
        file.write(small)
        for _ in range(times - 1):
            for block in blocks:
                if block.results:
                    header = tuple(field for field in block.header if isinstance(field[1], int))
                    again = FileBlock(0, 0, header, (), block.results)
                    file.write(packed(again, list(block.results)))
