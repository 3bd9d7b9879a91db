"""Effects of a tuning's parameters on the time, and cliffs with their causes.

Effects are those of a functional analysis of variance (F. Hutter, H. Hoos, K. Leyton-Brown: An
Efficient Approach for Assessing Hyperparameter Importance, 2014) on the logarithm of the time, so
that an effect is a factor. A search does not time a balanced grid, so the parts are differences
between sums of squares of linear models with one column per value (type II, F. Yates, 1934). The
part of one parameter is the sum that the model of all parameters gains by it. The part of a pair is
the sum that this model gains by a column for each pair of values. SS is that difference, f its
degrees of freedom, TSS the sum of squares around the mean, e the residual variance::

    share = (SS - f e) / (TSS + e)                (omega squared, W. Hays, 1963)

If every combination was timed, only noise is left, and e is that of the intervals. Else e
is the residual variance of the larger model, and a share is reported if fewer than one in a hundred
permutations of the residuals give as much (D. Freedman, D. Lane, 1983). Effects that the
timed choices cannot tell apart are not reported.

A cliff is a step of one parameter to its next value that makes a choice slower by `CLIFF` or more,
beyond both intervals, and whose cause is known: a fact that the compiler or the emulator reports
for both choices, if it moved far enough to explain half of the difference. The time is taken as
proportional to it. For a unit of an SM, only the time in which the slower choice waits for it is
(Amdahl's law); this is all of the time if the unit is `FULL`. Occupancy hides latency, so it is a
reason only if the counters show no other one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from workbench.analysis.limits.limit import FULL
from workbench.ladder.tunings import BUSY, Trial, Tuning, Value, Values, key_of, score
from workbench.language import N_
from workbench.model import Record
from workbench.units import digits3, factor, quantity

#: A step to a neighbour that costs at least this factor is a cliff.
CLIFF = 1.15
#: The part of a step's logarithm that a fact must explain if the time is proportional to it.
_ENOUGH = 0.5
#: Permutations of residuals, and how many of them may give as much by chance.
_ORDERS, _BY_CHANCE = 199, 1
#: Half a 95% interval in standard deviations of a normal distribution.
_HALF_95 = 1.96

Matrix = NDArray[np.float64]


class ValueCost(Record, frozen=True):
    """A value of a parameter: how many choices with it have a time, and its cost.

    `factor` is the time over that of the best value, all other parameters equal; None: unknown.
    """

    value: Value
    tried: int
    factor: float | None = None


class Effect(Record, frozen=True):
    """The effect of one parameter, or of two together beyond each alone, on the time.

    `share` is the part (0-1) of the variance of the time's logarithm; None for the reason in `why`.
    """

    parameters: tuple[str, ...]
    share: float | None = None
    why: str = ""
    levels: tuple[ValueCost, ...] = ()


class Effects(Record, frozen=True):
    """The effects on one problem, the largest first; `tried`: how many choices have a time.

    `complete`: every combination of the values that were tried has one.
    """

    problem: str
    tried: int
    complete: bool
    mains: tuple[Effect, ...]
    pairs: tuple[Effect, ...]


class Cliff(Record, frozen=True):
    """A parameter's step to a neighbouring value that makes choices slower.

    `factor` is the largest of `cases`, which differ in their other parameters; `fast` and `slow`
    are its two choices. `limiter` names the fact that moved; `moved` gives the values.
    """

    problem: str
    parameter: str
    limiter: str
    factor: float
    cases: int
    fast: Values
    slow: Values
    moved: tuple[str, ...] = ()


class WrongChoice(Record, frozen=True):
    """The cost of one problem's winner on others: its time over the best one's there.

    A cost is None if that choice was not timed.
    """

    problem: str
    values: Values
    costs: dict[str, float | None]


# --- effects -------------------------------------------------------------------------------------


def effects(tuning: Tuning, problem: str) -> Effects:
    """Main effects and interactions of two parameters, over the choices timed on a problem."""
    scored = [(each, s) for each in tuning.of(problem) if (s := score(tuning.engine, each))]
    trials = [each for each, _ in scored]
    count = {
        name: {value: sum(each.values.get(name) == value for each in trials) for value in values}
        for name, values in tuning.parameters.items()
    }
    seen = {name: [value for value, many in own.items() if many] for name, own in count.items()}
    table = {
        name: np.array([[float(x.values.get(name) == value) for value in values] for x in trials])
        for name, values in seen.items()
        if len(values) > 1
    }
    complete = bool(table) and len(trials) == math.prod(map(len, seen.values()))
    y = np.log(np.array([s for _, s in scored]))
    fit = _Fit(y, table, _noise(trials) if complete else None)
    mains = []
    for name, own in count.items():
        share, why = fit.main(name) if name in table else (None, N_("only one value was timed"))
        costs = {} if why else dict(zip(seen[name], fit.costs[name], strict=True))
        levels = tuple(
            ValueCost(value=value, tried=many, factor=costs.get(value))
            for value, many in own.items()
        )
        mains.append(Effect(parameters=(name,), share=share, why=why, levels=levels))
    pairs = []
    for one, other in combinations(table, 2):
        share, why = fit.pair(one, other)
        pairs.append(Effect(parameters=(one, other), share=share, why=why))
    return Effects(
        problem=problem,
        tried=len(trials),
        complete=complete,
        mains=tuple(sorted(mains, key=_largest)),
        pairs=tuple(sorted(pairs, key=_largest)),
    )


def _largest(effect: Effect) -> float:
    return 1.0 if effect.share is None else -effect.share


def _noise(trials: Sequence[Trial]) -> float:
    """The variance of the logarithm of a time, estimated from the intervals."""
    halves = [
        math.log(each.high_s / each.low_s) / 2 for each in trials if each.low_s and each.high_s
    ]
    return sum((half / _HALF_95) ** 2 for half in halves) / len(halves) if halves else 0.0


class _Model(NamedTuple):
    """A linear model: an orthonormal basis of its columns' span, its rank and its residual."""

    basis: Matrix
    rank: int
    rss: float


