"""The split of every line counter's change over hunks: parts that add up to the whole.

For two profiles and a counter that is known per instruction, every line of either
side belongs to exactly one part:

``hunk``       the line was changed, added, removed or moved
``symbol``     it is unchanged and uses (or is governed by) something that a hunk changed
``launch``     neither, but its launch was changed, added or removed
``unknown``    the profile does not hold its text, so that a change there is unknown
``elsewhere``  none of these: the compiler did it, it is noise, or unknown; never hidden

An unchanged line and its twin on the other side count as one, with one part. If several hunks link
a line equally closely, they share the part: no measurement could separate them. Sums are exact:
integers as integers, floating point as fractions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from workbench.analysis.aggregate import LaunchPair, value_of
from workbench.analysis.code import code_of
from workbench.analysis.placing import (
    Exact,
    PartKey,
    PartLink,
    Placed,
    Placing,
    canonical,
    exactly,
    launch_changes,
    spellings,
)
from workbench.analysis.source.files import SourceState
from workbench.analysis.source.hunks import Hunk
from workbench.counters import catalog
from workbench.language import N_, _
from workbench.model import Launch, Number, Profile, Record
from workbench.sass import (
    COPIES,
    GLOBAL_ATOMICS,
    GLOBAL_LOADS,
    GLOBAL_STORES,
    HOLDING,
    PRODUCTS,
    parse,
)
from workbench.units import listed

#: Name -> a line counter, and the only opcodes that it counts. ncu counts a line's loads and stores
#: together; it counts at no line what the copy engine reads (``bulk_loads``: its copies) or how
#: warps wait for one another (``arrivals``: all operations on an mbarrier).
KINDS = {
    "load_tags": ("memory_l1_tag_requests_global", GLOBAL_LOADS),
    "load_sectors": ("memory_l2_theoretical_sectors_global", GLOBAL_LOADS),
    "store_tags": ("memory_l1_tag_requests_global", GLOBAL_STORES),
    "store_sectors": ("memory_l2_theoretical_sectors_global", GLOBAL_STORES),
    "atomics": ("thread_inst_executed_true", GLOBAL_ATOMICS),
    "bulk_loads": ("inst_executed", COPIES - GLOBAL_LOADS),
    "barriers": ("inst_executed", HOLDING["barrier_stall"]),
    "arrivals": ("inst_executed", frozenset({"SYNCS"})),
    "products": ("inst_executed", PRODUCTS),
}


class LineShare(Record, frozen=True):
    """One line of a part. Lines are 1-based; None: that side has none; 0: no line known.

    `delta` is what the line contributes to this part; `via` are the names from the symbol to the
    line, including one on it, if it does not use the symbol itself.
    """

    old: int | None
    new: int | None
    old_file: str
    new_file: str
    delta: Number
    via: tuple[str, ...]


#: Note -> the reason why an amount is not linked to a change.
_ELSEWHERE = {
    "no-line": N_("instructions without a source line"),
    "no-samples": N_("launches too short for a warp sample"),
    "device": N_("another device"),
}


class Linked(Record, frozen=True):
    """The link of a part to edits.

    If several `hunks` link the part's lines equally closely, it is one part of all of them.
    `symbols` are the names that link it, several if they link a line equally, the heaviest first;
    for the link ``launch`` the kernel that was added or removed. `note` names a special case, e.g.
    ``no-line``.
    """

    link: PartLink
    hunks: tuple[int, ...]
    symbols: tuple[str, ...]
    note: str

    @property
    def key(self) -> PartKey:
        """The key by which every counter and the time know the part."""
        symbol = self.symbol if len(self.hunks) < 2 else None
        return PartKey(self.link, self.hunks, symbol or "", self.note)

    @property
    def elsewhere(self) -> str:
        """A possible reason for a change that is not linked to any edit, by its `note`."""
        return _(_ELSEWHERE.get(self.note, N_("the compiler, or noise")))

    @property
    def name(self) -> str:
        """``As (hunk 2)``; ``Hunk 4``; ``Hunks 4 and 5``; ``Launch of split_rows``."""
        if self.hunks and self.link in ("hunk", "symbol"):
            if len(self.hunks) > 1:
                return _("Hunks {str}").format(str=listed(list(map(str, self.hunks))))
            if self.link == "hunk":
                return _("Hunk {hunk}").format(hunk=self.hunk)
            return _("{symbols} (hunk {hunk})").format(
                symbols=listed(self.symbols, 3), hunk=self.hunk
            )
        if self.link == "launch":
            return (
                _("Launch of {symbol}").format(symbol=self.symbol) if self.symbol else _("Launch")
            )
        if self.link == "unknown":
            return _("Source unknown")
        known = {
            "no-line": _("Unattributed, no source line"),
            "no-samples": _("Launches without samples"),
        }
        return known.get(self.note, _("Unattributed"))

    @property
    def hunk(self) -> int | None:
        """The hunk if there is only one, else None."""
        return self.hunks[0] if len(self.hunks) == 1 else None

    @property
    def symbol(self) -> str | None:
        """The name if there is only one, else None."""
        return self.symbols[0] if len(self.symbols) == 1 else None

    @property
    def shared(self) -> bool:
        """True if several hunks or names are equally likely to explain it."""
        return len(self.hunks) > 1 or len(self.symbols) > 1


class Part(Linked, frozen=True):
    """One part of a change; `lines` are its lines, those that changed most first.

    `callers` are the other hunks that call the functions in which most of it is.
    """

    delta: Number
    lines: tuple[LineShare, ...]
    callers: tuple[int, ...] = ()


class CounterSplit(Record, frozen=True):
    """One line counter: sums over all lines, the parts of their change, the chip's own totals.

    `delta` is the sum of the parts, exactly. `chip_old`/`chip_new` are the totals
    that the profiler reports for the same counter; None if it has none.
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


