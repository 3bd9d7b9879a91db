"""Two sources line by line beside each other: which line faces which, and what differs in it.

Which lines are unchanged is decided before (`workbench.analysis.source.files`). What this
adds is for the eye alone and moves no counter: inside of a change, similar lines face each
other, and the tokens in which they differ are found.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import Literal

from workbench.model import Record

Kind = Literal["same", "change", "beside", "old", "new"]

#: Lines less alike than this do not face each other as versions of one line.
_ALIKE = 0.5
#: Pairs of lines that are compared in one block; a larger rewrite is shown as it comes.
_PAIRS = 6_000
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


class Facing(Record, frozen=True):
    """Lines that stand beside each other, 1-based; None where a side has none.

    ``same`` unchanged, ``change`` two versions of one line, ``beside`` two lines of one
    change that merely share a row, ``old``/``new`` a line of one side alone.
    """

    kind: Kind
    old: int | None
    new: int | None


#: Characters ``first`` to ``last`` (not included) of a line.
Characters = tuple[int, int]
#: Line -> the hunk that it is in; lines of one hunk face no lines of another.
Hunks = Mapping[int, int]


def face(
    old: Sequence[str],
    new: Sequence[str],
    twin: Mapping[int, int],
    changed: set[int],
    hunks: tuple[Hunks, Hunks] = ({}, {}),
) -> list[Facing]:
    """All lines of both sides, in order.

    Args:
        old: The old lines.
        new: The new lines.
        twin: Old line -> its unchanged new one (1-based).
        changed: Old lines that a hunk changed: equal text does not make them unchanged.
        hunks: Which hunk the lines of either side are in.
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
    """Lines without a twin, hunk by hunk; a comment in no hunk goes with the lines before it."""
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
    """Rows of lines that have no twin: alike ones face each other, the others fill up."""
    rows: list[Facing] = []
    done_old = done_new = 0
    texts = tuple(old[n - 1] for n in olds), tuple(new[n - 1] for n in news)
    for a, b in [*_faces(*texts), (len(olds), len(news))]:
        for x, y in zip_longest(olds[done_old:a], news[done_new:b]):
            kind: Kind = "beside" if x and y else "old" if x else "new"
            rows.append(Facing(kind=kind, old=x, new=y))
        if a < len(olds) and b < len(news):
            x, y = olds[a], news[b]
            equal = old[x - 1] == new[y - 1] and x not in changed
            rows.append(Facing(kind="same" if equal else "change", old=x, new=y))
        done_old, done_new = a + 1, b + 1
    return rows


# A step has the same sources on every problem, and a site has its pages one after the other.
@lru_cache(maxsize=512)
def _faces(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Places of lines that are alike on both sides, in order, the most alike in all."""
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
def _words(line: str) -> tuple[list[str], Tally[str]]:
    """The tokens of a line, and how often it has each; nobody changes them."""
    words = [token for token in _TOKEN.findall(line) if not token.isspace()]
    return words, Tally(words)


@lru_cache(maxsize=1 << 15)  # likewise
def _alike(old: str, new: str) -> float:
    """Likeness times length, 0 below the threshold: a brace must not outweigh a statement."""
    (a, in_a), (b, in_b) = _words(old), _words(new)
    if a == b:
        return 1.0 + len(a)
    if not a or not b:
        return 0.0
    # Cheap upper bounds: by how many words there are, and by which.
    if 2 * min(len(a), len(b)) / (len(a) + len(b)) < _ALIKE:
        return 0.0
    common = sum(min(count, in_b[word]) for word, count in in_a.items() if word in in_b)
    if 2 * common / (len(a) + len(b)) < _ALIKE:
        return 0.0
    ratio = SequenceMatcher(None, a, b, autojunk=False).ratio()
    return ratio * min(len(a), len(b)) if ratio >= _ALIKE else 0.0


@lru_cache(maxsize=1 << 13)  # likewise
def differences(old: str, new: str) -> tuple[tuple[Characters, ...], tuple[Characters, ...]]:
    """What differs between two versions of a line, on either side."""
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
