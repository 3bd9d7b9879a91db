"""A step told in a few sentences that are made from its parts and so cannot be false.

Every clause is built from one number of the analysis and is left out where that
number is missing or within its noise. No clause names a cause: code is *linked to*
what its lines counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.attribution import Attribution, CounterSplit, Part
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.hunks import Hunk
from workbench.analysis.timesplit import TimePart, TimeSplit
from workbench.counters import catalog
from workbench.units import factor, points, quantity, relative, signed

#: A part below this share of its counter's size is no "strongest link".
_WEIGHT = 0.01
_SAMPLES = "smsp__pcsamp_"


def tell(
    comparison: Comparison,
    attribution: Attribution,
    time: TimeSplit | None,
    effects: Sequence[Delta],
) -> str:
    """The step in words: time, strongest link, stall time, side effect, what is unexplained.

    Args:
        comparison: Whole-kernel counters.
        attribution: The split of the line counters.
        time: The split of the duration, if there is one.
        effects: Counters that moved and that nobody expected (see `expectations`).
    """
    clauses = [
        _speed(comparison),
        _one_without_the_other(comparison),
        _strongest(comparison, attribution),
        _stall(time),
        _side_effect(effects),
        _unexplained(comparison, attribution, time),
    ]
    return " ".join(clause for clause in clauses if clause)


def _speed(comparison: Comparison) -> str:
    old, new = comparison.old.label, comparison.new.label
    time = comparison.time
    if time is not None:
        if not time.moved:
            return f"{new} and {old} are equally fast within their intervals."
        return _faster(new, old, time.speedup)
    duration = comparison["duration"]
    if not duration.old or not duration.new:
        return f"No time of both {old} and {new} is known."
    if not duration.moved:
        return f"Under the profiler {new} and {old} are equally fast within the noise."
    return f"Under the profiler {_faster(new, old, duration.old / duration.new)}"


def _one_without_the_other(comparison: Comparison) -> str:
    """A time that moved without a counter, or counters without the time."""
    counters = [d for d in comparison.counters if d.moved and d.id != "duration"]
    duration = comparison["duration"]
    if comparison.time is None and (duration.old is None or duration.new is None):
        return ""
    moved = comparison.time.moved if comparison.time is not None else duration.moved
    if moved and not counters:
        return "No counter moved with it."
    if counters and not moved:
        number = len(counters)
        return f"{number} counter{'s' if number > 1 else ''} moved all the same."
    return ""


def _faster(new: str, old: str, speedup: float) -> str:
    if speedup >= 1:
        return f"{new} is {factor(speedup)} faster than {old}."
    return f"{new} is {factor(1 / speedup)} slower than {old}."


def _moved(comparison: Comparison, split: CounterSplit) -> bool:
    if not split.id or split.counter.startswith(_SAMPLES):
        return False
    delta = next((d for d in comparison.counters if d.id == split.id), None)
    return delta is not None and delta.moved


def by_hunk(parts: Sequence[Part]) -> dict[int, list[Part]]:
    """Parts that belong to a hunk, be it by line or by symbol."""
    out: dict[int, list[Part]] = {}
    for part in parts:
        if part.hunk is not None and part.link in ("hunk", "symbol"):
            out.setdefault(part.hunk, []).append(part)
    return out


def _strongest(comparison: Comparison, attribution: Attribution) -> str:
    best: tuple[float, CounterSplit, int, list[Part]] | None = None
    for split in attribution.counters:
        if not _moved(comparison, split) or split.id.endswith(("_ideal", "_excess")):
            continue
        size = max(abs(split.old), abs(split.new), 1)
        for hunk, parts in by_hunk(split.parts).items():
            weight = abs(sum(part.delta for part in parts)) / size
            if weight >= _WEIGHT and (best is None or weight > best[0]):
                best = (weight, split, hunk, parts)
    if best is None:
        return ""
    _, split, hunk_id, parts = best
    amount = sum(part.delta for part in parts)
    what = _subject(attribution.hunks[hunk_id - 1], parts)
    title = catalog()[split.id].title
    name = title[:1].lower() + title[1:] if not title[:2].isupper() else title
    text = f"{what} is linked to {signed(amount, split.unit)} {name}"
    share = amount / split.delta if split.delta else 0.0
    if amount == split.delta:
        text += ", all of the change"
    elif 0 < share < 1:
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
    linked: dict[int, list[TimePart]] = {}
    for part in time.parts:
        if part.hunk is not None and part.link in ("hunk", "symbol"):
            linked.setdefault(part.hunk, []).append(part)
    best: tuple[float, float, str, int] | None = None
    for hunk, parts in linked.items():
        sums: dict[str, list[float]] = {}
        for stall in (stall for part in parts for stall in part.stalls):
            entry = sums.setdefault(stall.stall, [0.0, 0.0])
            entry[0] += stall.delta_s
            # Parts may share the same samples: their errors add, they do not cancel.
            entry[1] += max(stall.high_s - stall.delta_s, stall.delta_s - stall.low_s)
        for name, (delta, error) in sums.items():
            known = name in catalog() and abs(delta) > error
            if known and (best is None or abs(delta) > abs(best[0])):
                best = (delta, error, name, hunk)
    if best is None:
        return ""
    delta, error, name, hunk = best
    verb = "fell" if delta < 0 else "rose"
    return (
        f"By warp samples, time in {catalog()[name].title} {verb} by an estimated "
        f"{quantity(abs(delta), 's')} (±{quantity(error, 's')}) on {_lines_of(linked[hunk])}."
    )


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


def _side_effect(effects: Sequence[Delta]) -> str:
    worse = [
        delta
        for delta in effects
        # A stall's share says where time went, and excess follows from its two terms.
        if delta.verdict == "worse"
        and delta.id != "duration"
        and delta.group != "stalls"
        and not delta.id.endswith("_excess")
    ]
    if not worse:
        return ""
    delta = worse[0]
    if delta.old is None or delta.new is None:
        return ""
    if delta.unit == "%":
        change = points(float(delta.new) - float(delta.old))
    elif delta.old == 0:
        change = f"0 → {quantity(delta.new, delta.unit)}"
    else:
        change = relative(delta.old, delta.new)
    return f"The largest side effect: {delta.title} got worse ({change})."


def _unexplained(comparison: Comparison, attribution: Attribution, time: TimeSplit | None) -> str:
    if time is not None:
        rest = [part for part in time.parts if part.link == "elsewhere" and part.certain]
        if rest:
            largest = max(rest, key=lambda part: abs(part.delta_s))
            amount = signed(largest.delta_s, "s")
            return f"An estimated {amount} is linked to no change of the source."
    best: tuple[float, CounterSplit, Part] | None = None
    for split in attribution.counters:
        if not _moved(comparison, split):
            continue
        for part in split.parts:
            weight = abs(part.delta) / max(abs(split.old), abs(split.new), 1)
            if part.link == "elsewhere" and weight >= _WEIGHT and (not best or weight > best[0]):
                best = (weight, split, part)
    if best is None:
        return ""
    _, split, part = best
    title = catalog()[split.id].title
    return f"Of {title}, {signed(part.delta, split.unit)} is linked to no change of the source."
