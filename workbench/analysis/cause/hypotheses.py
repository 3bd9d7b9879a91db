"""Which counter explains a change of time: every candidate with the time that it can explain.

A count matters as much as the kernel depended on what it loads. So each hypothesis asks what
part `a` of the slower side's time was bound to a resource, and what the count's change would
make of it: a load that falls to the ratio f leaves 1 - a·(1 - f) of the time (Amdahl's law),
and one that rises is the same seen from the other side. The part `a` is, of two readings, the
larger one:

* how full the resource was: a unit near its peak binds all of the time, one that is half idle
  little or none (the ramps stand where each counter's part is taken);
* how many of the warps' cycles were spent waiting in the states that the resource makes.

The logarithm of that is compared with the logarithm of what happened. A hypothesis that says
the opposite explains nothing; one that says far more than happened needs another effect to
cancel it, and is believed the less, the more it overshoots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import structs

from workbench.analysis.aggregate import value_of
from workbench.analysis.compare import Comparison
from workbench.analysis.limit import UNKNOWN, Load, Running, loads, running_of
from workbench.model import Launch, Record

#: Warp states in which a warp works, or waits for what its own arithmetic takes.
_WORKS = frozenset(
    {"selected", "wait_stall", "dispatch_stall", "no_instruction", "branch_resolving", "imc_miss"}
)
_SHARED = frozenset({"mio_throttle", "short_scoreboard"})
_QUEUES = frozenset({"lg_throttle", "tex_throttle"})
_LATENCY = frozenset({"long_scoreboard", "drain_stall", "membar"})
#: Which states the users of a count wait in.
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
#: Part of the waits for latency that follow the number of requests; the rest is the way itself.
_BY_REQUESTS = 0.5
#: Part of a queue's waits that follow the queue's load.
_BY_QUEUE = 0.9
_BY_SHARED = 0.8
#: Requests that fell (or rose) by this part of the sectors' logarithm brought them along.
_DRIVES = 0.9
#: A logarithm below this is no change (1%): two captures of one kernel differ by as much.
QUIET = 0.01
#: What explains less than this part of the change is no explanation.
LEAST = 0.05
#: A wait is named as its own proof only where no count explains half as much as it fell.
_WAIT_AGAINST_COUNT = 0.5
#: A wait that fell lets other waits grow in its place: this part of it is taken as a gain.
_WAIT_IS = 0.6
#: How much is taken off the belief in a prediction for each factor of e that it overshoots.
_OVERSHOOT = 0.25


class Hypothesis(Record, frozen=True):
    """One counter with what it explains.

    `effect` is the natural logarithm of the ratio of times that it predicts, `score` the part
    of the real change that is believed to be its work, 0 to 1. `way` says what it speaks of:
    a ``count``, the ``launch``, its ``tail`` (as many blocks and waves that end more
    evenly), ``occupancy``, the ``clock``, or a ``wait`` without a count.
    """

    counter: str
    way: str
    effect: float
    score: float


#: The machine instruction of ``setmaxnreg``.
_HAND_OVER = "USETMAXREG"


class Behaviour(Record, frozen=True):
    """What is known of one version: counters' values, seconds by warp state, busy resources.

    `roles`: its warps have work of different kinds, as those do that hand registers to others.
    `occupied`: achieved occupancy (%) of the kernel that takes most of the time, 0 if unknown;
    `running`: how long its SMs were active.
    """

    values: Mapping[str, float]
    waits: Mapping[str, float]
    busy: Mapping[str, Load]
    roles: bool = False
    occupied: float = 0.0
    running: Running = UNKNOWN

    @property
    def seconds(self) -> float:
        """All warps' sampled time, which is the duration."""
        return sum(self.waits.values()) or 1.0

    def part(self, states: frozenset[str]) -> float:
        """Part of the time (0-1) that warps were seen in some states."""
        return sum(self.waits.get(state, 0.0) for state in states) / self.seconds

    def share(self, resource: str) -> float:
        """Share of a resource's peak in %, over active cycles; 0 where unknown."""
        load = self.busy.get(resource)
        return load.active if load is not None else 0.0

    def value(self, counter: str) -> float:
        """A counter; 0 where it is missing."""
        return self.values.get(counter, 0.0)


