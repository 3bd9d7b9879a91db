"""View models of a diff's code: hunk cards, and both complete sources.

A card shows the changed lines, a few lines around them, and the unchanged lines to which the hunk
is linked. Every line has one address on the page: on the card whose hunk changed it, else where it
is first shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache
from html import escape

from markupsafe import Markup

from workbench.analysis.source.files import SourceDiff
from workbench.analysis.source.hunks import Facing, Hunk, differences, face
from workbench.analysis.story import Story
from workbench.analysis.wording import LinkedLine
from workbench.language import _, ngettext
from workbench.model import LineKey, Profile, Record
from workbench.revisions import contents
from workbench.units import listed
from workbench.views.html.code.lines import (
    Cell,
    PairGutter,
    Span,
    coloured,
    lines,
    marked,
    pieces,
    words_at,
)
from workbench.views.html.page import View

# The markup is written here and not in a template: a page has hundreds of rows, and a
# template's loop over them takes ten times as long. Tags that HTML makes optional are left out,
# because these tables are most of a page's bytes.

_NOWHERE = '<td class="e" colspan="3">'


class LineSide(Record, frozen=True):
    """One side of a row; `number` 0: nothing there. `key` finds its counters; "" if it has none."""

    number: int = 0
    anchor: str = ""
    id: str = ""
    key: str = ""
    code: Markup = Markup("")
    cell: Cell | None = None


class CodeRow(Record, frozen=True):
    """A row of the side-by-side view; `kind` as in `Facing`, or ``gap`` with its words."""

    kind: str
    old: LineSide = LineSide()
    new: LineSide = LineSide()
    words: str = ""


def code_row(row: CodeRow, same: bool) -> str:
    """A row as HTML: ids, keys and widths are our own, everything else is escaped.

    If it is the `same` on both sides, the new side's cell also shows the old value.
    """
    if row.kind == "gap":
        return f'<tr><td class="g" colspan="6">⋯ {row.words}'
    old = row.old if same else LineSide()
    return f"<tr>{_cell(row.old, 'o', LineSide())}{_cell(row.new, 'n', old)}"


def _cell(side: LineSide, name: str, was: LineSide) -> str:
    if not side.number:
        return _NOWHERE
    identity = f' id="{side.id}"' if side.id else ""
    keys = f' data-{name}="{side.key}"' if side.key else ""
    keys += f' data-o="{was.key}"' if was.key else ""
    before = f"<s>{escape(was.cell.text)} → </s>" if was.cell else ""
    shown = side.cell.markup(before, titled=True) if side.cell else before and f"{before}<s>0</s>"
    return (
        f'<td class="n"{identity}><a href="#{side.anchor}">{side.number}</a>'
        f'<td class="v"{keys}>{shown}<td class="c">{side.code}'
    )


class Chunk(Record, frozen=True):
    """Neighbouring rows that are all unchanged (``same``), all changed, or a gap."""

    kind: str
    rows: tuple[CodeRow, ...]

    @property
    def markup(self) -> Markup:
        """The rows as HTML."""
        return Markup("\n".join(code_row(row, self.kind == "same") for row in self.rows))


#: Unchanged lines shown before and after a change.
_AROUND = 2
#: Unchanged lines that a card shows before its first change.
_BEFORE = 6
#: In a longer file, the whole-source view shows only lines near counters or changes.
_WHOLE = 700
_NEAR = 25
#: Rows of code on a page; beyond this number the whole-source view leaves out lines that hunks
#: show, and lines far from counters and changes.
_MOST = 300
#: Beyond this number of rows, lines around those with counters are not repeated either.
_TOO_MANY = 450
_KEYWORDS = {"if", "else", "for", "while", "do", "switch", "return", "case", "default"}


#: Indices of a file on both sides, None if a side lacks it.
FilePair = tuple[int | None, int | None]


class _File:
    """One pair of files (or one that a side lacks), aligned once for all cards."""

    def __init__(
        self, code: DiffCode, rank: int, old: int | None, new: int | None, diff: SourceDiff
    ) -> None:
        self.old, self.new = old, new
        self.prefix = "" if rank == 0 else f"f{rank}-"
        texts = [
            code.text(0, old) if old is not None else [],
            code.text(1, new) if new is not None else [],
        ]
        self.raw = texts
        twin = {a[1]: b[1] for a, b in diff.twin.items() if a[0] == old and b[0] == new}
        changed = {line for file, line in diff.hunk_old if file == old}
        hunks = code.hunks_of((old, new))
        self.rows = face(texts[0], texts[1], twin, changed, hunks)
        # Two kernels in one file: code that belongs to neither is not compared.
        if texts[0] == texts[1] and any(hunks):
            self.rows = [
                row
                for row in self.rows
                if row.kind == "same" or row.old in hunks[0] or row.new in hunks[1]
            ]
        self.title = code.title(old, new)


class DiffCode:
    """The code of a comparison, from which cards and whole files are cut.

    `diff` compares both profiles' sources; the first of `gutters` is initially shown.
    """

    def __init__(
        self,
        old: Profile,
        new: Profile,
        diff: SourceDiff,
        story: Story,
        gutters: tuple[PairGutter, ...],
    ) -> None:
        self.profiles = (old, new)
        # If two files have the same name, the first counts.
        self._numbers = [
            {source.path: n for n, source in reversed(list(enumerate(side.sources)))}
            for side in self.profiles
        ]
        self._diff = diff
        self._gutters = gutters
        self._hunks = story.attribution.hunks
        self._counted = tuple(
            {key for gutter in gutters for key in (gutter.new if side else gutter.old)}
            for side in (0, 1)
        )
        self._taken: set[str] = set()
        self._rows = 0
        self._shown: tuple[set[LineKey], set[LineKey]] = (set(), set())
        self._files = [_File(self, rank, a, b, diff) for rank, (a, b) in enumerate(self._pairs())]
        self._own = self._reserved()

    def text(self, side: int, file: int) -> list[str]:
        """The lines of a file; empty if the report does not hold its text."""
        return lines(self.profiles[side].sources[file].text or "")

    def title(self, old: int | None, new: int | None) -> str:
        """``a.cu → b.cu``, or one name if both are the same or one is missing."""
        names = [
            self.profiles[side].sources[file].path
            for side, file in ((0, old), (1, new))
            if file is not None
        ]
        return " → ".join(dict.fromkeys(names))

    def _pairs(self) -> list[FilePair]:
        """Pairs of files with a hunk or a counter, the one with the most counters first."""
        back = {b: a for a, b in self._diff.files.items()}
        weight: dict[FilePair, int] = {}
        for side, keys in enumerate(self._counted):
            for file, line in keys:
                if line > 0 and file >= 0:
                    other = back.get(file) if side else self._diff.files.get(file)
                    found: FilePair = (other, file) if side else (file, other)
                    weight[found] = weight.get(found, 0) + 1
        for hunk in self._hunks:
            pair = self._pair_of(hunk)
            weight[pair] = weight.get(pair, 0)
        held = [pair for pair in weight if self._has_text(pair)]
        return sorted(held, key=lambda pair: (-weight[pair], pair[1] is None, pair[1] or 0))

    def _has_text(self, pair: FilePair) -> bool:
        return any(
            file is not None and self.profiles[side].sources[file].text is not None
            for side, file in enumerate(pair)
        )

    def _pair_of(self, hunk: Hunk) -> FilePair:
        return self._index(0, hunk.old_file), self._index(1, hunk.new_file)

    def _index(self, side: int, path: str) -> int | None:
        return self._numbers[side].get(path) if path else None

    def hunks_of(self, pair: FilePair) -> tuple[dict[int, int], dict[int, int]]:
        """For each side of a pair of files: line -> hunk of any kind."""
        out: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for hunk in self._hunks:
            if self._pair_of(hunk) == pair:
                for side, (first, last) in enumerate((hunk.old, hunk.new)):
                    out[side].update(dict.fromkeys(range(first, last + 1), hunk.id))
        return out

    def _file_of(self, hunk: Hunk) -> _File | None:
        pair = self._pair_of(hunk)
        return next((file for file in self._files if (file.old, file.new) == pair), None)

    def _reserved(self) -> dict[str, int]:
        """Ids of changed lines -> the hunk whose card carries them."""
        out: dict[str, int] = {}
        for hunk in self._hunks:
            file = self._file_of(hunk)
            if file is None or hunk.kind not in ("code", "moved"):
                continue
            for anchor, (first, last) in (("old-", hunk.old), ("", hunk.new)):
                for line in range(first, last + 1):
                    out.setdefault(f"{anchor}{file.prefix}L{line}", hunk.id)
        return out

    def card(self, hunk: Hunk, linked: Set[LinkedLine]) -> tuple[Chunk, ...]:
        """The code of one hunk's card, with the unchanged lines to which it is linked."""
        file = self._file_of(hunk)
        if file is None:
            return ()
        own: set[int] = set()
        wanted: set[int] = set()
        for place, row in enumerate(file.rows):
            inside = _within(row.old, hunk.old) or _within(row.new, hunk.new)
            if inside and row.kind != "same":
                own.add(place)
            if (0, hunk.old_file, row.old) in linked or (1, hunk.new_file, row.new) in linked:
                wanted.add(place)
        for place in list(own):
            wanted.update(range(max(0, place - _AROUND), min(len(file.rows), place + _AROUND + 1)))
        # The edit itself comes first, even if many lines above it are linked to it.
        early = sorted(place for place in wanted if place < min(own, default=0))
        wanted.difference_update(early[:-_BEFORE])
        names = {name for name in hunk.symbols if name.isidentifier()} - _KEYWORDS
        return self._chunks(file, sorted(wanted), names, hunk.id, own)

    def contents(self, hunk: Hunk) -> str:
        """Git's short names for the contents of both files."""
        pair = zip(self.profiles, self._pair_of(hunk), strict=True)
        return " ".join(contents(p.sources[n].text) if n is not None else "" for p, n in pair)

    def whole(self) -> list[View]:
        """Both sides of every file; lines that no card addressed have their address here.

        Files are complete, or `cut`: without the lines that hunks show.
        """
        out = []
        every = [
            list(range(len(file.rows))) if len(file.rows) <= _WHOLE else self._near(file)
            for file in self._files
        ]
        rows = self._rows + sum(map(len, every))
        many = rows > _MOST
        around = _AROUND if rows <= _TOO_MANY else 0
        for rank, (file, wanted) in enumerate(zip(self._files, every, strict=True)):
            left = self._in_cards(file) if many else {}
            near = set(self._near(file, around)) if many else set(wanted)
            shown = [place for place in wanted if place in near and place not in left]
            chunks = self._chunks(file, shown, set(), 0, None, left)
            out.append(View(id=f"whole-{rank}", title=file.title, chunks=chunks, cut=many))
        return out

    def _in_cards(self, file: _File) -> dict[int, int]:
        """Index of each changed row on a card -> the card's hunk."""
        out: dict[int, int] = {}
        for place, row in enumerate(file.rows):
            anchor = f"{file.prefix}L{row.new}" if row.new else f"old-{file.prefix}L{row.old}"
            if row.kind != "same" and anchor in self._taken and anchor in self._own:
                out[place] = self._own[anchor]
        return out

    def _near(self, file: _File, most: int = _NEAR) -> list[int]:
        wanted: set[int] = set()
        for quiet in self._diff.hunks:
            if quiet.kind in ("code", "moved"):
                continue
            # No card shows it, but a list links to its first line.
            side = 1 if quiet.new[0] <= quiet.new[1] else 0
            index = self._index(side, (quiet.old_file, quiet.new_file)[side])
            if index is not None and index == (file.old, file.new)[side]:
                first = (quiet.old, quiet.new)[side][0]
                rows = enumerate(file.rows)
                wanted.update(n for n, row in rows if (row.old, row.new)[side] == first)
        for place, row in enumerate(file.rows):
            old, new = (file.old, row.old), (file.new, row.new)
            counted = old in self._counted[0] or new in self._counted[1]
            if counted or old in self._diff.hunk_old or new in self._diff.hunk_new:
                first, last = max(0, place - most), min(len(file.rows), place + most + 1)
                wanted.update(range(first, last))
        return sorted(wanted)

    def _chunks(
        self,
        file: _File,
        wanted: list[int],
        names: set[str],
        hunk: int,
        own: set[int] | None,
        left_out: Mapping[int, int] | None = None,
    ) -> tuple[Chunk, ...]:
        chunks: list[tuple[str, list[CodeRow]]] = []
        previous = -1
        for place in wanted:
            if place > previous + 1 and (previous >= 0 or own is None):
                words = _left(range(previous + 1, place), left_out or {})
                chunks.append(("gap", [CodeRow(kind="gap", words=words)]))
            previous = place
            row = file.rows[place]
            kind = "same" if row.kind == "same" else "mod"
            if own is not None and kind == "mod" and place not in own:
                kind = "other"  # another hunk's change, shown around this one
            if not chunks or chunks[-1][0] != kind:
                chunks.append((kind, []))
            chunks[-1][1].append(self._row(file, row, names, hunk))
        if left_out and previous < len(file.rows) - 1:
            words = _left(range(previous + 1, len(file.rows)), left_out)
            chunks.append(("gap", [CodeRow(kind="gap", words=words)]))
        self._rows += len(wanted)
        return tuple(Chunk(kind=kind, rows=tuple(rows)) for kind, rows in chunks)

    def _row(self, file: _File, row: Facing, names: set[str], hunk: int) -> CodeRow:
        spans: list[list[Span]] = [[], []]
        if row.kind == "change":
            assert row.old is not None and row.new is not None
            found = differences(file.raw[0][row.old - 1], file.raw[1][row.new - 1])
            spans = [[Span(*place, "mark") for place in side] for side in found]
        sides = []
        for side, (index, line) in enumerate(((file.old, row.old), (file.new, row.new))):
            if index is None or line is None:
                sides.append(LineSide())
                continue
            marks = [*spans[side], *words_at(file.raw[side][line - 1], names)]
            sides.append(self._side(file, side, (index, line), marks, hunk))
        return CodeRow(kind=row.kind, old=sides[0], new=sides[1])

    def _side(self, file: _File, side: int, key: LineKey, marks: list[Span], hunk: int) -> LineSide:
        anchor = f"{'' if side else 'old-'}{file.prefix}L{key[1]}"
        owner = self._own.get(anchor, hunk)
        identity = ""
        if (owner == hunk or not hunk) and anchor not in self._taken:
            identity = anchor
            self._taken.add(anchor)
        counted = key in self._counted[side]
        if counted:
            self._shown[side].add(key)
        first = self._gutters[0] if self._gutters else None
        cells = (first.new if side else first.old) if first else {}
        source = self.profiles[side].sources[key[0]]
        text = source.text or ""
        return LineSide(
            number=key[1],
            anchor=anchor,
            id=identity,
            key=f"{key[0]}:{key[1]}" if counted else "",
            code=_marked_line(text, source.path, key[1], tuple(marks))
            if marks
            else coloured(text, source.path)[key[1] - 1],
            cell=cells.get(key),
        )

    def anchor(self, side: int, path: str, line: int | None) -> str:
        """The address of a line on this page, "" if it is not shown. Call it after `card`."""
        index = self._index(side, path)
        for file in self._files:
            if index is not None and (file.new if side else file.old) == index and line:
                found = f"{'' if side else 'old-'}{file.prefix}L{line}"
                text = file.raw[side]
                return f"#{found}" if line <= len(text) else ""
        return ""

    def embedded(self) -> dict[str, dict[str, object]]:
        """The gutters as JSON: counter -> heading and cells of the lines that are shown."""
        return {
            gutter.id: {
                "title": gutter.title,
                "old": {
                    f"{f}:{n}": c for (f, n), c in gutter.old.items() if (f, n) in self._shown[0]
                },
                "new": {
                    f"{f}:{n}": c for (f, n), c in gutter.new.items() if (f, n) in self._shown[1]
                },
            }
            for gutter in self._gutters
        }


# A step has the same lines on every problem.
@lru_cache(maxsize=1 << 12)
def _marked_line(text: str, path: str, line: int, marks: tuple[Span, ...]) -> Markup:
    return marked(pieces(text, path)[line - 1], marks)


def _left(places: range, hunks: Mapping[int, int]) -> str:
    """``3 lines``, ``1 line``; for lines on a card, ``12 lines in hunk 3``."""
    words = ngettext("{n} line", "{n} lines", len(places)).format(n=len(places))
    own = dict.fromkeys(hunks[place] for place in places if place in hunks)
    links = [f'<a href="#hunk-{hunk}">{_("hunk {n}").format(n=hunk)}</a>' for hunk in own]
    return _("{lines} in {hunks}").format(lines=words, hunks=listed(links)) if links else words


def _within(line: int | None, place: tuple[int, int]) -> bool:
    return line is not None and place[0] <= line <= place[1]
