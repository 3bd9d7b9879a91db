"""A step's cause, found: hypotheses with the places where they moved, stalls, and limits.

A wait says where the time went, not why. Three facts can explain it: a count of its kind moved at
the same lines; an arithmetic pipe did the same work but was more or less busy, so that the wait
held it up; or the code changed how warps synchronize, since the samples of such a wait lie on the
early warps and not on the edit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from msgspec import structs

from workbench.analysis.aggregate import combine, main_launch
from workbench.analysis.attribution import Attribution
from workbench.analysis.cause.hypotheses import (
    HALF,
    OWN,
    QUIET,
    WAITS,
    Behaviour,
    Hypothesis,
    agreed,
    behaviour_of,
    by_grid,
    occupancy_of,
    rank,
)
from workbench.analysis.cause.places import (
    Origin,
    bounded_in,
    dealt_in,
    ordered_in,
    own_hunks,
    place_of,
)
from workbench.analysis.compare import Comparison, Delta, compare
from workbench.analysis.duration import TimeSplit
from workbench.analysis.kernels import KernelChange, launched_apart, speaking
from workbench.analysis.launches import SideBySide
from workbench.analysis.limits.limit import (
    ELAPSED,
    FULL,
    RESOURCES,
    UNITS,
    UNKNOWN,
    Limit,
    limit_of_launch,
    state_seconds,
    works_of,
)
from workbench.analysis.limits.occupancy import OccupancySplit
from workbench.analysis.optional import growth, minus, over, times, total
from workbench.analysis.plausible import broken
from workbench.analysis.sameness import Doubt, one_code
from workbench.analysis.source.lines import scan
from workbench.analysis.weight import Scale, tells
from workbench.counters import catalog
from workbench.language import _
from workbench.model import Profile, Record

#: The counter that shows a unit without one in the catalog: the highest share of all.
_SHOWN = "sm_throughput"
#: A warp state (or kernel) that moved by less than this part of the longer time is not reported.
_STALL = 0.02


class Proof(Record, frozen=True):
    """One proposition: the edit moved this counter. `score` is as in `Hypothesis.score`.

    `beside`: for a wait, the count of its kind that moved with it at the same place, or the share
    of a pipe that did the same work; for the grid, its waves.
    """

    counter: Delta
    place: Origin
    way: str
    score: float
    beside: Delta | None = None


class StallMove(Record, frozen=True):
    """A warp state over the whole kernel, in seconds of the duration, on both sides.

    `share` is the part of the step's gain or loss (0-1, more if states cancel out; below
    zero for one that moved against the time).
    """

    stall: str
    old_s: float
    new_s: float
    share: float = 1.0

    @property
    def delta_s(self) -> float:
        """The added time (negative: saved)."""
        return self.new_s - self.old_s


class Cause(Record, frozen=True):
    """The cause of a step's change of time. `proofs` come best first, and may be empty.

    `kernel` is the one of several kernels that all fields describe: see `changed_most`. `stalls`
    are the warp states that moved with the time or against it, the largest first; `limit_old` and
    `limit_new` are the limits of both sides. `active` is the part of the time (0-1), on both sides,
    in which SMs were active; `room` are the resources that changed the number of blocks that fit on
    an SM. `doubts` are reasons to think that the two did not do the same work. `broken` says why a
    side's report cannot be right; then all else is empty. `apart`: see `launched_apart`.
    """

    proofs: tuple[Proof, ...]
    stalls: tuple[StallMove, ...]
    limit_old: Limit | None
    limit_new: Limit | None
    active: tuple[float, float] | None = None
    room: tuple[Delta, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    broken: tuple[str, ...] = ()
    kernel: KernelChange | None = None
    apart: tuple[KernelChange, ...] = ()

    @property
    def other_work(self) -> bool:
        """True if the two certainly did not do the same work; fewer bits count as the same work."""
        return any(doubt.certain and doubt.kind != "precision" for doubt in self.doubts)

    @property
    def more(self) -> str | None:
        """The side's additional work (or "") if neither side is faster; otherwise None."""
        none = "" if self.apart else None
        return max((x.more for x in self.doubts if x.unlike), key=bool, default=none)


