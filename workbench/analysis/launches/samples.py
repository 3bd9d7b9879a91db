"""Launches of somebody else's report, made comparable before anything is compared.

A profile of a study holds one run of a version: its launches are parts that add up. A
report holds whatever a program launched while ncu looked on: of one kernel and one
configuration it holds *samples*, as many as there happened to be. `merge_samples` makes
one launch of them, their mean, so that everything behind it compares launch with launch;
`side_by_side` leaves out what only one of two reports launched besides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import fsum

from msgspec import structs

from workbench.analysis.aggregate import LaunchPair, pair_launches, seconds_of
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

#: What a launch of one configuration has in common, besides grid, block and dynamic memory.
_FIXED = (
    "launch__cluster_dim_x",
    "launch__cluster_dim_y",
    "launch__cluster_dim_z",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
)


class SideBySide(Record, frozen=True):
    """Two profiles of what is compared, and the launches that only one side has.

    `alone` are (0 old, 1 new; the launch): kernels that a report holds beside those that
    both hold. They are in neither profile.
    """

    old: Profile
    new: Profile
    alone: tuple[tuple[int, Launch], ...] = ()


#: The last answers: the parts of one comparison ask for the same profiles.
_merged: deque[tuple[Profile, Profile]] = deque(maxlen=8)
_beside: deque[tuple[Profile, Profile, SideBySide]] = deque(maxlen=4)


def merge_samples(profile: Profile) -> Profile:
    """The profile with all launches of one kernel and configuration as one, their mean.

    `Launch.samples` says how many there were, `Launch.spreads` how far they lay apart. A
    profile of a study, or one without repeated launches, is returned as it is.
    """
    for known, answer in tuple(_merged):
        if known is profile:
            return answer
    groups = [[launch] for launch in profile.launches]
    if not profile.study and len(groups) > 1:
        groups = _groups(profile.launches)
    answer = profile
    if len(groups) < len(profile.launches):
        answer = structs.replace(profile, launches=tuple(_mean(group) for group in groups))
    _merged.append((profile, answer))
    return answer


def side_by_side(old: Profile, new: Profile) -> SideBySide:
    """Two profiles with their samples merged, and without what only one report launched.

    A version's launches are all parts of it. Of a report, a kernel without a partner is
    left out where another kernel is on both sides: it is other work.
    """
    for a, b, answer in tuple(_beside):
        if a is old and b is new:
            return answer
    before, after = merge_samples(old), merge_samples(new)
    answer = SideBySide(old=before, new=after)
    if not (old.study and new.study):
        pairs = pair_launches(before.launches, after.launches)
        if any(pair.how in ("signature", "name", "renamed") for pair in pairs):
            answer = _without_strangers(answer, pairs)
    _beside.append((old, new, answer))
    return answer


def _without_strangers(both: SideBySide, pairs: Sequence[LaunchPair]) -> SideBySide:
    strangers = [
        pair
        for pair in pairs
        if pair.how in ("order", "added", "removed") and _profiled(both, pair)
    ]
    gone = (
        {pair.old for pair in strangers if pair.old is not None},
        {pair.new for pair in strangers if pair.new is not None},
    )
    if not strangers:
        return both
    sides = (both.old, both.new)
    kept = [
        structs.replace(
            profile,
            launches=tuple(x for n, x in enumerate(profile.launches) if n not in gone[side]),
        )
        for side, profile in enumerate(sides)
    ]
    return SideBySide(
        old=kept[0],
        new=kept[1],
        alone=tuple(
            (side, profile.launches[n])
            for side, profile in enumerate(sides)
            for n in sorted(gone[side])
        ),
    )


def _profiled(both: SideBySide, pair: LaunchPair) -> bool:
    """Whether a launch that was only listed, and never measured, is not all that there is."""
    found = [
        profile.launches[place].profiled
        for profile, place in ((both.old, pair.old), (both.new, pair.new))
        if place is not None
    ]
    return any(found)


# --- samples of one launch -----------------------------------------------------------


def _groups(launches: Sequence[Launch]) -> list[list[Launch]]:
    """Launches of one kernel, code and configuration together, in order of their first."""
    groups: dict[object, list[list[Launch]]] = {}
    out: list[list[Launch]] = []
    for launch in launches:
        fixed = [launch.metrics.get(name) for name in _FIXED]
        key = (
            *(launch.workload, launch.kernel, launch.signature),
            *(launch.grid, launch.block, launch.dynamic_shared),
            *(metric.value if metric is not None else None for metric in fixed),
        )
        alike = groups.setdefault(key, [])
        found = None
        if launch.profiled:
            found = next((g for g in alike if _one_code(g[0], launch) and g[0].profiled), None)
        if found is None:
            found = []
            alike.append(found)
            out.append(found)
        found.append(launch)
    return out


def _one_code(a: Launch, b: Launch) -> bool:
    """Whether two tables show one machine code, each perhaps without what never ran."""
    one, other = a.instructions, b.instructions
    if one.address == other.address:
        return one.text == other.text
    texts = dict(zip(one.address, one.text, strict=True))
    return all(
        texts.get(at, text) == text for at, text in zip(other.address, other.text, strict=True)
    )


def _mean(group: Sequence[Launch]) -> Launch:
    """One launch for many: means, and what is no number from the one in the middle."""
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
        metrics=metrics,
        absent={name: why for name, why in absent.items() if name not in metrics},
        spreads=spreads,
        instructions=_mean_table([launch.instructions for launch in group]),
        samples=sum(launch.samples for launch in group),
    )


def _mean_of(values: Sequence[Number]) -> Number:
    """The mean; an integer where integers have one."""
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
    """The mean of every column, over the tables that hold it."""
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
    """Tables of one code, all with the instructions that any of them has."""
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
    """Row by row. Counts stay counts: what does not divide is rounded along the rows.

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
        rows=tuple(row for row, _ in kept), values=tuple(v for _, v in kept), unit=first.unit
    )
