"""Candidates for the cause of a change in time, each with the time that it can explain.

A count matters as much as the kernel depended on the resource that it loads. So each hypothesis
asks which part `a` of the slower side's time was bound to a resource, and what the count's change
would make of it: a load that falls to the ratio f leaves 1 - a·(1 - f) of the time (Amdahl's law),
and one that rises is the same with the sides exchanged. The part `a` is the larger of two readings:

* the resource's use: a unit near its peak binds all of the time, a half idle one binds little or
  none (the ramps give each counter's part);
* the share of the warps' cycles spent waiting in states that the resource causes.

The logarithm of that is compared with the logarithm of what happened. A hypothesis that predicts
the opposite explains nothing; one that predicts far more than happened needs another effect to
cancel it, and its score falls with its overshoot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from workbench.analysis.aggregate import Combined
from workbench.analysis.compare import Comparison, Delta
from workbench.analysis.limits.limit import UNITS, UNKNOWN, Load, Running, loads, running_of
from workbench.analysis.optional import Maybe, growth, largest, minus, over, plus, times, total
from workbench.counters import DERIVED_NOISE, IMPLAUSIBLE, Missing, Reading
from workbench.gpus import chip_for
from workbench.language import _
from workbench.model import Device, Launch, Record

#: A unit that limits both sides is named if its work explains this part of the best score.
_LEADS = 0.5
#: Warp states in which a warp works, or waits for its own arithmetic.
_WORKS = frozenset(
    {"selected", "wait_stall", "dispatch_stall", "no_instruction", "branch_resolving", "imc_miss"}
)
_SHARED = frozenset({"mio_throttle", "short_scoreboard"})
_QUEUES = frozenset({"lg_throttle", "tex_throttle"})
_LATENCY = frozenset({"long_scoreboard", "drain_stall", "membar"})
#: Count -> the states in which warps that do the counted work wait.
WAITS = {
    "shared_wavefronts": ("mio_throttle", "short_scoreboard"),
    "shared_accesses": ("mio_throttle", "short_scoreboard"),
    "global_load_requests": ("lg_throttle", "long_scoreboard"),
    "global_load_sectors": ("lg_throttle", "long_scoreboard"),
    "global_store_requests": ("lg_throttle", "drain_stall"),
    "global_store_sectors": ("lg_throttle", "drain_stall"),
    "global_atomics": ("lg_throttle", "drain_stall", "long_scoreboard"),
    "l1_tag_requests": ("lg_throttle",),
    "l2_read_sectors": ("long_scoreboard",),
    "dram_bytes": ("long_scoreboard",),
    "local_sectors": ("lg_throttle", "long_scoreboard"),
}
#: Sectors of the L2 by what the code does.
_NEARER = ("l2_read_sectors", "global_store_sectors", "local_sectors")
#: Part of the waits for latency that follows the number of requests; the rest is pure latency.
_BY_REQUESTS = 0.5
#: The part of a queue's waits that follows the queue's load.
_BY_QUEUE = 0.9
_BY_SHARED = 0.8
#: Requests that fell (or rose) by this part of the sectors' logarithm caused their change.
_DRIVES = 0.9
#: A logarithm below this is not a change (1%): two captures of a kernel differ by this much.
QUIET = 0.01
#: The least part of the change that an explanation must explain.
LEAST = 0.05
#: A wait is named as its own proof only if no count explains half of its fall.
_WAIT_AGAINST_COUNT = 0.5
#: A wait that fell lets other waits grow in its place: this part of it counts as a gain.
_WAIT_IS = 0.6
#: A unit below this share of its peak (%) counts as idle.
_IDLE = 1.0
#: As a logarithm: a count rose by half, or fell by a third.
HALF = 0.4
#: A prediction's score falls by this for each factor of e that it overshoots.
_OVERSHOOT = 0.25


class Hypothesis(Record, frozen=True):
    """One counter and the change that it explains.

    `effect` is the natural logarithm of the ratio of times that it predicts, `score` the part of
    the real change that is ascribed to it, 0 to 1. `way` is its subject: a ``count``, the ``work``
    of a unit by its share of peak, the ``launch``, its ``tail`` (equally many blocks and waves that
    end more evenly), ``occupancy``, the ``clock``, or a ``wait`` without a count.
    """

    counter: str
    way: str
    effect: float
    score: float


#: The machine instruction of ``setmaxnreg``.
_HAND_OVER = "USETMAXREG"


class Behaviour(Record, frozen=True):
    """The behaviour of one version: counters' values, seconds by warp state, busy resources.

    `waits` is None if no warp state was counted; `works` are those of `works_of`.

    `roles`: its warps do different kinds of work, e.g. some hand registers to others. `running`:
    the time in which its SMs were active.
    """

    values: Mapping[str, float]
    waits: Mapping[str, float] | None
    busy: Mapping[str, Load]
    roles: bool = False
    works: Mapping[str, float] = {}
    running: Running = UNKNOWN

    @property
    def seconds(self) -> Maybe:
        """The sampled time of all warps, which is the duration."""
        return total(self.waits.values()) if self.waits is not None else None

    def waited(self, state: str) -> Maybe:
        """Seconds in a warp state; none if it was not counted."""
        return self.waits.get(state) if self.waits is not None else None

    def part(self, states: frozenset[str]) -> Maybe:
        """Part of the time (0-1) in which warps were seen in some states, as far as counted."""
        seen = [spent for state in states if (spent := self.waited(state)) is not None]
        return over(total(seen), self.seconds)

    def share(self, resource: str) -> Maybe:
        """Share of a resource's peak in %, over active cycles."""
        load = self.busy.get(resource)
        return load.active if load is not None else None

    def bound(self, resource: str) -> Maybe:
        """Part of the time (0-1) that a unit binds, by how full it was."""
        load = self.busy.get(resource)
        return _ramp(load.active, load.resource.low, load.resource.high) if load else None

    def value(self, counter: str) -> Maybe:
        """A counter."""
        return self.values.get(counter)