def find_cause(
    both: SideBySide,
    comparison: Comparison,
    attribution: Attribution,
    time: TimeSplit | None,
    occupancy: Sequence[OccupancySplit],
    doubts: tuple[Doubt, ...] = (),
) -> Cause:
    """Score every counter that moved, and find where the best of them moved."""
    old, new = both.old, both.new
    if wrong := dict.fromkeys((*broken(old), *broken(new))):
        return Cause((), (), None, None, doubts=doubts, broken=tuple(wrong))
    apart = () if comparison.new.of_program else launched_apart(comparison.kernels)
    kernel = changed_most(comparison) if not apart else None
    limits = _limits(both.each, comparison.kernels)
    if apart:
        return Cause((), (), *limits, doubts=doubts, apart=apart)
    if kernel is not None and kernel.old is not None and kernel.new is not None:
        old = structs.replace(old, launches=(both.each[0].launches[kernel.old],))
        new = structs.replace(new, launches=(both.each[1].launches[kernel.new],))
        comparison = compare(old, new, force=True, across=True)
        occupancy = [each for each in occupancy if each.kernel == new.launches[0].kernel]
    sides = _side(old), _side(new)
    same = one_code(old, new)
    known = same or "unknown" not in (attribution.sources.old, attribution.sources.new)
    launched = same and any(match.changes for match in attribution.launches)
    unfilled, hypotheses = _unfilled(comparison), rank(comparison, *sides)
    room = _room(comparison, occupancy, unfilled=unfilled)

    def place(counter: Delta, way: str) -> Origin:
        at = attribution, time, occupancy
        found = place_of(counter.id, way, *at, known=known, change=counter.delta)
        if launched and found.link == "elsewhere" and way in ("count", "work"):
            return Origin(link="launch")
        if way != "count" or found.link in ("launch", "compiler"):
            return found
        found = structs.replace(found, dealt=dealt_in(counter, comparison, attribution, old, new))
        if found.dealt is None or not found.dealt.alone:
            return found
        # Lines that run as often in each thread only follow; edited ones made room for fewer.
        hunks = found.hunks if found.by != "lines" else own_hunks(counter.id, attribution)
        return Origin(link="launch", hunks=hunks, by=found.by, dealt=found.dealt)

    proofs, scale = [], Scale(old, comparison)
    useless, slight = held_nothing_up(comparison, sides), agreed(comparison)
    for h in hypotheses:
        if h.way == "count" and _free(comparison[h.counter], scale):
            continue
        if useless and h.way == "wait":
            continue
        told = delta_of(comparison, h, sides)
        where = place(told, h.way)
        beside = None
        if h.way == "occupancy" and by_grid(comparison):
            where, beside = Origin(link="launch"), comparison["waves"]
        elif h.way == "occupancy" and unfilled:
            where, beside = Origin(link="launch"), comparison["waves"] if room else None
        elif h.way == "occupancy" and where.link == "compiler":
            where = bounded_in(attribution, old, new) or where
        elif h.way == "occupancy" and [x.id for x in room] == ["threads_per_block"] and not known:
            where = Origin(link="launch")
        if h.way == "launch":
            beside = waves_of(comparison)
        if h.way == "wait":
            beside = beside_of(comparison, h, where, place, sides)
            if beside is not None and not is_pipe(beside):
                # A count shows the exact lines, samples only the approximate ones.
                where = structs.replace(place(beside, "count"), dealt=None)
            elif known:
                where = place_of_wait(comparison, h, where, attribution, old, new)
            if (slight or h.counter in OWN) and (beside is None or not is_pipe(beside)):
                continue  # nothing shows that its pipe was held up
        proofs.append(Proof(counter=told, place=where, way=h.way, score=h.score, beside=beside))
    if (first := _hidden(proofs, grid=by_grid(comparison))) is not None:
        proofs = [first, *(each for each in proofs if each is not first)]
    if comparison["duration"].delta is None:
        proofs = _counted(old, comparison, place)
    running = [side.running for side in sides]
    return Cause(
        proofs=tuple(proofs),
        stalls=_stalls(*sides, {proof.counter.id for proof in proofs if proof.way == "wait"}),
        limit_old=limits[0],
        limit_new=limits[1],
        active=(running[0].mean, running[1].mean) if UNKNOWN not in running else None,
        room=room,
        doubts=doubts,
        kernel=kernel,
    )


#: A kernel is named if its time changed by this part, or if it has this part of the change.
_MUCH, _MOSTLY = 0.05, 0.5


