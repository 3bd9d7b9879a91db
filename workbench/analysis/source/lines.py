"""Source text as tokens by line, aligned lines, and statements of lines.

Two lines are *equal as code* if their tokens are equal; white space and comments
are not tokens. The lexer never fails: text that compilers would reject still gives tokens, at worst
of one character, so that any bytes can be compared.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

Language = Literal["cuda", "python"]

# One alternative per lexical class of C++ (ISO C++ [lex.token]); phases 1-2 (line
# splices) are honoured only where they matter to lines: in comments and macros.
_CUDA = re.compile(
    r"""
    (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?)
  | (?P<splice>\\\r?(?=\n))
  | (?P<newline>\n)
  | (?P<space>[^\S\n]+)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<operator><<<|>>>|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||\#\#|[-+*/%&|^<>=!]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Python's indentation has meaning, so leading white space is a token of its own there.
_PYTHON = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<raw>(?i:[rbuf]{0,2})(?P<delimiter>\"\"\"|''').*?(?:(?P=delimiter)|\Z))
  | (?P<string>(?i:[rbuf]{0,2})(?:"(?:\\[^\n]|[^"\\\n])*"?|'(?:\\[^\n]|[^'\\\n])*'?))
  | (?P<newline>\n)
  | (?P<indent>(?:(?<=\n)|\A)[ \t]+(?=[^\s\#]))
  | (?P<space>[^\S\n]+)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\.?\d(?:[eE][+-]|[\w.])*)
  | (?P<operator>\*\*=|//=|>>=|<<=|->|:=|\*\*|//|[-+*/%&|^<>=!@]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)

#: Words that many lines share whatever they do; a line with only these has no information.
_COMMON_WORDS = frozenset(
    {"__syncthreads", "__syncwarp", "return", "else", "break", "continue", "do", "default", "try"}
    | {"pragma", "unroll", "endif", "public", "private", "pass"}
)

_SILENT = frozenset({"comment", "space", "splice", "newline"})

Tokens = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One file, by line. All three tuples have one entry per line; line n has index n - 1.

    `tokens` are what the compiler sees; `comments` the comment text on the line,
    its white space normalized; `lines` the text without its line end.
    """

    path: str
    lines: tuple[str, ...]
    tokens: tuple[Tokens, ...]
    comments: tuple[str, ...]
    language: Language = "cuda"

    @property
    def text(self) -> str:
        """The text with plain line feeds."""
        return "\n".join(self.lines)


# A version is on both sides of steps, and shares its headers with all others.
@lru_cache(maxsize=64)
def scan(text: str, path: str = "") -> Source:
    """Split a text into lines and tokens. Lines end at line feeds, as for a compiler.

    Any text is taken: CRLF, control characters, replacement characters from a wrong decoding, lines
    of any length. The time is linear in the length.
    """
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if len(lines) > 1 and lines[-1] == "":
        lines.pop()
    language: Language = "python" if path.endswith(".py") else "cuda"
    tokens: list[list[str]] = [[] for _ in lines] or [[]]
    comments: list[list[str]] = [[] for _ in tokens]
    row, last = 0, len(tokens) - 1
    for match in (_PYTHON if language == "python" else _CUDA).finditer(text):
        kind = match.lastgroup
        if kind == "newline":
            row = min(row + 1, last)
        elif kind in ("space", "splice"):
            continue
        elif kind in ("comment", "raw", "delimiter"):
            # A comment or raw string may span many lines: each gets its piece.
            target = comments if kind == "comment" else tokens
            for number, piece in enumerate(match.group().split("\n")):
                row = min(row + (number > 0), last)
                piece = " ".join(piece.split()) if kind == "comment" else piece
                if piece:
                    target[row].append(piece)
        else:
            tokens[row].append(match.group())
    return Source(
        path=path,
        lines=tuple(lines),
        tokens=tuple(map(tuple, tokens)),
        comments=tuple(" ".join(c) for c in comments),
        language=language,
    )


def tokens_of(text: str) -> Tokens:
    """Tokens of a piece of CUDA source, white space and comments left out."""
    return tuple(m.group() for m in _CUDA.finditer(text) if m.lastgroup not in _SILENT)


def renamed(tokens: Tokens, names: Mapping[str, str]) -> Tokens:
    """Tokens with old names replaced by their new ones."""
    if not names or names.keys().isdisjoint(tokens):
        return tokens
    return tuple(names.get(token, token) for token in tokens)


@lru_cache(maxsize=1 << 14)
def information(tokens: Tokens) -> int:
    """The information of a line: its tokens that are neither punctuation nor a common word.

    ``}`` and ``__syncthreads();`` give 0: if two such lines are equal, they need not be the same
    line.
    """
    return sum(1 for t in tokens if t not in _COMMON_WORDS and (t[:1].isalnum() or t[:1] == "_"))


# --- Matching lines of the old and the new text: an alignment that suits code --------------------
#
# A plain shortest edit script does not match a reader's view: it pairs a lone ``}`` of one function
# with that of another. So, as in Bram Cohen's patience diff, lines that occur once on each side
# anchor the alignment; anchors are grown to blocks, and among blocks that contradict each other
# those with the most tokens win (a weighted longest increasing subsequence). Between anchors a
# weighted longest common subsequence decides. The result is cleaned: a match without information,
# amid large changed blocks, is a coincidence and is dropped, so that a rewrite gives few hunks.

Pair = tuple[int, int]

#: The most cells of the exact dynamic program; beyond that, the rarest line splits the range.
_EXACT_CELLS = 40_000
#: A line that occurs more often than this on a side is not an anchor.
_RARE = 32
#: A match without information is dropped if this many lines changed on both sides of it.
_BIG = 4
#: A match of one or two lines with information is dropped only amid a rewrite this large.
_REWRITE = 16


class _Aligner:
    """State of one alignment: both sides as small integers, and the weight of each."""

    def __init__(
        self, old: Sequence[Hashable], new: Sequence[Hashable], weights: Mapping[Any, int]
    ) -> None:
        ids: dict[Hashable, int] = {}
        self.a = [ids.setdefault(key, len(ids)) for key in old]
        self.b = [ids.setdefault(key, len(ids)) for key in new]
        # Even a line without information has a weight: among equals, longer matches win.
        self.weight = [1 + 8 * weights.get(key, 1) for key in ids]

    def run(self) -> list[Pair]:
        """All matched index pairs, increasing on both sides."""
        pairs: list[Pair] = []
        todo = [(0, len(self.a), 0, len(self.b))]
        while todo:
            low_a, high_a, low_b, high_b = todo.pop()
            a, b = self.a, self.b
            while low_a < high_a and low_b < high_b and a[low_a] == b[low_b]:
                pairs.append((low_a, low_b))
                low_a, low_b = low_a + 1, low_b + 1
            while low_a < high_a and low_b < high_b and a[high_a - 1] == b[high_b - 1]:
                high_a, high_b = high_a - 1, high_b - 1
                pairs.append((high_a, high_b))
            if low_a == high_a or low_b == high_b:
                continue
            box = (low_a, high_a, low_b, high_b)
            blocks = self._chain(self._blocks(box))
            if not blocks:
                if (high_a - low_a) * (high_b - low_b) <= _EXACT_CELLS:
                    pairs.extend(self._exact(box))
                    continue
                blocks = self._rarest(box)
            if not blocks:
                continue
            at_a, at_b = low_a, low_b
            for start_a, start_b, length in blocks:
                pairs.extend((start_a + k, start_b + k) for k in range(length))
                todo.append((at_a, start_a, at_b, start_b))
                at_a, at_b = start_a + length, start_b + length
            todo.append((at_a, high_a, at_b, high_b))
        pairs.sort()
        return pairs

    def _grow(self, i: int, j: int, box: tuple[int, int, int, int]) -> tuple[int, int, int]:
        low_a, high_a, low_b, high_b = box
        start_a, start_b = i, j
        while start_a > low_a and start_b > low_b and self.a[start_a - 1] == self.b[start_b - 1]:
            start_a, start_b = start_a - 1, start_b - 1
        end_a, end_b = i + 1, j + 1
        while end_a < high_a and end_b < high_b and self.a[end_a] == self.b[end_b]:
            end_a, end_b = end_a + 1, end_b + 1
        return start_a, start_b, end_a - start_a

    def _blocks(self, box: tuple[int, int, int, int]) -> list[tuple[int, int, int]]:
        """Runs of equal lines around each line that is unique on both sides of the box."""
        low_a, high_a, low_b, high_b = box
        count_a, count_b = Counter(self.a[low_a:high_a]), Counter(self.b[low_b:high_b])
        where_b = {key: j for j, key in enumerate(self.b[low_b:high_b], low_b)}
        found: list[tuple[int, int, int]] = []
        covered: dict[int, int] = {}  # diagonal -> end of the last block on it
        for i in range(low_a, high_a):
            key = self.a[i]
            if count_a[key] != 1 or count_b.get(key) != 1:
                continue
            j = where_b[key]
            if covered.get(j - i, -1) > i:
                continue
            block = self._grow(i, j, box)
            covered[j - i] = block[0] + block[2]
            found.append(block)
        return found

    def _rarest(self, box: tuple[int, int, int, int]) -> list[tuple[int, int, int]]:
        """The heaviest block through the rarest common line (histogram diff's choice)."""
        low_a, high_a, low_b, high_b = box
        count_a, count_b = Counter(self.a[low_a:high_a]), Counter(self.b[low_b:high_b])
        common = [(count_a[k] * count_b[k], -self.weight[k], k) for k in count_a if k in count_b]
        if not common:
            return []
        occurrences, _, key = min(common)
        if occurrences > _RARE * _RARE:
            return []
        places_a = [i for i in range(low_a, high_a) if self.a[i] == key]
        places_b = [j for j in range(low_b, high_b) if self.b[j] == key]
        blocks = {self._grow(i, j, box) for i in places_a for j in places_b}
        best = max(blocks, key=lambda block: (self._mass(block), -block[0], -block[1]))
        return [best]

    def _mass(self, block: tuple[int, int, int]) -> int:
        start, _, length = block
        return sum(self.weight[key] for key in self.a[start : start + length])

    def _chain(self, blocks: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """The heaviest subset that increases on both sides without overlap.

        A sweep over the old side: at its start a block takes the best chain that ended before it on
        both sides, and at its end it offers its own. The best prefix over the new side is a Fenwick
        tree, so n blocks take n log n.
        """
        if len(blocks) <= 1:
            return blocks
        blocks = sorted(blocks)
        ends = sorted({start_b + length for _, start_b, length in blocks})
        tree: list[tuple[int, int]] = [(0, -1)] * (len(ends) + 1)  # (mass, block)
        mass = [0] * len(blocks)
        before = [-1] * len(blocks)
        events = sorted(
            [(start_a, 1, n) for n, (start_a, _, _) in enumerate(blocks)]
            + [(start_a + length, 0, n) for n, (start_a, _, length) in enumerate(blocks)]
        )
        for _, starts, n in events:
            _, start_b, length = blocks[n]
            if starts:
                at = bisect_left(ends, start_b + 1)
                best = (0, -1)
                while at:
                    if tree[at][0] > best[0]:
                        best = tree[at]
                    at &= at - 1
                mass[n], before[n] = best[0] + self._mass(blocks[n]), best[1]
            else:
                at = bisect_left(ends, start_b + length) + 1
                while at < len(tree):
                    if mass[n] > tree[at][0]:
                        tree[at] = (mass[n], n)
                    at += at & -at
        at = max(range(len(blocks)), key=lambda n: (mass[n], -n))
        chain = []
        while at >= 0:
            chain.append(blocks[at])
            at = before[at]
        return chain[::-1]

    def _exact(self, box: tuple[int, int, int, int]) -> list[Pair]:
        """Weighted longest common subsequence of a small box."""
        low_a, high_a, low_b, high_b = box
        rows, columns = high_a - low_a, high_b - low_b
        places: dict[int, list[int]] = {}  # of a key, the last first
        for j in range(columns - 1, -1, -1):
            places.setdefault(self.b[low_b + j], []).append(j)
        best = [[0] * (columns + 1)] * (rows + 1)
        for i in range(rows - 1, -1, -1):
            key, below = self.a[low_a + i], best[i + 1]
            here = below[:] if key in places else below
            gain = self.weight[key]
            for j in places.get(key, ()):
                # Values in a row fall from left to right: a match raises one stretch.
                value, k = below[j + 1] + gain, j
                while k >= 0 and here[k] < value:
                    here[k] = value
                    k -= 1
            best[i] = here
        pairs: list[Pair] = []
        i = j = 0
        while i < rows and j < columns:
            same = self.a[low_a + i] == self.b[low_b + j]
            if same and best[i][j] == best[i + 1][j + 1] + self.weight[self.a[low_a + i]]:
                pairs.append((low_a + i, low_b + j))
                i, j = i + 1, j + 1
            elif best[i + 1][j] >= best[i][j + 1]:
                i += 1
            else:
                j += 1
        return pairs


def align(
    old: Sequence[Hashable], new: Sequence[Hashable], weights: Mapping[Any, int]
) -> list[Pair]:
    """Match equal elements of two sequences, in order.

    Equal keys are equal lines. `weights` is the information of a key (see `information`): 0 for
    lines without information, 1 if there is no entry. Returns index pairs, strictly increasing on
    both sides, coincidences removed.
    """
    pairs = _Aligner(old, new, weights).run()
    return _without_coincidences(pairs, old, len(new), weights)


def _without_coincidences(
    pairs: list[Pair], old: Sequence[Hashable], new_length: int, weights: Mapping[Any, int]
) -> list[Pair]:
    runs: list[list[Pair]] = []
    for pair in pairs:
        if runs and runs[-1][-1] == (pair[0] - 1, pair[1] - 1):
            runs[-1].append(pair)
        else:
            runs.append([pair])

    def changed(left: int, right: int) -> int:
        """Lines removed and added between two runs; the text's ends bound the outer ones."""
        i, j = runs[left][-1] if left >= 0 else (-1, -1)
        x, y = runs[right][0] if right < len(runs) else (len(old), new_length)
        return x - i - 1 + y - j - 1

    dropped = True
    while dropped:
        dropped = False
        at = 0
        while at < len(runs):
            run = runs[at]
            around = min(changed(at - 1, at), changed(at, at + 1))
            says = sum(weights.get(old[i], 1) for i, _ in run)
            empty = says == 0 and len(run) <= 3 and around >= _BIG
            lone = len(run) <= 2 and says <= 8 * len(run) and around >= _REWRITE
            if empty or lone:
                del runs[at]
                dropped = True
            else:
                at += 1
    return [pair for run in runs for pair in run]


def slide(
    pairs: list[Pair], old: Sequence[Hashable], new: Sequence[Hashable], indent: Sequence[int]
) -> list[Pair]:
    """Move pure insertions to where a reader would see them.

    An insertion of a block after an equal line has several descriptions that differ only in which
    of the equal lines is "new"; the one whose block starts with the least indentation, and the
    latest of these, reads best.

    `indent` is the indentation of the new lines, in columns.
    """
    match = dict(pairs)
    back = {j: i for i, j in pairs}
    edges = [(-1, -1), *pairs, (len(old), len(new))]
    for (i, j), (x, y) in pairwise(edges):
        if x != i + 1 or y <= j + 1:
            continue  # nothing was inserted here, or something was removed as well
        first, last = j + 1, y - 1
        best = (indent[first], 0)
        shift = 0
        # Upwards: the line before the block is equal to its last line.
        while (
            first - shift - 1 in back
            and back[first - shift - 1] == i - shift
            and new[first - shift - 1] == new[last - shift]
        ):
            shift += 1
            best = min(best, (indent[first - shift], shift))
        for step in range(best[1]):
            row = i - step
            del back[match[row]]
            match[row] = last - step
            back[last - step] = row
    return sorted(match.items())


# --- Statements: whole, and the same with any line breaks -----------------------------------
#
# Lines are aligned first, since counters and readers use lines. Two rules follow from the nature of
# statements. A line that only continues an edited statement has changed with it. And a statement
# with the same tokens on both sides has not changed, wherever its line breaks are: its lines on one
# side, together, correspond to those on the other.

Range = tuple[int, int]
#: The statements of two files that have several lines, old and new; computed on demand.
Statements = Callable[[], tuple[Sequence[Range], Sequence[Range]]]

#: A longer statement is most likely a table: an edit of one entry does not change the others.
_LONGEST = 40


def joined(found: Iterable[Range]) -> list[Range]:
    """Ranges of several lines, merged if they share a line; ascending."""
    out: list[Range] = []
    for first, last in sorted(found):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return [each for each in out if each[0] < each[1]]


@dataclass(slots=True)
class CodeLines:
    """The lines of one side that hold code and take part, and their statements.

    `names` are the new names of renamed identifiers.
    """

    source: Source
    lines: Sequence[int]
    names: Mapping[str, str] = field(default_factory=dict)
    unit: dict[int, Range] = field(default_factory=dict)

    def join(self, statements: Iterable[Range]) -> None:
        """Record the statements whose lines all take part."""
        chosen = set(self.lines)
        for first, last in statements:
            code = [n for n in range(first, last + 1) if self.source.tokens[n - 1]]
            if last - first < _LONGEST and len(code) > 1 and chosen.issuperset(code):
                self.unit.update(dict.fromkeys(code, (first, last)))

    def code(self, unit: Range) -> list[int]:
        """Lines of a statement that hold tokens."""
        return [n for n in range(unit[0], unit[1] + 1) if self.source.tokens[n - 1]]

    def key(self, unit: Range) -> Tokens:
        """Tokens of a statement under their new names, indentation only from its first line."""
        out: list[str] = []
        for n in self.code(unit):
            out += (t for t in self.source.tokens[n - 1] if not out or not t.isspace())
        return renamed(tuple(out), self.names)

    def units(self, first: int, last: int) -> list[Range]:
        """Statements, or single lines outside of them, from one line to another."""
        lines = self.lines[bisect_left(self.lines, first) : bisect_right(self.lines, last)]
        return list(dict.fromkeys(self.unit.get(n, (n, n)) for n in lines))


def pair_statements(
    pairs: Sequence[Pair], old: CodeLines, new: CodeLines, statements: Statements
) -> tuple[list[Pair], list[tuple[Range, Range]]]:
    """Turn an alignment of lines into one of statements.

    `pairs` are unchanged lines (old, new), 1-based, increasing on both sides; `statements`: which
    lines are one statement. Returns pairs without the lines of edited statements, plus those of
    whole statements that lines alone had not matched; and the statements that differ only in line
    breaks.
    """
    if len(pairs) == len(old.lines) == len(new.lines):
        return list(pairs), []
    for side, found in zip((old, new), statements(), strict=True):
        side.join(found)
    kept = _without_edited(pairs, (old, new))
    again, reflowed = _paired_again(kept, old, new)
    return sorted([*kept, *again]), reflowed


def _without_edited(pairs: Sequence[Pair], sides: tuple[CodeLines, CodeLines]) -> list[Pair]:
    """Pairs, without statements that have a line without a partner."""
    twins = dict(pairs), {j: i for i, j in pairs}
    todo = [(n, unit) for n in (0, 1) for unit in dict.fromkeys(sides[n].unit.values())]
    while todo:
        n, unit = todo.pop()
        here, there = twins[n], twins[1 - n]
        code = sides[n].code(unit)
        paired = [line for line in code if line in here]
        if len(paired) == len(code):
            continue
        for line in paired:
            partner = here.pop(line)
            del there[partner]
            if partner in sides[1 - n].unit:  # its statement is edited as well
                todo.append((1 - n, sides[1 - n].unit[partner]))
    return sorted(twins[0].items())


def _paired_again(
    pairs: Sequence[Pair], old: CodeLines, new: CodeLines
) -> tuple[list[Pair], list[tuple[Range, Range]]]:
    """Statements between the pairs that have the same tokens on both sides."""
    again: list[Pair] = []
    reflowed: list[tuple[Range, Range]] = []
    last = (len(old.source.lines) + 1, len(new.source.lines) + 1)
    for (i, j), (x, y) in pairwise([(0, 0), *pairs, last]):
        units = old.units(i + 1, x - 1), new.units(j + 1, y - 1)
        if not all(units) or all(a == b for side in units for a, b in side):
            continue
        keys = [old.key(unit) for unit in units[0]], [new.key(unit) for unit in units[1]]
        weights = {key: information(key) for side in keys for key in side}
        for a, b in align(*keys, weights):
            one, other = units[0][a], units[1][b]
            lines = old.code(one), new.code(other)
            if len(lines[0]) == len(lines[1]) == 1 or not weights[keys[0][a]]:
                continue  # the surroundings showed that two such lines are not a pair
            texts = [
                [renamed(old.source.tokens[n - 1], old.names) for n in lines[0]],
                [new.source.tokens[n - 1] for n in lines[1]],
            ]
            if texts[0] == texts[1]:
                again += zip(*lines, strict=True)
            else:
                reflowed.append((one, other))
    return again, reflowed