def behaviour_of(
    counted: Mapping[str, Combined | Reading | Missing],
    device: Device,
    waits: Mapping[str, float] | None,
    launch: Launch | None,
) -> Behaviour:
    """One side's behaviour; `launch` is the one whose resources (and SMs) are examined."""
    values = {
        name: float(found.value)
        for name, found in counted.items()
        if not isinstance(found, Missing)
    }
    chip = chip_for(device)
    values["sms"] = float(device.sms or (chip.sms if chip is not None else 0))
    busy: dict[str, Load] = {load.resource.id: load for load in (loads(launch) if launch else ())}
    texts = launch.instructions.text if launch is not None else ()
    roles = any(_HAND_OVER in text for text in texts)
    return Behaviour(
        values=values,
        waits=waits,
        busy=busy,
        roles=roles,
        # A sum over kernels would mistake a shorter kernel for SMs that are filled more evenly.
        running=running_of(launch) if launch is not None else UNKNOWN,
    )


def rank(comparison: Comparison, old: Behaviour, new: Behaviour) -> tuple[Hypothesis, ...]:
    """All hypotheses that explain at least `LEAST` of the change in time, the best first."""
    duration = comparison["duration"]
    if not duration.old or not duration.new:
        return ()
    change = math.log(duration.new / duration.old)
    if comparison.time is not None and not comparison.profiler_alone:
        # The time outside the profiler counts; if it moved the other way, no counter of the
        # profiler's run explains it.
        outside = math.log(comparison.time.new_s / comparison.time.old_s)
        change = outside if outside * change > 0 else 0.0
    slight = agreed(comparison)
    if abs(change) < QUIET and not slight:
        return ()
    full, parts = _full(old, new), _parts(comparison, old, new)
    found = [
        *((d.id, "count", _predicted(part, d.old, d.new)) for d, part in parts if part is not None),
        *_works(comparison, old, new, full),
        *_machine(comparison, old, new),
        *_waits(old, new, float(duration.old), float(duration.new), _KINDS),
    ]
    counts = change
    if comparison.profiler_alone and comparison["cycles"].old:
        # The part that cycles do not show is due to the clock in the profiler's runs.
        counts = _less(change, _log(comparison, "cycles"))
        counts = counts if abs(counts) >= QUIET else 0.0
    # A unit's machine code is not a counter, and has no bound.
    absurd = {delta.id for delta in comparison.counters if _(IMPLAUSIBLE) in delta.reason}
    scored = [
        Hypothesis(
            counter=c, way=way, effect=effect,
            score=_believed(effect, change if way == "clock" else counts),
        )
        for c, way, effect in found
        if c not in absurd
    ]  # fmt: skip
    counted = max((h.score for h in scored if h.way not in ("wait", "tail", "clock")), default=0.0)
    kept = []
    for one in scored:
        # A wait says where the time went, not why: a count that explains it is the better proof.
        better = one.way == "wait" and counted >= _WAIT_AGAINST_COUNT * one.score
        score = min(one.score, 0.99 * counted) if better else one.score
        if score >= LEAST and (one.way == "wait" or not slight):
            kept.append(structs.replace(one, score=score))
    if not kept:
        # The layout of its instructions counts only if nothing else does.
        kept = [
            Hypothesis(counter=c, way="wait", effect=effect, score=score)
            for c, __, effect in _waits(
                old,
                new,
                float(duration.old),
                float(duration.new),
                [frozenset({state}) for state in OWN],
            )
            if (score := _believed(effect, counts)) >= LEAST
        ] or _along(parts, counts)
    # If one unit limits both sides, its work comes before the work of others; so do instructions
    # that explain all of the change, if the slower side's issue slots are full.
    lead = _LEADS * max((h.score for h in kept), default=0.0)
    leads = [h for h in kept if (h.way, h.counter) == ("work", full) and h.score >= lead]
    if _full(old if counts < 0 else new) == "issue":
        leads += [h for h in kept if h.counter == "instructions" and abs(h.effect) >= abs(counts)]
    first = next(iter(leads), None)
    return tuple(sorted(kept, key=lambda h: (h is not first, -h.score, -abs(h.effect))))


