"""The launches of two profiles, made comparable.

A profile of a study holds one run of a version: its launches are parts that add up. A report holds
everything that a program launched under ncu. Its launches of one kernel in one configuration are
*samples* if their counterparts are too and they take about as long: they become one launch, their
mean, which counts as often as both sides ran it; if one side ran it more often, only its first ones
count. If neither side has the sizes of the other, they are *rounds* of a job and compared as a
whole. So sums cover everything that was launched. An added or removed kernel counts too, unless the
kernels with a counterpart are too small a part.
"""

from __future__ import annotations

from collections import Counter as Bag
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import fsum, gcd, inf, prod
from operator import attrgetter
from typing import Literal

from msgspec import structs

from workbench.analysis.aggregate import (
    LaunchPair,
    by_key,
    gaps_of,
    multiplied,
    near,
    pair_launches,
    seconds_of,
    value_of,
    weights_of,
)
from workbench.analysis.naming import of_library
from workbench.analysis.times.noise import Steady, left_noise
from workbench.counters import catalog, spread
from workbench.model import (
    Column,
    InstructionTable,
    Launch,
    Metric,
    Number,
    Profile,
    Record,
    Spread,
)

#: Metrics that launches of one configuration share, besides grid, block and dynamic memory.
_FIXED = (
    "launch__cluster_dim_x",
    "launch__cluster_dim_y",
    "launch__cluster_dim_z",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
)
#: Launches whose times differ by more than this factor do different work: layers of a network.
_LAYERS = 1.5
#: Launches of one kernel repeat its work if instructions differ by at most this factor.
_REPEATS = 1.01
#: Two kernels' launches do equal work if two of threads and these differ by less than this.
_MUCH, _AMOUNTS = 1.1, ("instructions", "dram_read_bytes", "dram_write_bytes")
#: Everything is compared if this part of the longer side's time has a counterpart.
_COVERED = 0.8


#: How the launches of a pair are compared: one with one, equally often on both sides; one with one,
#: as often as the side that ran it less; one run of a job with another; or the sums of all.
Way = Literal["each", "launch", "run", "all"]


class SideBySide(Record, frozen=True):
    """Two profiles of the compared launches, and the launches that only one side has.

    `pairs` are the launches that correspond; if launches were merged, `ways` has how each pair is
    compared and `steady` how each of its counters moves. `each` are the two profiles with one run
    of every launch, `old` and `new` with launches as often as they count. `covered` is the part
    (0-1) of the work of the `longer` side (0 old, 1 new) that has a counterpart. If it is small,
    `alone` are the kernels without one (side, launch): they are in neither profile. `runs`: how
    often each side ran a job that both sides' kernels do; one run is compared.
    """

    old: Profile
    new: Profile
    pairs: tuple[LaunchPair, ...]
    each: tuple[Profile, Profile]
    steady: tuple[Mapping[str, Steady], ...] = ()
    ways: tuple[Way, ...] = ()
    covered: float = 1.0
    longer: int = 0
    alone: tuple[tuple[int, Launch], ...] = ()
    runs: tuple[int, int] = (1, 1)


#: The last results: the parts of one comparison need the same profiles.
_beside: deque[tuple[Profile, Profile, SideBySide]] = deque(maxlen=4)
_Both = tuple[Sequence[Launch], Sequence[Launch]]
#: Positions of launches: of one and its counterpart, or in groups on both sides.
_Row = tuple[int | None, int | None]
_Groups = tuple[list[list[int]], list[list[int]]]


def merged_by_work(profile: Profile, places: Sequence[int]) -> list[tuple[int, Launch]]:
    """The profiled launches by their work: samples of one configuration count as one launch."""
    own: dict[int, list[Launch]] = {}
    for launch, place in zip(profile.launches, places, strict=True):
        if launch.profiled:
            own.setdefault(place, []).append(launch)
    return [
        (place, _mean(group))
        for place, launches in own.items()
        for group in classes_of_launches(launches)
    ]


