"""What is known of the sources of two versions, and each read, CUDA and Python, into a `SourceMap`.

Known limits: no preprocessing (both sides of an ``#if`` are read), no overload
resolution (a call reaches every function of its name), no aliasing through pointers
beyond an argument's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from workbench.analysis.source.cuda import Reader
from workbench.analysis.source.python import PythonReader
from workbench.analysis.source.symbols import Recorder, Routine, SourceMap
from workbench.analysis.source.tokens import Range, Source, Statements, scan
from workbench.model import Profile, Record, SourceFile
from workbench.units import listed

# --- What two profiles hold of their sources -----------------------------------------------------
#
# That a source is unknown does not mean it is unchanged. Most reports of other people hold no
# text, many of them lines by number; some hold a part of their files. An amount on a line without
# text belongs to no change and to no compiler: it is of the link ``unknown``.

#: Of one side: the text of all files that instructions lie in, of some, or of none.
Knowledge = Literal["known", "partly", "unknown"]

_REMEDY = (
    "capture with --import-source yes and compile with -lineinfo, or supply the files with --source"
)


class SourceState(Record, frozen=True):
    """What is known of the two sources; `same`: both are known, and equal as code.

    `lines_old`/`lines_new`: whether any instruction has a line, be it without text.
    """

    old: Knowledge = "known"
    new: Knowledge = "known"
    same: bool = False
    lines_old: bool = True
    lines_new: bool = True

    @property
    def known(self) -> bool:
        """Whether nothing of either side is unknown."""
        return self.old == self.new == "known"


class LaunchLines(Record, frozen=True):
    """A launch's kernel, and the file and line of each of its instructions."""

    kernel: str
    file: tuple[int, ...]
    line: tuple[int, ...]


class SourceSide(Record, frozen=True):
    """All of a profile that the comparison of sources looks at; nothing in it was measured."""

    sources: tuple[SourceFile, ...]
    compiler: str
    launches: tuple[LaunchLines, ...]


def side_of(profile: Profile) -> SourceSide:
    """What the comparison of sources looks at."""
    return SourceSide(
        sources=profile.sources,
        compiler=profile.build.compiler if profile.build else "",
        launches=tuple(
            LaunchLines(each.kernel, each.instructions.file, each.instructions.line)
            for each in profile.launches
        ),
    )


def knowledge(profile: SourceSide, unknown: frozenset[int]) -> Knowledge:
    """What is known of the files that a profile's instructions lie in (or else of all).

    Args:
        profile: One side.
        unknown: Its unknown files: see `unknown_files`.
    """
    used = _used(profile)
    if -1 in unknown or (used and unknown.issuperset(used)):
        return "unknown"
    return "known" if unknown.isdisjoint(used) else "partly"


def has_lines(profile: SourceSide) -> bool:
    """Whether any instruction has a line."""
    return any(line > 0 for launch in profile.launches for line in launch.line)


def unknown_files(
    old: SourceSide, new: SourceSide, files: Mapping[int, int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Files of both sides whose text is not held, and of which nothing says that they are the same.

    A hash says so, and the compiler of a header of its own. -1 stands for a side that holds
    no text at all: nothing can be said of any of its lines.

    Args:
        old: The old side.
        new: The new side.
        files: Which old file is paired with which new one.
    """
    toolkit = bool(old.compiler) and old.compiler == new.compiler
    same = {
        (a, b)
        for a, b in files.items()
        if old.sources[a].sha256 and old.sources[a].sha256 == new.sources[b].sha256
    }
    out = []
    for profile, hashed in ((old, {a for a, _ in same}), (new, {b for _, b in same})):
        dark = {
            n
            for n, source in enumerate(profile.sources)
            if source.text is None and not (toolkit and _is_toolkit(profile, n))
        }
        none = len(dark) == len(profile.sources) and not hashed
        out.append(frozenset((dark - hashed) | ({-1} if none else set())))
    return out[0], out[1]


def _is_toolkit(profile: SourceSide, file: int) -> bool:
    """Whether a file is the compiler's: ``system`` has its headers, ``triton`` Triton's library."""
    return profile.sources[file].path.startswith(("system/", "triton/"))


def _used(profile: SourceSide) -> list[int]:
    used = {
        file
        for launch in profile.launches
        for file, line in zip(launch.file, launch.line, strict=True)
        if 0 <= file < len(profile.sources) and line > 0
    }
    return sorted(used) or list(range(len(profile.sources)))


def words_of(
    old: SourceSide,
    new: SourceSide,
    sources: SourceState,
    unknown: tuple[frozenset[int], frozenset[int]],
) -> tuple[str, ...]:
    """Sentences about what is not known of either side, or that both are the same."""
    if sources.same:
        return ("the sources are the same",)
    sides = [
        (side, profile, files)
        for side, profile, state, files in (
            ("old", old, sources.old, unknown[0]),
            ("new", new, sources.new, unknown[1]),
        )
        if state != "known"
    ]
    if not sides:
        return ()
    whose = "neither side holds" if len(sides) == 2 else f"the {sides[0][0]} side does not hold"
    names = _names([(profile, files) for _, profile, files in sides])
    what = f"the text of {names}" if names else "any source text"
    dark = "unknown" in (sources.old, sources.new)
    extent = "source unknown" if dark else "source known in part"
    return (f"{extent}: {whose} {what}, so what changed there is unknown ({_REMEDY})",)


def _names(sides: Sequence[tuple[SourceSide, frozenset[int]]]) -> str:
    names = [
        PurePosixPath(profile.sources[file].path.replace("\\", "/")).name
        for profile, files in sides
        for file in _used(profile)
        if file in files
    ]
    return listed(list(dict.fromkeys(names)), 3)


# --- Reading what they hold ----------------------------------------------------------------------

_READERS: dict[str, Callable[[SourceMap, int, Source], Recorder]] = {
    "cuda": Reader,
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
