"""Blocks of the difference between two sources, and the kind of each.

``code``          tokens differ: the only kind that can move a counter
``moved``         the same lines (three or more with information) in another place
``renamed``       the same tokens except identifiers that were renamed everywhere
``comment``       the same tokens, other comments
``whitespace``    the same tokens and comments, other white space
``front-matter``  the description of a version in its leading comment; never code

Lines that do not differ in the first two ways count as *unchanged* and stay paired, whatever their
text: a comment moves no counter.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, pairwise, zip_longest
from typing import Literal, NamedTuple

from workbench.analysis.source.lines import (
    CodeLines,
    Pair,
    Range,
    Source,
    Statements,
    Tokens,
    align,
    information,
    pair_statements,
    renamed,
    slide,
)
from workbench.model import Record

Kind = Literal["code", "moved", "renamed", "comment", "whitespace", "front-matter"]

#: The number of lines with information that a block must have to count as moved.
MOVED_LINES = 3
#: The maximum number of moved blocks to search for in one file; each takes a pass over its hunks.
_MOVES = 20

_FRONT_CUDA = re.compile(r"\s*/\*\s*---[ \t]*\n.*?^\s*---\s*\*/", re.DOTALL | re.MULTILINE)
_FRONT_PYTHON = re.compile(
    r"\s*[rRuU]?(?P<quote>\"\"\"|''').*?^\s*---\s*$.*?^\s*---\s*$.*?(?P=quote)",
    re.DOTALL | re.MULTILINE,
)


class Size(NamedTuple):
    """A constant with its old and new declared value, neither of them 0."""

    name: str
    old: int
    new: int


class Hunk(Record, frozen=True):
    """One block of the difference. Lines are 1-based, both ends included.

    An empty side is written ``(n + 1, n)``: nothing, after line n. `symbols` are
    the names whose declaration, definition, macro or type the hunk changes and
    that other lines use, `sizes` the constants that it declares with another number. A file name is
    empty if the other side alone has the file.
    """

    id: int
    old: Range
    new: Range
    kind: Kind
    symbols: tuple[str, ...]
    old_file: str
    new_file: str
    sizes: tuple[Size, ...] = ()


@dataclass(slots=True)
class Draft:
    """A hunk before it is numbered; ranges as in `Hunk`."""

    old: Range
    new: Range
    kind: Kind


@dataclass(slots=True)
class FileDiff:
    """The difference of one pair of files; a file that only one side has pairs with None.

    `pairs` are the unchanged lines (old, new), 1-based, cosmetic ones included; `reflowed` the
    lines of unchanged statements that differ only in line breaks.
    """

    old: Source | None
    new: Source | None
    pairs: list[Pair] = field(default_factory=list)
    reflowed: list[tuple[Range, Range]] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)


def front_matter(source: Source) -> int:
    """Last line of the leading description (0: none)."""
    pattern = _FRONT_PYTHON if source.language == "python" else _FRONT_CUDA
    match = pattern.match(source.text)
    return source.text.count("\n", 0, match.end()) + 1 if match else 0


def diff_file(
    old: Source,
    new: Source,
    names: Mapping[str, str],
    *,
    old_lines: Sequence[int] | None = None,
    new_lines: Sequence[int] | None = None,
    silent: Mapping[str, str] = {},
    statements: Statements = lambda: ((), ()),
) -> FileDiff:
    """Difference of two texts.

    `names` are old name -> new name, taken as equal, and `silent` those whose renaming makes no
    hunk. The lines that take part are 1-based and ascending (default: all). `statements`: which
    lines of either side are one statement (default: each is its own).
    """
    out = FileDiff(old, new)
    front_old, front_new = front_matter(old), front_matter(new)
    if old_lines is None or new_lines is None:
        old_lines = range(front_old + 1, len(old.lines) + 1)
        new_lines = range(front_new + 1, len(new.lines) + 1)
        out.drafts += _front_matter_draft(old.lines[:front_old], new.lines[:front_new])
    code_old = [n for n in old_lines if old.tokens[n - 1]]
    code_new = [n for n in new_lines if new.tokens[n - 1]]
    keys_old = [renamed(old.tokens[n - 1], names) for n in code_old]
    keys_new = [new.tokens[n - 1] for n in code_new]
    weights = {key: information(key) for key in {*keys_old, *keys_new}}
    pairs = align(keys_old, keys_new, weights)
    pairs = slide(pairs, keys_old, keys_new, [_indent(new.lines[n - 1]) for n in code_new])
    turned = [(j, i) for i, j in pairs]
    turned = slide(turned, keys_new, keys_old, [_indent(old.lines[n - 1]) for n in code_old])
    out.pairs, out.reflowed = pair_statements(
        [(code_old[i], code_new[j]) for j, i in turned],
        CodeLines(old, code_old, names),
        CodeLines(new, code_new),
        statements,
    )
    _gaps(out, old_lines, new_lines)
    _cosmetic(out, silent)
    # Prose comes last, so that the first change of code is hunk 1.
    out.drafts.sort(key=lambda draft: (draft.kind == "front-matter", draft.old, draft.new))
    return out


def whole_file(old: Source | None, new: Source | None) -> FileDiff:
    """A file that only one side has, as one hunk: from its first line of code to the last."""
    out = FileDiff(old, new)
    source = old or new
    if source is not None and any(source.tokens):
        code = [n for n, tokens in enumerate(source.tokens, 1) if tokens]  # no licence lines
        everything, nothing = (code[0], code[-1]), (1, 0)
        ranges = (everything, nothing) if old else (nothing, everything)
        out.drafts.append(Draft(*ranges, kind="code"))
    return out


def _indent(line: str) -> int:
    expanded = line.expandtabs(8) if len(line) < 1000 else line
    return len(expanded) - len(expanded.lstrip())


def _ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """The number of lines that two ranges share at their head, and then at their tail."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    most -= head
    return head, next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)