def changed_most(comparison: Comparison) -> KernelChange | None:
    """The kernel of several that changed most, relative to its own time or to the whole."""
    kernels, one = comparison.kernels, speaking(comparison.kernels)
    whole = comparison["duration"].delta
    if comparison.partial or len(kernels) < 2 or one is None or not one.moved or whole is None:
        return None
    own = abs(growth(one.old_s, one.new_s) or 0.0)
    mostly = abs(one.in_all_s or 0.0) >= _MOSTLY * abs(whole)
    return one if own >= (_STALL if mostly else _MUCH) else None


def _limits(
    sides: tuple[Profile, Profile], kernels: Sequence[KernelChange]
) -> tuple[Limit | None, Limit | None]:
    """The limits of the kernel with the most new time, which need not be the one that changed.

    If a side has several kernels, the words name this one.
    """
    there = [kernel for kernel in kernels if kernel.samples[1]]
    spent = [kernel.spent and kernel.spent[1] for kernel in there]
    compared = [n for n, kernel in enumerate(there) if kernel.new is not None]
    most = max(compared, key=lambda n: (spent[n] or 0.0, there[n].weight), default=None)
    if most is None:
        return None, None
    one = there[most]
    limits = [
        limit_of_launch(side.launches[at], side.device) if at is not None else None
        for side, at in zip(sides, (one.old, one.new), strict=True)
    ]
    if len(there) > 1 and limits[1] is not None:
        limits[1] = limits[1].of(one.name_new, over(spent[most], total(spent)))
    return limits[0], limits[1]


def _free(counter: Delta, scale: Scale) -> bool:
    """True for sectors that the chip moves in a negligible part of the change in time."""
    taken = over(scale.seconds(counter.id, counter.delta or 0.0), minus(scale.new_s, scale.old_s))
    return counter.unit == "sector" and taken is not None and abs(taken) < _SECTORS


#: Sectors whose change takes less than this part of the change of time did not cause it.
_SECTORS = 0.01

#: A proof with this part of occupancy's score explains as much as occupancy does.
_AS_MUCH = 0.8


def _hidden(proofs: Sequence[Proof], *, grid: bool) -> Proof | None:
    """The proof that explains as much as occupancy, if occupancy comes first.

    More warps hide any wait and any work. A wait that an edit changed names the one that they hid;
    so do counts of instructions and of another kind together. A `grid`'s effect is named second.
    """
    if len(proofs) < 2 or proofs[0].way != "occupancy":
        return None
    least, rest = _AS_MUCH * proofs[0].score, proofs[1:]
    edited, beside = rest[0].way == "wait" and rest[0].place.link == "hunk", rest[0].beside
    if grid and edited and (beside is None or not is_pipe(beside)):
        return rest[0] if rest[0].score >= HALF * proofs[0].score else None
    if edited and beside is not None and rest[0].score >= least:
        return rest[0]
    best = {each.counter.id == "instructions": each for each in rest[::-1] if each.way == "count"}
    enough = sum(each.score for each in best.values()) >= least
    return max(best.values(), key=lambda each: each.score) if enough else None


#: Two counts can balance each other only if the smaller takes this part of the larger one's cycles.
_BALANCED = 0.5


def _counted(
    old: Profile, comparison: Comparison, place: Callable[[Delta, str], Origin]
) -> list[Proof]:
    """For profiles without a duration: the count whose change takes the SMs longest, at their peak.

    If times were measured elsewhere, it moves in their direction. Without times, one that moved the
    other way and takes about as long is also given, the one that fell first: which won is unknown.
    """
    scale, speed = Scale(old, comparison), comparison.speed
    way = speed.new_s - speed.old_s if speed is not None else 0.0
    costs = [
        (cost, delta)
        for delta in (comparison[name] for name in (*WAITS, "instructions"))
        if delta.delta is not None
        and delta.moved
        and way * delta.delta >= 0
        and tells(delta)
        and (cost := scale.cycles(delta.id, abs(delta.delta)))
    ]
    heaviest = [
        max((each for each in costs if (each[1].delta or 0.0) * side > 0), key=lambda x: x[0])
        for side in (-1, 1)
        if any((delta.delta or 0.0) * side > 0 for __, delta in costs)
    ]
    most = max((cost for cost, __ in heaviest), default=0.0)
    told = [taught(comparison, delta) for cost, delta in heaviest if cost >= _BALANCED * most]
    return [
        Proof(counter=named, place=place(count, "count"), way="count", score=1.0)
        for count, named in told
    ]


