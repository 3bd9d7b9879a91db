"""From what to what a chip may count, where lines run as often as the timing of warps has it.

Nothing says how often they would run: of the recorded kernels with such lines, a chip took
from a twentieth to eight times as many wavefronts in one as the emulator, and hundreds of times
as many instructions where ptxas makes a loop of an atomic (`moments` v1). So where they hold more
than `MATERIAL` of a counter, any number is possible above what the other lines count. Where they
hold less, they would have to run a hundred times as often to double it; up to `_OFTEN` times is
taken to be possible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from workbench.analysis.aggregate import ESTIMATE, Combined, combine, metric_sum
from workbench.analysis.chance import Chance, Chances
from workbench.analysis.noise import noise_of
from workbench.counters import Counter, Missing, catalog
from workbench.model import Column, Launch, Metric, Number, Profile, SourceFile
from workbench.units import listed, quantity

#: Part of a counter from which on what lines hold of it is no trifle.
MATERIAL = 0.01
_OFTEN = 10.0
#: So often that no verdict can hang on more. Not infinity, of which there is no tenth.
_ANY = 1e6
#: Sums of floats are equal within this part.
_EQUAL = 1e-9


class CountedSide(NamedTuple):
    """One side: a profile, its counters by `combine`, and the launch that spoke for them."""

    profile: Profile
    values: Mapping[str, Combined | Missing]
    speaker: int | None = None


def of_both(old: CountedSide, new: CountedSide) -> dict[str, Chances]:
    """The ranges of two sides, by the ids of counters of which one is not certain."""
    before, after = chances(*old), chances(*new)
    together = _same_code(old.profile, new.profile)
    return {
        name: Chances(old=before.get(name), new=after.get(name), together=together)
        for name in {**before, **after}
    }


def machine_chances(old: Profile, new: Profile) -> Chances | None:
    """Those of the estimated machine instructions; None where both sides are certain."""
    before, after = (metric_chance(profile, ESTIMATE) for profile in (old, new))
    if before is None and after is None:
        return None
    return Chances(old=before, new=after, together=_same_code(old, new))


def chances(
    profile: Profile, values: Mapping[str, Combined | Missing], speaker: int | None = None
) -> dict[str, Chance]:
    """The range of every counter that marked instructions are counted in, by its id.

    Args:
        profile: Its launches are parts of one run.
        values: What `combine` gives for it.
        speaker: As for `combine`.
    """
    if not _marked(profile):
        return {}
    rest = combine(_without(profile), speaker)
    out = {}
    for counter in catalog():
        value = values[counter.id]
        # Compiler and launch alone decide of what has neither sum nor mean.
        if isinstance(value, Combined) and counter.over_launches != "longest":
            if counter.over_launches == "sum":
                found = _of_sum(profile, value.ncu, value.value, _number(rest[counter.id]))
            else:
                found = _of_mean(profile, counter, value, _number(rest[counter.id]))
            if found is not None:
                out[counter.id] = found
    return out


def metric_chance(profile: Profile, name: str) -> Chance | None:
    """The range of a metric over all launches, added up; None where no timing is in it."""
    value = metric_sum(profile, name)
    if value is None or not _marked(profile):
        return None
    return _of_sum(profile, name, value, metric_sum(_without(profile), name))


def _marked(profile: Profile) -> bool:
    return any(launch.by_timing is not None for launch in profile.launches)


def _same_code(old: Profile, new: Profile) -> bool:
    """Whether the same instructions ran in launches of the same shape."""
    shapes = [
        [(x.grid, x.block, x.dynamic_shared, x.instructions.text) for x in profile.launches]
        for profile in (old, new)
    ]
    return _marked(old) and shapes[0] == shapes[1]


def _number(value: Combined | Missing) -> Number | None:
    return value.value if isinstance(value, Combined) else None


def _of_sum(profile: Profile, ncu: str, value: Number, rest: Number | None) -> Chance | None:
    rest = 0 if rest is None else rest
    most = max(abs(value), abs(rest))
    if abs(value - rest) <= _EQUAL * most:
        return None
    share = abs(value - rest) / most
    often = _ANY if share > MATERIAL else _OFTEN
    low, high = sorted((float(rest), rest + often * (value - rest)))
    who, run, hold = _who(profile, ncu)
    part = f"{hold} {quantity(100 * share, '%')} of the count"
    return Chance(low=low, high=high, words=f"{who} {run} as often as timing has it, and {part}")


def _of_mean(
    profile: Profile, counter: Counter, value: Combined, rest: Number | None
) -> Chance | None:
    """Of a share or ratio: any where marked instructions move it, for what they weigh is open."""
    now = value.value
    if rest is not None and abs(now - rest) <= _EQUAL * abs(now):
        return None
    who, run, _ = _who(profile, value.ncu)
    words = f"{who} {run} as often as timing has it"
    if rest is None or abs(now - rest) > max(noise_of(counter, now, rest), MATERIAL * abs(now)):
        high = 100.0 if counter.unit == "%" else _ANY * abs(now)
        return Chance(low=0.0, high=high, words=words)
    low, high = sorted((float(now), float(rest)))
    return Chance(low=low, high=high, words=words)


# --- the same profile without what is marked ------------------------------------------------


def _without(profile: Profile) -> Profile:
    return structs.replace(profile, launches=tuple(map(_bare, profile.launches)))


def _bare(launch: Launch) -> Launch:
    timed = launch.by_timing
    if timed is None:
        return launch
    metrics = dict(launch.metrics)
    for name, value in timed.without.items():
        if value is None:
            metrics.pop(name, None)
        else:
            metrics[name] = Metric(value=value, unit=metrics[name].unit if name in metrics else "")
    table, gone = launch.instructions, set(timed.rows)
    columns = {}
    for name, column in table.columns.items():
        kept = [
            (row, value)
            for row, value in zip(column.rows, column.values, strict=True)
            if row not in gone
        ]
        rows, values = tuple(row for row, _ in kept), tuple(value for _, value in kept)
        columns[name] = Column(rows=rows, values=values, unit=column.unit)
    instructions = structs.replace(table, columns=columns)
    return structs.replace(launch, metrics=metrics, instructions=instructions, by_timing=None)


# --- which lines they are -------------------------------------------------------------------


def lines_by_timing(
    launches: Iterable[Launch], sources: Sequence[SourceFile], ncu: str = ""
) -> tuple[str, int]:
    """Marked lines in words, and how many: ``lines 63, 66 and 67 of kernels/scan/v3.cu``.

    Args:
        launches: Of one profile.
        sources: The profile's files.
        ncu: Only lines that count to this metric, where instructions have it.
    """
    lines: dict[int, set[int]] = defaultdict(set)
    for launch in launches:
        if launch.by_timing is None:
            continue
        table, rows = launch.instructions, launch.by_timing.rows
        column = table.columns.get(ncu)
        counted = rows if column is None else sorted(set(column.rows) & set(rows))
        for row in counted:
            lines[table.file[row]].add(table.line[row])
    words = [
        f"line{'s' * (len(own) > 1)} {listed([str(line) for line in sorted(own)])} of "
        f"{sources[file].path if file >= 0 else '?'}"
        for file, own in sorted(lines.items())
    ]
    return listed(words), sum(map(len, lines.values()))


def _who(profile: Profile, ncu: str) -> tuple[str, str, str]:
    """The lines that count to a metric, and what they do: ``run`` and ``hold``."""
    words, many = lines_by_timing(profile.launches, profile.sources, ncu)
    if not many:
        words, many = lines_by_timing(profile.launches, profile.sources)
    return (words, "runs", "holds") if many == 1 else (words, "run", "hold")