def _front_matter_draft(old: Sequence[str], new: Sequence[str]) -> list[Draft]:
    if tuple(old) == tuple(new):
        return []
    head, tail = _ends(old, new)
    return [Draft((head + 1, len(old) - tail), (head + 1, len(new) - tail), "front-matter")]


def _gaps(out: FileDiff, old_lines: Sequence[int], new_lines: Sequence[int]) -> None:
    """Hunks from the lines between paired lines."""
    assert out.old is not None and out.new is not None
    first = (old_lines[0] - 1 if old_lines else 0, new_lines[0] - 1 if new_lines else 0)
    last = (old_lines[-1] + 1 if old_lines else 1, new_lines[-1] + 1 if new_lines else 1)
    chosen_old, chosen_new = set(old_lines), set(new_lines)
    lines = [((i, i), (j, j)) for i, j in out.pairs]
    known = sorted([*lines, *out.reflowed])
    ends = ((first[0], first[0]), (first[1], first[1])), ((last[0], last[0]), (last[1], last[1]))
    for ((_, i), (_, j)), ((x, _), (y, _)) in pairwise([ends[0], *known, ends[1]]):
        if x == i + 1 and y == j + 1:
            continue
        old = [n for n in range(i + 1, x) if n in chosen_old]
        new = [n for n in range(j + 1, y) if n in chosen_new]
        code_old = [n for n in old if out.old.tokens[n - 1]]
        code_new = [n for n in new if out.new.tokens[n - 1]]
        if code_old or code_new:
            # Lines that take no part (another kernel of the file) split a block.
            pieces = zip_longest(_pieces(code_old, chosen_old), _pieces(code_new, chosen_new))
            for a, b in pieces:
                out.drafts.append(Draft(a or (i + 1, i), b or (j + 1, j), "code"))
        elif len(old) == x - i - 1 and len(new) == y - j - 1:
            out.drafts += _spoken(out.old, out.new, (i + 1, x - 1), (j + 1, y - 1))


def _pieces(lines: Sequence[int], chosen: Container[int]) -> list[Range]:
    """Ranges of lines, split at lines that take no part."""
    out: list[Range] = []
    for n in lines:
        if out and all(k in chosen for k in range(out[-1][1] + 1, n)):
            out[-1] = (out[-1][0], n)
        else:
            out.append((n, n))
    return out


def _spoken(old: Source, new: Source, a: Range, b: Range) -> list[Draft]:
    """The hunk of two ranges without a token: a difference in comments or blank lines."""
    said_old = _words(old.comments[a[0] - 1 : a[1]])
    said_new = _words(new.comments[b[0] - 1 : b[1]])
    lines_old, lines_new = old.lines[a[0] - 1 : a[1]], new.lines[b[0] - 1 : b[1]]
    head, tail = _ends(lines_old, lines_new)
    if head + tail == max(len(lines_old), len(lines_new)):
        return []
    kind: Kind = "whitespace" if said_old == said_new else "comment"
    return [Draft((a[0] + head, a[1] - tail), (b[0] + head, b[1] - tail), kind)]


def _words(comments: Sequence[str]) -> str:
    return " ".join(comment for comment in comments if comment)


