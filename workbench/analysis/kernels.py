"""Every kernel of two profiles: its pair, its times and its own values, in words.

Registers, occupancy and waves belong to one kernel. They are compared within a pair of kernels that
correspond; if there are several, one pair represents the comparison: see `speaking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from workbench.analysis.aggregate import How, kernel_seconds, seconds_of
from workbench.analysis.launches import SideBySide, Way, loads_of
from workbench.analysis.naming import distinctions, titles
from workbench.analysis.optional import Maybe, times
from workbench.analysis.times.noise import left_noise
from workbench.counters import Counter, Missing, Reading, catalog, read, spread
from workbench.language import N_, _, ngettext
from workbench.model import Launch, Number, Profile, Record, Spread
from workbench.units import faster, listed, quantity

#: The reason why registers and the like are missing if several launches have no partner.
NO_PAIR = "it belongs to one kernel, and the sides have no kernel in common"
#: The most values of one kernel that are shown.
_VALUES = 6


class KernelValue(Record, frozen=True):
    """A counter that compiler and launch fix, if the two kernels differ in it."""

    id: str
    old: Number
    new: Number


class KernelChange(Record, frozen=True):
    """One kernel, on one side or both.

    `old`, `new` are positions in the profiles of `SideBySide` (None: not there, or left
    out of the comparison: `alone`). Seconds are those of one launch under the profiler, or of all
    (see `way`); spreads and `samples` are those of the launches in their mean (one run each).
    `weight` is its part (0-1) of all launches of both sides, by duration, else by instructions.
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
    way: Way
    values: tuple[KernelValue, ...]

    @property
    def matched(self) -> bool:
        """True if both sides have it."""
        return self.old is not None and self.new is not None

    @property
    def name(self) -> str:
        """``gemm``, or ``gemm_v1 → gemm_v2`` if it was renamed."""
        return " → ".join(dict.fromkeys(filter(None, (self.name_old, self.name_new))))

    @property
    def uneven(self) -> bool:
        """True if one side ran it more often, so that only some launches are compared."""
        return self.way in ("launch", "run")

    @property
    def times(self) -> str:
        """``3× → 1×``, ``8× → 4× in all``; "" for one launch on each side."""
        often = " → ".join(f"{n}×" for n in dict.fromkeys(self.samples) if n)
        text = _("{often} in all") if self.way == "all" else "{often}"
        return text.format(often=often) if max(self.samples) > 1 else ""

    @property
    def spent(self) -> tuple[float, float] | None:
        """Seconds of all launches of either side that are compared; None if one is unknown."""
        often = {"all": (1, 1), "launch": (min(self.samples),) * 2}.get(self.way, self.samples)
        each = zip(self.samples, often, (self.old_s, self.new_s), strict=True)
        old, new = (times(n, seconds) if there else 0.0 for there, n, seconds in each)
        return None if old is None or new is None else (old, new)

    @property
    def in_all_s(self) -> Maybe:
        """The additional seconds of all of its launches."""
        return self.spent and self.spent[1] - self.spent[0]


#: A launch from each side, and the number of their pair.
_Compared = tuple[Launch | None, Launch | None, int | None]


def kernel_changes(both: SideBySide) -> tuple[KernelChange, ...]:
    """Every kernel of two profiles, matched by the pairs, and those without a partner."""
    rows: list[_Compared] = []
    for n, pair in enumerate(both.pairs):
        a, b = pair.of(*both.each)
        if any(x is not None and x.profiled for x in (a, b)):
            rows.append((a, b, n))
    rows += [(None, x, None) if side else (x, None, None) for side, x in both.alone]
    names = iter(titles([x for a, b, __ in rows for x in (a, b) if x is not None]))
    called = [
        (next(names) if a is not None else "", next(names) if b is not None else "")
        for a, b, __ in rows
    ]
    loads = loads_of([row[0] for row in rows]), loads_of([row[1] for row in rows])
    whole = [sum(own) or 1.0 for own in loads]
    return tuple(
        _change(
            both,
            row,
            _sides_named(called[n], row[0], row[1]),
            (loads[0][n] / whole[0] + loads[1][n] / whole[1]) / 2,
        )
        for n, row in enumerate(rows)
    )


def _sides_named(names: tuple[str, str], a: Launch | None, b: Launch | None) -> tuple[str, str]:
    """A pair's names, with the arguments that differ: ``k<…float…>``, ``k<…double…>``."""
    if a is None or b is None or names[0] != names[1] or a.signature == b.signature:
        return names
    first, second = distinctions([a.signature, b.signature])
    return (
        f"{a.kernel}<…{first}…>" if first else names[0],
        f"{a.kernel}<…{second}…>" if second else names[1],
    )