class _Fit:
    """Models of one problem's times. `y` are their logarithms, `table` the columns by parameter.

    `noise` is the variance without any cause; None: the residual gives it.
    """

    def __init__(self, y: Matrix, table: Mapping[str, Matrix], noise: float | None) -> None:
        self._y, self._table, self._noise = y, table, noise
        self._tss = float(((y - y.mean()) ** 2).sum()) if table else 0.0
        self._all = self._model(table)

    def _model(self, names: Mapping[str, Matrix] | Sequence[str], *more: Matrix) -> _Model:
        columns = [np.ones((len(self._y), 1)), *(self._table[name] for name in names), *more]
        u, s, _ = np.linalg.svd(np.hstack(columns), full_matrices=False)
        basis = u[:, s > 1e-9 * max(s.max(initial=0.0), 1.0)]
        left = self._y - basis @ (basis.T @ self._y)
        return _Model(basis, basis.shape[1], float((left**2).sum()))

    def main(self, name: str) -> tuple[float | None, str]:
        """The share of a parameter, or why it is unknown."""
        without = self._model([each for each in self._table if each != name])
        full = self._table[name].shape[1] - 1
        if self._all.rank - without.rank < full:
            return None, N_("its values were timed only together with certain others")
        return self._share(without, self._all)

    @cached_property
    def costs(self) -> dict[str, list[float]]:
        """By parameter: the time of each value over that of the best one, all others equal."""
        columns = [np.ones((len(self._y), 1)), *self._table.values()]
        solution = np.linalg.lstsq(np.hstack(columns), self._y, rcond=None)[0]
        __, *parts = np.split(solution, np.cumsum([own.shape[1] for own in columns[:-1]]))
        return {
            name: np.exp(part - part.min()).tolist()
            for name, part in zip(self._table, parts, strict=True)
        }

    def pair(self, one: str, other: str) -> tuple[float | None, str]:
        """The share of two parameters beyond each alone, or why it is unknown."""
        a, b = self._table[one], self._table[other]
        cells = (a[:, :, None] * b[:, None, :]).reshape(len(self._y), -1)
        joined = self._model(self._table, cells)
        if joined.rank == self._all.rank:
            return None, N_("too few of their combinations were timed")
        return self._share(self._all, joined)

    def _share(self, small: _Model, large: _Model) -> tuple[float | None, str]:
        left, freedom = len(self._y) - large.rank, large.rank - small.rank
        gained = max(0.0, small.rss - large.rss)
        if self._tss <= 0.0:
            return None, N_("all times are equal")
        if self._noise is not None:
            error = self._noise
        elif left < 1:
            return None, N_("too few choices were timed")
        elif not self._beyond_chance(small, large, gained):
            return None, N_("could be chance")
        else:
            error = large.rss / left
        return max(0.0, (gained - freedom * error) / (self._tss + error)), ""

    def _beyond_chance(self, small: _Model, large: _Model, gained: float) -> bool:
        """True if the gain is larger than that of most random orders of the smaller's residuals."""
        random = np.random.default_rng(0)
        rest = self._y - small.basis @ (small.basis.T @ self._y)
        orders = np.stack([random.permutation(rest) for _ in range(_ORDERS)], axis=1)

        def left(model: _Model) -> Matrix:
            rest: Matrix = orders - model.basis @ (model.basis.T @ orders)
            squares: Matrix = np.square(rest).sum(axis=0)
            return squares

        before, after = left(small), left(large)
        own = gained / max(large.rss, 1e-12 * self._tss)
        by_chance = (before - after) / np.maximum(after, 1e-12 * self._tss)
        return int((by_chance >= own).sum()) <= _BY_CHANCE