def _cosmetic(out: FileDiff, silent: Mapping[str, str]) -> None:
    """Mark paired lines whose text differs, and join neighbours into one hunk."""
    assert out.old is not None and out.new is not None
    marks = [draft for draft in out.drafts if draft.kind in ("comment", "whitespace")]
    out.drafts = [draft for draft in out.drafts if draft.kind not in ("comment", "whitespace")]
    for i, j in out.pairs:
        if out.old.lines[i - 1] != out.new.lines[j - 1]:
            marks += _cosmetic_of(out.old, out.new, (i, i), (j, j), silent)
    for old, new in out.reflowed:
        marks += _cosmetic_of(out.old, out.new, old, new, silent)
    rank = {"whitespace": 0, "comment": 1, "renamed": 2}
    joined: list[Draft] = []
    for mark in sorted(marks, key=lambda draft: (draft.old, draft.new)):
        last = joined[-1] if joined else None
        if last and last.old[1] + 1 == mark.old[0] and last.new[1] + 1 == mark.new[0]:
            kind = max(last.kind, mark.kind, key=lambda k: rank[k])
            joined[-1] = Draft((last.old[0], mark.old[1]), (last.new[0], mark.new[1]), kind)
        else:
            joined.append(mark)
    out.drafts += joined


def _cosmetic_of(
    old: Source, new: Source, a: Range, b: Range, silent: Mapping[str, str]
) -> list[Draft]:
    """The hunk of an unchanged statement whose text differs; empty for a silent renaming."""
    tokens_old, tokens_new = CodeLines(old, ()).key(a), CodeLines(new, ()).key(b)
    if a[0] == a[1] and b[0] == b[1]:  # where indentation is a token, it counts
        tokens_old, tokens_new = old.tokens[a[0] - 1], new.tokens[b[0] - 1]
    if tokens_old != tokens_new:
        hushed = renamed(tokens_old, silent) == tokens_new
        return [] if hushed else [Draft(a, b, "renamed")]
    said = (_words(side.comments[r[0] - 1 : r[1]]) for side, r in ((old, a), (new, b)))
    return [Draft(a, b, "whitespace" if len(set(said)) == 1 else "comment")]


def split_moves(diffs: Sequence[FileDiff], names: Mapping[str, str]) -> None:
    """Take identical removed and added blocks out of their hunks, as ``moved`` ones.

    A block that did not move within one file pair stays two hunks: a diff cannot show a range of
    the new file together with one of another old file.
    """
    for diff in diffs:
        if diff.old is None or diff.new is None:
            continue
        for _ in range(_MOVES):
            if not _split_one_move(diff, names):
                break


def _split_one_move(diff: FileDiff, names: Mapping[str, str]) -> bool:
    assert diff.old is not None and diff.new is not None
    old, new = diff.old, diff.new
    places: dict[Tokens, list[tuple[int, Draft]]] = {}
    code = [draft for draft in diff.drafts if draft.kind == "code"]
    for draft in code:
        for n in range(draft.new[0], draft.new[1] + 1):
            if information(new.tokens[n - 1]):
                places.setdefault(new.tokens[n - 1], []).append((n, draft))
    best: tuple[int, int, int, int, Draft, Draft] | None = None
    for source in code:
        for i in range(source.old[0], source.old[1] + 1):
            for j, target in places.get(renamed(old.tokens[i - 1], names), [])[:16]:
                # Lines without tokens at the same place in both are part of the block.
                length = told = end = 0
                while i + length <= source.old[1] and j + length <= target.new[1]:
                    key = new.tokens[j + length - 1]
                    if renamed(old.tokens[i + length - 1], names) != key:
                        break
                    length += 1
                    told += information(key) > 0
                    end = length if key else end
                if told >= MOVED_LINES and (best is None or told > best[0]):
                    best = (told, i, j, end, source, target)
    if best is None:
        return False
    _, i, j, length, source, target = best
    moved = Draft((i, i + length - 1), (j, j + length - 1), "moved")
    if source is target:
        parts = [
            Draft((source.old[0], i - 1), (source.new[0], j - 1), "code"),
            Draft((i + length, source.old[1]), (j + length, source.new[1]), "code"),
        ]
    else:
        parts = [
            Draft((source.old[0], i - 1), source.new, "code"),
            Draft((i + length, source.old[1]), (source.new[1] + 1, source.new[1]), "code"),
            Draft(target.old, (target.new[0], j - 1), "code"),
            Draft((target.old[1] + 1, target.old[1]), (j + length, target.new[1]), "code"),
        ]
    kept = [draft for draft in diff.drafts if draft is not source and draft is not target]
    parts = [part for part in parts if _has_code(part, old, new)]
    diff.drafts = sorted([*kept, moved, *parts], key=lambda draft: (draft.old, draft.new))
    return True


