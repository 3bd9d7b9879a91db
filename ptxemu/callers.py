"""Charge each line of PTX to a source line; code of a toolkit's header is charged to its caller.

The caller is in ``inlined_at`` of PTX's ``.loc``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

Position = tuple[int, int]  # number of a file, 1-based line
#: True for the path of a shipped header, whose costs are its caller's.
Foreign = Callable[[str], bool]

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
#: The position that PTX gives for the next statements: file, line, and those of the caller.
LOC = re.compile(
    r"\s*\.loc\s+(\d{1,10})\s+(\d{1,10})\s(?:.*\binlined_at\s+(\d{1,10})\s+(\d{1,10})\s)?"
)
_SHIPPED = re.compile(
    r"/usr/(local/)?(include|lib)/|/(cuda|nvidia)[^/]*/(.*/)?include/|\A__nv_nvrtc_"
)


def shipped(path: str) -> bool:
    """True if a header's folder belongs to the system or to a CUDA toolkit."""
    return _SHIPPED.search(path) is not None


def files_of(lines: Iterable[str]) -> dict[int, str]:
    """The numbered files of PTX."""
    return {int(found[1]): found[2] for line in lines if (found := _FILE.match(line))}


class Callers:
    """Follows the positions in PTX in their order.

    The compiler states the path from a kernel into a function once, from the outside in: if two
    calls of one function are interleaved at depth, the last stated one is taken.
    """

    def __init__(self, files: Mapping[int, str], foreign: Foreign) -> None:
        self._files, self._foreign = files, foreign
        self._known: dict[Position, Position] = {}

    def home(self, place: Position, caller: Position | None) -> Position:
        """The position to charge for a ``.loc``, given its ``inlined_at``."""
        found = place
        if caller is not None and self._foreign(self._files.get(place[0], "")):
            found = self._known.get(caller, caller)
        self._known[place] = found
        return found

    def read(self, line: str) -> tuple[Position, Position] | None:
        """Position and home from a line of PTX that is a ``.loc``."""
        found = LOC.match(line)
        if found is None:
            return None
        place = int(found[1]), int(found[2])
        caller = None if found[3] is None else (int(found[3]), int(found[4]))
        return place, self.home(place, caller)