def _change(
    both: SideBySide, row: _Compared, names: tuple[str, str], weight: float
) -> KernelChange:
    a, b, n = row
    pair = both.pairs[n] if n is not None else None
    steady = both.steady[n] if n is not None and both.steady else {}
    way: Way = "launch" if a is not None and b is not None and a.samples != b.samples else "each"
    if n is not None and both.ways:
        way = both.ways[n]
    how: How = "added" if a is None else "removed"
    duration = catalog()["duration"]
    seconds = [seconds_of(x) if x is not None else None for x in (a, b)]
    before, after = (spread(x, duration) if x is not None else None for x in (a, b))
    if way == "all":
        seconds = [times(s, x.samples if x else 0) for s, x in zip(seconds, (a, b), strict=True)]
        before = after = None
    ratio = next((steady[name] for name in duration.names if name in steady), None)
    moved = (
        seconds[0] is not None
        and seconds[1] is not None
        and left_noise(duration, seconds[0], seconds[1], (before, after), steady=ratio)
    )
    return KernelChange(
        name_old=names[0],
        name_new=names[1],
        how=pair.how if pair is not None else how,
        old=pair.old if pair is not None else None,
        new=pair.new if pair is not None else None,
        samples=(
            a.samples // both.runs[0] if a is not None else 0,
            b.samples // both.runs[1] if b is not None else 0,
        ),
        old_s=seconds[0],
        new_s=seconds[1],
        spreads=(before, after),
        moved=moved,
        weight=weight,
        alone=pair is None,
        way=way,
        values=_values(a, b) if a is not None and b is not None else (),
    )


def _of_one_kernel() -> list[Counter]:
    """The counters that compiler and launch fix, which have no sums."""
    longest = (each for each in catalog() if each.over_launches == "longest")
    return [counter for counter in longest if counter.group != "samples"]


def _values(a: Launch, b: Launch) -> tuple[KernelValue, ...]:
    out = []
    for counter in _of_one_kernel():
        old, new = read(a, counter), read(b, counter)
        if isinstance(old, Reading) and isinstance(new, Reading) and old.value != new.value:
            out.append(KernelValue(id=counter.id, old=old.value, new=new.value))
    return tuple(out)


def speaking(changes: Sequence[KernelChange]) -> KernelChange | None:
    """The pair of kernels whose registers and waves represent the comparison.

    The pair that moved the sum most in its direction, if any did; else the pair whose duration
    changed most. If none moved beyond noise (or has a duration), the largest on both sides. None if
    no kernel is on both sides.
    """
    matched = [change for change in changes if change.matched]
    moved = [(s, c) for c in matched if c.moved and (s := c.in_all_s) is not None]
    if moved:
        known = [c.spent for c in changes if not c.alone and c.spent]
        old, new = map(fsum, zip(*known, strict=True))
        way = (new - old) * left_noise(catalog()["duration"], old, new)
        return max(moved, key=lambda row: (row[0] * way > 0, abs(row[0])))[1]
    return max(matched, key=lambda change: change.weight, default=None)


#: Kernels take as long if they differ by this part, all together by this part of the change.
_AS_LONG, _ASIDE = 0.05, 0.1


def launched_apart(changes: Sequence[KernelChange]) -> tuple[KernelChange, ...]:
    """The kernels that one side alone launched, or launched more often, if nothing else changed."""
    apart = [c for c in changes if not c.matched or (c.way == "all" and len({*c.samples}) > 1)]
    came = [(c, *c.spent) for c in apart if c.spent]
    each = [c.spent for c in changes if c.spent and c not in apart]
    change = abs(fsum(new - old for _c, old, new in came))
    slight = fsum(abs(new - old) for old, new in each) <= _ASIDE * change
    each += [(old / c.samples[0], new / c.samples[1]) for c, old, new in came if c.matched]
    alike = all(0 < max(a, b) <= (1 + _AS_LONG) * min(a, b) for a, b in each)
    other = None in [c.spent for c in changes] or any(c.alone or c.values for c in apart)
    one_way = {(new > old) - (new < old) for _c, old, new in came} in ({1}, {-1})
    return tuple(apart) if one_way and alike and slight and not other else ()


def of_no_pair() -> dict[str, Missing]:
    """Counters of one kernel, missing because no kernel is on both sides."""
    return {counter.id: Missing(NO_PAIR) for counter in _of_one_kernel()}


def launch_words(
    changes: Sequence[KernelChange],
    labels: tuple[str, str],
    sides: tuple[Profile, Profile],
    runs: tuple[int, int] = (1, 1),
) -> tuple[str, ...]:
    """Sentences about how launches were compared; empty for one launch against one."""
    text = ngettext("{n} run before", "{n} runs before", runs[0]).format(n=runs[0])
    text = _(
        "{before}, {n} after; each read the same amount, so they are compared per run."
    ).format(before=text, n=runs[1])
    said = [text] if runs != (1, 1) else _sampled(changes, sides)
    return (*said, *_on_one_side(changes, labels))


