"""Find the part of a step that an amount on a line of a launch belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, NamedTuple

from workbench.analysis.aggregate import LaunchPair, Recent, pair_launches
from workbench.analysis.sameness import machine_code
from workbench.analysis.source.files import compare_sources
from workbench.analysis.source.links import Line, LineLink, cheapest, plain_name
from workbench.counters import catalog
from workbench.language import _
from workbench.model import IMAGE, Launch, Number, Profile, line_counters
from workbench.sass import parse
from workbench.units import extent

PartLink = Literal["hunk", "symbol", "launch", "unknown", "elsewhere"]


class PartKey(NamedTuple):
    """The key of a part.

    `hunks` are those that it is linked to: several if they link its lines equally closely, so that
    they share the part. `symbol` is the name that links it, or the kernel of a launch; empty if
    several names link a line equally.
    """

    link: PartLink
    hunks: tuple[int, ...] = ()
    symbol: str = ""
    note: str = ""


Twins = tuple[Line | None, Line | None]  # a line pair, (old, new)
Exact = int | Fraction


class Placed(NamedTuple):
    """A line pair with its part, the names that link it, and those on the path to it."""

    twins: Twins
    key: PartKey
    symbols: tuple[str, ...] = ()
    via: tuple[str, ...] = ()


def canonical(name: str) -> str:
    """Today's name of a line metric (ncu renamed some)."""
    counter = catalog().by_line(name)
    return (counter.line or name) if counter is not None else name


def _instance(name: str) -> str:
    """The last template arguments of a kernel's name: ``<(int)32>``."""
    head = name.replace("(anonymous namespace)::", "")
    depth, start, found = 0, 0, ""
    for at, letter in enumerate(head):
        if letter == "<":
            start = at if depth == 0 else start
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
            found = head[start : at + 1] if depth == 0 else found
        elif letter == "(" and depth == 0:
            break  # parameters
    return found


#: Template arguments that are longer are cut.
_LONGEST = 60