#: Counts of the same access: they move together.
_OF_GLOBAL = tuple(name for name in WAITS if name.startswith(("global_load", "global_store")))
#: Fewer accesses explain fewer sectors if they make up this part of the sectors' logarithm.
_FEWER = 0.5


def taught(comparison: Comparison, most: Delta) -> tuple[Delta, Delta]:
    """Among counters that move together, one that lines have and one that people name.

    Tags, sectors and requests of global memory belong to one access. Fewer accesses are the reason
    for all three; fewer sectors for each access are the effect of coalescing.
    """
    if most.id != "l1_tag_requests" and most.id not in _OF_GLOBAL:
        return most, most
    moved = {
        kind: abs(sectors.delta or 0.0)
        for kind in ("load", "store")
        if (sectors := comparison[f"global_{kind}_sectors"]).moved
        and most.id.startswith(("l1_tag", f"global_{kind}"))
        and (sectors.delta or 0.0) * (most.delta or 0.0) > 0
    }
    if not moved:
        return most, most
    kind = max(moved, key=lambda each: moved[each])
    sectors, requests, each = (
        comparison[f"global_{kind}_{what}"]
        for what in ("sectors", "requests", "sectors_per_request")
    )
    few, thin = growth(requests.old, requests.new), growth(sectors.old, sectors.new)
    if few is None or thin is None or not (requests.moved or each.moved):
        return most, most
    if few * thin > 0 and abs(few) >= _FEWER * abs(thin):
        return requests, requests
    return (sectors, each) if each.moved else (most, most)


#: Counters that decide how many blocks fit on an SM -> the cause to which each belongs.
_ROOM = {
    "registers": "registers",
    "threads_per_block": "block size",
    "static_shared": "shared memory",
    "dynamic_shared": "shared memory",
}
#: Below this part of the blocks that fit, the grid decides the number of blocks.
_UNFILLED = 0.75


def _unfilled(comparison: Comparison) -> bool:
    """True if the grid has fewer blocks than fit on the SMs, on both sides."""
    fit, occupied = comparison["theoretical_occupancy"], comparison["achieved_occupancy"]
    pairs = ((occupied.old, fit.old), (occupied.new, fit.new))
    return all(some and most and some <= _UNFILLED * most for some, most in pairs)


def _room(
    comparison: Comparison, occupancy: Sequence[OccupancySplit], *, unfilled: bool
) -> tuple[Delta, ...]:
    """The resources that moved occupancy the way it went; the number of blocks if none did."""
    if by_grid(comparison):
        return (comparison["blocks"],)
    moved = tuple(delta for name in _ROOM if (delta := comparison[name]).moved)
    way = occupancy_of(comparison).delta
    if not occupancy or way is None:
        return moved
    if unfilled:  # as many blocks as before, of a different size
        return tuple(x for x in moved if x.id == "threads_per_block" and (x.delta or 0) * way > 0)
    points: dict[str, float] = defaultdict(float)
    for split in occupancy:
        for cause, amount in split.causes.items():
            points[cause] += amount
    return tuple(delta for delta in moved if points[_ROOM[delta.id]] * way > 0)


def _side(profile: Profile) -> Behaviour:
    counted, waits = combine(profile), state_seconds(profile)
    side = behaviour_of(counted, profile.device, waits, main_launch(profile))
    return structs.replace(side, works=works_of(profile))


def delta_of(
    comparison: Comparison, hypothesis: Hypothesis, sides: tuple[Behaviour, Behaviour]
) -> Delta:
    """The counter of a hypothesis on both sides; for the work of a unit, derived from its share.

    If the work is zero on one side, the share itself says more.
    """
    if hypothesis.way != "work":
        return comparison[hypothesis.counter]
    old, new = (side.works[hypothesis.counter] for side in sides)
    unit = UNITS[hypothesis.counter]
    share = comparison[unit.counter] if unit.counter and not (old and new) else None
    if share is not None and share.moved:
        return share
    known = catalog()[unit.counter or _SHOWN]
    its, their = _("Cycles of {unit} at its peak rate"), _("Cycles of {unit} at their peak rate")
    return Delta(
        id=known.id,
        title=(their if unit.named.endswith("s") else its).format(unit=unit.title),
        group=known.group,
        unit="cycle",
        better="lower",
        ncu=f"{(unit.worked or unit.metrics)[0]}{ELAPSED} × {unit.clock or 'cycles'}",
        old=old,
        new=new,
        delta=new - old,
        relative=new / old - 1.0 if old else None,
        moved=True,
        verdict="changed",
        rule=_("derived: share of peak × cycles"),
        derived=True,
    )


