"""The sources of two profiles side by side: paired files, hunks, and the links of every line.

This half of attribution knows no counters. For each line it tells the other half its hunk, or else
its twin on the other side and its links to hunks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from msgspec import structs

from workbench.analysis.aggregate import LaunchPair
from workbench.analysis.source.cuda import Reader
from workbench.analysis.source.hunks import (
    FileDiff,
    Hunk,
    Size,
    diff_file,
    rename_candidates,
    split_moves,
    whole_file,
)
from workbench.analysis.source.lines import Source, scan
from workbench.analysis.source.links import (
    FilePair,
    Line,
    LineLink,
    SourceSide,
    both_hold_both,
    callers,
    cheapest,
    compare_kernels,
    kernel_files,
    kernel_names,
    link,
    mentions,
    pair_files,
    side_of,
    sizes,
    statements_of,
    used_lines,
)
from workbench.analysis.source.python import PythonReader
from workbench.analysis.source.symbols import Extent, Recorder, Routine, SourceMap
from workbench.language import N_, _
from workbench.model import Profile, Record
from workbench.units import listed

# --- What two profiles hold of their sources -----------------------------------------------------
#
# An unknown source need not be unchanged. Most reports of others hold no text, many only line
# numbers; some hold a part of their files. An amount on a line without text is ascribed neither to
# a change nor to the compiler: its link is ``unknown``.

#: One side's known texts of the files that instructions lie in: all, some, or none.
Knowledge = Literal["known", "partly", "unknown"]

_REMEDY = N_(
    "capture with --import-source yes and compile with -lineinfo, or supply the files with --source"
)


class SourceState(Record, frozen=True):
    """Knowledge of the two sources; `same`: both are known, and equal as code.

    `lines_old`/`lines_new`: True if any instruction has a line, even without text.
    """

    old: Knowledge = "known"
    new: Knowledge = "known"
    same: bool = False
    lines_old: bool = True
    lines_new: bool = True

    @property
    def known(self) -> bool:
        """True if both sides are known completely."""
        return self.old == self.new == "known"


def knowledge(profile: SourceSide, unknown: frozenset[int]) -> Knowledge:
    """Knowledge of the files that a profile's instructions lie in (or else of all).

    `unknown`: see `unknown_files`.
    """
    used = _used(profile)
    if -1 in unknown or (used and unknown.issuperset(used)):
        return "unknown"
    return "known" if unknown.isdisjoint(used) else "partly"


def has_lines(profile: SourceSide) -> bool:
    """True if any instruction has a line."""
    return any(line > 0 for launch in profile.launches for line in launch.line)


def unknown_files(
    old: SourceSide, new: SourceSide, files: Mapping[int, int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Files of both sides whose text is unknown and may differ.

    Equal hashes exclude a change, and equal compilers exclude a change in their headers. -1 means a
    side that holds no text at all. `files`: which old file is paired with which new one.
    """
    toolkit = bool(old.compiler) and old.compiler == new.compiler
    same = {
        (a, b)
        for a, b in files.items()
        if old.sources[a].sha256 and old.sources[a].sha256 == new.sources[b].sha256
    }
    out = []
    for profile, hashed in ((old, {a for a, __ in same}), (new, {b for __, b in same})):
        dark = {
            n
            for n, source in enumerate(profile.sources)
            if source.text is None
            and not (toolkit and profile.sources[n].path.startswith(("system/", "triton/")))
        }
        none = len(dark) == len(profile.sources) and not hashed
        out.append(frozenset((dark - hashed) | ({-1} if none else set())))
    return out[0], out[1]


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
    """Sentences about unknown sources of either side, or that both are the same."""
    if sources.same:
        return (_("the sources are the same"),)
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
    whose = (
        _("neither side holds")
        if len(sides) == 2
        else _("the {sides_0_0} side does not hold").format(sides_0_0=sides[0][0])
    )
    names = _names([(profile, files) for __, profile, files in sides])
    what = _("the text of {names}").format(names=names) if names else _("any source text")
    dark = "unknown" in (sources.old, sources.new)
    extent = _("source unknown") if dark else _("source known in part")
    return (
        _("{extent}: {whose} {what}, so the changes there are unknown ({remedy})").format(
            extent=extent, whose=whose, what=what, remedy=_(_REMEDY)
        ),
    )


def _names(sides: Sequence[tuple[SourceSide, frozenset[int]]]) -> str:
    names = [
        PurePosixPath(profile.sources[file].path.replace("\\", "/")).name
        for profile, files in sides
        for file in _used(profile)
        if file in files
    ]
    return listed(list(dict.fromkeys(names)), 3)


# --- Reading their sources -----------------------------------------------------------------------
#
# Known limits: no preprocessing (both sides of an ``#if`` are read), no overload resolution (a
# call reaches every function of its name), no aliasing through pointers beyond an argument's name.

_READERS: dict[str, Callable[[SourceMap, int, Source], Recorder]] = {
    "cuda": Reader,
    "python": PythonReader,
}