def _full(*sides: Behaviour) -> str:
    """The unit of an SM that is the busiest on all `sides`, and limits them; "" if none does."""
    inside = [[load for load in side.busy.values() if load.resource.inside] for side in sides]
    most = [max(loads, key=lambda load: load.active, default=None) for loads in inside]
    names = {load.resource.id if load is not None and load.full else "" for load in most}
    return names.pop() if len(names) == 1 else ""


def agreed(comparison: Comparison) -> bool:
    """True if a change in time below `QUIET` has the same direction under the profiler.

    No count is the cause of so small a change. A wait may be, if a pipe with the same work confirms
    that the wait held it up.
    """
    time, inside = comparison.time, comparison["duration"]
    if time is None or comparison.profiler_alone or not (inside.moved and time.moved):
        return False
    outside = math.log(time.new_s / time.old_s)
    return outside * (inside.delta or 0.0) > 0 and abs(outside) < QUIET


def _believed(effect: float, change: float) -> float:
    if effect * change <= 0:
        return 0.0
    ratio = effect / change
    return ratio if ratio <= 1 else max(0.0, 1.0 - _OVERSHOOT * math.log(ratio))


_Found = tuple[str, str, float]


def _ramp(value: Maybe, low: float, high: float) -> Maybe:
    return None if value is None else max(0.0, min(1.0, (value - low) / (high - low)))


def _predicted(part: float, old: Maybe, new: Maybe) -> float:
    """Logarithm of the ratio of times if `part` of the slower side's time follows the count."""
    part, old, new = min(part, 0.999), float(old or 0.0), float(new or 0.0)
    if new <= old:
        return math.log(1.0 - part * (1.0 - new / old))
    return -math.log(1.0 - part * (1.0 - old / new))