def _has_code(draft: Draft, old: Source, new: Source) -> bool:
    return any(old.tokens[n - 1] for n in range(draft.old[0], draft.old[1] + 1)) or any(
        new.tokens[n - 1] for n in range(draft.new[0], draft.new[1] + 1)
    )


def rename_candidates(
    diffs: Sequence[FileDiff], declared: Callable[[str, str], bool]
) -> dict[str, str]:
    """Names that were replaced throughout by another one: old name -> new name.

    A pair of names is a rename if changed lines differ in it at equal places, the old name is gone
    from the new text and the new one was not in the old, no place contradicts it, and
    `declared(old, new)` says that each side declares its own (so that ``fmaf`` -> ``__fmaf_rn`` is
    a change, not a rename).
    """
    words_old = {t for d in diffs if d.old for line in d.old.tokens for t in line}
    words_new = {t for d in diffs if d.new for line in d.new.tokens for t in line}
    votes: dict[str, set[str]] = {}
    for diff in diffs:
        if diff.old is None or diff.new is None:
            continue
        for draft in diff.drafts:
            if draft.kind == "code":
                _vote(draft, diff.old, diff.new, votes, words_old, words_new)
    back: dict[str, int] = {}
    for targets in votes.values():
        for target in targets:
            back[target] = back.get(target, 0) + 1
    out: dict[str, str] = {}
    for name, targets in votes.items():
        (target, *others) = targets
        if not others and back[target] == 1 and declared(name, target):
            out[name] = target
    return out


def _vote(
    draft: Draft,
    old: Source,
    new: Source,
    votes: dict[str, set[str]],
    words_old: set[str],
    words_new: set[str],
) -> None:
    """Compare the lines of a hunk that have the same shape if names are left out."""

    def shape(tokens: Tokens) -> Tokens:
        return tuple("" if t[:1].isalpha() or t[:1] == "_" else t for t in tokens)

    waiting: dict[Tokens, list[Tokens]] = {}
    for n in range(draft.new[0], draft.new[1] + 1):
        waiting.setdefault(shape(new.tokens[n - 1]), []).append(new.tokens[n - 1])
    for n in range(draft.old[0], draft.old[1] + 1):
        tokens = old.tokens[n - 1]
        candidates = waiting.get(shape(tokens))
        if not tokens or not candidates:
            continue
        other = candidates.pop(0)
        changed = [(a, b) for a, b in zip(tokens, other, strict=True) if a != b]
        # Only a vanished name -> a new one: with any other difference, this is not a renamed line.
        if changed and all(a not in words_new and b not in words_old for a, b in changed):
            for a, b in changed:
                votes.setdefault(a, set()).add(b)


# --- Two sources side by side: facing lines, and the differences in them -------------------------
#
# `workbench.analysis.source.files` has already found the unchanged lines. This part is only for
# display and moves no counter: inside a change, similar lines face each other, and the tokens in
# which they differ are found.

FacingKind = Literal["same", "change", "beside", "old", "new"]

#: Lines less alike than this do not face each other as versions of one line.
_ALIKE = 0.5
#: The most pairs of lines to compare in one block; larger rewrites are shown in order.
_PAIRS = 6_000
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


class Facing(Record, frozen=True):
    """Lines shown beside each other, 1-based; None if a side has no line.

    ``same`` unchanged, ``change`` two versions of one line, ``beside`` two lines of one change that
    only share a row, ``old``/``new`` a line of only one side.
    """

    kind: FacingKind
    old: int | None
    new: int | None


#: Characters ``first`` to ``last`` (not included) of a line.
Characters = tuple[int, int]
#: Line -> the hunk that it is in; lines of one hunk do not face lines of another.
Hunks = Mapping[int, int]


def face(
    old: Sequence[str],
    new: Sequence[str],
    twin: Mapping[int, int],
    changed: set[int],
    hunks: tuple[Hunks, Hunks] = ({}, {}),
) -> list[Facing]:
    """All lines of both sides, in order.

    `twin` is old line -> its unchanged new one (1-based). `changed` are old lines that a hunk
    changed: equal text does not make them unchanged. `hunks`: which hunk the lines of either side
    are in.
    """
    back = {b: a for a, b in twin.items()}
    rows: list[Facing] = []
    i = j = 1
    while i <= len(old) or j <= len(new):
        if i <= len(old) and twin.get(i) == j:
            rows.append(Facing(kind="same", old=i, new=j))
            i, j = i + 1, j + 1
            continue
        olds, news = [], []
        while i <= len(old) and twin.get(i, 0) < j:
            olds.append(i)
            i += 1
        while j <= len(new) and back.get(j, 0) < i:
            news.append(j)
            j += 1
        if not olds and not news:  # two moved blocks that cross: one of them goes first
            news.append(j)
            j += 1
        for some_old, some_new in _by_hunk(olds, news, hunks):
            rows += _block(old, new, some_old, some_new, changed)
    return rows