def side_by_side(old: Profile, new: Profile) -> SideBySide:
    """Two profiles with their samples merged. A version's launches are all parts of it."""
    for a, b, answer in tuple(_beside):
        if a is old and b is new:
            return answer
    answer = _laid(old, new)[0] if old.study and new.study else _of_reports(old, new)
    _beside.append((old, new, answer))
    return answer


def _of_reports(old: Profile, new: Profile) -> SideBySide:
    """All launches, except those without a counterpart if they are much of the work."""
    both, groups = _laid(old, new)
    apart = _strangers(both)
    loads = [loads_of(x.launches) for x in both.each]
    longer = int(sum(loads[1]) > sum(loads[0]))
    covered = 1 - sum(loads[longer][n] for n in apart[longer]) / (sum(loads[longer]) or 1.0)
    if covered >= _COVERED:
        return both
    kept = [
        structs.replace(
            profile,
            launches=tuple(
                profile.launches[at]
                for at in sorted(at for n, x in enumerate(own) if n not in gone for at in x)
            ),
        )
        for profile, own, gone in zip((old, new), groups, apart, strict=True)
    ]
    sides = enumerate(zip(both.each, apart, strict=True))
    alone = tuple((side, each.launches[n]) for side, (each, own) in sides for n in own)
    rest, __ = _laid(kept[0], kept[1])
    return structs.replace(rest, alone=alone, covered=covered, longer=longer)


