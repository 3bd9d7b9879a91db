"""What became of every kernel: who is compared with whom, its times, and its own values.

Registers, occupancy and waves are of one kernel. They are compared within a pair of
kernels that correspond, and where several do, one pair speaks for the comparison: see
`speaking`.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.aggregate import How, LaunchPair, seconds_of, weights_of
from workbench.analysis.launches.samples import SideBySide
from workbench.analysis.launches.titles import titles
from workbench.analysis.noise import left_noise
from workbench.counters import Missing, Reading, catalog, read, spread
from workbench.model import Launch, Number, Record, Spread
from workbench.units import factor, quantity

#: Why registers and the like are missing where several launches have no partner.
NO_PAIR = "it is of one kernel, and no kernel is on both sides"
#: Kernels that are named in a sentence.
_NAMED = 4
#: Values of one kernel that are.
_VALUES = 6


class KernelValue(Record, frozen=True):
    """A counter that compiler and launch fix, where the two kernels differ in it."""

    id: str
    old: Number
    new: Number


class KernelChange(Record, frozen=True):
    """One kernel on both sides, or on one of them.

    `old`, `new` are positions in the profiles of `SideBySide` (None: not there, or left
    out of the comparison: `alone`). Seconds are of one launch, under the profiler; spreads
    and `samples` of how many launches it is the mean. `weight` is its part (0-1) of all
    launches of both sides, by duration, else by instructions.
    """

    name_old: str
    name_new: str
    how: How
    old: int | None
    new: int | None
    samples: tuple[int, int]
    old_s: float | None
    new_s: float | None
    spreads: tuple[Spread | None, Spread | None]
    moved: bool
    weight: float
    alone: bool
    values: tuple[KernelValue, ...]

    @property
    def matched(self) -> bool:
        """Whether both sides have it."""
        return self.old is not None and self.new is not None

    @property
    def name(self) -> str:
        """``gemm``, or ``gemm_v1 → gemm_v2`` where it was renamed."""
        names = dict.fromkeys(name for name in (self.name_old, self.name_new) if name)
        return " → ".join(names)

    @property
    def change_s(self) -> float | None:
        """Seconds that a launch takes more; None where a side has none."""
        if not self.matched or self.old_s is None or self.new_s is None:
            return None
        return self.new_s - self.old_s


def kernel_changes(both: SideBySide, pairs: Sequence[LaunchPair]) -> tuple[KernelChange, ...]:
    """Every kernel of two profiles, as `pairs` match them, and those that stand alone."""
    rows: list[tuple[Launch | None, Launch | None, LaunchPair | None]] = []
    for pair in pairs:
        a = both.old.launches[pair.old] if pair.old is not None else None
        b = both.new.launches[pair.new] if pair.new is not None else None
        if any(x is not None and x.profiled for x in (a, b)):
            rows.append((a, b, pair))
    rows += [(None, x, None) if side else (x, None, None) for side, x in both.alone]
    names = iter(titles([x for a, b, _ in rows for x in (a, b) if x is not None]))
    weights = _weights([a for a, _, _ in rows]), _weights([b for _, b, _ in rows])
    return tuple(
        _change(
            a,
            b,
            pair,
            (next(names) if a is not None else "", next(names) if b is not None else ""),
            (weights[0][n] + weights[1][n]) / 2,
        )
        for n, (a, b, pair) in enumerate(rows)
    )


def _weights(launches: Sequence[Launch | None]) -> list[float]:
    """The part (0-1) that each launch is of its side."""
    there = [launch for launch in launches if launch is not None and launch.profiled]
    known = iter(weights_of(there)[0])
    found = [next(known) if x is not None and x.profiled else 0.0 for x in launches]
    return [value / (sum(found) or 1.0) for value in found]


def _change(
    a: Launch | None,
    b: Launch | None,
    pair: LaunchPair | None,
    names: tuple[str, str],
    weight: float,
) -> KernelChange:
    how: How = "added" if a is None else "removed"
    duration = catalog()["duration"]
    seconds = [seconds_of(x) if x is not None else None for x in (a, b)]
    before, after = (spread(x, duration) if x is not None else None for x in (a, b))
    moved = (
        seconds[0] is not None
        and seconds[1] is not None
        and left_noise(duration, seconds[0], seconds[1], (before, after))
    )
    return KernelChange(
        name_old=names[0],
        name_new=names[1],
        how=pair.how if pair is not None else how,
        old=pair.old if pair is not None else None,
        new=pair.new if pair is not None else None,
        samples=(a.samples if a is not None else 0, b.samples if b is not None else 0),
        old_s=seconds[0],
        new_s=seconds[1],
        spreads=(before, after),
        moved=moved,
        weight=weight,
        alone=pair is None,
        values=_values(a, b) if a is not None and b is not None else (),
    )


def _values(a: Launch, b: Launch) -> tuple[KernelValue, ...]:
    out = []
    for counter in catalog():
        if counter.over_launches != "longest" or counter.group == "samples":
            continue
        old, new = read(a, counter), read(b, counter)
        if isinstance(old, Reading) and isinstance(new, Reading) and old.value != new.value:
            out.append(KernelValue(id=counter.id, old=old.value, new=new.value))
    return tuple(out)


def speaking(changes: Sequence[KernelChange]) -> KernelChange | None:
    """The pair of kernels whose registers and waves stand for the comparison.

    The one whose duration changed most; where none left its noise (or has no duration), the
    one that carries most of both sides. None where no kernel is on both sides.
    """
    matched = [change for change in changes if change.matched]
    moved = [change for change in matched if change.moved and change.change_s is not None]
    if moved:
        return max(moved, key=lambda change: abs(change.change_s or 0.0))
    return max(matched, key=lambda change: change.weight, default=None)


def of_no_pair() -> dict[str, Missing]:
    """What is of one kernel has no two values to compare where no kernel is on both sides."""
    return {
        counter.id: Missing(NO_PAIR)
        for counter in catalog()
        if counter.over_launches == "longest" and counter.group != "samples"
    }


def total_seconds(changes: Sequence[KernelChange]) -> tuple[float, float] | None:
    """Of all launches of each side, as often as they ran; None where one has no duration."""
    old = [None if c.old_s is None else c.old_s * c.samples[0] for c in changes if c.samples[0]]
    new = [None if c.new_s is None else c.new_s * c.samples[1] for c in changes if c.samples[1]]
    if None in old or None in new or not old or not new:
        return None
    return sum(filter(None, old)), sum(filter(None, new))


# --- in words -----------------------------------------------------------------------


def launch_words(changes: Sequence[KernelChange], labels: tuple[str, str]) -> tuple[str, ...]:
    """Sentences about how launches were compared; none for one launch against one.

    Args:
        changes: All kernels of both sides.
        labels: What the two sides are called.
    """
    return (*_sampled(changes), *_on_one_side(changes, labels))


def _sampled(changes: Sequence[KernelChange]) -> list[str]:
    repeated = [c for c in changes if c.matched and c.samples != (1, 1)]
    unequal = [c for c in repeated if c.samples[0] != c.samples[1]]
    if not repeated:
        return []
    if unequal:
        totals = total_seconds([c for c in changes if c.matched])
        total = ""
        if totals is not None:
            total = f"; in total {quantity(totals[0], 's')} → {quantity(totals[1], 's')}"
        said = [
            f"{_plural(c.samples[0])} before{_range(c, 0)}, "
            f"{c.samples[1]} after{_range(c, 1)}{_of(c, changes)}"
            for c in unequal[:_NAMED]
        ]
        more = f", and {len(unequal) - _NAMED} more kernels" if len(unequal) > _NAMED else ""
        return [f"{', '.join(said)}{more}: compared per launch{total}."]
    said = [f"{_plural(c.samples[0])} on both sides{_of(c, changes)}" for c in repeated[:_NAMED]]
    more = f", and {len(repeated) - _NAMED} more kernels" if len(repeated) > _NAMED else ""
    return [f"{', '.join(said)}{more}: compared per launch, by their means."]


def _range(change: KernelChange, side: int) -> str:
    """`` (406 µs to 408 µs)``: how far samples lay apart; "" where they read the same."""
    found = change.spreads[side]
    if found is None or found.n < 2:
        return ""
    low, high = quantity(found.low, "s"), quantity(found.high, "s")
    return f" ({low})" if low == high else f" ({low} to {high})"


def _of(change: KernelChange, changes: Sequence[KernelChange]) -> str:
    return f" of {change.name}" if len(changes) > 1 else ""


def _plural(number: int) -> str:
    return "1 launch" if number == 1 else f"{number} launches"


def _on_one_side(changes: Sequence[KernelChange], labels: tuple[str, str]) -> list[str]:
    out = []
    for side, label in enumerate(labels):
        lone = [c for c in changes if not c.matched and bool(c.samples[side])]
        if not lone:
            continue
        said = [_timed(c, side) for c in sorted(lone, key=lambda c: -c.weight)[:_NAMED]]
        rest = f" and {len(lone) - _NAMED} more" if len(lone) > _NAMED else ""
        tail = ", which is not part of the comparison" if all(c.alone for c in lone) else ""
        if tail and len(lone) > 1:
            tail = ", which are not part of the comparison"
        out.append(f"Launched by {label} only: {', '.join(said)}{rest}{tail}.")
    return out


def _timed(change: KernelChange, side: int) -> str:
    seconds, times = (change.old_s, change.new_s)[side], change.samples[side]
    each = f"{times} × " if times > 1 else ""
    return f"{change.name} ({each}{quantity(seconds, 's')})" if seconds else change.name


def values_words(change: KernelChange) -> str:
    """``gemm: registers per thread 64 → 62``; "" where nothing of the kernel differs."""
    said = []
    for value in change.values[:_VALUES]:
        counter = catalog()[value.id]
        title = counter.title[:1].lower() + counter.title[1:]
        old, new = (quantity(number, counter.unit) for number in (value.old, value.new))
        said.append(f"{title} {old} → {new}")
    more = f" and {len(change.values) - _VALUES} more" if len(change.values) > _VALUES else ""
    return f"{change.name}: {', '.join(said)}{more}" if said else ""


def kernel_words(change: KernelChange) -> str:
    """``gemm 6.19 ms → 3.48 ms, 1.78× faster``; without times, the name."""
    if change.old_s is None or change.new_s is None or not min(change.old_s, change.new_s) > 0:
        return change.name
    ratio = change.old_s / change.new_s
    said = "equally fast within the noise"
    if change.moved:
        said = f"{factor(max(ratio, 1 / ratio))} {'faster' if ratio >= 1 else 'slower'}"
    times = f"{quantity(change.old_s, 's')} → {quantity(change.new_s, 's')}"
    return f"{change.name} {times}, {said}"


KERNELS_HEAD = ("kernel", "launches", "before", "after", "change", "its own values")


def kernel_rows(kernels: Sequence[KernelChange]) -> list[tuple[str, ...]]:
    """What became of each kernel, as text under `KERNELS_HEAD`; none for one and one."""
    if len(kernels) <= 1:
        return []
    rows = []
    for kernel in sorted(kernels, key=lambda k: -abs(k.change_s or 0.0)):
        change = kernel_words(kernel).rpartition(", ")[2] if kernel.change_s is not None else ""
        if not kernel.matched:
            change = "removed" if kernel.samples[0] else "added"
        rows.append(
            (
                kernel.name,
                " → ".join(dict.fromkeys(str(n) for n in kernel.samples if n)),
                *(quantity(seconds, "s") for seconds in (kernel.old_s, kernel.new_s)),
                change,
                values_words(kernel).removeprefix(f"{kernel.name}: "),
            )
        )
    return rows
