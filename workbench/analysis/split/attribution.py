"""The split of every line counter's change over hunks: parts that add up to the whole.

For two profiles and a counter that is known per instruction, every line of either
side belongs to exactly one part:

``hunk``       the line was changed, added, removed or moved
``symbol``     it is unchanged and uses (or is governed by) something a hunk changed
``launch``     neither, but its launch was changed, added or removed
``elsewhere``  none of these: the compiler did it, or it is noise; never hidden

An unchanged line and its twin on the other side are one thing, with one part. Where
several symbols link a line equally closely, its change is shared among them: see
`share`. Sums are exact: integers as integers, floating point as fractions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from workbench.analysis.aggregate import LaunchPair, pair_launches
from workbench.analysis.source.files import SourceDiff, compare_sources
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.split.placing import (
    Exact,
    PartKey,
    PartLink,
    Placing,
    Twins,
    canonical,
    exactly,
    launch_changes,
    spellings,
)
from workbench.counters import catalog
from workbench.model import Number, Profile, Record


class LineShare(Record, frozen=True):
    """One line of a part. Lines are 1-based, None where that side has none, 0: no line known.

    `delta` is what the line contributes to this part, `via` the names between the
    symbol and the line where it does not use the symbol itself.
    """

    old: int | None
    new: int | None
    old_file: str
    new_file: str
    delta: Number
    via: tuple[str, ...]


class Part(Record, frozen=True):
    """One part of a change. `hunk` and `symbol` are null where the link has none.

    `symbol` of link ``launch`` is the kernel whose launch was added or removed.
    `shared`: some of its lines are shared with other parts, so that the words are
    "linked to". `note` says what is special, e.g. ``no-line``.
    """

    link: PartLink
    hunk: int | None
    symbol: str | None
    delta: Number
    shared: bool
    note: str
    lines: tuple[LineShare, ...]


class CounterSplit(Record, frozen=True):
    """One line counter: sums over all lines, the parts of their change, the chip's own totals.

    `delta` is the sum of the parts, exactly. `chip_old`/`chip_new` are the totals
    that the profiler reports for the same counter; None where it has none.
    """

    counter: str
    id: str
    unit: str
    old: Number
    new: Number
    delta: Number
    parts: tuple[Part, ...]
    chip_old: Number | None
    chip_new: Number | None

    @property
    def chip_gap(self) -> Number | None:
        """How far the chip's own change is from the lines' (None: unknown)."""
        if self.chip_old is None or self.chip_new is None:
            return None
        return (self.chip_new - self.chip_old) - self.delta


class LaunchMatch(Record, frozen=True):
    """How a launch of one side found (or did not find) its partner, and what differs."""

    old: str
    new: str
    how: Literal["name", "order", "added", "removed"]
    changes: tuple[str, ...]


class Attribution(Record, frozen=True):
    """Everything that the source diff and the line counters say together."""

    hunks: tuple[Hunk, ...]
    counters: tuple[CounterSplit, ...]
    launches: tuple[LaunchMatch, ...]
    missing: dict[str, str]
    words: tuple[str, ...]

    def __getitem__(self, counter: str) -> CounterSplit:
        for split in self.counters:
            if counter in (split.counter, split.id):
                return split
        raise KeyError(counter)


ORDER = {"hunk": 0, "symbol": 1, "launch": 2, "elsewhere": 3}


def share(amount: Exact, n: int) -> list[Exact]:
    """Split an amount into n equal shares that sum to it.

    Integers by largest remainder: every share is the quotient rounded towards zero,
    and the units left over go one each to the first shares. Floating-point amounts
    are divided exactly, as fractions, before they are added up.
    """
    if amount.denominator == 1:
        sign = -1 if amount < 0 else 1
        quotient, rest = divmod(abs(int(amount)), n)
        return [sign * (quotient + (k < rest)) for k in range(n)]
    return [Fraction(amount) / n] * n


def attribute(old: Profile, new: Profile, diff: SourceDiff | None = None) -> Attribution:
    """Split the change of every line counter over the changes of the source.

    Args:
        old: The old profile.
        new: The new profile.
        diff: Their sources compared, if that was done already.
    """
    launches = pair_launches(old.launches, new.launches)
    if diff is None:
        diff = compare_sources(old, new, launches)
    placing = Placing(old, new, diff, launches)
    names, missing = _line_counters(old, new)
    splits = tuple(_split(name, old, new, placing) for name in names)
    words = list(diff.words)
    if not names:
        words.append("no counter is known per line on both sides")
    return Attribution(
        hunks=diff.hunks,
        counters=splits,
        launches=tuple(_match(old, new, pair) for pair in launches),
        missing=missing,
        words=tuple(words),
    )


def _line_counters(old: Profile, new: Profile) -> tuple[list[str], dict[str, str]]:
    """Line counters that both sides know, in order, and why the others are left out."""
    columns = [
        [
            {canonical(name): column for name, column in launch.instructions.columns.items()}
            for launch in profile.launches
        ]
        for profile in (old, new)
    ]
    good: list[str] = []
    missing: dict[str, str] = {}
    for name in sorted({name for side in columns for table in side for name in table}):
        for side, profile, tables in zip(("old", "new"), (old, new), columns, strict=True):
            found = [table[name] for table in tables if name in table]
            if not found and not _is_zero(profile, name):
                missing[name] = f"not recorded per line on the {side} side"
            elif any(not math.isfinite(value) for column in found for value in column.values):
                missing[name] = f"not a number on the {side} side"
        if name not in missing:
            good.append(name)
    return good, missing


def _is_zero(profile: Profile, name: str) -> bool:
    """A kernel without such instructions has no column, but a total of zero."""
    metrics = (launch.metrics.get(n) for launch in profile.launches for n in spellings(name))
    return any(metric is not None and metric.value == 0 for metric in metrics)


def _match(old: Profile, new: Profile, pair: LaunchPair) -> LaunchMatch:
    a = old.launches[pair.old] if pair.old is not None else None
    b = new.launches[pair.new] if pair.new is not None else None
    if a is None or b is None:
        how: Literal["added", "removed"] = "added" if a is None else "removed"
        return LaunchMatch(
            old=a.kernel if a else "", new=b.kernel if b else "", how=how, changes=()
        )
    return LaunchMatch(
        old=a.kernel,
        new=b.kernel,
        how="name" if a.kernel == b.kernel else "order",
        changes=launch_changes(old, new, a, b),
    )


def _plain(value: Exact) -> Number:
    return int(value) if value.denominator == 1 else float(value)


def _split(name: str, old: Profile, new: Profile, placing: Placing) -> CounterSplit:
    sides = placing.sums(name, 0), placing.sums(name, 1)
    totals = [sum(side.values()) for side in sides]
    # A line pair's change is taken as a whole before it is shared.
    parts: dict[PartKey, list[tuple[Exact, bool, Twins, tuple[str, ...]]]] = defaultdict(list)
    for number in sorted(sides[0].keys() | sides[1].keys()):
        amount = sides[1].get(number, 0) - sides[0].get(number, 0)
        if not amount:
            continue
        unit, keys, via = placing.placed[number]
        for key, piece in zip(keys, share(amount, len(keys)), strict=True):
            parts[key].append((piece, len(keys) > 1, unit, via))
    rows: list[Part] = []
    for key in sorted(parts, key=lambda k: (ORDER[k[0]], *k[1:])):
        pieces = sorted(parts[key], key=_by_weight)
        link, hunk, symbol, note = key
        rows.append(
            Part(
                link=link,
                hunk=hunk or None,
                symbol=symbol or None,
                delta=_plain(sum(piece for piece, *_ in pieces)),
                shared=any(shared for _, shared, _, _ in pieces),
                note=note,
                lines=_line_shares(old, new, pieces),
            )
        )
    counter = catalog().by_line(name)
    chips = [_chip_total(profile, name) for profile in (old, new)]
    return CounterSplit(
        counter=name,
        id=counter.id if counter is not None else "",
        unit=counter.unit if counter is not None else "",
        old=_plain(totals[0]),
        new=_plain(totals[1]),
        delta=_plain(totals[1] - totals[0]),
        parts=tuple(rows),
        chip_old=chips[0],
        chip_new=chips[1],
    )


def _by_weight(piece: tuple[Exact, bool, Twins, tuple[str, ...]]) -> tuple[Exact, int, int]:
    """Largest first; among equals by line."""
    amount, _, (a, b), _ = piece
    return amount if amount < 0 else -amount, a[1] if a else 0, b[1] if b else 0


def _line_shares(
    old: Profile, new: Profile, pieces: Sequence[tuple[Exact, bool, Twins, tuple[str, ...]]]
) -> tuple[LineShare, ...]:
    paths = [
        {-1: "", **{n: source.path for n, source in enumerate(profile.sources)}}
        for profile in (old, new)
    ]
    return tuple(
        LineShare(
            old=a[1] if a is not None else None,
            new=b[1] if b is not None else None,
            old_file=paths[0].get(a[0], "") if a is not None else "",
            new_file=paths[1].get(b[0], "") if b is not None else "",
            delta=_plain(piece),
            via=via,
        )
        for piece, _, (a, b), via in pieces
        if piece
    )


def _chip_total(profile: Profile, name: str) -> Number | None:
    """Sum of the profiler's own totals over the launches; None where one is missing."""
    total: Number = 0
    for launch in profile.launches:
        if not launch.profiled:
            continue
        found = (launch.metrics.get(n) for n in spellings(name))
        value = next((metric.value for metric in found if metric is not None), None)
        if value is None or isinstance(value, str) or not math.isfinite(value):
            return None
        total += exactly(value)
    return total