# --- cliffs --------------------------------------------------------------------------------------


def cliffs(tuning: Tuning, problem: str) -> tuple[Cliff, ...]:
    """Steps of one parameter that cost `CLIFF` or more, and why; similar ones are merged.

    The largest is first.
    """
    found: dict[tuple[object, ...], list[Cliff]] = defaultdict(list)
    for parameter, fast, slow, ratio in _steps(tuning, problem):
        limiter, moved = limiters(fast, slow, ratio)
        if limiter:  # a step without a known cause teaches nothing
            alike = (parameter, fast.values[parameter], slow.values[parameter], limiter)
            one = Cliff(problem, parameter, limiter, ratio, 1, fast.values, slow.values, moved)
            found[alike].append(one)
    every = (
        replace(max(own, key=lambda each: each.factor), cases=len(own)) for own in found.values()
    )
    return tuple(sorted(every, key=lambda each: -each.factor))


def _steps(tuning: Tuning, problem: str) -> Iterator[tuple[str, Trial, Trial, float]]:
    """Neighbours a cliff apart, beyond their intervals: parameter, faster, slower, factor."""
    scores = ((each, score(tuning.engine, each)) for each in tuning.of(problem))
    timed = {key_of(each.values): (each, seconds) for each, seconds in scores if seconds}
    for trial, seconds in timed.values():
        for name, values in tuning.parameters.items():
            place = values.index(trial.values[name]) + 1 if trial.values.get(name) in values else 0
            if not 0 < place < len(values):
                continue
            other = timed.get(key_of({**trial.values, name: values[place]}))
            if other is None:
                continue
            (fast, least), (slow, most) = sorted(((trial, seconds), other), key=lambda x: x[1])
            # The emulator's estimates have no intervals.
            known = fast.high_s is not None and slow.low_s is not None and slow.low_s > fast.high_s
            if most / least >= CLIFF and (known or tuning.engine == "emulator"):
                yield name, fast, slow, most / least


class _Moved(NamedTuple):
    """A fact that slows the slower choice; `factor` assumes that the time is proportional to it."""

    limiter: str
    factor: float
    text: str


