"""A step told in a few sentences that are made from its parts and so cannot be false.

Every clause is built from one number of the analysis and is left out where that
number is missing, within its noise, or too small to matter: which of many counters is
named, is decided by the time that its change takes at the device's peak (see
`analysis.weight`), not by how many times larger it grew. No clause names a cause: code
is *linked to* what its lines counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.source.hunks import Hunk
from workbench.analysis.split.attribution import Attribution, CounterSplit, Part
from workbench.analysis.split.duration import TimePart, TimeSplit
from workbench.analysis.weight import WELL, Scale
from workbench.counters import catalog
from workbench.units import factor, points, quantity, relative, signed

#: What weighs less than this part of the time (or, on an unknown device, of its counter's
#: size) is not worth a clause.
_WEIGHT = 0.01
#: A counter that went against the time must weigh more: it explains nothing.
_AGAINST = 0.05
#: Points of occupancy, or of a last wave that idles, that are worth one.
_POINTS = 5.0
_SAMPLES = "smsp__pcsamp_"
#: Instructions by kind: what they cost is in the wavefronts and sectors that they make.
_KINDS = frozenset(
    {"shared_accesses", "shared_loads", "shared_stores", "global_loads", "global_stores"}
)
#: Counters that another one holds as a part: the part says more where it makes up most of it.
_PARTS = {
    "shared_wavefronts": ("shared_bank_conflicts",),
    "shared_bank_conflicts": ("shared_load_bank_conflicts", "shared_store_bank_conflicts"),
    "instructions": ("spill_instructions", "local_loads", "local_stores", "branches"),
    "global_sectors": ("global_load_sectors", "global_store_sectors"),
    "l2_sectors": ("l2_read_sectors", "l2_write_sectors"),
    "dram_bytes": ("dram_read_bytes", "dram_write_bytes"),
}

_Of = TypeVar("_Of", Part, TimePart)


class _Claim(NamedTuple):
    """A hunk's part of a counter's change; `way`: it went where the time went."""

    way: bool
    weight: float
    split: CounterSplit
    hunk: int
    parts: list[Part]


def tell(
    comparison: Comparison,
    attribution: Attribution,
    time: TimeSplit | None,
    effects: Sequence[Delta],
    scale: Scale,
) -> str:
    """The step in words: time, strongest link, stall time, side effect, what is unexplained.

    Args:
        comparison: Whole-kernel counters.
        attribution: The split of the line counters.
        time: The split of the duration, if there is one.
        effects: Counters that moved and that nobody expected (see `expectations`).
        scale: What counts weigh on this device.
    """
    link = _strongest(comparison, attribution, scale)
    clauses = [
        _speed(comparison),
        _one_without_the_other(comparison),
        _linked(attribution, link) if link else "",
        _stall(time),
        _side_effect(comparison, effects, scale, link.split.id if link else ""),
        _unexplained(comparison, attribution, time, scale),
    ]
    return " ".join(clause for clause in clauses if clause)


def _speed(comparison: Comparison) -> str:
    old, new = comparison.old.label, comparison.new.label
    speed = comparison.speed
    if speed is None:
        return f"No time of both {old} and {new} is known."
    where = "Under the profiler " if speed.profiled else ""
    if speed.moved:
        return f"{where}{_faster(new, old, speed.speedup)}"
    within = "within the noise" if speed.profiled else "within their intervals"
    return f"{where}{new} and {old} are equally fast {within}."


def _one_without_the_other(comparison: Comparison) -> str:
    """A time that moved without a counter, or counters without the time."""
    number = sum(delta.moved for delta in comparison.counters if delta.id != "duration")
    speed = comparison.speed
    if speed is None or speed.moved == bool(number):
        return ""
    if speed.moved:
        return "No counter moved with it."
    return f"{number} counter{'s' if number > 1 else ''} moved all the same."


def _faster(new: str, old: str, speedup: float) -> str:
    ratio, word = (speedup, "faster") if speedup >= 1 else (1 / speedup, "slower")
    if factor(ratio) == factor(1.0):
        return f"{new} is {quantity(100 * (ratio - 1), '%')} {word} than {old}."
    return f"{new} is {factor(ratio)} {word} than {old}."


def _moved(comparison: Comparison, split: CounterSplit) -> bool:
    known = split.id and not split.counter.startswith(_SAMPLES)
    return bool(known) and comparison[split.id].moved


def _by_hunk(parts: Iterable[_Of]) -> dict[int, list[_Of]]:
    """Parts that belong to a hunk, be it by line or by symbol."""
    out: dict[int, list[_Of]] = defaultdict(list)
    for part in parts:
        if part.hunk is not None and part.link in ("hunk", "symbol"):
            out[part.hunk].append(part)
    return out


def _weight(scale: Scale, split: CounterSplit, amount: float) -> float:
    """Part of the time that an amount takes; of its counter where the device is not known."""
    if not scale.known:
        return abs(amount) / max(abs(split.old), abs(split.new), 1)
    return scale.share(split.id, abs(amount)) or 0.0


def _strongest(comparison: Comparison, attribution: Attribution, scale: Scale) -> _Claim | None:
    """The hunk and counter whose change weighs most, first among those that went with the time."""
    speed = comparison.speed
    faster = speed.speedup > 1 if speed is not None and speed.moved else None
    links: list[_Claim] = []
    for split in attribution.counters:
        if not _moved(comparison, split) or split.id.endswith(("_ideal", "_excess")):
            continue
        for hunk, parts in _by_hunk(split.parts).items():
            amount = sum(part.delta for part in parts)
            # What one hunk gives and another takes away is code that moved: only as much
            # counts as the counter itself has changed by.
            effective = min(abs(amount), abs(split.delta)) if amount * split.delta > 0 else 0
            weight = _weight(scale, split, effective)
            way = faster is None or (split.delta < 0) == faster
            if weight >= (_WEIGHT if way else _AGAINST):
                links.append(_Claim(way, weight, split, hunk, parts))
    return max(links, key=lambda link: (link.way, link.weight), default=None)


def _linked(attribution: Attribution, link: _Claim) -> str:
    split, parts = link.split, link.parts
    amount = sum(part.delta for part in parts)
    what = _subject(attribution.hunks[link.hunk - 1], parts)
    if not link.way:
        what = f"On the other hand, {what[:1].lower()}{what[1:]}"
    title = catalog()[split.id].title
    name = title[:1].lower() + title[1:] if not title[:2].isupper() else title
    text = f"{what} is linked to {signed(amount, split.unit)} {name}"
    share = amount / split.delta
    if amount == split.delta:
        text += ", all of the change"
    elif signed(amount, split.unit) == signed(split.delta, split.unit):
        text += ", nearly all of the change"
    elif share < 1:
        text += f", {100 * share:.0f}% of the change"
    else:
        text += f"; the whole change is {signed(split.delta, split.unit)}"
    return text + "."


def _subject(hunk: Hunk, parts: Sequence[Part]) -> str:
    first, last = hunk.new if hunk.new[0] <= hunk.new[1] else hunk.old
    side = "" if hunk.new[0] <= hunk.new[1] else "old "
    where = f"{side}line {first}" if first == last else f"{side}lines {first}–{last}"
    symbols = [part.symbol for part in parts if part.link == "symbol" and part.symbol]
    if not symbols or any(part.link == "hunk" and part.delta for part in parts):
        return f"Hunk {hunk.id} ({where})"
    return f"The change of {_listed(symbols)} ({where})"


def _stall(time: TimeSplit | None) -> str:
    """The stall that changed most on one hunk's lines and those linked to it."""
    if time is None:
        return ""
    linked = _by_hunk(time.parts)
    whole = {name: delta for name, (delta, _) in _by_stall(time.parts).items()}
    found: list[tuple[bool, float, float, float, str, int]] = []
    for hunk, parts in linked.items():
        for name, (delta, error) in _by_stall(parts).items():
            # As with counters: what another part took over has not changed.
            weight = min(abs(delta), abs(whole[name])) if delta * whole[name] > 0 else 0.0
            if name not in catalog() or name in WELL or abs(delta) <= error:
                continue
            if weight >= _WEIGHT * max(time.old_s, time.new_s):
                way = (delta < 0) == (time.delta_s < 0)
                found.append((way, weight, delta, error, name, hunk))
    if not found:
        return ""
    _, _, delta, error, name, hunk = max(found, key=lambda entry: entry[:2])
    verb = "fell" if delta < 0 else "rose"
    return (
        f"By warp samples, time in {catalog()[name].title} {verb} by an estimated "
        f"{quantity(abs(delta), 's')} (±{quantity(error, 's')}) on {_lines_of(linked[hunk])}."
    )