def _parts(comparison: Comparison, old: Behaviour, new: Behaviour) -> list[tuple[Delta, Maybe]]:
    """Counts that moved, and the part of the slower side's time that follows each, if known."""
    # Reads, stores and spills that moved are nearer to the code.
    nearer = any(comparison[name].moved for name in _NEARER)
    bound: dict[str, Callable[[Behaviour], Maybe]] = {
        "instructions": _issue_bound,
        "shared_wavefronts": lambda s: largest(
            times(s.bound("l1_data"), shared_part(s)), times(_BY_SHARED, s.part(_SHARED))
        ),
        "global_load_requests": lambda s: times(_global_bound(s), _own(s, "load")),
        "global_load_sectors": lambda s: times(_global_bound(s), _own(s, "load")),
        "global_store_sectors": lambda s: largest(
            times(_global_bound(s), _own(s, "store")), times(s.bound("l2"), _through(s, "write"))
        ),
        "global_atomics": lambda s: times(
            s.part(_QUEUES | _LATENCY), _part_of_sectors(s, "global_atomics")
        ),
        "local_sectors": lambda s: plus(s.part(_QUEUES), times(_BY_REQUESTS, s.part(_LATENCY))),
        "l2_read_sectors": lambda s: largest(
            times(s.bound("l2"), _through(s, "read")),
            # It is unknown if waits of warps that copy for others hold any warp up.
            times(_BY_REQUESTS, s.part(_LATENCY), minus(1.0, _part_of_sectors(s, "local_sectors")))
            if not s.roles
            else 0.0,
        ),
        "l2_sectors": lambda s: (
            0.0 if nearer else times(s.bound("l2"), minus(1.0, _through(s, "read") or 0.0))
        ),
        "dram_bytes": lambda s: s.bound("dram"),
    }
    echo = _echo(comparison)
    out: list[tuple[Delta, Maybe]] = []
    for counter, part in bound.items():
        delta = comparison[counter]
        if delta.delta is not None and delta.moved and counter != echo:
            slower = old if delta.delta < 0 else new
            # The time of the launch itself follows no count.
            out.append((delta, times(slower.running.busiest, part(slower))))
    return out


def _along(parts: Iterable[tuple[Delta, Maybe]], change: float) -> list[Hypothesis]:
    """Counts that moved with the time, without a known fact that ties the time to them.

    Given are counts that moved by half or, if the part of the time that follows them is unknown,
    counts that make half of the change.
    """
    found = []
    for delta, part in parts:
        ratio = growth(delta.old, delta.new)
        effect = ratio if ratio is not None else math.copysign(math.inf, delta.delta or 0.0)
        least = HALF if part is not None else min(HALF, abs(change) / 2)
        # A unit that is known to be idle held nothing up; warps may wait for any instruction.
        idle = part == 0.0 and delta.id != "instructions"
        if effect * change > 0 and abs(effect) >= least and not idle:
            score = _believed(effect, change) if part is None and ratio is not None else 0.0
            found.append(Hypothesis(delta.id, "count", effect, max(score, LEAST)))
    return found


def _works(comparison: Comparison, old: Behaviour, new: Behaviour, full: str) -> list[_Found]:
    """The work of units without a count, by their shares of peak; also from or to zero.

    A unit that limits both sides (`full`) binds at least as much of the time as it is busy.
    """
    out: list[_Found] = []
    for name, unit in UNITS.items():
        before, after = old.works.get(name), new.works.get(name)
        idle = min(old.share(name) or 0.0, new.share(name) or 0.0) < _IDLE
        lacking = any(comparison[count].delta is None for count in unit.counts)
        if before is None or after is None or not (lacking or idle or not unit.counts):
            continue
        ratio = growth(before, after)
        if before == after or (ratio is not None and abs(ratio) < DERIVED_NOISE):
            continue
        slower = old if after < before else new
        busy = over(slower.share(name), 100.0) if name == full else None
        bound = times(slower.running.busiest, largest(slower.bound(name), busy))
        if bound is not None:
            out.append((name, "work", _predicted(bound, before, after)))
    return out