def behaviour_of(
    values: Mapping[str, float], waits: Mapping[str, float], launch: Launch | None
) -> Behaviour:
    """A side; `launch` is the one whose resources (and SMs) are looked at."""
    busy: dict[str, Load] = {}
    for load in loads(launch) if launch is not None else ():
        busy[load.resource.id] = load
    texts = launch.instructions.text if launch is not None else ()
    roles = any(_HAND_OVER in text for text in texts)
    occupied = value_of(launch, "achieved_occupancy") if launch is not None else None
    return Behaviour(
        values=values,
        waits=waits,
        busy=busy,
        roles=roles,
        occupied=occupied or 0.0,
        # A sum over kernels would take one that became shorter for SMs that fill more evenly.
        running=running_of(launch) if launch is not None else UNKNOWN,
    )


def rank(comparison: Comparison, old: Behaviour, new: Behaviour) -> tuple[Hypothesis, ...]:
    """All hypotheses that explain `LEAST` of the change of the time, the best first."""
    duration = comparison["duration"]
    if not duration.old or not duration.new:
        return ()
    change = math.log(duration.new / duration.old)
    if comparison.time is not None and not comparison.profiler_alone:
        # Outside of the profiler is what counts; where it went the other way, no counter of the
        # profiler's run explains it.
        outside = math.log(comparison.time.new_s / comparison.time.old_s)
        change = outside if outside * change > 0 else 0.0
    if abs(change) < QUIET:
        return ()
    found = [
        *_counts(comparison, old, new),
        *_machine(comparison, old, new),
        *_waits(old, new, float(duration.old), float(duration.new)),
    ]
    counts = change
    if comparison.profiler_alone and comparison["cycles"].old:
        # What cycles do not show of it is the clock of the profiler's runs.
        counts = _less(change, _log(comparison, "cycles") or 0.0)
        counts = counts if abs(counts) >= QUIET else 0.0
    scored = [
        Hypothesis(
            counter=c, way=way, effect=effect,
            score=_believed(effect, change if way == "clock" else counts),
        )
        for c, way, effect in found
    ]  # fmt: skip
    counted = max((h.score for h in scored if h.way not in ("wait", "tail")), default=0.0)
    kept = []
    for one in scored:
        # A wait says where the time went, not why: a count that explains it is the better proof.
        better = one.way == "wait" and counted >= _WAIT_AGAINST_COUNT * one.score
        score = min(one.score, 0.99 * counted) if better else one.score
        if score >= LEAST:
            kept.append(structs.replace(one, score=score))
    return tuple(sorted(kept, key=lambda h: (-h.score, -abs(h.effect))))


def _believed(effect: float, change: float) -> float:
    if effect * change <= 0:
        return 0.0
    ratio = effect / change
    return ratio if ratio <= 1 else max(0.0, 1.0 - _OVERSHOOT * math.log(ratio))


_Found = tuple[str, str, float]


def _ramp(value: float, low: float, high: float) -> float:
    return max(0.0, min(1.0, (value - low) / (high - low)))


def _predicted(part: float, old: float, new: float) -> float:
    """Logarithm of the ratio of times if `part` of the slower side's time follows the count."""
    part = min(part, 0.999)
    if new <= old:
        return math.log(1.0 - part * (1.0 - new / old))
    return -math.log(1.0 - part * (1.0 - old / new))