def _by_stall(parts: Iterable[TimePart]) -> dict[str, tuple[float, float]]:
    """Warp state -> seconds and their error over several parts."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for stall in (stall for part in parts for stall in part.stalls):
        sums[stall.stall][0] += stall.delta_s
        # Parts may share the same samples: their errors add, they do not cancel.
        sums[stall.stall][1] += max(stall.high_s - stall.delta_s, stall.delta_s - stall.low_s)
    return {name: (delta, error) for name, (delta, error) in sums.items()}


def _lines_of(parts: Sequence[TimePart]) -> str:
    symbols = [part.symbol for part in parts if part.symbol]
    if not symbols:
        return f"the lines of hunk {parts[0].hunk}"
    if any(part.link == "hunk" for part in parts):
        return f"the lines of hunk {parts[0].hunk} and those linked to it"
    return f"the unchanged lines linked by {_listed(symbols)}"


def _listed(symbols: Sequence[str]) -> str:
    names = [f"`{symbol}`" for symbol in symbols[:3]]
    more = ", among others," if len(symbols) > 3 else ""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}{more}"


def _side_effect(comparison: Comparison, effects: Sequence[Delta], scale: Scale, told: str) -> str:
    """The largest cost that rose and that nobody expected; `told` was named already."""
    worse = {
        delta.id: delta
        for delta in effects
        # A stall's share says where time went, and excess follows from its two terms.
        if delta.verdict == "worse"
        and delta.group not in ("time", "stalls")
        and not delta.id.endswith(("_ideal", "_excess"))
        and delta.id not in (*_KINDS, told)
        and delta.old is not None
        and delta.new is not None
    }
    if not scale.known:
        return _got_worse(next(iter(worse.values()))) if worse else ""
    weights = {name: _of_new_time(comparison, delta, scale) for name, delta in worse.items()}
    best = max(weights, key=lambda name: weights[name], default="")
    emptied = _emptied(comparison, scale)
    if emptied and emptied >= _POINTS / 100 and emptied >= weights.get(best, 0.0):
        return _without_work(comparison, scale)
    if weights.get(best, 0.0) < _WEIGHT:
        names = ("theoretical_occupancy", "achieved_occupancy")
        known = (worse[name] for name in names if name in worse)
        return next((_got_worse(d) for d in known if abs(d.delta or 0.0) >= _POINTS), "")
    while parts := [
        part for part in _PARTS.get(best, ()) if weights.get(part, 0.0) >= weights[best] / 2
    ]:
        best = max(parts, key=lambda name: weights[name])
    if best == "tail_idle":
        return _got_worse(worse[best])
    taken = 100 * min(weights[best], 1.0)
    return (
        f"{_got_worse(worse[best])[:-1]}; at the device's peak rate, what was added takes "
        f"{taken:.0f}% of {comparison.new.label}'s time."
    )


def _of_new_time(comparison: Comparison, delta: Delta, scale: Scale) -> float:
    """Part of the new version's time that a change takes at the device's peak."""
    amount = float(delta.delta or 0.0)
    if delta.id == "tail_idle":
        # Less than one wave leaves room beside the blocks, which costs no time by itself.
        waves = float(comparison["waves"].new or 0.0)
        return amount / 100 if waves > 1 and amount >= _POINTS else 0.0
    seconds = scale.seconds(delta.id, amount) or 0.0
    return seconds / scale.new_s if scale.new_s else 0.0


def _got_worse(delta: Delta) -> str:
    assert delta.old is not None and delta.new is not None
    if delta.unit == "%":
        change = points(float(delta.new) - float(delta.old))
    elif delta.old == 0:
        change = f"0 → {quantity(delta.new, delta.unit)}"
    else:
        change = relative(delta.old, delta.new)
    return f"The largest side effect: {delta.title} got worse ({change})."


def _emptied(comparison: Comparison, scale: Scale) -> float:
    """Part of the SMs (0-1) that had a block and have none any more, at least."""
    blocks = comparison["blocks"]
    if not blocks.old or not blocks.new:
        return 0.0
    return (min(int(blocks.old), scale.sms) - min(int(blocks.new), scale.sms)) / scale.sms


def _without_work(comparison: Comparison, scale: Scale) -> str:
    new = int(comparison["blocks"].new or 0)
    return (
        f"The largest side effect: a grid of {new} block{'s' if new > 1 else ''} leaves "
        f"{scale.sms - new} of {scale.sms} SMs without work."
    )


def _unexplained(
    comparison: Comparison, attribution: Attribution, time: TimeSplit | None, scale: Scale
) -> str:
    if time is not None:
        rest = [part for part in time.parts if part.link == "elsewhere" and part.certain]
        if rest:
            largest = max(rest, key=lambda part: abs(part.delta_s))
            if abs(largest.delta_s) < _WEIGHT * max(time.old_s, time.new_s):
                return ""
            amount = signed(largest.delta_s, "s")
            return f"An estimated {amount} is linked to no change of the source."
    best: tuple[float, CounterSplit, Part] | None = None
    for split in attribution.counters:
        if not _moved(comparison, split):
            continue
        for part in split.parts:
            weight = _weight(scale, split, part.delta)
            if part.link == "elsewhere" and weight >= _WEIGHT and (not best or weight > best[0]):
                best = (weight, split, part)
    if best is None:
        return ""
    _, split, part = best
    title = catalog()[split.id].title
    return f"Of {title}, {signed(part.delta, split.unit)} is linked to no change of the source."
