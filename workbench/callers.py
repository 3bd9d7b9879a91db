"""Map lines of code to their owners: a line in a toolkit's header to the line that called it.

A copy by ``__pipeline_memcpy_async`` or a sum by CUB is the caller's cost: users do not edit the
header, and a reader looks for it at the call. PTX names callers: its ``.loc`` has ``inlined_at``. A
profile's machine instructions name only the header. But ncu names the PTX instruction behind each
of them, and so the ``.loc`` before it.

Lines of a program's file whose kernel was lifted map to the version's own text: there, a comment
``// from softmax.cu:17`` names the origin of the lines that follow.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from ptxemu import Callers, Position, files_of
from workbench.model import InstructionTable, Launch, Profile, Record, SourceFile

#: Kernels and whole PTX files that are cached: enough for a ladder of thirty versions.
_REMEMBERED = 64
#: The comment before a source's lines in a version's text: their file and first line number.
_FROM = re.compile(r"(?://|#) from (\S+):(\d+)\s*\Z")
_IMAGE = re.compile(r'^image\s*=\s*"[0-9a-f]{64}"', re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)")


def foreign(path: str) -> bool:
    """Test whether a line table's file is from a toolkit or the system (`compile.compilers`)."""
    return path.startswith(("cuda/", "system/", "/", "__nv_nvrtc_"))


def following(files: Mapping[int, str]) -> Callers:
    """Return the callers of positions of PTX that our compilers made."""
    return Callers(files, foreign)


def kernel_bodies(lines: Sequence[str], kernel: str) -> list[Sequence[str]]:
    """The lines of each PTX entry that may be a kernel, by its name without parameters."""
    starts = [(n, found[1]) for n, line in enumerate(lines) if (found := _ENTRY.search(line))]
    mangled = f"{len(kernel)}{kernel}"
    fitting = [n for n, name in starts if name == kernel or mangled in name]
    if not fitting and len(starts) == 1:
        fitting = [starts[0][0]]
    ends = [n for n, line in enumerate(lines) if line.startswith("}")]
    return [
        lines[first : next((end + 1 for end in ends if end > first), len(lines))]
        for first in fitting
    ]


def folded(profile: Profile) -> Profile:
    """Move a profile's instructions to the lines that called their code.

    Those in headers keep their line if the profile has no PTX, or its PTX names no caller.
    """
    text = profile.build.ptx if profile.build else ""
    outside = {number for number, each in enumerate(profile.sources) if foreign(each.path)}
    used = {file for launch in profile.launches for file in launch.instructions.file}
    if not text or outside.isdisjoint(used):
        return profile
    paths = tuple(each.path for each in profile.sources)

    def fold(launch: Launch) -> Launch:
        table = launch.instructions
        if outside.isdisjoint(table.file):
            return launch
        scopes = _homes(text, paths, launch.kernel), _homes(text, paths, None)
        return replace(launch, instructions=_moved(table, outside, [*scopes[0], *scopes[1]]))

    return replace(profile, launches=tuple(map(fold, profile.launches)))


@lru_cache(maxsize=_REMEMBERED)
def _homes(text: str, paths: tuple[str, ...], kernel: str | None) -> tuple[_Homes, ...]:
    """Return and cache the homes in the bodies of a kernel; None: in the whole PTX."""
    lines = text.splitlines()
    index = {path: number for number, path in enumerate(paths)}
    files = files_of(lines)
    numbers = {number: index.get(path, -1) for number, path in files.items()}
    bodies = [lines] if kernel is None else kernel_bodies(lines, kernel)
    return tuple(_Homes(body, files, numbers) for body in bodies)


class _Homes:
    """The homes in lines of PTX, by statement and by position (in `Profile.sources`)."""

    def __init__(
        self, lines: Sequence[str], files: Mapping[int, str], numbers: Mapping[int, int]
    ) -> None:
        self._at: dict[Position, set[Position]] = defaultdict(set)
        self._behind: dict[tuple[Position, str], set[Position]] = defaultdict(set)
        self._saying: dict[str, set[Position]] = defaultdict(set)
        callers, at = following(files), None
        for line in lines:
            found = callers.read(line)
            if found is not None:
                (file, number), (caller, called) = found
                if number:  # ptxas leaves code of line 0 on the line before
                    at = (numbers.get(file, -1), number), (numbers.get(caller, -1), called)
                    if _told(at):
                        # Also if a deeper call follows directly: ptxas leaves code on its line.
                        self._at[at[0]].add(at[1])
            elif at is not None and at[1][0] >= 0:
                self._saying[_plain(line)].add(at[1])
                if _told(at):
                    self._behind[at[0], _plain(line)].add(at[1])

    def of(self, place: Position, statement: str) -> Iterator[set[Position]]:
        """The possible homes of a machine instruction, by the more specific evidence first.

        Its line may be that of a call between the caller and the statement.
        """
        at, saying = self._at.get(place, set()), self._saying.get(statement, set())
        yield self._behind.get((place, statement), set())
        yield at & saying
        # An access that ptxas left on a later call belongs to the only line that makes it.
        yield saying if len(saying) == 1 else set()
        yield at