def _stalls(old: Behaviour, new: Behaviour, named: Collection[str]) -> tuple[StallMove, ...]:
    """The states on both sides that moved (or are named), the largest change first."""
    seconds = old.seconds, new.seconds
    if seconds[0] is None or seconds[1] is None:
        return ()
    longer = max(seconds[0], seconds[1])
    change = seconds[1] - seconds[0]
    moves = []
    for state in {**(old.waits or {}), **(new.waits or {})}:
        before, after = old.waited(state), new.waited(state)
        least = 0.0 if state in named else _STALL * longer
        if before is None or after is None or abs(after - before) < least:
            continue
        share = (after - before) / change if change else 0.0
        moves.append(StallMove(stall=state, old_s=before, new_s=after, share=share))
    return tuple(sorted(moves, key=lambda move: -abs(move.delta_s)))


#: Pipes that do arithmetic: a pipe's share of peak times its time is its work.
_PIPES = {r.id: r.counter for r in RESOURCES if r.id in ("tensor", "fma", "alu", "xu", "fp64")}
#: Names of the grid's size, in CUDA and in Triton.
_GRID = frozenset({"gridDim", "num_programs"})
#: The maximum number of hunks to name.
_STEPS = 3
#: A count belongs to a wait only if its logarithm moved by this part of the wait's effect.
_ALONG = 0.25
#: Two amounts of work that differ by less than this part count as equal.
_SAME = 0.02


def beside_of(
    comparison: Comparison,
    wait: Hypothesis,
    where: Origin,
    place: Callable[[Delta, str], Origin],
    sides: tuple[Behaviour, Behaviour],
) -> Delta | None:
    """The work that a wait delayed: memory with the same bytes, else a pipe with the same work.

    A count that moved with the wait at the same hunks is preferred to the pipe.
    """
    if (memory := _memory(comparison, wait)) is not None:
        return memory
    found = _count(comparison, wait, where.hunks, place)
    return found if found is not None else _pipe(comparison, wait, sides)


#: Counter of device memory's share of peak; from this share (%) on, its bytes are the work.
MEMORY, _BUSY = "dram_throughput", 50.0


def _memory(comparison: Comparison, wait: Hypothesis) -> Delta | None:
    """Device memory's share of peak if it moved the same bytes and was held up less (or more)."""
    share, data = comparison[MEMORY], comparison["dram_bytes"]
    if wait.counter not in WAITS["global_load_requests"] or not share.moved:
        return None
    if not (data.old and data.new and abs(data.new / data.old - 1.0) <= _SAME):
        return None
    held = times(share.delta, wait.effect)
    busy = max(share.old or 0.0, share.new or 0.0) >= _BUSY
    return share if busy and held is not None and held < 0 else None


def is_pipe(delta: Delta) -> bool:
    """True if the counter beside a wait is a unit's share, not a count."""
    return delta.id == MEMORY or delta.id in _PIPES.values()


def place_of_wait(
    comparison: Comparison,
    wait: Hypothesis,
    where: Origin,
    attribution: Attribution,
    *sides: Profile,
) -> Origin:
    """The origin of a wait.

    Persistent blocks begin and end less often. If the grid ran in waves, and a hunk makes blocks
    loop over their work, the waits between blocks belong to the launch and that hunk. A wait
    without a hunk belongs to a changed order, if one changed.
    """
    if stays(comparison) and (hunks := _steps(attribution, *sides)):
        return Origin(link="launch", hunks=hunks)
    if where.link != "elsewhere":
        return where
    return ordered_in(wait.counter, attribution) or where


def waves_of(comparison: Comparison) -> Delta | None:
    """The grid's number of waves, if it changed by more than two captures may differ."""
    waves = comparison["waves"]
    if not (waves.old and waves.new):
        return None
    return waves if abs(math.log(waves.new / waves.old)) >= QUIET else None