def _by_hunk(
    olds: list[int], news: list[int], hunks: tuple[Hunks, Hunks]
) -> list[tuple[list[int], list[int]]]:
    """Lines without a twin, by hunk; a comment outside hunks stays with the lines before it."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for side, numbers in enumerate((olds, news)):
        here = next((hunks[side][n] for n in numbers if n in hunks[side]), 0)
        for number in numbers:
            here = hunks[side].get(number, here)
            found.setdefault(here, ([], []))[side].append(number)
    return [found[hunk] for hunk in sorted(found)]


def _block(
    old: Sequence[str], new: Sequence[str], olds: list[int], news: list[int], changed: set[int]
) -> list[Facing]:
    """Rows of lines that have no twin: similar ones face each other, the others fill the rows."""
    rows: list[Facing] = []
    done_old = done_new = 0
    texts = tuple(old[n - 1] for n in olds), tuple(new[n - 1] for n in news)
    for a, b in [*_faces(*texts), (len(olds), len(news))]:
        for x, y in zip_longest(olds[done_old:a], news[done_new:b]):
            kind: FacingKind = "beside" if x and y else "old" if x else "new"
            rows.append(Facing(kind=kind, old=x, new=y))
        if a < len(olds) and b < len(news):
            x, y = olds[a], news[b]
            equal = old[x - 1] == new[y - 1] and x not in changed
            rows.append(Facing(kind="same" if equal else "change", old=x, new=y))
        done_old, done_new = a + 1, b + 1
    return rows


# A step has the same sources on every problem, and a site makes its pages one after another.
@lru_cache(maxsize=512)
def _faces(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Places of lines that are alike on both sides, in order, with the largest total likeness."""
    if not a or not b or len(a) * len(b) > _PAIRS:
        return ()
    gains = [[_alike(x, y) for y in b] for x in a]
    # best[i][j]: the most likeness that lines from i and j on can give.
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            gain = gains[i][j]
            paired = gain + best[i + 1][j + 1] if gain else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    out = []
    i = j = 0
    while i < len(a) and j < len(b):
        if gains[i][j] and best[i][j] == gains[i][j] + best[i + 1][j + 1]:
            out.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return tuple(out)


@lru_cache(maxsize=1 << 12)  # likewise
def _words_and_spaces(line: str) -> tuple[list[str], Tally[str]]:
    """The tokens of a line, and the number of each; read-only."""
    words = [token for token in _TOKEN.findall(line) if not token.isspace()]
    return words, Tally(words)


@lru_cache(maxsize=1 << 15)  # likewise
def _alike(old: str, new: str) -> float:
    """Likeness times length, 0 below the threshold: a brace must not outweigh a statement."""
    (a, in_a), (b, in_b) = _words_and_spaces(old), _words_and_spaces(new)
    if a == b:
        return 1.0 + len(a)
    if not a or not b:
        return 0.0
    # Cheap upper bounds: by the number of words, and by the words.
    if 2 * min(len(a), len(b)) / (len(a) + len(b)) < _ALIKE:
        return 0.0
    common = sum(min(count, in_b[word]) for word, count in in_a.items() if word in in_b)
    if 2 * common / (len(a) + len(b)) < _ALIKE:
        return 0.0
    ratio = SequenceMatcher(None, a, b, autojunk=False).ratio()
    return ratio * min(len(a), len(b)) if ratio >= _ALIKE else 0.0


@lru_cache(maxsize=1 << 13)  # likewise
def differences(old: str, new: str) -> tuple[tuple[Characters, ...], tuple[Characters, ...]]:
    """The differing characters of two versions of a line, on each side."""
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    starts = [[0, *accumulate(map(len, tokens))] for tokens in (a, b)]
    found: tuple[list[Characters], list[Characters]] = ([], [])
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for side, tokens, first, last in ((0, a, i1, i2), (1, b, j1, j2)):
            if any(not token.isspace() for token in tokens[first:last]):
                found[side].append((starts[side][first], starts[side][last]))
    return tuple(found[0]), tuple(found[1])