def read(sources: Sequence[Source]) -> SourceMap:
    """Read all sources of one version, split by `scan`; places name them by their index.

    The result is kept for the version's next step, and must not be changed.
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


@dataclass(slots=True)
class SourceDiff:
    """The comparison of sources for attribution. Lines are (index into `Profile.sources`, line).

    `hunk_old`/`hunk_new` map lines inside code and moved hunks to the hunk's id;
    `twin` maps an old line to its unchanged new one; `links_*` map an unchanged line to
    its links. `first_*` map the lines of an unchanged statement whose line breaks changed
    to its first line: such a statement has one twin, and the links of all its lines.
    `callers_*` are the hunks that call the function that a line is in. `files` are paired
    files; `names` maps old names to the new ones, under which links are shown. `sources`
    is the knowledge of both sides, and `unknown_*` are the files without text. `words` are
    sentences for the reader about limits of the comparison.
    """

    hunks: tuple[Hunk, ...] = ()
    hunk_old: dict[Line, int] = field(default_factory=dict)
    hunk_new: dict[Line, int] = field(default_factory=dict)
    twin: dict[Line, Line] = field(default_factory=dict)
    first_old: dict[Line, Line] = field(default_factory=dict)
    first_new: dict[Line, Line] = field(default_factory=dict)
    links_old: dict[Line, LineLink] = field(default_factory=dict)
    links_new: dict[Line, LineLink] = field(default_factory=dict)
    callers_old: dict[Line, frozenset[int]] = field(default_factory=dict)
    callers_new: dict[Line, frozenset[int]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    front_matter: int | None = None
    files: dict[int, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    sources: SourceState = field(default_factory=SourceState)
    unknown_old: frozenset[int] = frozenset()
    unknown_new: frozenset[int] = frozenset()


def compare_sources(old: Profile, new: Profile, launches: Sequence[LaunchPair]) -> SourceDiff:
    """Compare the sources of two profiles.

    If two kernels of one file are compared by `launches`, their bodies are aligned, and the other
    code that they use. The result is shared by profiles of the same code: do not change it.
    """
    return _compared(side_of(old), side_of(new), tuple(launches))


@lru_cache(maxsize=32)
def _compared(old: SourceSide, new: SourceSide, launches: tuple[LaunchPair, ...]) -> SourceDiff:
    return _Pairing(old, new).compare(launches)


class _Pairing:
    """Two profiles whose sources are being compared."""

    def __init__(self, old: SourceSide, new: SourceSide) -> None:
        self.old, self.new = old, new
        self.before, self.after = scan_sources(old), scan_sources(new)
        self.names: dict[str, str] = {}
        self.diffs: list[FileDiff] = []
        self._maps: tuple[SourceMap, SourceMap] | None = None

    def compare(self, launches: Sequence[LaunchPair]) -> SourceDiff:
        """Compare files by their pairs, or two kernels that both sides hold."""
        before, after = self.before, self.after
        kernels = kernel_names(self.old, self.new, launches)
        own = kernel_files(self.old, before), kernel_files(self.new, after)
        files = pair_files(before, after, *own)
        within = both_hold_both(before, after, lambda: self.maps, kernels)
        if within:
            self.names = dict(kernels)
            self.diffs = compare_kernels(before, after, self.maps, files, kernels)
        else:
            self.names = {
                a: b
                for a, b in kernels.items()
                if not mentions(after, a) and not mentions(before, b)
            }
            self.compare_files(files)
            candidates = rename_candidates(self.diffs, self.declared)
            if candidates:
                self.names |= candidates
                self.compare_files(files)
        split_moves(self.diffs, self.names)
        if within:
            self.drop_unused(kernels)
        return self.finish({a: b for a, b in files if a is not None and b is not None})

    @property
    def maps(self) -> tuple[SourceMap, SourceMap]:
        """Both sides, parsed; done once, and only on demand."""
        if self._maps is None:
            same = [s.lines for s in self.before] == [s.lines for s in self.after]
            first = read(self.before)
            self._maps = (first, first if same else read(self.after))
        return self._maps

    def declared(self, name: str, other: str) -> bool:
        """True if the old side declares one name and the new side the other, of the same kind."""
        kinds = [
            {symbol.kind for symbol in found.symbols if symbol.name == word}
            for found, word in zip(self.maps, (name, other), strict=True)
        ]
        return bool(kinds[0] & kinds[1])

    def compare_files(self, files: Sequence[FilePair]) -> None:
        self.diffs = []
        for a, b in files:
            one = self.before[a] if a is not None else None
            other = self.after[b] if b is not None else None
            # A missing text was neither added nor removed.
            if not all(
                source.lines if source is not None else any(held.lines for held in side)
                for source, side in ((one, self.before), (other, self.after))
            ):
                continue
            if a is not None and b is not None and one is not None and other is not None:
                statements = statements_of(lambda: self.maps, a, b)
                self.diffs.append(diff_file(one, other, self.names, statements=statements))
            else:
                self.diffs.append(whole_file(one, other))

    def drop_unused(self, kernels: Mapping[str, str]) -> None:
        """At file level, keep only hunks of declarations that the kernels use."""
        wanted_old = used_lines(self.maps[0], set(kernels), self.old)
        wanted_new = used_lines(self.maps[1], set(kernels.values()), self.new)
        for diff in self.diffs:
            a = next((n for n, source in enumerate(self.before) if source is diff.old), -1)
            b = next((n for n, source in enumerate(self.after) if source is diff.new), -1)
            diff.drafts = [
                draft
                for draft in diff.drafts
                if any((a, n) in wanted_old for n in range(draft.old[0], draft.old[1] + 1))
                or any((b, n) in wanted_new for n in range(draft.new[0], draft.new[1] + 1))
            ]

    def finish(self, files: dict[int, int]) -> SourceDiff:
        """Number the hunks and link the lines."""
        unknown = unknown_files(self.old, self.new, files)
        out = SourceDiff(
            files=files, names=self.names, unknown_old=unknown[0], unknown_new=unknown[1]
        )
        place_old = {id(source): n for n, source in enumerate(self.before)}
        place_new = {id(source): n for n, source in enumerate(self.after)}
        hunks: list[Hunk] = []
        code_old: dict[Line, int] = {}
        code_new: dict[Line, int] = {}
        for diff in self.diffs:
            a = place_old[id(diff.old)] if diff.old is not None else -1
            b = place_new[id(diff.new)] if diff.new is not None else -1
            out.twin.update({(a, i): (b, j) for i, j in diff.pairs})
            for old, new in diff.reflowed:
                out.first_old.update({(a, n): (a, old[0]) for n in range(old[0], old[1] + 1)})
                out.first_new.update({(b, n): (b, new[0]) for n in range(new[0], new[1] + 1)})
                out.twin[a, old[0]] = (b, new[0])
            for draft in diff.drafts:
                hunk = Hunk(
                    id=len(hunks) + 1,
                    old=draft.old,
                    new=draft.new,
                    kind=draft.kind,
                    symbols=(),
                    old_file=diff.old.path if diff.old else "",
                    new_file=diff.new.path if diff.new else "",
                )
                hunks.append(hunk)
                if hunk.kind in ("code", "moved"):
                    old_lines = [(a, n) for n in range(draft.old[0], draft.old[1] + 1)]
                    new_lines = [(b, n) for n in range(draft.new[0], draft.new[1] + 1)]
                    out.hunk_old.update(dict.fromkeys(old_lines, hunk.id))
                    out.hunk_new.update(dict.fromkeys(new_lines, hunk.id))
                    if hunk.kind == "code":
                        code_old.update(dict.fromkeys(old_lines, hunk.id))
                        code_new.update(dict.fromkeys(new_lines, hunk.id))
                elif hunk.kind == "front-matter":
                    out.front_matter = hunk.id
        sized: dict[int, set[Size]] = {}
        if code_old or code_new:
            hunks_of = _HunksOf(code_old), _HunksOf(code_new)
            out.links_old, out.links_new = link(*self.maps, *hunks_of, self.names)
            out.callers_old, out.callers_new = map(callers, self.maps, hunks_of)
            sized = sizes(*self.maps, hunks_of[1], self.names)
            _gather(out.links_old, out.first_old)
            _gather(out.links_new, out.first_new)
        symbols: dict[int, set[str]] = {}
        for links, inside in ((out.links_old, out.hunk_old), (out.links_new, out.hunk_new)):
            for line, found in links.items():
                if line not in inside:
                    for hunk_id, symbol in found.labels:
                        symbols.setdefault(hunk_id, set()).add(symbol)
        changed = {hunk.kind for hunk in hunks}
        state = [knowledge(self.old, unknown[0]), knowledge(self.new, unknown[1])]
        out.sources = SourceState(
            old=state[0],
            new=state[1],
            same=state == ["known", "known"] and changed.isdisjoint(("code", "moved", "renamed")),
            lines_old=has_lines(self.old),
            lines_new=has_lines(self.new),
        )
        out.words = words_of(self.old, self.new, out.sources, unknown)
        out.hunks = tuple(
            structs.replace(
                hunk,
                symbols=tuple(sorted(symbols.get(hunk.id, ()))),
                sizes=tuple(sorted(sized.get(hunk.id, ()))),
            )
            for hunk in hunks
        )
        return out


def _gather(links: dict[Line, LineLink], first: Mapping[Line, Line]) -> None:
    """Give the first line of a statement the cheapest links of all of its lines."""
    for line, head in first.items():
        found = links.get(line) if line != head else None
        if found is not None:
            links[head] = cheapest(links.get(head), found)


class _HunksOf:
    """The hunks that have lines in a place; without a search for files without any hunk."""

    def __init__(self, lines: Mapping[Line, int]) -> None:
        self.lines = lines
        self.ordered: dict[int, list[int]] = {}
        for file, line in sorted(lines):
            self.ordered.setdefault(file, []).append(line)

    def __call__(self, place: Extent) -> frozenset[int]:
        file, first, last = place
        lines = self.ordered.get(file)
        if not lines:
            return frozenset()
        found = lines[bisect_left(lines, first) : bisect_right(lines, last)]
        return frozenset(self.lines[file, line] for line in found)
