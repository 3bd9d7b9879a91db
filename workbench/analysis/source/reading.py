"""Reading the sources of one version, CUDA and Python, into a `SourceMap`.

Known limits: no preprocessing (both sides of an ``#if`` are read), no overload
resolution (a call reaches every function of its name), no aliasing through pointers
beyond an argument's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from workbench.analysis.source.cuda import read_cuda
from workbench.analysis.source.knowledge import SourceSide
from workbench.analysis.source.python import PythonReader
from workbench.analysis.source.symbols import Recorder, Routine, SourceMap
from workbench.analysis.source.tokens import Source, scan
from workbench.analysis.source.units import Range, Statements

_READERS: dict[str, Callable[[SourceMap, int, Source], Recorder]] = {
    "cuda": read_cuda,
    "python": PythonReader,
}


def read(sources: Sequence[Source]) -> SourceMap:
    """Read all sources of one version.

    Args:
        sources: The files, as `scan` cuts them; places name them by their index.

    Returns:
        What was found; it is kept for the version's next step, and must not be changed.
    """
    return _read(tuple(sources))


@lru_cache(maxsize=8)
def _read(sources: tuple[Source, ...]) -> SourceMap:
    found = SourceMap()
    readers = [
        _READERS[source.language](found, file, source) for file, source in enumerate(sources)
    ]
    # Headers come in any order: all file-level names first, then the bodies.
    for reader in readers:
        reader.declare_globals()
    names: dict[str, list[int]] = {}
    for symbol in found.symbols:
        if not symbol.scope:
            names.setdefault(symbol.name, []).append(symbol.index)
    by_name: dict[str, list[Routine]] = {}
    for routine in found.routines:
        by_name.setdefault(routine.name, []).append(routine)
    for reader in readers:
        reader.read_bodies(names, by_name)
    return found


def scan_sources(profile: SourceSide) -> list[Source]:
    """All sources of a profile; a file without text has no lines."""
    return [
        scan(source.text, source.path)
        if source.text is not None
        else Source(source.path, (), (), ())
        for source in profile.sources
    ]


def statements_of(maps: Callable[[], tuple[SourceMap, SourceMap]], a: int, b: int) -> Statements:
    """Statements of several lines of an old file and a new one, looked up when asked for."""

    def statements() -> tuple[Sequence[Range], Sequence[Range]]:
        old, new = maps()
        return old.statements.get(a, ()), new.statements.get(b, ())

    return statements