def _sampled(changes: Sequence[KernelChange], sides: tuple[Profile, Profile]) -> list[str]:
    repeated = [c for c in changes if c.matched and max(c.samples) > 1 and c.way != "all"]
    uneven = [c for c in repeated if c.uneven]
    each = _("{n} before, {samples_1} after{of}") if uneven else _("{n} on both sides{of}")
    of = _(" of {name}") if len(changes) > 1 else ""
    plural = [ngettext("{n} launch", "{n} launches", c.samples[0]) for c in uneven or repeated]
    said = listed([
        each.format(n=n.format(n=c.samples[0]), samples_1=c.samples[1], of=of.format(name=c.name))
        for n, c in zip(plural, uneven or repeated, strict=True)
    ])  # fmt: skip
    totals = [kernel_seconds(side) for side in sides]
    if not uneven or not all(totals):
        return [_("{said}: compared per launch, by their means.").format(said=said)] if said else []
    old, new = (quantity(seconds, "s") for seconds in totals)
    text = _("{said}: compared per launch; in total {old} → {new}.")
    return [text.format(said=said, old=old, new=new)]


def _on_one_side(changes: Sequence[KernelChange], labels: tuple[str, str]) -> list[str]:
    out = []
    for side, label in enumerate(labels):
        lone = [c for c in changes if not c.matched and bool(c.samples[side])]
        if not lone:
            continue
        said = [_timed(c, side) for c in sorted(lone, key=lambda c: -c.weight)]
        tail = _(", which is not part of the comparison") if all(c.alone for c in lone) else ""
        if tail and len(lone) > 1:
            tail = _(", which are not part of the comparison")
        text = _("Launched by {label} only: {said}{tail}.")
        out.append(text.format(label=label, said=listed(said), tail=tail))
    return out


def partial_words(
    both: SideBySide, changes: Sequence[KernelChange], labels: tuple[str, str]
) -> str:
    """A sentence about the compared part, if much of the work has no counterpart; else ""."""
    if not both.alone:
        return ""

    def each(c: KernelChange) -> str:
        times = f"{quantity(c.old_s, 's')} → {quantity(c.new_s, 's')}"
        return f"{c.name} ({times})" if c.old_s else c.name

    shared = sorted((c for c in changes if c.matched), key=lambda c: -c.weight)
    words = _(
        "Only {share} of the time of {label} is in kernels that both sides have, so no overall "
        "speed-up is given. Compared: {said}."
    ).format(
        share=quantity(100 * both.covered, "%"),
        label=labels[both.longer],
        said=listed(list(map(each, shared))),
    )
    return " ".join((words, *_on_one_side(changes, labels)))


def _timed(change: KernelChange, side: int) -> str:
    seconds, times = (change.old_s, change.new_s)[side], change.samples[side]
    each = f"{times} × " if times > 1 else ""
    return f"{change.name} ({each}{quantity(seconds, 's')})" if seconds else change.name


def values_words(change: KernelChange) -> str:
    """``gemm: registers per thread 64 → 62``; "" if nothing differs in the kernel."""
    said = []
    for value in change.values:
        counter = catalog()[value.id]
        old, new = (quantity(number, counter.unit) for number in (value.old, value.new))
        said.append(f"{counter.phrase} {old} → {new}")
    return f"{change.name}{_(': ')}{listed(said, _VALUES)}" if said else ""


def kernel_words(change: KernelChange, more: str | None = None) -> str:
    """``gemm 6.19 ms → 3.48 ms, 1.78× faster``; without times, the name. `more`: see `faster`."""
    if change.old_s is None or change.new_s is None or not min(change.old_s, change.new_s) > 0:
        return change.name
    ratio = change.old_s / change.new_s
    said = faster(ratio, more) if change.moved else _("equally fast within the noise")
    times = f"{quantity(change.old_s, 's')} → {quantity(change.new_s, 's')}"
    return _("{kernel} {times}, {speed}").format(kernel=change.name, times=times, speed=said)


KERNELS_HEAD = (
    N_("kernel"),
    N_("launches"),
    N_("before"),
    N_("after"),
    N_("change"),
    N_("its own values"),
)


def tells(kernels: Sequence[KernelChange], *, times_alone: bool = False) -> bool:
    """True if rows of kernels are informative: several kernels, and something known about one.

    `times_alone`: the rows have no values of the kernels' own.
    """
    return len(kernels) > 1 and any(
        not each.matched
        or each.old_s is not None
        or each.new_s is not None
        or bool(each.values and not times_alone)
        for each in kernels
    )


def kernel_rows(kernels: Sequence[KernelChange], more: str | None = None) -> list[tuple[str, ...]]:
    """A row of text for each kernel, under `KERNELS_HEAD`; empty if they would not help."""
    if not tells(kernels):
        return []
    rows = []
    for kernel in sorted(kernels, key=lambda k: -abs((k.new_s or 0.0) - (k.old_s or 0.0))):
        timed = None not in (kernel.old_s, kernel.new_s)
        change = kernel_words(kernel, more and "").rpartition(_(", "))[2] if timed else ""
        if not kernel.matched:
            change = _("removed") if kernel.samples[0] else _("added")
        rows.append(
            (
                kernel.name,
                kernel.times or "1",
                *(quantity(seconds, "s") for seconds in (kernel.old_s, kernel.new_s)),
                change,
                values_words(kernel).removeprefix(kernel.name + _(": ")),
            )
        )
    return rows