def _told(at: tuple[Position, Position]) -> bool:
    """Test whether a position belongs to another file that the profile has."""
    return at[0] != at[1] and at[1][0] >= 0


def _plain(statement: str) -> str:
    """A statement without blanks: PTX and ncu place them differently."""
    return "".join(statement.split())


def _moved(
    table: InstructionTable, outside: set[int], scopes: Sequence[_Homes]
) -> InstructionTable:
    rows: dict[Position, list[int]] = defaultdict(list)  # those whose line is known
    places = list(zip(table.file, table.line, strict=True))
    for row, place in enumerate(places):
        if place[0] not in outside:
            rows[place].append(row)

    def distance(row: int, home: Position) -> tuple[int, Position]:
        """Return the distance of a line's next instruction: code of one call is contiguous."""
        among = rows[home]
        after = bisect_left(among, row)
        near = [abs(each - row) for each in among[max(after - 1, 0) : after + 1]]
        return min(near, default=len(places)), home

    texts = table.ptx or table.text
    unsure: list[tuple[int, set[Position]]] = []
    for row, place in enumerate(places):
        if place[0] not in outside:
            continue
        ways = zip(*(scope.of(place, _plain(texts[row])) for scope in scopes), strict=True)
        homes: set[Position] = next((found for way in ways for found in way if found), set())
        if len(homes) == 1:
            (places[row],) = homes
            rows[places[row]].append(row)
        elif homes:
            unsure.append((row, homes))
    for among in rows.values():
        among.sort()
    for row, homes in unsure:
        places[row] = min(homes, key=lambda home: distance(row, home))
    return replace(
        table, file=tuple(file for file, _ in places), line=tuple(line for _, line in places)
    )


class KeptLines(Record, frozen=True):
    """`count` lines of a source, from its line `source`, at line `line` of a version's text."""

    path: str
    source: int
    line: int
    count: int

    def of(self, path: str) -> bool:
        """Test whether they are from the file that a line table names `path`."""
        path = posixpath.normpath(path.replace("\\", "/"))
        return path == self.path or path.endswith(f"/{self.path}")


def marker(path: str, line: int, *, python: bool = False) -> str:
    """The comment that names the origin of the lines after it."""
    return f"{'#' if python else '//'} from {path}:{line}"


@lru_cache(maxsize=16)
def pieces(text: str) -> tuple[KeptLines, ...]:
    """Return the lines of sources that an image version's text holds; empty for other versions."""
    if not _IMAGE.search(text):
        return ()
    lines = text.split("\n")
    heads = [(n, found) for n, line in enumerate(lines) if (found := _FROM.match(line))]
    ends = [*(n for n, _ in heads[1:]), len(lines)]
    return tuple(
        KeptLines(path=found[1], source=int(found[2]), line=n + 2, count=end - n - 1)
        for (n, found), end in zip(heads, ends, strict=True)
    )


def placed(profile: Profile) -> Profile:
    """Move the instructions of an image's profile to the lines of the version's text.

    Of the program's file, only lines with instructions that the text lacks stay. The other lines
    are not part of the version, so the next version did not remove them.
    """
    held = [
        (own, piece)
        for own, source in enumerate(profile.sources)
        for piece in pieces(source.text or "")
    ]
    folders = {posixpath.dirname(profile.sources[own].path) + "/" for own, _ in held}
    held += [  # its copies of headers
        (own, KeptLines(posixpath.basename(source.path), 1, 1, (source.text or "").count("\n") + 1))
        for own, source in enumerate(profile.sources)
        if any(source.path.startswith(each) for each in folders) and not pieces(source.text or "")
    ]
    cut = {
        file: found
        for file, source in enumerate(profile.sources)
        if (found := [(own, of) for own, of in held if own != file and of.of(source.path)])
    }
    if not cut:
        return profile

    def at(place: Position) -> Position:
        file, line = place
        for own, piece in cut.get(file, ()):
            if piece.source <= line < piece.source + piece.count:
                return own, piece.line + line - piece.source
        return place

    tables = [
        list(map(at, zip(each.instructions.file, each.instructions.line, strict=True)))
        for each in profile.launches
    ]
    used = {place for table in tables for place in table}
    sources = {
        file: _without_other_lines(source, {line for of, line in used if of == file})
        if file in cut
        else source
        for file, source in enumerate(profile.sources)
        if file not in cut or any(of == file for of, _ in used)
    }
    number = {file: n for n, file in enumerate(sources)}
    launches = []
    for launch, table in zip(profile.launches, tables, strict=True):
        files = tuple(number.get(file, file) for file, _ in table)
        lines = tuple(line for _, line in table)
        moved = replace(launch.instructions, file=files, line=lines)
        launches.append(replace(launch, instructions=moved))
    return replace(profile, launches=tuple(launches), sources=tuple(sources.values()))


def _without_other_lines(source: SourceFile, lines: set[int]) -> SourceFile:
    if source.text is None:
        return source
    text = enumerate(source.text.split("\n"), 1)
    return replace(source, text="\n".join(line if n in lines else "" for n, line in text))