def _counts(comparison: Comparison, old: Behaviour, new: Behaviour) -> list[_Found]:
    bound: dict[str, Callable[[Behaviour], float]] = {
        "instructions": _issue_bound,
        "shared_wavefronts": lambda s: max(
            _ramp(s.share("l1_data"), 50, 80) * shared_part(s), _BY_SHARED * s.part(_SHARED)
        ),
        "global_load_requests": lambda s: _global_bound(s) * _own(s, "load"),
        "global_load_sectors": lambda s: _global_bound(s) * _own(s, "load"),
        "global_store_sectors": lambda s: max(
            _global_bound(s) * _own(s, "store"), _ramp(s.share("l2"), 60, 90) * _through(s, "write")
        ),
        "global_atomics": lambda s: s.part(_QUEUES | _LATENCY) * _met(s),
        "local_sectors": lambda s: s.part(_QUEUES) + _BY_REQUESTS * s.part(_LATENCY),
        "l2_read_sectors": lambda s: max(
            _ramp(s.share("l2"), 60, 90) * _through(s, "read"),
            _BY_REQUESTS * s.part(_LATENCY) * (1.0 - _local(s)),
        ),
        "dram_bytes": lambda s: _ramp(s.share("dram"), 50, 80),
    }
    out: list[_Found] = []
    for counter, part in bound.items():
        delta = comparison[counter]
        if delta.old is None or delta.new is None or not delta.moved:
            continue
        slower = old if delta.new < delta.old else new
        # What the launch itself takes follows no count.
        whole = slower.running.busiest
        effect = _predicted(whole * part(slower), float(delta.old), float(delta.new))
        out.append((counter, "count", effect))
    return [found for found in out if found[0] != _echo(comparison)]


def _echo(comparison: Comparison) -> str:
    """Of a load's requests and sectors the one that only followed the other.

    Fewer accesses bring fewer sectors, and coalescing fewer sectors a request.
    """
    requests, sectors = (comparison[f"global_load_{what}"] for what in ("requests", "sectors"))
    if not (requests.old and requests.new and sectors.old and sectors.new):
        return ""
    few, thin = (abs(math.log(d.new / d.old)) for d in (requests, sectors) if d.old and d.new)
    return "global_load_sectors" if few >= _DRIVES * thin else "global_load_requests"


def _fullest(side: Behaviour, but: frozenset[str]) -> float:
    """How full (0-1) the fullest unit is, some left out; the L2's share is a maximum of many."""
    left_out = but | {"l2", "lsu"}
    shares = [load.active for name, load in side.busy.items() if name not in left_out]
    return max((_ramp(share, 60, 85) for share in shares), default=0.0)


_ARITHMETIC = frozenset({"issue", "alu", "fma", "xu", "fp64"})


def _issue_bound(side: Behaviour) -> float:
    """Part of the time that follows the number of instructions."""
    others = _fullest(side, _ARITHMETIC)
    slots = _ramp(side.share("issue"), 40, 75)
    rivals = [side.share(r) for r in side.busy if r not in _ARITHMETIC | {"l2", "lsu"}]
    if rivals and max(rivals) > side.share("issue"):
        slots *= 1.0 - others
    return max(slots, (1.0 - others) * side.part(_WORKS) * 0.9)


def _stage(side: Behaviour) -> float:
    """Wavefronts that passed the data stage of one SM's L1, global and shared."""
    load = side.busy.get("l1_data")
    return load.elapsed / 100.0 * side.value("cycles") if load is not None else 0.0


def shared_part(side: Behaviour) -> float:
    """Part of the L1 data stage's wavefronts (0-1) that are shared memory's."""
    sms = side.value("sms")
    whole = _stage(side) * sms
    return min(side.value("shared_wavefronts") / whole, 1.0) if whole else 1.0


def _global_bound(side: Behaviour) -> float:
    stage = _ramp(side.share("l1_data"), 50, 80) * (1.0 - shared_part(side))
    return max(stage, _BY_QUEUE * side.part(_QUEUES) + _BY_REQUESTS * side.part(_LATENCY))


def _own(side: Behaviour, kind: str) -> float:
    """Part of the global sectors that loads (or stores) make."""
    sectors = {k: side.value(f"global_{k}_sectors") for k in ("load", "store")}
    whole = sum(sectors.values())
    return sectors[kind] / whole if whole else 0.0


def _met(side: Behaviour) -> float:
    """Part of what lanes ask of the L2 that are atomics, which wait for one another there."""
    atomics, sectors = side.value("global_atomics"), side.value("global_sectors")
    return atomics / (atomics + sectors) if atomics else 0.0


def _local(side: Behaviour) -> float:
    """Part of the sectors that are of local memory, which the L2 reads as well."""
    local, far = side.value("local_sectors"), side.value("global_sectors")
    return local / (local + far) if local else 0.0


def _through(side: Behaviour, kind: str) -> float:
    """Part of the L2's sectors that SMs read (or write)."""
    sectors = {k: side.value(f"l2_{k}_sectors") for k in ("read", "write")}
    whole = sum(sectors.values())
    return sectors[kind] / whole if whole else 0.0


