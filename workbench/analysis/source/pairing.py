"""Which file, and which kernel, of one profile is compared with which of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from workbench.analysis.aggregate import LaunchPair
from workbench.analysis.source.hunks import FileDiff, diff_file
from workbench.analysis.source.knowledge import SourceSide
from workbench.analysis.source.links import Line
from workbench.analysis.source.reading import statements_of
from workbench.analysis.source.symbols import Extent, Routine, SourceMap
from workbench.analysis.source.tokens import Source, information

FilePair = tuple[int | None, int | None]


def kernel_names(
    old: SourceSide, new: SourceSide, launches: Sequence[LaunchPair]
) -> dict[str, str]:
    """Kernels that are compared under different names: old -> new."""
    out: dict[str, str] = {}
    for pair in launches:
        if pair.old is not None and pair.new is not None:
            a, b = (
                plain_name(old.launches[pair.old].kernel),
                plain_name(new.launches[pair.new].kernel),
            )
            if a != b:
                out.setdefault(a, b)
    return out


def plain_name(kernel: str) -> str:
    """A kernel's name as its source spells it: no template arguments, no namespace."""
    name = kernel.replace("(anonymous namespace)::", "").replace("{unnamed}::", "")
    return name.split("<")[0].split("(")[0].split("::")[-1].strip().split(" ")[-1]


def mentions(sources: Sequence[Source], word: str) -> bool:
    """Whether a word stands anywhere in the code of some sources."""
    return any(word in line for source in sources for line in source.tokens)


def kernel_files(profile: SourceSide, sources: Sequence[Source]) -> set[int]:
    """The file of each launch's kernel, as indices into `sources`.

    Of the files that instructions come from, one that names the kernel; several, or none
    (a text that is not there): the one with the most instructions. Their number alone says
    little: of a kernel whose copies and products are in-line functions, the header has more.
    """
    out: set[int] = set()
    for launch in profile.launches:
        counts = Counter(file for file in launch.file if file >= 0)
        name = plain_name(launch.kernel)
        named = {file for file in counts if mentions(sources[file : file + 1], name)}
        if counts:
            out.add(max(named or counts, key=lambda file: (counts[file], -file)))
    return out


def pair_files(
    before: Sequence[Source],
    after: Sequence[Source],
    kernels_old: set[int],
    kernels_new: set[int],
) -> list[FilePair]:
    """Pair files: by the longest common end of their paths, by content, then those of the kernels.

    Files of one name under another root are the same files; of several that end alike, those
    go together that have the most of their paths in common, and then the most lines.

    Returns:
        Index pairs; None where a file is on one side only. Files that are on one
        side only and hold no text are left out.
    """
    pairs: list[tuple[int, int]] = []
    left = dict.fromkeys(range(len(before)))
    right = dict.fromkeys(range(len(after)))

    def take(candidates: Iterable[tuple[float, int, int]]) -> None:
        """Take candidates (score, old, new), the best first, in the order of the files."""
        for _, a, b in sorted(candidates, key=lambda each: (-each[0], each[1], each[2])):
            if a in left and b in right:
                pairs.append((a, b))
                del left[a], right[b]

    paths = [[_parts(source.path) for source in side] for side in (before, after)]
    by_name: dict[str, list[int]] = {}
    for b, path in enumerate(paths[1]):
        by_name.setdefault(path[-1], []).append(b)
    take(
        (_common_end(path, paths[1][b]) + _alike(before[a], after[b]) / 2, a, b)
        for a, path in enumerate(paths[0])
        for b in by_name.get(path[-1], ())
    )
    if len(left) * len(right) <= _COMPARED:
        alike = ((_alike(before[a], after[b]), a, b) for a in left for b in right)
        take([each for each in alike if each[0] >= _SAME_FILE])
    main_old = [a for a in left if a in kernels_old and before[a].lines]
    main_new = [b for b in right if b in kernels_new and after[b].lines]
    take((0, a, b) for a, b in zip(main_old, main_new, strict=False))
    found: list[FilePair] = list(pairs)
    found += [(a, None) for a in left if before[a].lines]
    found += [(None, b) for b in right if after[b].lines]
    found.sort(key=lambda pair: (pair[1] is None, pair[1] or 0, pair[0] or 0))
    return found


