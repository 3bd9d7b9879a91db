"""Whether a verdict holds whatever a chip would count.

A counter's two values are exchanged for others that are possible (`Chance`): both ends of each
side's range, and within it what a verdict may hang on, the predicted value and that of the other
side. Verdicts change at a bound or at these alone, so where all of them give one verdict,
it stands; where not, there is none, and the lines are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product

from msgspec.structs import replace

from workbench.analysis.chance import Chance
from workbench.analysis.compare import Delta, movement
from workbench.analysis.noise import left_noise, noise_of
from workbench.counters import catalog
from workbench.model import Number


def doubt(delta: Delta, decide: Callable[[Delta], object], targets: Iterable[float] = ()) -> str:
    """Why a verdict on a counter does not stand, naming the lines; empty where it does.

    Args:
        delta: The counter on both sides.
        decide: The verdict on it, and on it with other values.
        targets: Values of the new side at which the verdict may be another one.
    """
    said = decide(delta)
    if delta.chances is None or all(decide(one) == said for one in possible(delta, targets)):
        return ""
    sides = (delta.chances.old, delta.chances.new)
    return "; ".join(dict.fromkeys(side.words for side in sides if side is not None))


def possible(delta: Delta, targets: Iterable[float] = ()) -> Iterator[Delta]:
    """The counter with other values that a chip may give it; none where both sides are certain.

    Of the same code on both sides, what chance does to one is no difference to the other.
    """
    if delta.chances is None:
        return
    before, after = delta.chances.old, delta.chances.new
    olds, news = _ends(delta.old, before), _ends(delta.new, after)
    inside = [value for value in targets if after is not None and after.low < value < after.high]
    if delta.chances.together and len(olds) == len(news):
        for old, new in [*zip(olds, news, strict=True), *((value, value) for value in inside)]:
            yield at(delta, old, new)
        return
    for old, new in product(olds, [*news, *inside]):
        yield at(delta, old, new)
    first, second = ([value for value in ends if value is not None] for ends in (olds, news))
    if first and second:
        common = max(min(first), min(second))
        if common <= min(max(first), max(second)):
            yield at(delta, common, common)  # nothing may have moved


def _ends(value: Number | None, chance: Chance | None) -> list[Number | None]:
    return [value] if chance is None else [chance.low, value, chance.high]


def at(delta: Delta, old: Number | None, new: Number | None) -> Delta:
    """The same counter with other values."""
    if old is None or new is None:
        return replace(delta, old=old, new=new)
    counter, change = catalog()[delta.id], new - old
    moved = left_noise(counter, old, new)
    return replace(
        delta,
        old=old,
        new=new,
        delta=change,
        relative=change / old if old else None,
        moved=moved,
        verdict=movement(delta.better, change, moved),
        noise=noise_of(counter, old, new),
    )