def _machine(comparison: Comparison, old: Behaviour, new: Behaviour) -> list[_Found]:
    """Occupancy, the grid, and the clock."""
    out: list[_Found] = []
    if occupied := _occupied(comparison, old, new):
        less = old if occupied > 0 else new
        idle = 1.0 - less.share("issue") / 100.0
        hidden = idle * (1.0 - _fullest(less, frozenset({"issue"})))
        out.append(("achieved_occupancy", "occupancy", -hidden * occupied))
    idle, clock = _idle(old, new), -(_log(comparison, "sm_clock") or 0.0)
    if comparison["blocks"].moved and abs(idle) >= QUIET:
        out.append(("blocks", "launch", idle))
    elif comparison["cycles"].moved and abs(idle) >= QUIET and not comparison["waves"].moved:
        out.append(("cycles", "tail", idle))
    # A time outside of the profiler passed at a clock of its own.
    if abs(clock) >= QUIET and (comparison.time is None or comparison.profiler_alone):
        out.append(("sm_clock", "clock", clock))
    return out


def _occupied(comparison: Comparison, old: Behaviour, new: Behaviour) -> float:
    """Logarithm of the ratio of occupancies, where that may be a cause; else 0.

    Warps that copy for the others hide nothing by being more. Where the grid changed and as many
    blocks fit as before, more warps are how the grid came. Of several kernels it is a mean, which
    moves with their parts of the time: then the main one's own must have gone that way. And as
    many warps that share fewer SMs are no more warps on the chip.
    """
    fit, ratio = comparison["theoretical_occupancy"], _log(comparison, "achieved_occupancy") or 0.0
    same = comparison["blocks"].moved and fit.old is not None and not fit.moved
    if not comparison["achieved_occupancy"].moved or old.roles != new.roles or same:
        return 0.0
    if old.occupied and new.occupied:
        own = math.log(new.occupied / old.occupied)
        ratio = own if own * ratio > 0 and abs(own) >= QUIET else 0.0
    if UNKNOWN in (old.running, new.running):
        return ratio
    spread = math.log((1.0 - new.running.uneven) / (1.0 - old.running.uneven))
    return _less(ratio, ratio + spread)


def _waits(old: Behaviour, new: Behaviour, old_s: float, new_s: float) -> list[_Found]:
    """Time that left a kind of wait or went into it, for what no count says.

    States of one kind take turns (a full queue holds back those who would wait for an answer),
    so the kind's net counts, under the name of the state that moved most with it.
    """
    out: list[_Found] = []
    for kind in (_SHARED, _QUEUES | _LATENCY, frozenset({"barrier_stall"})):
        moves = {s: new.waits.get(s, 0.0) - old.waits.get(s, 0.0) for s in sorted(kind)}
        net = sum(moves.values())
        if abs(net) < 2 * QUIET * max(old_s, new_s):
            continue
        if net < 0:
            effect = math.log(max(1.0 + net / old_s, 1e-3))
        else:
            effect = -math.log(max(1.0 - net / new_s, 1e-3))
        named = max(moves, key=lambda state: moves[state] * net)
        out.append((named, "wait", _WAIT_IS * effect))
    return out


def _idle(old: Behaviour, new: Behaviour) -> float:
    """Logarithm of the ratio of times that blocks make which end (or fill SMs) more unevenly.

    All cycles by the mean SM's, or the busiest SM's by the mean one's, whichever says less: what
    the launch itself takes is no grid's work, and one SM may differ by chance.
    """
    before, after = old.running, new.running
    if UNKNOWN in (before, after):
        return 0.0
    return _less(
        math.log(before.mean / after.mean),
        math.log((1.0 - before.uneven) / (1.0 - after.uneven)),
    )


def _less(one: float, other: float) -> float:
    """Whichever of two readings of one effect says less, 0 where they contradict each other."""
    return min(one, other, key=abs) if one * other > 0 else 0.0


def _log(comparison: Comparison, counter: str) -> float | None:
    delta = comparison[counter]
    return math.log(delta.new / delta.old) if delta.old and delta.new else None