def stays(comparison: Comparison) -> bool:
    """True if blocks ran in waves, and now fewer of the same size all run at once."""
    waves, blocks = comparison["waves"], comparison["blocks"]
    fewer = bool(blocks.old and blocks.new and blocks.new < blocks.old)
    at_once = bool(waves.old and waves.new and waves.new <= 1.0 < waves.old)
    return fewer and at_once and not comparison["threads_per_block"].moved


def _steps(attribution: Attribution, *sides: Profile) -> tuple[int, ...]:
    """The first hunks whose new lines use the number of blocks as a step, and no old line does."""
    texts = [{s.path: scan(s.text, s.path).tokens for s in p.sources if s.text} for p in sides]

    def steps(side: int, path: str, span: tuple[int, int]) -> bool:
        return any(_GRID & set(each) for each in texts[side].get(path, ())[span[0] - 1 : span[1]])

    code = [hunk for hunk in attribution.hunks if hunk.kind == "code"]
    new = [each for each in code if steps(1, each.new_file, each.new)]
    return tuple([x.id for x in new if not steps(0, x.old_file, x.old)][:_STEPS])


#: Bank conflicts hold warps up if addresses alone add this part of all wavefronts.
_CONFLICTS, _MANY = "shared_bank_conflicts", 0.25


def _count(
    comparison: Comparison,
    wait: Hypothesis,
    hunks: tuple[int, ...],
    place: Callable[[Delta, str], Origin],
) -> Delta | None:
    """The count that rose (or fell) most with a wait at the same hunks.

    Spills belong to the wait for them wherever both are: the compiler placed them. If neither is in
    a hunk, the spills must have moved by half. Bank conflicts come last, if they are many.
    """
    names = [name for name in WAITS if wait.counter in WAITS[name]]
    excess, all_of = comparison["shared_wavefronts_excess"], comparison["shared_wavefronts"]
    if abs(excess.delta or 0.0) >= _MANY * max(all_of.old or 0.0, all_of.new or 0.0):
        names += [_CONFLICTS] if "shared_wavefronts" in names else []
    along = [
        delta
        for delta in map(comparison.__getitem__, names)
        if delta.moved and delta.delta is not None and delta.delta * wait.effect > 0
    ]
    along = [d for d in along if _ratio(d) >= _ALONG * abs(wait.effect)]
    along.sort(key=lambda d: (d.id == _CONFLICTS, -_ratio(d)))
    for delta in along:
        found = place(delta, "count")
        nowhere = not hunks and found.link not in ("launch", "compiler")
        if (
            (nowhere and _ratio(delta) >= HALF)
            or delta.id == "local_sectors"
            or (set(found.hunks) & set(hunks) and found.link != "launch")
        ):
            return delta
    return None


def _ratio(delta: Delta) -> float:
    """The factor by which a count moved, as a logarithm without its sign."""
    if not delta.old or not delta.new:
        return math.inf
    return abs(math.log(delta.new / delta.old))


def _pipe(
    comparison: Comparison, wait: Hypothesis, sides: tuple[Behaviour, Behaviour]
) -> Delta | None:
    """The busiest arithmetic pipe, if it did the same work and was held up less (or more)."""
    share = _worked(comparison, sides)
    if share is None or not share.moved:
        return None
    held = times(share.delta, wait.effect)
    return share if held is not None and held < 0 else None


def held_nothing_up(comparison: Comparison, sides: tuple[Behaviour, Behaviour]) -> bool:
    """True if no wait can be a cause: a busy pipe did the same work, and stayed as busy."""
    share = _worked(comparison, sides)
    if share is None or share.old is None or share.new is None:
        return False
    return min(share.old, share.new) >= FULL and not share.moved


def _worked(comparison: Comparison, sides: tuple[Behaviour, Behaviour]) -> Delta | None:
    """The share of the busiest pipe on both sides, if it did the same work."""
    shares = [{pipe: side.share(pipe) for pipe in _PIPES} for side in sides]
    # A pipe that was not measured is not known to be less busy.
    known = [{pipe: share for pipe, share in each.items() if share is not None} for each in shares]
    fullest = {max(each, key=lambda pipe: each[pipe]) for each in known if each}
    if len(fullest) != 1 or not all(known):
        return None
    share, active = comparison[_PIPES[fullest.pop()]], comparison["active_cycles"]
    if not (share.old and share.new and active.old and active.new):
        return None
    work = (share.new * active.new) / (share.old * active.old)
    return share if abs(work - 1.0) <= _SAME else None