def _laid(old: Profile, new: Profile) -> tuple[SideBySide, _Groups]:
    """Two profiles side by side, and the positions of every launch's samples."""
    sides = old.launches, new.launches
    runs = _runs(sides)
    groups, twins = _samples(sides, named=runs != (1, 1))
    _gather_rounds(sides, groups)
    if (old.study and new.study) or sum(map(len, groups)) == sum(map(len, sides)):
        return SideBySide(old=old, new=new, pairs=pair_launches(*sides), each=(old, new)), groups
    each = [
        [_mean([side[at] for at in group]) for group in own]
        for side, own in zip(sides, groups, strict=True)
    ]
    pairs = pair_launches(each[0], each[1])
    ways: list[Way] = ["run" for __ in pairs]
    if runs == (1, 1):
        ways = _ways(sides, groups, pairs)
    often = [[x.samples // n for x in own] for own, n in zip(each, runs, strict=True)]
    steady: list[Mapping[str, Steady]] = [{} for __ in pairs]
    for n, (pair, way) in enumerate(zip(pairs, ways, strict=True)):
        if pair.old is None or pair.new is None:
            continue
        a, b = each[0][pair.old], each[1][pair.new]
        first, second = groups[0][pair.old], groups[1][pair.new]
        if way == "launch":
            fewer = min(a.samples, b.samples)
            often[0][pair.old] = often[1][pair.new] = fewer
            if a.config == b.config and (_unsteady(a) or _unsteady(b)):
                # They may have other arguments: those that differ are compared in order.
                first, second = first[:fewer], second[:fewer]
                for side, at, own in ((0, pair.old, first), (1, pair.new, second)):
                    mean = _mean([sides[side][x] for x in own])
                    each[side][at] = structs.replace(mean, samples=each[side][at].samples)
        if len(first) > 1 and [twins.get(at) for at in first] == second:
            steady[n] = _steady([sides[0][at] for at in first], [sides[1][at] for at in second])
    if len(pairs) == 1 and "all" not in ways:
        unit = gcd(*often[0], *often[1])
        often = [[n // unit for n in own] for own in often]
    counted = [
        [structs.replace(multiplied(x, n), samples=n) for x, n in zip(own, times, strict=True)]
        for own, times in zip(each, often, strict=True)
    ]
    profiles = [
        structs.replace(profile, launches=tuple(own))
        for profile, own in zip((old, new, old, new), (*counted, *each), strict=True)
    ]
    answer = SideBySide(
        old=profiles[0],
        new=profiles[1],
        pairs=pairs,
        each=(profiles[2], profiles[3]),
        steady=tuple(steady),
        ways=tuple(ways),
        runs=runs,
    )
    return answer, groups


def _ways(sides: _Both, groups: _Groups, pairs: Sequence[LaunchPair]) -> list[Way]:
    """How each pair is compared: by sums, unless both ran it equally often or one side repeats it.

    No side repeats a launch if another kernel ran equally often on both.
    """
    counts = [Bag(x.kernel for x in side) for side in sides]
    found = []
    for pair in pairs:
        old = [sides[0][at] for at in groups[0][pair.old]] if pair.old is not None else []
        new = [sides[1][at] for at in groups[1][pair.new]] if pair.new is not None else []
        found.append((old, new, sum(x.samples for x in old), sum(x.samples for x in new)))
    even = [pair.matched and a == b for pair, (*__, a, b) in zip(pairs, found, strict=True)]
    ways: list[Way] = []
    for pair, (old, new, first, second) in zip(pairs, found, strict=True):
        if not pair.matched or first == second:
            ways.append("each")
            continue
        # Kernels that were paired by their order alone are repeats only without any other.
        only = pair.how != "order" or len(old) + len(new) == sum(map(len, sides))
        more = counts[0][old[0].kernel] != counts[1][new[0].kernel]
        repeats = only and not any(even) and more and _as_much(old, new)
        ways.append("launch" if repeats else "all")
    return ways


def _runs(sides: _Both) -> tuple[int, int]:
    """How often each side ran a job of several kernels, if they share none and runs read alike.

    One kernel that replaced another proves nothing: a launch may do several steps at once.
    """
    if {x.kernel for x in sides[0]} & {x.kernel for x in sides[1]}:
        return 1, 1
    classes = [classes_of_launches(side) for side in sides]
    often = gcd(*map(len, classes[0])), gcd(*map(len, classes[1]))
    read = [
        sum(value_of(launch, "dram_read_bytes") or 0.0 for launch in side) / (number or 1)
        for side, number in zip(sides, often, strict=True)
    ]
    several = max(map(len, classes)) > 1 and often[0] != often[1]
    repeat = several and all(map(_repeat, [*classes[0], *classes[1]]))
    return often if repeat and 0 < max(read) <= _MUCH * min(read) else (1, 1)


def _samples(sides: _Both, *, named: bool) -> tuple[_Groups, Mapping[int, int]]:
    """The positions of samples of one launch, and the correspondence of both sides' launches."""
    twins = _twins(sides, named=named)
    rows: list[_Row] = sorted(twins.items())
    rows += [(at, None) for at in range(len(sides[0])) if at not in twins]
    rows += [(None, at) for at in range(len(sides[1])) if at not in {*twins.values()}]
    kinds = [{at: n for n, own in enumerate(_classes(side)) for at in own} for side in sides]
    seconds = [[seconds_of(launch) or 0.0 for launch in side] for side in sides]
    every: list[list[_Row]] = []
    known: dict[tuple[int, int], list[list[_Row]]] = defaultdict(list)

    def apart(row: _Row, other: _Row) -> float:
        """The largest factor between their times; infinity if they are of different kinds."""
        factor = 1.0
        for kind, own, a, b in zip(kinds, seconds, row, other, strict=True):
            if a is not None and b is not None:
                least, most = sorted((own[a], own[b]))
                same = kind[a] == kind[b]
                factor = max(factor, (most / least if least else 1.0) if same else inf)
        return factor

    for row in rows:
        keys = [(side, kinds[side][at]) for side, at in enumerate(row) if at is not None]
        group = min(known[keys[0]], key=lambda own: apart(own[0], row), default=None)
        if group is None or apart(group[0], row) > _LAYERS:
            group = []
            every.append(group)
            for key in keys:
                known[key].append(group)
        group.append(row)
    old = sorted([a for a, __ in group if a is not None] for group in every)
    new = sorted([b for __, b in group if b is not None] for group in every)
    return (list(filter(None, old)), list(filter(None, new))), twins


def _repeat(launches: Sequence[Launch]) -> bool:
    """True if launches of one kernel did the same work, by their instructions and times."""
    for name, most in (("instructions", _REPEATS), ("duration", _LAYERS)):
        found = [value_of(launch, name) or 0.0 for launch in launches]
        if max(found) > most * min(found):
            return False
    return True


def _as_much(old: Sequence[Launch], new: Sequence[Launch]) -> bool:
    """True if any launch of either side does as much work as any of the other.

    The same kernel in the same size does, with any arguments. Otherwise two of the name and the
    amounts must agree, and the launches of each side must repeat each other.
    """
    a, b = old[0], new[0]
    named = a.kernel == b.kernel
    threads = (prod(a.grid + a.block), prod(b.grid + b.block))
    amounts = [threads, *((value_of(a, name), value_of(b, name)) for name in _AMOUNTS)]
    alike = [bool(x and y and max(x, y) <= _MUCH * min(x, y)) for x, y in amounts]
    return (named and alike[0]) or (sum(alike) + named > 1 and _repeat(old) and _repeat(new))


def _unsteady(launch: Launch) -> bool:
    """True if samples differ by more than noise: they may have different arguments."""
    duration = catalog()["duration"]
    found = spread(launch, duration)
    return found is not None and left_noise(duration, found.low, found.high)


def _gather_rounds(sides: _Both, groups: _Groups) -> None:
    """Make one group of a kernel's launches if their numbers and sizes differ.

    They are rounds of one job: none of them corresponds to one on the other side.
    """
    kind_of = attrgetter("profiled", "workload", "kernel", "signature")
    kinds = [Bag(map(kind_of, side)) for side in sides]
    for kind in [kind for kind, ran in kinds[0].items() if kinds[1][kind] not in (0, ran)]:
        own = [
            [(x, side[x[0]]) for x in every if kind_of(side[x[0]]) == kind]
            for side, every in zip(sides, groups, strict=True)
        ]
        lone = [
            [x for x, a in mine if not any(_as_large(a, b) for __, b in others)]
            for mine, others in (own, own[::-1])
        ]
        if all(lone) and max(map(len, lone)) > 1:
            for every, alone in zip(groups, lone, strict=True):
                merged = sorted(at for x in alone for at in x)
                every[:] = sorted([*(x for x in every if x not in alone), merged])


def _as_large(a: Launch, b: Launch) -> bool:
    sizes = [(prod(x.grid + x.block), 1, 1) for x in (a, b)]
    return near(sizes[0], sizes[1])


def _twins(sides: _Both, *, named: bool) -> dict[int, int]:
    """The n-th launch of a kernel with the n-th on the other side, first within one configuration.

    Kernels of one side may have been renamed: if they have equally many launches, these are matched
    in order too, unless only equal names may match (`named`).
    """
    names = [{(x.workload, x.kernel) for x in side} for side in sides]
    shared = names[0] & names[1]
    twins: dict[int, int] = {}
    keys: tuple[Callable[[Launch], Hashable], ...] = (
        lambda x: (x.workload, x.kernel, x.signature, *x.config),
        lambda x: (x.workload, x.kernel),
        lambda x: (x.workload, x.kernel) if (x.workload, x.kernel) in shared else None,
    )
    for key in keys[: 2 if named else 3]:
        known = {*twins.values()}
        old = by_key(sides[0], (at for at in range(len(sides[0])) if at not in twins), key)
        new = by_key(sides[1], (at for at in range(len(sides[1])) if at not in known), key)
        for name, places in old.items():
            others = new.get(name, [])
            if name is not None or len(places) == len(others):
                twins.update(zip(places, others, strict=False))
    return twins


def _steady(old: Sequence[Launch], new: Sequence[Launch]) -> dict[str, Steady]:
    """By ncu's name: the extremes of new over old if any one pair is left out."""
    out = {}
    for name in old[0].metrics:
        values = [[x.metrics[name].value for x in side if name in x.metrics] for side in (old, new)]
        numbers = [[float(v) for v in own if not isinstance(v, str)] for own in values]
        if len(numbers[0]) == len(numbers[1]) == len(old) and min(numbers[0]) > 0:
            before, after = map(fsum, numbers)
            pairs = zip(*numbers, strict=True)
            rest = [(after - b) / (before - a) if before > a else 1.0 for a, b in pairs]
            out[name] = min(rest), max(rest)
    return out


def _strangers(both: SideBySide) -> tuple[list[int], list[int]]:
    """Launches without a partner in gaps where the other side launched nothing else.

    Between two kernels with the same name, new launches replaced the old ones, however many; but a
    library's choice of kernel beside the author's own is not the author's work.
    """
    out: tuple[list[int], list[int]] = ([], [])
    sides = both.each[0].launches, both.each[1].launches
    anchors = [pair for pair in both.pairs if pair.how in ("signature", "name")]
    others = [pair for pair in both.pairs if pair not in anchors]
    places = [[at for at in own if at is not None]
              for own in ([p.old for p in others], [p.new for p in others])]  # fmt: skip
    alone = [{p.old for p in others if not p.matched}, {p.new for p in others if not p.matched}]
    for gap in gaps_of(anchors, *places) if any(pair.matched for pair in both.pairs) else ():
        found = [(side, at, sides[side][at]) for side in (0, 1) for at in gap[side]]
        if not all(gap) or all(of_library(launch) for __, __, launch in found):
            for side, at, launch in found:
                if at in alone[side] and launch.profiled:
                    out[side].append(at)
    return out


def classes_of_launches(launches: Sequence[Launch]) -> list[list[Launch]]:
    """Launches grouped by kernel, code and configuration, in the order of the first in each group.

    Nearly equal grids count as one configuration, as in a captured program.
    """
    return [[launches[at] for at in group] for group in _classes(launches)]


def _classes(launches: Sequence[Launch]) -> list[list[int]]:
    groups: dict[object, list[list[int]]] = {}
    out: list[list[int]] = []
    for at, launch in enumerate(launches):
        fixed = [launch.metrics.get(name) for name in _FIXED]
        key = (
            *(launch.workload, launch.kernel, launch.signature),
            *(launch.block, launch.dynamic_shared),
            *(metric.value if metric is not None else None for metric in fixed),
        )
        alike = groups.setdefault(key, [])
        same = (g for g in alike if launch.profiled and _one_class(launches[g[0]], launch))
        found = next(same, None)
        if found is None:
            found = []
            alike.append(found)
            out.append(found)
        found.append(at)
    return out


def _one_class(first: Launch, launch: Launch) -> bool:
    return near(launch.grid, first.grid) and first.profiled and _one_code(first, launch)


def _one_code(a: Launch, b: Launch) -> bool:
    """True if two tables show the same machine code; each may lack instructions that never ran."""
    one, other = a.instructions, b.instructions
    if one.address == other.address:
        return one.text == other.text
    texts = dict(zip(one.address, one.text, strict=True))
    return all(
        texts.get(at, text) == text for at, text in zip(other.address, other.text, strict=True)
    )


def _mean(group: Sequence[Launch]) -> Launch:
    """One launch for many: means of numbers, and other fields from the median launch."""
    if len(group) == 1:
        return group[0]
    order = sorted(group, key=lambda launch: seconds_of(launch) or 0.0)
    middle = order[len(order) // 2]
    metrics: dict[str, Metric] = {}
    spreads: dict[str, Spread] = {}
    for name in dict.fromkeys(name for launch in (middle, *group) for name in launch.metrics):
        found = [launch.metrics[name] for launch in group if name in launch.metrics]
        values = [metric.value for metric in found if not isinstance(metric.value, str)]
        one = middle.metrics.get(name, found[0])
        if len(values) < len(found) or any(metric.unit != one.unit for metric in found):
            metrics[name] = one
            continue
        metrics[name] = Metric(value=_mean_of(values), unit=one.unit)
        spreads[name] = _spread(values)
    absent = {name: why for launch in group for name, why in launch.absent.items()}
    return structs.replace(
        middle,
        index=group[0].index,
        # The largest of the nearly equal grids, independent of the launches' times.
        grid=max((x.grid for x in group if near(x.grid, middle.grid)), key=prod),
        metrics=metrics,
        absent={name: why for name, why in absent.items() if name not in metrics},
        spreads=spreads,
        instructions=_mean_table([launch.instructions for launch in group]),
        samples=sum(launch.samples for launch in group),
    )


def _mean_of(values: Sequence[Number]) -> Number:
    """The mean; an integer if integers have an integer mean."""
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, int) for value in values):
        whole, rest = divmod(sum(values), len(values))
        return whole if not rest else sum(values) / len(values)
    return fsum(values) / len(values)


def _spread(values: Sequence[Number]) -> Spread:
    ordered = sorted(values)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return Spread(n=len(ordered), low=ordered[0], median=_mean_of(middle), high=ordered[-1])


def _mean_table(tables: Sequence[InstructionTable]) -> InstructionTable:
    """The mean of every column, over the tables that have it."""
    known = [table for table in tables if table.address]
    if not known:
        return tables[0]
    if any(table.address != known[0].address for table in known):
        known = _aligned(known)
    first = known[0]
    names = dict.fromkeys(name for table in known for name in table.columns)
    return structs.replace(
        first,
        columns={
            name: _mean_column([t.columns[name] for t in known if name in t.columns])
            for name in names
        },
    )


def _aligned(tables: Sequence[InstructionTable]) -> list[InstructionTable]:
    """Tables of the same code, all with the instructions that any of them has."""
    whole: dict[int, tuple[str, int, int, str]] = {}
    for table in tables:
        ptx = table.ptx or ("",) * len(table.address)
        rows = zip(table.text, table.file, table.line, ptx, strict=True)
        for address, row in zip(table.address, rows, strict=True):
            whole.setdefault(address, row)
    places = {address: row for row, address in enumerate(sorted(whole))}
    every = [whole[address] for address in places]
    return [
        InstructionTable(
            address=tuple(places),
            text=tuple(row[0] for row in every),
            file=tuple(row[1] for row in every),
            line=tuple(row[2] for row in every),
            ptx=tuple(row[3] for row in every) if any(row[3] for row in every) else (),
            columns={
                name: Column(
                    rows=tuple(places[table.address[row]] for row in column.rows),
                    values=column.values,
                    unit=column.unit,
                )
                for name, column in table.columns.items()
            },
        )
        for table in tables
    ]


def _mean_column(columns: Sequence[Column]) -> Column:
    """Row by row. Counts stay integers: fractions are rounded along the rows.

    The running total is rounded instead of the single row, so that a row that divides is
    exact, none is off by one, and all rows together are the rounded mean of the totals.
    """
    first, n = columns[0], len(columns)
    if all(column == first for column in columns):
        return first
    sums: dict[int, Number] = {}
    for column in columns:
        for row, value in zip(column.rows, column.values, strict=True):
            sums[row] = sums.get(row, 0) + value
    rows = sorted(sums)
    values: list[Number] = [sums[row] / n for row in rows]
    if all(isinstance(value, int) for value in sums.values()):
        total, before = 0, 0
        for place, row in enumerate(rows):
            total += int(sums[row])
            rounded = (2 * total + n) // (2 * n)
            values[place] = rounded - before
            before = rounded
    kept = [(row, value) for row, value in zip(rows, values, strict=True) if value]
    return Column(
        rows=tuple(row for row, __ in kept), values=tuple(v for __, v in kept), unit=first.unit
    )


def loads_of(launches: Sequence[Launch | None]) -> list[float]:
    """The weight of each launch times its runs."""
    there = [launch for launch in launches if launch is not None and launch.profiled]
    known = iter(weights_of(there)[0])
    return [next(known) * x.samples if x is not None and x.profiled else 0.0 for x in launches]
