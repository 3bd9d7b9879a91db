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

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal

from workbench.analysis.hunks import Hunk
from workbench.analysis.launches import LaunchPair, pair_launches
from workbench.analysis.links import Line, Link
from workbench.analysis.sourcediff import SourceDiff, compare_sources
from workbench.counters import catalog
from workbench.model import Dim3, Launch, Number, Profile, Record

PartLink = Literal["hunk", "symbol", "launch", "elsewhere"]


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


# A key of a part: (order, link, hunk, symbol, note)
_Key = tuple[PartLink, int, str, str]
Unit = tuple[Line | None, Line | None]  # a line pair, (old, new)
Exact = int | Fraction
_ORDER = {"hunk": 0, "symbol": 1, "launch": 2, "elsewhere": 3}


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


def canonical(name: str) -> str:
    """Today's name of a line metric (ncu renamed some)."""
    counter = catalog().by_line(name)
    return (counter.line or name) if counter is not None else name


def _line_counters(old: Profile, new: Profile) -> tuple[list[str], dict[str, str]]:
    """Line counters that both sides know, in order, and why the others are left out."""
    sides = []
    for profile in (old, new):
        known: set[str] = set()
        zero: set[str] = set()
        for launch in profile.launches:
            known.update(map(canonical, launch.instructions.columns))
            # A kernel without such instructions has no column, but a total of zero.
            zero.update(canonical(n) for n, m in launch.metrics.items() if m.value == 0)
        sides.append((known, zero))
    (a, zero_a), (b, zero_b) = sides
    good = {n for n in a | b if n in a | zero_a and n in b | zero_b}
    missing = {
        name: f"not recorded per line on the {'old' if name in b else 'new'} side"
        for name in sorted((a | b) - good)
    }
    return sorted(good), missing


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


def _dim(value: Dim3) -> str:
    return "×".join(map(str, value))


def launch_changes(old: Profile, new: Profile, a: Launch, b: Launch) -> tuple[str, ...]:
    """What differs between two launches apart from the code, in words."""
    out = []
    for what, x, y in (("grid", a.grid, b.grid), ("block", a.block, b.block)):
        if x != y:
            out.append(f"{what} {_dim(x)} → {_dim(y)}")
    if a.dynamic_shared != b.dynamic_shared:
        out.append(f"dynamic shared memory {a.dynamic_shared} → {b.dynamic_shared} B")
    cluster = ("launch__cluster_dim_x", "launch__cluster_dim_y", "launch__cluster_dim_z")
    x_size, y_size = ([launch.metrics.get(n) for n in cluster] for launch in (a, b))
    if all(x_size) and all(y_size) and x_size != y_size:
        out.append("cluster")
    if old.build is not None and new.build is not None and old.build.flags != new.build.flags:
        gone = [flag for flag in old.build.flags if flag not in new.build.flags]
        come = [flag for flag in new.build.flags if flag not in old.build.flags]
        out.append("flags " + " ".join([*(f"−{f}" for f in gone), *(f"+{f}" for f in come)]))
    return tuple(out)


class Placing:
    """Says for an amount on a line of a launch which parts it goes to."""

    def __init__(
        self, old: Profile, new: Profile, diff: SourceDiff, launches: Sequence[LaunchPair]
    ) -> None:
        self.old, self.new, self.diff = old, new, diff
        self.back = {b: a for a, b in diff.twin.items()}
        self.file_back = {b: a for a, b in diff.files.items()}
        self.changed: dict[tuple[int, int], str] = {}  # (side, launch) -> "launch" where changed
        self.alone: dict[tuple[int, int], str] = {}  # (side, launch) -> kernel
        self.covered: dict[str, set[Line]] = defaultdict(set)
        self.known: dict[tuple[int, int, Line], tuple[Unit, tuple[_Key, ...], tuple[str, ...]]] = {}
        for pair in launches:
            a = old.launches[pair.old] if pair.old is not None else None
            b = new.launches[pair.new] if pair.new is not None else None
            if a is not None and b is not None and pair.old is not None and pair.new is not None:
                if launch_changes(old, new, a, b):
                    self.changed[0, pair.old] = self.changed[1, pair.new] = "launch"
                self.covered["old"].update(_lines(a))
                self.covered["new"].update(_lines(b))
            elif a is not None and pair.old is not None:
                self.alone[0, pair.old] = a.kernel
                self.covered["removed"].update(_lines(a))
            elif b is not None and pair.new is not None:
                self.alone[1, pair.new] = b.kernel
                self.covered["added"].update(_lines(b))

    def unit(self, side: int, line: Line) -> Unit:
        """The line with its twin, (old, new); a line without a twin stands alone."""
        if side == 0:
            twin = self.diff.twin.get(line)
            if twin is None and line not in self.diff.hunk_old:
                twin = self._nowhere(line, self.diff.files)
            return line, twin
        back = self.back.get(line)
        if back is None and line not in self.diff.hunk_new:
            back = self._nowhere(line, self.file_back)
        return back, line

    @staticmethod
    def _nowhere(line: Line, files: dict[int, int]) -> Line | None:
        """Twin of a line that no text shows: the same number in the paired file."""
        if line[0] < 0:
            return line
        return (files[line[0]], line[1]) if line[0] in files else None

    def place(
        self, side: int, launch: int, line: Line
    ) -> tuple[Unit, tuple[_Key, ...], tuple[str, ...]]:
        """The line's pair, the parts that share its amount in this launch, and the chain."""
        known = self.known.get((side, launch, line))
        if known is None:
            unit = self.unit(side, line)
            keys, via = self._keys(side, launch, unit)
            known = self.known[side, launch, line] = unit, tuple(keys), via
        return known

    def _keys(self, side: int, launch: int, unit: Unit) -> tuple[list[_Key], tuple[str, ...]]:
        a, b = unit
        hunk = self.diff.hunk_old.get(a) if a is not None else None
        if hunk is None and b is not None:
            hunk = self.diff.hunk_new.get(b)
        if hunk is not None:
            return [("hunk", hunk, "", "")], ()
        if (side, launch) in self.alone and self._extra(side, a, b):
            word = "added" if side else "removed"
            return [("launch", 0, self.alone[side, launch], word)], ()
        found = self._link(a, b)
        if found is not None:
            return [("symbol", h, symbol, "") for h, symbol in sorted(found.labels)], found.via
        if (side, launch) in self.changed:
            return [("launch", self.diff.front_matter or 0, "", "")], ()
        known = a or b
        assert known is not None
        if known[0] < 0 or known[1] == 0:
            return [("elsewhere", 0, "", "no-line")], ()
        return [("elsewhere", 0, "", "")], ()

    def _extra(self, side: int, a: Line | None, b: Line | None) -> bool:
        """Whether an unmatched launch did this work besides the others, not instead of them."""
        was = a in self.covered["old"], a in self.covered["removed"]
        now = b in self.covered["new"], b in self.covered["added"]
        return (now[0] or not any(was)) if side else (was[0] or not any(now))

    def _link(self, a: Line | None, b: Line | None) -> Link | None:
        """The cheapest link of a line pair, from either side; equally cheap ones together."""
        one = self.diff.links_old.get(a) if a is not None else None
        other = self.diff.links_new.get(b) if b is not None else None
        if one is None or other is None:
            return one or other
        if one.cost != other.cost:
            return min(one, other, key=lambda link: link.cost)
        return Link(one.cost, one.labels | other.labels, min(one.via, other.via))


