"""Statements as the unit of a difference: whole, and the same however they are broken into lines.

Lines are aligned first (`alignment`), since counters and readers know lines. Two things
follow from what a statement is. A line that only continues an edited statement has changed
with it. And a statement with the same tokens on both sides has not changed, wherever its
line breaks are: its lines on one side, together, are its lines on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from workbench.analysis.source.alignment import Pair, align
from workbench.analysis.source.tokens import Source, Tokens, information, renamed

Range = tuple[int, int]
#: The statements of two files that have several lines, old and new; asked for once needed.
Statements = Callable[[], tuple[Sequence[Range], Sequence[Range]]]

#: A longer statement is most likely a table: one entry that is edited is not all of them.
_LONGEST = 40


def joined(found: Iterable[Range]) -> list[Range]:
    """Ranges of several lines, those that share a line as one; ascending."""
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

    `names` are the new names of what was only renamed.
    """

    source: Source
    lines: Sequence[int]
    names: Mapping[str, str] = field(default_factory=dict)
    unit: dict[int, Range] = field(default_factory=dict)

    def join(self, statements: Iterable[Range]) -> None:
        """Take note of the statements all of whose lines take part."""
        chosen = set(self.lines)
        for first, last in statements:
            code = [n for n in range(first, last + 1) if self.source.tokens[n - 1]]
            if last - first < _LONGEST and len(code) > 1 and chosen.issuperset(code):
                self.unit.update(dict.fromkeys(code, (first, last)))

    def code(self, unit: Range) -> list[int]:
        """Lines of a statement that hold tokens."""
        return [n for n in range(unit[0], unit[1] + 1) if self.source.tokens[n - 1]]

    def key(self, unit: Range) -> Tokens:
        """Tokens of a statement under their new names, indentation of its first line alone."""
        out: list[str] = []
        for n in self.code(unit):
            out += (t for t in self.source.tokens[n - 1] if not out or not t.isspace())
        return renamed(tuple(out), self.names)

    def units(self, first: int, last: int) -> list[Range]:
        """Statements, or lines that are one by themselves, from one line to another."""
        lines = (n for n in self.lines if first <= n <= last)
        return list(dict.fromkeys(self.unit.get(n, (n, n)) for n in lines))


def pair_statements(
    pairs: Sequence[Pair], old: CodeLines, new: CodeLines, statements: Statements
) -> tuple[list[Pair], list[tuple[Range, Range]]]:
    """Make an alignment of lines one of statements.

    Args:
        pairs: Unchanged lines (old, new), 1-based, increasing on both sides.
        old: The lines of the old side.
        new: The lines of the new side.
        statements: Which lines are one statement.

    Returns:
        Pairs without the lines of edited statements, and with those of whole statements
        that lines alone had not shown to be equal; and the statements that only have
        other line breaks.
    """
    if len(pairs) == len(old.lines) == len(new.lines):
        return list(pairs), []
    for side, found in zip((old, new), statements(), strict=True):
        side.join(found)
    kept = _without_edited(pairs, (old, new))
    again, reflowed = _paired_again(kept, old, new)
    return sorted([*kept, *again]), reflowed


def _without_edited(pairs: Sequence[Pair], sides: tuple[CodeLines, CodeLines]) -> list[Pair]:
    """Pairs but for the lines of statements of which some line has no partner."""
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
                continue  # that two such lines are no pair was decided by their surroundings
            texts = [
                [renamed(old.source.tokens[n - 1], old.names) for n in lines[0]],
                [new.source.tokens[n - 1] for n in lines[1]],
            ]
            if texts[0] == texts[1]:
                again += zip(*lines, strict=True)
            else:
                reflowed.append((one, other))
    return again, reflowed