#: Counts that take longer if they are larger: their names and texts.
_COUNTS = {
    "shared_wavefronts": (
        N_("shared-memory wavefronts"),
        "shared-memory wavefronts {old} → {new} ({times})",
    ),
    "global_sectors": ("global sectors", "global sectors {old} → {new} ({times})"),
    "instructions": (N_("instructions"), "instructions {old} → {new} ({times})"),
    "atomics": (N_("atomics at one address"), "atomics at one address {old} → {new} ({times})"),
}
#: Resources that a choice takes: their names and texts.
_TAKES = {
    "spills": (N_("spills"), "spills {old} → {new} bytes per thread"),
    "local memory": (N_("local memory"), "local memory {old} → {new} bytes per thread"),
    "registers": (N_("registers"), "registers {old} → {new} per thread"),
    "shared memory": (N_("shared memory"), "shared memory {old} → {new} per block"),
}
_OCCUPANCY = "theoretical occupancy {old} → {new}"


def limiters(fast: Trial, slow: Trial, ratio: float) -> tuple[str, tuple[str, ...]]:
    """Facts that moved far enough to make a choice slower by `ratio`.

    Returns the name of the one that moved most ("" without one), and one text for each fact.
    """
    moved = [
        each
        for each in _facts(fast, slow)
        if math.log(each.factor) >= _ENOUGH * math.log(max(ratio, 1.0))
    ]
    moved.sort(key=lambda each: -each.factor)
    return (moved[0].limiter if moved else ""), tuple(each.text for each in moved)


def _facts(fast: Trial, slow: Trial) -> Iterator[_Moved]:
    a, b = fast.facts, slow.facts
    local = {
        name: b[name] - a[name]
        for name in ("spill_bytes", "stack_bytes")
        if name in a and name in b and b[name] > a[name]
    }
    if local:
        # Spills are in the stack frame as well; if that grew by far more, it holds arrays.
        spilled = local.get("spill_bytes", 0.0)
        name = "stack_bytes" if local.get("stack_bytes", 0.0) > 2 * spilled else "spill_bytes"
        words, form = _TAKES["local memory" if name == "stack_bytes" else "spills"]
        # Its cost is unknown, so any increase is named, whatever the factor.
        yield _Moved(words, math.inf, form.format(old=digits3(a[name]), new=digits3(b[name])))
    yield from _occupied(fast, slow)
    for name, (words, form) in _COUNTS.items():
        if a.get(name) and b.get(name, 0.0) > a[name]:
            times = b[name] / a[name]
            if name == "shared_wavefronts" and _conflicts(a, b):
                words = N_("bank conflicts")
            old, new = (quantity(each[name], "") for each in (a, b))
            made = 1 / (1 - _bound(name, slow) * (1 - 1 / times))
            yield _Moved(words, made, form.format(old=old, new=new, times=factor(times)))
    before, after = _uneven(a), _uneven(b)
    if before and after and after > before:
        if b["waves"] < 1:
            each = " → ".join(digits3(side["waves"] * _fitting(side)) for side in (a, b))
            yield _Moved(N_("small grid"), after / before, f"blocks per SM {each}")
        else:
            text = f"waves {digits3(a['waves'])} → {digits3(b['waves'])}: the last one is emptier"
            yield _Moved(N_("last wave"), after / before, text)


def _bound(counter: str, slow: Trial) -> float:
    """The part (0-1) of a choice's time in which it waits for the counted unit; 0 if unknown.

    A count without a unit gives 1: memory has latency however far from its peak it is.
    """
    if counter not in BUSY:
        return 1.0
    seconds = slow.median_s or slow.estimate
    share = slow.facts.get(BUSY[counter], 0.0) / seconds if seconds else 0.0
    return min(1.0, 100 * share / FULL)


def _fitting(facts: Mapping[str, float]) -> float:
    """Blocks that an SM holds; 0 if unknown."""
    return min((facts[name] for name in _LIMITS if name in facts), default=0.0)


