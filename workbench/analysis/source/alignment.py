"""Which line of the old text is which line of the new: alignment right on code.

A plain shortest edit script is not what a reader means: it will match a lone ``}``
of one function to that of another. So, as in Bram Cohen's patience diff, lines that
occur once on each side anchor the alignment; anchors are grown to blocks, and of
the blocks that contradict each other those with the most tokens win (a weighted
longest increasing subsequence). Between anchors a weighted longest common
subsequence decides. What remains is cleaned: a match that says nothing, amid large
changed blocks, is a coincidence and is dropped, so that a rewrite gives few hunks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Pair = tuple[int, int]

#: Cells of the exact dynamic programme; beyond, the rarest line splits the range.
_EXACT_CELLS = 40_000
#: A line that occurs more often than this on a side is no anchor at all.
_RARE = 32
#: A match without information is dropped where this many lines changed on both sides of it.
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
        # Even an empty-looking line weighs a little: longer matches win among equals.
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

        A sweep over the old side: a block asks for the best chain that ended before
        it on both sides when it starts, and offers its own when it ends. The best
        prefix over the new side is a Fenwick tree, so n blocks take n log n.
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
        places: dict[int, list[int]] = {}  # of a key, the last one first
        for j in range(columns - 1, -1, -1):
            places.setdefault(self.b[low_b + j], []).append(j)
        best = [[0] * (columns + 1)] * (rows + 1)
        for i in range(rows - 1, -1, -1):
            key, below = self.a[low_a + i], best[i + 1]
            here = below[:] if key in places else below
            gain = self.weight[key]
            for j in places.get(key, ()):
                # A row falls from left to right: what a match raises is one stretch of it.
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

    Args:
        old: Keys of the old lines; equal keys are equal lines.
        new: Keys of the new lines.
        weights: Information of a key (see `tokens.information`); 0 for lines that
            say nothing. Keys without an entry weigh 1.

    Returns:
        Index pairs, strictly increasing on both sides, coincidences removed.
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
        """Lines removed and added between two runs; the ends of the text bound the outer ones."""
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

    Inserting a block behind an equal line can be told in several ways that differ
    only in which of the equal lines is "new"; the one whose block starts at the
    least indentation, and among these the latest, reads best.

    Args:
        pairs: From `align`.
        old: Keys of the old lines.
        new: Keys of the new lines.
        indent: Indentation of the new lines, in columns.
    """
    match = dict(pairs)
    back = {j: i for i, j in pairs}
    edges = [(-1, -1), *pairs, (len(old), len(new))]
    for (i, j), (x, y) in pairwise(edges):
        if x != i + 1 or y <= j + 1:
            continue  # nothing inserted here, or something removed as well
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