class LaunchMatch(Record, frozen=True):
    """A launch of one side, how its partner was found (if it was), and their differences."""

    old: str
    new: str
    how: Literal["name", "order", "added", "removed"]
    changes: tuple[str, ...]


class Attribution(Record, frozen=True):
    """The combined results of the source diff and the line counters.

    `sources` is what is known about the two sources. `kinds` are the counters of one kind of
    instruction (`KINDS`); empty if the machine code cannot be read.
    """

    hunks: tuple[Hunk, ...]
    counters: tuple[CounterSplit, ...]
    launches: tuple[LaunchMatch, ...]
    missing: dict[str, str]
    words: tuple[str, ...]
    sources: SourceState = SourceState()
    kinds: dict[str, CounterSplit] = msgspec.field(default_factory=dict)

    def __getitem__(self, counter: str) -> CounterSplit:
        for split in self.counters:
            if counter in (split.counter, split.id):
                return split
        raise KeyError(counter)


_ORDER = {"hunk": 0, "symbol": 1, "launch": 2, "unknown": 3, "elsewhere": 4}


def attribute(old: Profile, new: Profile, placing: Placing | None = None) -> Attribution:
    """Split the change of every line counter over the changes of the source.

    `placing`: the placement of their lines, if already computed.
    """
    placing = placing or Placing(old, new)
    diff = placing.diff
    names, missing = _line_counters(old, new)
    splits = tuple(_split(name, old, new, placing) for name in names)
    readable = _readable(old) and _readable(new)
    kinds = {
        kind: _split(name, old, new, placing, opcodes)
        for kind, (name, opcodes) in KINDS.items()
        if name in names and readable
    }
    launches = tuple(_match(old, new, pair) for pair in placing.launches)
    # A step that changes only flags, definitions or launches is still a change.
    alone = diff.sources.same and any(match.changes for match in launches)
    words = [] if alone else list(diff.words)
    if not names:
        words.append(_("no counter is known per line on both sides"))
    return Attribution(
        hunks=diff.hunks,
        counters=splits,
        launches=launches,
        missing=missing,
        words=tuple(words),
        sources=diff.sources,
        kinds=kinds,
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
                missing[name] = _("not recorded per line on the {side} side").format(side=side)
            elif not all(math.isfinite(value) for column in found for value in column.values):
                missing[name] = _("not a number on the {side} side").format(side=side)
            elif (counter := catalog().by_line(name)) and counter.denied:
                holding = zip(profile.launches, tables, strict=True)
                if None in [value_of(x, counter.id) for x, table in holding if name in table]:
                    missing[name] = _("denied by counters of the {side} side").format(side=side)
        if name not in missing:
            good.append(name)
    return good, missing


def _readable(profile: Profile) -> bool:
    """True if all machine code is SASS with known opcodes (an emulator's PTX is not)."""
    return all(map(_is_readable, profile.launches))


def _is_readable(launch: Launch) -> bool:
    texts = launch.instructions.text
    # The first one identifies PTX; the others need not be read.
    return not texts or (bool(parse(texts[0]).opcode) and code_of(launch).readable)


def _is_zero(profile: Profile, name: str) -> bool:
    """True if the kernel has no such instructions: no column, but a total of zero."""
    metrics = (launch.metrics.get(n) for launch in profile.launches for n in spellings(name))
    return any(metric is not None and metric.value == 0 for metric in metrics)


def _match(old: Profile, new: Profile, pair: LaunchPair) -> LaunchMatch:
    a, b = pair.of(old, new)
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


def _split(
    name: str, old: Profile, new: Profile, placing: Placing, only: frozenset[str] = frozenset()
) -> CounterSplit:
    sides = placing.sums(name, 0, only), placing.sums(name, 1, only)
    totals = [sum(side.values()) for side in sides]
    parts: dict[PartKey, list[tuple[Exact, Placed]]] = defaultdict(list)
    for number in sorted(sides[0].keys() | sides[1].keys()):
        amount = sides[1].get(number, 0) - sides[0].get(number, 0)
        if amount:
            placed = placing.placed[number]
            parts[placed.key].append((amount, placed))
    rows = [
        Part(
            link=key.link,
            hunks=key.hunks,
            symbols=names_of(parts[key]),
            note=key.note,
            delta=_plain(sum(amount for amount, __ in parts[key])),
            lines=_line_shares(placing.paths, sorted(parts[key], key=_by_weight)),
            callers=_callers(placing, key, parts[key]),
        )
        for key in sorted(parts, key=in_order)
    ]
    counter = catalog().by_line(name)
    # The chip has no counter of a single kind of instruction.
    chips = [None if only else _chip_total(profile, name) for profile in (old, new)]
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


def _callers(
    placing: Placing, key: PartKey, pieces: Iterable[tuple[Exact, Placed]]
) -> tuple[int, ...]:
    """The other hunks that call the functions with most of a hunk's own amount."""
    diff = placing.diff
    if key.link != "hunk" or not (diff.callers_old or diff.callers_new):
        return ()
    whole: Exact = 0
    calls: dict[int, Exact] = defaultdict(int)
    for amount, placed in pieces:
        a, b = placed.twins
        size = amount if amount > 0 else -amount
        whole += size
        one = diff.callers_old.get(a, frozenset()) if a is not None else frozenset()
        other = diff.callers_new.get(b, frozenset()) if b is not None else frozenset()
        for hunk in (one | other).difference(key.hunks):
            calls[hunk] += size
    return tuple(sorted(hunk for hunk, part in calls.items() if 2 * part > whole))


def in_order(key: PartKey) -> tuple[int, PartKey]:
    """Hunks come first, then symbols, launches, and the unexplained rest."""
    return _ORDER[key.link], key


def names_of(lines: Iterable[tuple[Exact, Placed]]) -> tuple[str, ...]:
    """All names that link the lines of a part, those whose lines changed most first."""
    weights: dict[str, Exact] = defaultdict(int)
    for amount, line in lines:
        for name in line.symbols:
            weights[name] += amount if amount > 0 else -amount
    return tuple(sorted(weights, key=lambda name: (-weights[name], name)))


def _by_weight(piece: tuple[Exact, Placed]) -> tuple[Exact, int, int]:
    """Largest first; among equals by line."""
    amount, placed = piece
    a, b = placed.twins
    return amount if amount < 0 else -amount, a[1] if a else 0, b[1] if b else 0


def _line_shares(
    paths: tuple[dict[int, str], dict[int, str]], pieces: Sequence[tuple[Exact, Placed]]
) -> tuple[LineShare, ...]:
    out = []
    for amount, placed in pieces:
        a, b = placed.twins
        out.append(
            LineShare(
                old=a[1] if a is not None else None,
                new=b[1] if b is not None else None,
                old_file=paths[0].get(a[0], "") if a is not None else "",
                new_file=paths[1].get(b[0], "") if b is not None else "",
                delta=_plain(amount),
                via=placed.via,
            )
        )
    return tuple(out)


def _chip_total(profile: Profile, name: str) -> Number | None:
    """Sum of the profiler's own totals over the launches; None if one is missing."""
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