def _echo(comparison: Comparison) -> str:
    """Which of a load's requests and sectors only followed the other.

    Fewer accesses bring fewer sectors; coalescing brings fewer sectors per request.
    """
    requests, sectors = (comparison[f"global_load_{what}"] for what in ("requests", "sectors"))
    if not (requests.old and requests.new and sectors.old and sectors.new):
        return ""
    few, thin = (abs(math.log(d.new / d.old)) for d in (requests, sectors) if d.old and d.new)
    return "global_load_sectors" if few >= _DRIVES * thin else "global_load_requests"


def _fullest(side: Behaviour, but: frozenset[str]) -> float:
    """The use (0-1) of the busiest unit, except `but` and the L2, whose share is a maximum."""
    left_out = but | {"l2", "lsu"}
    shares = [load.active for name, load in side.busy.items() if name not in left_out]
    fullest = _ramp(largest(*shares), 60, 85)
    # If no unit was measured, none is known to be busy.
    return 0.0 if fullest is None else fullest


_ARITHMETIC = frozenset({"issue", "alu", "fma", "xu", "fp64"})


def _issue_bound(side: Behaviour) -> Maybe:
    """Part of the time that follows the number of instructions."""
    others = _fullest(side, _ARITHMETIC)
    issue = side.share("issue")
    slots = _ramp(issue, 40, 75)
    rivals = largest(*(side.share(r) for r in side.busy if r not in _ARITHMETIC | {"l2", "lsu"}))
    if rivals is not None and (issue is None or rivals > issue):
        slots = times(slots, 1.0 - others)
    return largest(slots, times(1.0 - others, side.part(_WORKS), 0.9))


def _stage(side: Behaviour) -> Maybe:
    """Wavefronts, global and shared, that passed the data stage of one SM's L1."""
    load = side.busy.get("l1_data")
    return times(load.elapsed / 100.0 if load is not None else None, side.value("cycles"))


def shared_part(side: Behaviour) -> Maybe:
    """Part of the L1 data stage's wavefronts (0-1) that belong to shared memory.

    All of them if the number of wavefronts that passed it is unknown: then only those of shared
    memory were counted.
    """
    passed = times(_stage(side), side.value("sms"))
    part = over(side.value("shared_wavefronts"), passed)
    if part is None and side.value("shared_wavefronts") is not None:
        return 1.0
    return None if part is None else min(part, 1.0)


def _global_bound(side: Behaviour) -> Maybe:
    stage = times(side.bound("l1_data"), minus(1.0, shared_part(side)))
    queues = times(_BY_QUEUE, side.part(_QUEUES))
    return largest(stage, plus(queues, times(_BY_REQUESTS, side.part(_LATENCY))))


def _own(side: Behaviour, kind: str) -> Maybe:
    """The part of the global sectors that loads (or stores) cause."""
    loads, stores = (side.value(f"global_{what}_sectors") for what in ("load", "store"))
    return over(loads if kind == "load" else stores, plus(loads, stores))


def _part_of_sectors(side: Behaviour, name: str) -> Maybe:
    """The part of the requests to the L2 that are local memory or atomics, which wait there."""
    own = side.value(name)
    return over(own, plus(own, side.value("global_sectors"))) if own else own


def _through(side: Behaviour, kind: str) -> Maybe:
    """The part of the L2's sectors that SMs read (or write)."""
    read, written = (side.value(f"l2_{what}_sectors") for what in ("read", "write"))
    return over(read if kind == "read" else written, plus(read, written))


def _machine(comparison: Comparison, old: Behaviour, new: Behaviour) -> list[_Found]:
    """Occupancy, the grid, and the clock."""
    out: list[_Found] = []
    if occupied := _occupied(comparison, old, new):
        less = old if occupied > 0 else new
        idle = minus(1.0, over(less.share("issue"), 100.0))
        hidden = times(idle, 1.0 - _fullest(less, frozenset({"issue"})))
        if hidden is not None:
            out.append((occupancy_of(comparison).id, "occupancy", -hidden * occupied))
    uneven, clock = _idle(old, new), times(-1.0, _log(comparison, "sm_clock"))
    if uneven is not None and abs(uneven) >= QUIET:
        if comparison["blocks"].moved:
            out.append(("blocks", "launch", uneven))
        elif (
            comparison["blocks"].old is not None
            and comparison["cycles"].moved
            and not comparison["waves"].moved
        ):  # whether equally many kernels replaced others is unknown
            out.append(("cycles", "tail", uneven))
    # The run outside the profiler had its own clock.
    inside = comparison.time is None or comparison.profiler_alone
    if clock is not None and abs(clock) >= QUIET and inside:
        out.append(("sm_clock", "clock", clock))
    return out