def _differing(one: str, other: str) -> tuple[str, str]:
    """Two instances, cut to a readable length: from their first difference on."""
    if max(len(one), len(other)) <= _LONGEST:
        return one, other
    at = next((n for n, two in enumerate(zip(one, other, strict=False)) if two[0] != two[1]), 0)
    begin = max(one.rfind("::", 0, max(at - 8, 0)), at - _LONGEST // 2, 0)
    lead = "…" if begin else ""  # ``…::[lambda(int) (instance 2)], …``
    end = begin + _LONGEST
    return f"{lead}{one[begin:end]}…", f"{lead}{other[begin:end]}…"


def launch_changes(old: Profile, new: Profile, a: Launch, b: Launch) -> tuple[str, ...]:
    """Differences between two launches other than the code, in words."""
    out = []
    for what, x, y in (("grid", a.grid, b.grid), ("block", a.block, b.block)):
        if x != y:
            out.append(f"{what} {extent(x, whole=True)} → {extent(y, whole=True)}")
    instances = [_instance(launch.signature or launch.kernel) for launch in (a, b)]
    if plain_name(a.kernel) == plain_name(b.kernel) and instances[0] != instances[1]:
        # One template, two instances: no line differs, but the compiled code does.
        first, second = _differing(instances[0], instances[1])
        out.append(
            _("template arguments {value} → {value2}").format(
                value=first or "—", value2=second or "—"
            )
        )
    if a.dynamic_shared != b.dynamic_shared:
        out.append(
            _("dynamic shared memory {dynamic_shared} → {dynamic_shared2} B").format(
                dynamic_shared=a.dynamic_shared, dynamic_shared2=b.dynamic_shared
            )
        )
    cluster = ("launch__cluster_dim_x", "launch__cluster_dim_y", "launch__cluster_dim_z")
    x_size, y_size = ([launch.metrics.get(n) for n in cluster] for launch in (a, b))
    if all(x_size) and all(y_size) and x_size != y_size:
        out.append("cluster")
    builds = [side.build for side in (old, new) if side.build and side.build.compiler != IMAGE]
    if len(builds) == 2 and builds[0].flags != builds[1].flags:
        gone = [flag for flag in builds[0].flags if flag not in builds[1].flags]
        come = [flag for flag in builds[1].flags if flag not in builds[0].flags]
        said = [
            *(_("without {flag}").format(flag=flag) for flag in gone),
            *(_("with {flag}").format(flag=flag) for flag in come),
        ]
        out.append(_("flags {said}").format(said=", ".join(said)))
    return tuple(out)


def spellings(name: str) -> tuple[str, ...]:
    """All names that ncu gave a line metric, today's first."""
    counter = catalog().by_line(name)
    return tuple(dict.fromkeys((name, *counter.lines))) if counter is not None else (name,)


#: Nine kinds of instructions, counted on both sides of a step.
_opcodes: Recent[Launch, list[str]] = Recent(
    lambda launch: [parse(text).opcode for text in launch.instructions.text]
)


class Placing:
    """Finds the part to which an amount on a line of a launch belongs.

    `launches`: the pairs of the two profiles' launches, if already computed.
    """

    def __init__(
        self, old: Profile, new: Profile, launches: tuple[LaunchPair, ...] | None = None
    ) -> None:
        self.old, self.new = old, new
        paired = pair_launches(old.launches, new.launches) if launches is None else launches
        self.launches = paired
        diff = self.diff = compare_sources(old, new, self.launches)
        apart = old.device.name != new.device.name
        self.unlinked = PartKey("elsewhere", note="device" if apart else "")
        self.back = {b: a for a, b in diff.twin.items()}
        self.file_back = {b: a for a, b in diff.files.items()}
        #: Index of a source -> its path, on either side.
        self.paths = _paths(old), _paths(new)
        self.changed: dict[tuple[int, int], str] = {}  # (side, launch) -> "launch" if changed
        self.alone: dict[tuple[int, int], str] = {}  # (side, launch) -> kernel
        self.equal: set[tuple[int, int]] = set()  # (side, launch) changed, with the same code
        self.covered: dict[str, set[Line]] = defaultdict(set)
        self.known: dict[tuple[int, int, Line], int] = {}
        self.of_rows: dict[tuple[int, int], list[int]] = {}
        self.by_line: dict[int, dict[str, dict[int, Number]]] = {}
        self.placed: list[Placed] = []
        self.numbers: dict[Placed, int] = {}
        for pair in self.launches:
            a, b = pair.of(old, new)
            if a is not None and b is not None and pair.old is not None and pair.new is not None:
                if launch_changes(old, new, a, b):
                    self.changed[0, pair.old] = self.changed[1, pair.new] = "launch"
                    if machine_code(a) == machine_code(b) and any(machine_code(a)):
                        self.equal |= {(0, pair.old), (1, pair.new)}
                self.covered["old"].update(_lines(a))
                self.covered["new"].update(_lines(b))
            elif a is not None and pair.old is not None:
                self.alone[0, pair.old] = a.kernel
                self.covered["removed"].update(_lines(a))
            elif b is not None and pair.new is not None:
                self.alone[1, pair.new] = b.kernel
                self.covered["added"].update(_lines(b))

    def unit(self, side: int, line: Line) -> Twins:
        """The line with its twin, (old, new); a line without a twin is alone."""
        diff = self.diff
        line = (diff.first_new if side else diff.first_old).get(line, line)
        twins, others = (self.back, diff.twin) if side else (diff.twin, self.back)
        own, other = (diff.hunk_new, diff.hunk_old)[:: 1 if side else -1]
        twin = twins.get(line)
        if twin is None and line not in own:
            twin = self._nowhere(line, self.file_back if side else diff.files)
            twin = None if twin in others or twin in other else twin
        return (twin, line) if side else (line, twin)

    @staticmethod
    def _nowhere(line: Line, files: dict[int, int]) -> Line | None:
        """Twin of a line without text: the same number in the paired file."""
        if line[0] < 0:
            return line
        return (files[line[0]], line[1]) if line[0] in files else None

    def place(self, side: int, launch: int, line: Line) -> int:
        """Number (in `placed`) of the line's pair with its part."""
        known = self.known.get((side, launch, line))
        if known is None:
            unit = self.unit(side, line)
            entry = self._placed(side, launch, unit)
            known = self.numbers.setdefault(entry, len(self.placed))
            if known == len(self.placed):
                self.placed.append(entry)
            self.known[side, launch, line] = known
        return known

    def rows(self, side: int, launch: int) -> list[int]:
        """`place` of every instruction of a launch."""
        rows = self.of_rows.get((side, launch))
        if rows is None:
            table = (self.new if side else self.old).launches[launch].instructions
            lines = list(zip(table.file, table.line, strict=True))
            # A line has ten instructions or more.
            places = {line: self.place(side, launch, line) for line in dict.fromkeys(lines)}
            rows = self.of_rows[side, launch] = [places[line] for line in lines]
        return rows

    def sums(self, name: str, side: int, only: frozenset[str] = frozenset()) -> dict[int, Exact]:
        """One line counter of one side, added up per entry of `placed`.

        `side` is 0 (old) or 1; `only` are opcodes of the instructions that count; if empty, all
        count.
        """
        out: dict[int, Exact] = defaultdict(int)
        names = spellings(name)
        if not only:
            by_line = self._by_line(side)
            found = [by_line[metric] for metric in names if metric in by_line]
            if all(type(value) is int for sums in found for value in sums.values()):
                for sums in found:
                    for place, amount in sums.items():
                        out[place] += int(amount)
                return out
        for number, launch in enumerate((self.new if side else self.old).launches):
            columns = launch.instructions.columns
            wanted = {row for row, op in enumerate(_opcodes(launch)) if op in only} if only else ()
            for column in [columns[metric] for metric in names if metric in columns]:
                places = self.rows(side, number)
                for row, value in zip(column.rows, column.values, strict=True):
                    if only and row not in wanted:
                        continue
                    out[places[row]] += value if type(value) is int else Fraction(value)
        return out

    def _by_line(self, side: int) -> dict[str, dict[int, Number]]:
        """All line counters of a side per entry of `placed`; integers are exact."""
        known = self.by_line.get(side)
        if known is None:
            known = self.by_line[side] = defaultdict(dict)
            for number, launch in enumerate((self.new if side else self.old).launches):
                self.rows(side, number)  # in the order of instructions, which the numbers follow
                for line, counters in line_counters(launch).items():
                    place = self.place(side, number, line)
                    for metric, amount in counters.items():
                        sums = known[metric]
                        sums[place] = sums.get(place, 0) + amount
        return known

    def _placed(self, side: int, launch: int, unit: Twins) -> Placed:
        a, b = unit
        hunk = self.diff.hunk_old.get(a) if a is not None else None
        if hunk is None and b is not None:
            hunk = self.diff.hunk_new.get(b)
        if hunk is not None:
            return Placed(unit, PartKey("hunk", (hunk,)))
        if (side, launch) in self.alone and (self._unknown(a, b) or self._extra(side, a, b)):
            kernel, word = self.alone[side, launch], "added" if side else "removed"
            return Placed(unit, PartKey("launch", symbol=kernel, note=word), (kernel,))
        found = self._link(a, b)
        if found is not None:
            hunks = tuple(sorted({hunk for hunk, __ in found.labels}))
            symbols = tuple(sorted({symbol for __, symbol in found.labels}))
            one = symbols[0] if len(hunks) == len(symbols) == 1 else ""
            return Placed(unit, PartKey("symbol", hunks, one), symbols, found.via)
        known = a or b
        assert known is not None
        note = "no-line" if known[0] < 0 or known[1] == 0 else ""
        if self._unknown(a, b) and (side, launch) not in self.equal:
            return Placed(unit, PartKey("unknown", note=note))
        if (side, launch) in self.changed:
            front = self.diff.front_matter
            return Placed(unit, PartKey("launch", (front,) if front is not None else ()))
        return Placed(unit, PartKey("elsewhere", note=note) if note else self.unlinked)

    def _unknown(self, a: Line | None, b: Line | None) -> bool:
        """True if the line has no text: then it may have changed."""
        return any(
            -1 in unknown or (line is not None and line[0] in unknown)
            for line, unknown in ((a, self.diff.unknown_old), (b, self.diff.unknown_new))
        )

    def _extra(self, side: int, a: Line | None, b: Line | None) -> bool:
        """True if an unmatched launch did additional work, not the work of others."""
        was = a in self.covered["old"], a in self.covered["removed"]
        now = b in self.covered["new"], b in self.covered["added"]
        return (now[0] or not any(was)) if side else (was[0] or not any(now))

    def _link(self, a: Line | None, b: Line | None) -> LineLink | None:
        """The cheapest link of a line pair, from either side; equally cheap links are joined."""
        one = self.diff.links_old.get(a) if a is not None else None
        other = self.diff.links_new.get(b) if b is not None else None
        return one if other is None else cheapest(one, other)


def _paths(profile: Profile) -> dict[int, str]:
    return {-1: "", **{number: source.path for number, source in enumerate(profile.sources)}}


def _lines(launch: Launch) -> Iterable[Line]:
    return zip(launch.instructions.file, launch.instructions.line, strict=True)


def exactly(value: Number) -> Number:
    """Counts given as floats become integers; other values stay as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