#: Part of their lines (0-1) that two files of different names must share to be one file.
_SAME_FILE = 0.5
#: Pairs of files that are compared by content; beyond, names alone decide.
_COMPARED = 400


def _parts(path: str) -> list[str]:
    """A path's parts; reports of Windows have backslashes."""
    return path.replace("\\", "/").split("/")


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths have in common at their end."""
    most = min(len(one), len(other))
    return next((n for n in range(most) if one[-1 - n] != other[-1 - n]), most)


def _alike(one: Source, other: Source) -> float:
    """Part of the lines (0-1) that say something and that two files have in common."""
    sides = [Counter(line for line in s.tokens if information(line)) for s in (one, other)]
    most = max(sum(side.values()) for side in sides)
    return sum((sides[0] & sides[1]).values()) / most if most else 0.0


# --- two kernels of one file ------------------------------------------------------


def both_hold_both(
    before: Sequence[Source],
    after: Sequence[Source],
    maps: Callable[[], tuple[SourceMap, SourceMap]],
    kernels: Mapping[str, str],
) -> bool:
    """Whether each side's sources define the other side's kernel too."""
    if not any(mentions(after, a) and mentions(before, b) for a, b in kernels.items()):
        return False
    names = [{f.name for f in found.routines} for found in maps()]
    return any(a in names[1] and b in names[0] for a, b in kernels.items())


def _function(found: SourceMap, name: str) -> Routine | None:
    named = [f for f in found.routines if f.name == name]
    return next((f for f in named if f.kernel), named[0] if named else None)


def compare_kernels(
    before: Sequence[Source],
    after: Sequence[Source],
    maps: tuple[SourceMap, SourceMap],
    files: Sequence[FilePair],
    kernels: Mapping[str, str],
) -> list[FileDiff]:
    """Align the bodies of differently named kernels, and the rest of the files around them."""
    diffs: list[FileDiff] = []
    for name, other_name in kernels.items():
        one, other = _function(maps[0], name), _function(maps[1], other_name)
        if one is None or other is None:
            continue
        diffs.append(
            diff_file(
                before[one.place[0]],
                after[other.place[0]],
                kernels,
                old_lines=range(one.place[1], one.place[2] + 1),
                new_lines=range(other.place[1], other.place[2] + 1),
                silent=kernels,
                statements=statements_of(lambda: maps, one.place[0], other.place[0]),
            )
        )
    aside = {*kernels.keys(), *kernels.values()}
    for a, b in files:
        if a is None or b is None:
            continue
        # The kernels that are compared stand aside; of the rest, equal names are equal.
        hidden = _bodies(maps[0], a, aside), _bodies(maps[1], b, aside)
        lines_old = range(1, len(before[a].lines) + 1)
        lines_new = range(1, len(after[b].lines) + 1)
        diffs.append(
            diff_file(
                before[a],
                after[b],
                {},
                old_lines=[n for n in lines_old if n not in hidden[0]],
                new_lines=[n for n in lines_new if n not in hidden[1]],
            )
        )
    return diffs


def _bodies(found: SourceMap, file: int, names: set[str]) -> set[int]:
    return {
        line
        for f in found.routines
        if f.name in names and f.place[0] == file
        for line in range(f.place[1], f.place[2] + 1)
    }


def used_lines(found: SourceMap, kernels: set[str], profile: SourceSide) -> set[Line]:
    """Lines of the kernels, of all declarations that they reach, and of instructions."""
    out: set[Line] = set()
    for launch in profile.launches:
        out.update(zip(launch.file, launch.line, strict=True))
    by_line: dict[Line, set[int]] = {}
    for use in found.uses:
        by_line.setdefault((use.file, use.line), set()).add(use.symbol)
    todo: list[Extent] = [f.place for f in found.routines if f.name in kernels]
    while todo:
        file, first, last = todo.pop()
        for n in range(first, last + 1):
            out.add((file, n))
            for symbol in by_line.pop((file, n), ()):
                todo += found.symbols[symbol].places
    return out