def _occupied(comparison: Comparison, old: Behaviour, new: Behaviour) -> float:
    """Logarithm of the ratio of occupancies if it may be a cause; else 0.

    More warps that copy for the others hide nothing. If the grid changed and fills all SMs, and as
    many blocks fit as before, more warps are an effect of the grid. And the same warps on fewer SMs
    are not more warps on the chip.
    """
    occupancy, waves = occupancy_of(comparison), comparison["waves"]
    ratio = growth(occupancy.old, occupancy.new)
    same = by_grid(comparison) and (
        min(waves.old or 1, waves.new or 1) >= 1
        or (comparison["blocks"].delta or 0.0) * (ratio or 0.0) <= 0
    )
    if ratio is None or not occupancy.moved or old.roles != new.roles or same:
        return 0.0
    if UNKNOWN in (old.running, new.running):
        return ratio
    spread = math.log((1.0 - new.running.uneven) / (1.0 - old.running.uneven))
    return _less(ratio, ratio + spread)


def occupancy_of(comparison: Comparison) -> Delta:
    """The achieved occupancy; the theoretical one if that is unknown."""
    achieved = comparison["achieved_occupancy"]
    return achieved if achieved.delta is not None else comparison["theoretical_occupancy"]


def by_grid(comparison: Comparison) -> bool:
    """True if the grid changed, and as many blocks fit on an SM as before."""
    fit = comparison["theoretical_occupancy"]
    return comparison["blocks"].moved and fit.old is not None and not fit.moved


#: States that take turns.
_KINDS = (_SHARED, _QUEUES | _LATENCY, frozenset({"barrier_stall"}))
#: Waits of arithmetic for arithmetic: for operands, a fixed latency, a pipe.
OWN = ("dispatch_stall", "wait_stall", "math_pipe_throttle")


def _waits(
    old: Behaviour, new: Behaviour, old_s: float, new_s: float, kinds: Iterable[frozenset[str]]
) -> list[_Found]:
    """Time that a kind of wait lost or gained, without a count to explain it.

    States of one kind take turns (a full queue holds back warps that would wait for an answer),
    so the kind's net change counts, under the name of the state that moved most with it.
    """
    out: list[_Found] = []
    for kind in kinds:
        found = {s: minus(new.waited(s), old.waited(s)) for s in sorted(kind)}
        moves = {state: move for state, move in found.items() if move is not None}
        net = sum(moves.values())
        if not moves or abs(net) < 2 * QUIET * max(old_s, new_s):
            continue
        if net < 0:
            effect = math.log(max(1.0 + net / old_s, 1e-3))
        else:
            effect = -math.log(max(1.0 - net / new_s, 1e-3))
        named = max(moves, key=lambda state: moves[state] * net)
        out.append((named, "wait", _WAIT_IS * effect))
    return out


def _idle(old: Behaviour, new: Behaviour) -> Maybe:
    """Logarithm of the ratio of times due to blocks that end (or fill SMs) more unevenly.

    All cycles divided by the mean SM's, or the busiest SM's by the mean SM's, whichever is less:
    the launch's own time is not the grid's work, and one SM may differ by chance.
    """
    before, after = old.running, new.running
    if UNKNOWN in (before, after):
        return None
    return _less(
        math.log(before.mean / after.mean), math.log((1.0 - before.uneven) / (1.0 - after.uneven))
    )


def _less(one: float, other: Maybe) -> float:
    """The smaller of two readings of one effect; 0 if they disagree on its direction."""
    return min(one, other, key=abs) if other is not None and one * other > 0 else 0.0


def _log(comparison: Comparison, counter: str) -> Maybe:
    delta = comparison[counter]
    return growth(delta.old, delta.new)