def _uneven(facts: Mapping[str, float]) -> float | None:
    """The factor by which the last blocks of a grid, which leave SMs idle, lengthen it.

    A grid that fills no wave is judged by its blocks per SM: occupancy does not matter there.
    """
    shares = facts.get("waves", 0.0)
    if 0 < shares < 1:
        shares *= _fitting(facts)
    return math.ceil(shares) / shares if shares else None


def _conflicts(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """True if most of the added wavefronts come from bank conflicts."""
    name, every = "shared_wavefronts_excess", "shared_wavefronts"
    return name in a and name in b and b[name] - a[name] >= 0.5 * (b[every] - a[every])


#: Counters that limit the blocks on an SM, and the resource behind each.
_LIMITS = {
    "occupancy_limit_registers": "registers",
    "occupancy_limit_shared": "shared memory",
    "occupancy_limit_warps": N_("block size"),
    "occupancy_limit_blocks": "block size",
}


def _occupied(fast: Trial, slow: Trial) -> Iterator[_Moved]:
    """Fewer warps on an SM, and the resource that limits them, if one does.

    Occupancy does not matter for grids that fill no wave: there, warps are fewer only if blocks are
    smaller.
    """
    if all(0 < each.facts.get("waves", 1.0) < 1 for each in (fast, slow)):
        yield from _smaller(fast, slow)
        return
    if not fast.occupancy or not slow.occupancy or slow.occupancy >= fast.occupancy:
        return
    if not all(name in each.facts for name in _COUNTS for each in (fast, slow)):
        return  # bank conflicts or more sectors may be why, and neither was measured
    known = {name: slow.facts[name] for name in _LIMITS if name in slow.facts}
    least = min(known.values(), default=None)
    causes = {_LIMITS[name] for name, limit in known.items() if limit == least}
    cause = causes.pop() if len(causes) == 1 else ""
    texts = []
    took = (("registers", fast.registers, slow.registers, ""),
            ("shared memory", fast.shared, slow.shared, "B"))  # fmt: skip
    for what, before, after, unit in took:
        if before is not None and after is not None and after > before and cause in ("", what):
            old, new = quantity(before, unit), quantity(after, unit)
            texts.append(_TAKES[what][1].format(old=old, new=new))
        if what == cause and before is not None and after is not None and after <= before:
            cause = "block size"  # as much of the resource fits, or more
    if not cause and len(texts) == 1:
        cause = next(what for what, *_ in took if texts[0].startswith(what))
    old, new = (quantity(100 * (each.occupancy or 0.0), "%") for each in (fast, slow))
    named = " → ".join(filter(None, (cause, N_("occupancy"))))
    text = ", ".join([*texts, _OCCUPANCY.format(old=old, new=new)])
    yield _Moved(named, fast.occupancy / slow.occupancy, text)


def _smaller(fast: Trial, slow: Trial) -> Iterator[_Moved]:
    """Fewer warps in at least as many blocks, if the grid fills no wave."""
    sides = [(each.facts["waves"], each) for each in (fast, slow)]
    before, after = (share * (each.occupancy or 0.0) for share, each in sides)
    blocks, as_many = (share * _fitting(each.facts) for share, each in sides)
    if 0 < after < before and 0 < blocks <= as_many * (1 + 1e-6):
        share = f"{quantity(100 * before, '%')} → {quantity(100 * after, '%')}"
        text = f"warps {share} of the chip's limit, in as many blocks"
        yield _Moved("block size", before / after, text)


# --- other sizes ---------------------------------------------------------------------------------


def wrong_choices(tuning: Tuning) -> tuple[WrongChoice, ...]:
    """The cost of each problem's winner on every problem of the tuning."""
    winners = tuning.winners
    known = {each.key: score(tuning.engine, each) for each in tuning.trials}
    rows = []
    for problem, best in winners.items():
        costs: dict[str, float | None] = {}
        for other, own in winners.items():
            mine, least = known.get((key_of(best.values), other)), score(tuning.engine, own)
            costs[other] = mine / least if mine and least else None
        rows.append(WrongChoice(problem=problem, values=best.values, costs=costs))
    return tuple(rows)
