"""Which kernels of two surveys are the same work, and which replaced which.

A kernel that is on both sides under its full name is the same. Of the others the name of the
function decides next, then the place: what stood between the same two kernels before and now
stands between them again has taken its place: one for one (renamed), several for one (fused),
one for several (split). What is left came or went.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Literal

from workbench.capture.records import Survey, Work
from workbench.model import Record

Fate = Literal["same", "renamed", "fused", "split", "replaced", "came", "went"]
#: How alike two names must be that may mean one function, where nothing else tells.
_ALIKE = 0.75
#: How far apart the times of what was fused or split may lie, as a factor.
_FAR = 4.0


class Counterparts(Record, frozen=True):
    """Works of both surveys (their places) that do the same job, so far as can be told."""

    fate: Fate
    old: tuple[int, ...]
    new: tuple[int, ...]


class _Sides:
    """Two surveys, and what of each has found no counterpart yet."""

    def __init__(self, old: Survey, new: Survey) -> None:
        self.works = (old.works, new.works)
        self.runs = (len(old.runs), len(new.runs))
        self.left: tuple[dict[int, None], dict[int, None]] = (
            dict.fromkeys(range(len(old.works))),
            dict.fromkeys(range(len(new.works))),
        )
        self.found: list[Counterparts] = []

    def take(self, fate: Fate, old: Iterable[int], new: Iterable[int]) -> None:
        """Make counterparts of works that were left."""
        pair = Counterparts(fate=fate, old=tuple(old), new=tuple(new))
        for side, places in enumerate((pair.old, pair.new)):
            for place in places:
                del self.left[side][place]
        self.found.append(pair)

    def grouped(self, key: Callable[[int, int], Hashable]) -> list[tuple[list[int], list[int]]]:
        """What is left, by a key of (side, place), where both sides have some."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side in (0, 1):
            for place in self.left[side]:
                groups[key(side, place)][side].append(place)
        return [(a, b) for a, b in groups.values() if a and b]

    def launches(self, side: int, place: int) -> float:
        """Launches of one run."""
        return sum(self.works[side][place].launches) / self.runs[side]

    def name(self, side: int, place: int) -> str:
        """The function's name."""
        return self.works[side][place].name


def pair_works(old: Survey, new: Survey) -> tuple[Counterparts, ...]:
    """Every work of both surveys, each once.

    Returns:
        First what is the same, then what replaced what, then what came and went.
    """
    sides = _Sides(old, new)
    for before, after in sides.grouped(lambda side, place: sides.works[side][place].symbol):
        sides.take("same", before, after)
    for before, after in sides.grouped(lambda side, place: _plain(sides.works[side][place])):
        _by_name(sides, before, after)
    _by_place(sides)
    _by_likeness(sides)
    for place in list(sides.left[0]):
        sides.take("went", [place], [])
    for place in list(sides.left[1]):
        sides.take("came", [], [place])
    return tuple(sides.found)


def _plain(work: Work) -> tuple[str, str]:
    return work.kind, work.name


def _by_name(sides: _Sides, before: list[int], after: list[int]) -> None:
    """Functions of one name: parameters or template arguments changed.

    Where there are several, those of one configuration and as many launches go together; one
    that is left on either side goes with the one on the other.
    """
    for old in list(before):
        for new in after:
            if _configuration(sides, 0, old) == _configuration(sides, 1, new):
                sides.take("same", [old], [new])
                before.remove(old)
                after.remove(new)
                break
    if len(before) == len(after) == 1:
        sides.take("same", before, after)


def _configuration(sides: _Sides, side: int, place: int) -> Hashable:
    shapes = sides.works[side][place].shapes
    return sides.launches(side, place), shapes[0].grid if shapes else None


def _by_place(sides: _Sides) -> None:
    """What stands between the same two kernels on both sides."""
    same: list[dict[int, int]] = [{}, {}]
    for number, pair in enumerate(sides.found):
        for side, places in enumerate((pair.old, pair.new)):
            same[side] |= dict.fromkeys(places, number)

    def between(side: int, place: int) -> Hashable:
        works, known = sides.works[side], same[side]
        return (
            _anchor(works, known, place, lambda work: work.before),
            _anchor(works, known, place, lambda work: work.after),
            works[place].kind,
        )

    for before, after in sides.grouped(between):
        counts = {sides.launches(0, x) for x in before} | {sides.launches(1, x) for x in after}
        # As many launches each: one took the place of the other every time.
        if len(counts) > 1 or not _comparable(sides, before, after):
            continue
        fates: dict[tuple[bool, bool], Fate] = {
            (False, False): "renamed",
            (True, False): "fused",
            (False, True): "split",
            (True, True): "replaced",
        }
        sides.take(fates[len(before) > 1, len(after) > 1], before, after)


def _comparable(sides: _Sides, before: list[int], after: list[int]) -> bool:
    """Whether one may be the work of the other: an optimization seldom does more than `_FAR`."""
    if len(before) == len(after) == 1:
        return True
    old, new = (
        sum(sum(sides.works[side][place].total_ns) for place in places) / sides.runs[side]
        for side, places in enumerate((before, after))
    )
    return max(old, new) <= _FAR * min(old, new)


def _anchor(
    works: Sequence[Work], known: dict[int, int], place: int, step: Callable[[Work], int]
) -> int:
    """The nearest neighbour on one side that has a counterpart, as its number; -1: none."""
    seen = {place}
    at = step(works[place])
    while at >= 0 and at not in known:
        if at in seen:
            return -1
        seen.add(at)
        at = step(works[at])
    return known.get(at, -1)


def _by_likeness(sides: _Sides) -> None:
    """What has nearly the same name, and is launched as often."""
    for old in list(sides.left[0]):
        name = sides.name(0, old)
        scores = {
            new: SequenceMatcher(None, name, sides.name(1, new)).ratio()
            for new in sides.left[1]
            if sides.launches(0, old) == sides.launches(1, new)
            and sides.works[0][old].kind == sides.works[1][new].kind
        }
        best = max(scores, key=lambda new: scores[new], default=None)
        if best is not None and scores[best] >= _ALIKE:
            sides.take("renamed", [old], [best])
