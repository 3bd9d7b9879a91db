"""A step's cause, found: hypotheses with the places where they moved, stalls, and limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from workbench.analysis.aggregate import combine, main_launch
from workbench.analysis.cause.bounds import bounded_in
from workbench.analysis.cause.hypotheses import WAITS, Behaviour, behaviour_of, rank
from workbench.analysis.cause.places import Origin, place_of
from workbench.analysis.cause.waits import (
    beside_of,
    held_nothing_up,
    is_pipe,
    place_of_wait,
    waves_of,
)
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.limit import Limit, limit_of
from workbench.analysis.occupancy import OccupancySplit
from workbench.analysis.sameness import Doubt
from workbench.analysis.split.attribution import Attribution
from workbench.analysis.split.duration import TimeSplit
from workbench.analysis.stalls import state_seconds
from workbench.analysis.weight import WELL, Scale, tells
from workbench.counters import Missing
from workbench.gpus import chip_for
from workbench.model import Profile, Record

#: A warp state that moved by less than this part of the longer time is not told.
_STALL = 0.02


class Proof(Record, frozen=True):
    """One proposition: what was edited moved this counter. `score` as `Hypothesis.score`.

    `beside` is, where the counter is a wait, the count of its kind that went with it at the same
    place, or the share of a pipe that did the same work; where it is the grid, its waves.
    """

    counter: Delta
    place: Origin
    way: str
    score: float
    beside: Delta | None = None


class StallMove(Record, frozen=True):
    """A warp state over the whole kernel, in seconds of the duration, on both sides.

    `share` is the part of what the step gained or lost (0-1, more where states cancel out).
    """

    stall: str
    old_s: float
    new_s: float
    share: float = 1.0

    @property
    def delta_s(self) -> float:
        """What was added (negative: relieved)."""
        return self.new_s - self.old_s


class Cause(Record, frozen=True):
    """Why a step took the time that it took. `proofs` come best first, and may be none.

    `stalls` are the warp states that moved most in the direction of the time; `limit_old` and
    `limit_new` what limited either side. `active` is the part of the time (0-1) that SMs were
    active on both sides; `room` are the resources that changed how many blocks fit on an SM.
    `doubts` say why the two did not do the same, where they did not.
    """

    proofs: tuple[Proof, ...]
    stalls: tuple[StallMove, ...]
    limit_old: Limit | None
    limit_new: Limit | None
    active: tuple[float, float] | None = None
    room: tuple[Delta, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @property
    def other_work(self) -> bool:
        """Whether it is certain that the two did not do the same."""
        return any(doubt.certain for doubt in self.doubts)


def find_cause(
    old: Profile,
    new: Profile,
    comparison: Comparison,
    attribution: Attribution,
    time: TimeSplit | None,
    occupancy: Sequence[OccupancySplit],
    doubts: tuple[Doubt, ...] = (),
) -> Cause:
    """Weigh every counter that moved, and find where the best of them moved."""
    sides = _side(old), _side(new)
    known = "unknown" not in (attribution.sources.old, attribution.sources.new)
    hypotheses = rank(comparison, *sides)

    def place(counter: str, way: str) -> Origin:
        return place_of(
            counter,
            way,
            attribution,
            time,
            occupancy,
            known=known,
            by_size=_by_size(comparison),
            change=float(comparison[counter].delta or 0),
        )

    proofs = []
    useless = held_nothing_up(comparison, sides)
    for h in hypotheses:
        if useless and h.way == "wait":
            continue
        where = place(h.counter, h.way)
        beside = None
        if h.way == "occupancy" and where.link == "compiler":
            where = bounded_in(attribution, old, new) or where
        if h.way == "launch":
            beside = waves_of(comparison)
        if h.way == "wait":
            beside = beside_of(comparison, h, where, place, sides)
            if beside is not None and not is_pipe(beside):
                # A count says exactly where, samples only about.
                where = place(beside.id, "count")
            elif known:
                where = place_of_wait(comparison, h, where, attribution, new)
        proofs.append(
            Proof(
                counter=comparison[h.counter],
                place=where,
                way=h.way,
                score=h.score,
                beside=beside,
            )
        )
    if comparison.speed is None:
        proofs = _counted(old, comparison, place)
    return Cause(
        proofs=tuple(proofs),
        stalls=_stalls(*sides),
        limit_old=limit_of(old),
        limit_new=limit_of(new),
        active=_active(*sides),
        room=_room(comparison, occupancy),
        doubts=doubts,
    )


def _counted(
    old: Profile, comparison: Comparison, place: Callable[[str, str], Origin]
) -> list[Proof]:
    """Without a time: the count whose change takes the SMs longest, at their peak."""
    scale = Scale(old, comparison)
    costs = [
        (scale.cycles(delta.id, abs(delta.delta)) or 0.0, delta)
        for delta in (comparison[name] for name in (*WAITS, "instructions"))
        if delta.delta is not None and delta.moved and tells(delta)
    ]
    cost, most = max(costs, key=lambda each: each[0], default=(0.0, None))
    if most is None or not cost:
        return []
    return [Proof(counter=most, place=place(most.id, "count"), way="count", score=1.0)]


def _active(old: Behaviour, new: Behaviour) -> tuple[float, float] | None:
    parts = []
    for side in (old, new):
        active, cycles = side.value("active_cycles"), side.value("cycles")
        if not active or not cycles:
            return None
        parts.append(min(active / cycles, 1.0))
    return parts[0], parts[1]


#: What decides how many blocks fit on an SM, with the cause that it is of.
_ROOM = {
    "registers": "registers",
    "threads_per_block": "block size",
    "static_shared": "shared memory",
    "dynamic_shared": "shared memory",
}


#: Two ratios that agree within this part are one.
_AGREE = 0.1


def _room(comparison: Comparison, occupancy: Sequence[OccupancySplit]) -> tuple[Delta, ...]:
    """What moved occupancy its way; what only changed beside it is no reason of it."""
    names = ("threads_per_block",) if _by_size(comparison) else tuple(_ROOM)
    moved = tuple(delta for name in names if (delta := comparison[name]).moved)
    if _by_size(comparison) or not occupancy:
        return moved
    way = float(comparison["achieved_occupancy"].delta or 0)
    points: dict[str, float] = defaultdict(float)
    for split in occupancy:
        for cause, amount in split.causes.items():
            points[cause] += amount
    return tuple(delta for delta in moved if points[_ROOM[delta.id]] * way > 0)


def _by_size(comparison: Comparison) -> bool:
    """Whether as many blocks as before were on an SM, and only their size changed."""
    occupied, threads = comparison["achieved_occupancy"], comparison["threads_per_block"]
    if not (occupied.old and occupied.new and threads.old and threads.new and threads.moved):
        return False
    ratio = (occupied.new / occupied.old) / (threads.new / threads.old)
    return abs(ratio - 1.0) <= _AGREE


def _side(profile: Profile) -> Behaviour:
    values = {
        name: float(found.value)
        for name, found in combine(profile).items()
        if not isinstance(found, Missing)
    }
    chip = chip_for(profile.device)
    values["sms"] = float(profile.device.sms or (chip.sms if chip is not None else 0))
    return behaviour_of(values, state_seconds(profile), main_launch(profile))


def _stalls(old: Behaviour, new: Behaviour) -> tuple[StallMove, ...]:
    """States that moved with the time, the one that moved most first."""
    longer = max(old.seconds, new.seconds)
    change = new.seconds - old.seconds
    faster = change < 0
    moves = []
    for state in {**old.waits, **new.waits}:
        before, after = old.waits.get(state, 0.0), new.waits.get(state, 0.0)
        share = (after - before) / change if change else 0.0
        if state not in WELL:
            moves.append(StallMove(stall=state, old_s=before, new_s=after, share=share))
    told = [
        move
        for move in moves
        if abs(move.delta_s) >= _STALL * longer and (move.delta_s < 0) == faster
    ]
    return tuple(sorted(told, key=lambda move: -abs(move.delta_s)))