def _lines(launch: Launch) -> Iterable[Line]:
    return zip(launch.instructions.file, launch.instructions.line, strict=True)


def amounts(name: str, profile: Profile, side: int) -> Iterable[tuple[int, int, Line, Number]]:
    """(side, launch, line, value) of one line counter; integral floats as integers."""
    for number, launch in enumerate(profile.launches):
        table = launch.instructions
        for metric, column in table.columns.items():
            if metric != name and canonical(metric) != name:
                continue
            sums: dict[Line, Number] = defaultdict(int)
            for row, value in zip(column.rows, column.values, strict=True):
                sums[table.file[row], table.line[row]] += _exact(value)
            for line, value in sums.items():
                yield side, number, line, value


def _exact(value: Number) -> Number:
    """Counts that came as floats are integers; others stay what they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(value: Exact) -> Number:
    return int(value) if value.denominator == 1 else float(value)


def _split(name: str, old: Profile, new: Profile, placing: Placing) -> CounterSplit:
    totals: list[Exact] = [0, 0]
    # Part -> line pair -> change. A pair's change is summed before it is shared.
    units: dict[tuple[tuple[_Key, ...], tuple[str, ...], Unit], Exact] = defaultdict(int)
    for side, profile in ((0, old), (1, new)):
        for _, launch, line, value in amounts(name, profile, side):
            unit, keys, via = placing.place(side, launch, line)
            exact = value if isinstance(value, int) else Fraction(value)
            totals[side] += exact
            units[keys, via, unit] += exact if side else -exact
    parts: dict[_Key, list[tuple[Exact, bool, Unit, tuple[str, ...]]]] = defaultdict(list)
    for (keys_of, via, unit), amount in units.items():
        if not amount:
            continue
        for key, piece in zip(keys_of, share(amount, len(keys_of)), strict=True):
            parts[key].append((piece, len(keys_of) > 1, unit, via))
    rows: list[Part] = []
    for key in sorted(parts, key=lambda k: (_ORDER[k[0]], *k[1:])):
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
                lines=tuple(_line_share(old, new, *piece) for piece in pieces if piece[0]),
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


def _by_weight(piece: tuple[Exact, bool, Unit, tuple[str, ...]]) -> tuple[Exact, str]:
    return -abs(piece[0]), str(piece[2])


def _line_share(
    old: Profile,
    new: Profile,
    piece: Exact,
    _shared: bool,
    unit: Unit,
    via: tuple[str, ...],
) -> LineShare:
    def path(profile: Profile, line: Line | None) -> str:
        known = line is not None and 0 <= line[0] < len(profile.sources)
        return profile.sources[line[0]].path if known and line is not None else ""

    a, b = unit
    return LineShare(
        old=a[1] if a is not None else None,
        new=b[1] if b is not None else None,
        old_file=path(old, a),
        new_file=path(new, b),
        delta=_plain(piece),
        via=via,
    )


def _chip_total(profile: Profile, name: str) -> Number | None:
    """Sum of the profiler's own totals over the launches; None where one is missing."""
    total: Number = 0
    for launch in profile.launches:
        found = [m for n, m in launch.metrics.items() if n == name or canonical(n) == name]
        if not launch.profiled:
            continue
        if not found or isinstance(found[0].value, str):
            return None
        total += _exact(found[0].value)
    return total
