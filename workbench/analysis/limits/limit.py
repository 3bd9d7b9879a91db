"""The limit of a kernel: the resource nearest its peak, or the wait that no resource explains.

A resource's share is ncu's own percentage of a unit's peak rate. Units of the SM are counted over
the cycles in which the SM was active, so that a grid that ends unevenly does not hide that they
were full; caches and memory over all of the kernel's time. A share below `FULL` leaves room: then
warps wait, and the stall in which most of them were seen is named. `Selected` and `Not selected`
are not stalls and never a limit
(https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#warp-stall-reasons).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from workbench.analysis.aggregate import Recent, main_launch, value_of
from workbench.analysis.optional import Maybe, largest, over, times, total
from workbench.analysis.plausible import broken
from workbench.analysis.weight import TELLING, WELL
from workbench.counters import Counter, catalog, line_metric
from workbench.gpus import WARP_SIZE, chip_for, of_all_chips
from workbench.language import N_, _
from workbench.model import Device, Launch, LineKey, Number, Profile, Record, line_counters
from workbench.units import quantity, several

# --- Why warps waited: shares of warp time by state, per launch and per source line --------------
#
# Two sources give the shares, and a report may hold either. *Samples* (``smsp__pcsamp_*``) count,
# at a fixed interval, the state of one warp per scheduler: a sum over instructions, so it can be
# split by source line. *Ratios* (cycles per issued instruction) are exact, for the whole launch.
# Shares come from samples if there are enough (`LEAST_SAMPLES`), so that the lines add up to the
# bar above them, otherwise from the ratios.

#: Catalog ids: the group of warp states, and the samples.
GROUP = "stalls"
SAMPLES = "warp_samples"
#: Warps that wait for others in their block; the four warps of a warpgroup wait for their products
#: (``wgmma.wait_group``) in the same state.
BARRIER = "barrier_stall"

#: States that are not stalls -> the warp's activity in them.
_WELL_WORDS = {"selected": N_("issuing"), "not_selected": N_("ready")}


def stall_words(state: str) -> str:
    """A state in a sentence: ``barrier stalls``, ``MIO throttle stalls``, ``issuing``."""
    if state in _WELL_WORDS:
        return _(_WELL_WORDS[state])
    return _("{state} stalls").format(state=catalog()[state].phrase.removesuffix(_(" stall")))


#: Fewer samples prove nothing, and no estimate is made from them. Six against zero is the smallest
#: difference that chance does not explain (two-sided sign test: 2/2⁶ = 3%) if samples are
#: independent; but all schedulers are sampled in the same cycle, and neighbouring warps act alike.
#: So twice as many are needed.
LEAST_SAMPLES = 12
#: Fewer samples are worse than counters of all states: a tenth of them is known to a tenth.
_MANY_SAMPLES = 1000


class Share(Record, frozen=True):
    """One state's part of all warp time: `share` is 0-1, `cycles` are per issued instruction."""

    state: Counter
    share: float
    samples: Number | None = None
    cycles: Number | None = None

    @property
    def stalled(self) -> bool:
        """True if the warp waited; in the two other states it issued or was ready to issue."""
        return self.state.id not in WELL

    @property
    def title(self) -> str:
        """The state's title, which says that the two other states are not stalls."""
        return title_of(self.state.id)


class Breakdown(Record, frozen=True):
    """All states of a launch, largest first. `source` names the source of the shares.

    `counted` are the ids of all counted states, even those without a warp: samples count all of
    them, a ratio counts one state.
    """

    source: Literal["samples", "ratios", ""]
    shares: tuple[Share, ...] = ()
    samples: Number = 0
    counted: tuple[str, ...] = ()

    @property
    def top(self) -> Share | None:
        """The largest real stall, which is where to look first."""
        return next((share for share in self.shares if share.stalled), None)


class HotLine(Record, frozen=True):
    """A source line with its part of the samples and its stalls (shares of the line)."""

    key: LineKey
    samples: Number
    share: float
    stalls: tuple[tuple[Counter, float], ...] = ()

    @property
    def telling(self) -> bool:
        """False if there are few samples, because the launch is short or the line is."""
        return self.share >= TELLING and self.samples >= LEAST_SAMPLES


def title_of(state: str) -> str:
    """A warp state's title, which marks the two states that are not stalls."""
    title = catalog()[state].title
    return f"{title} ({_WELL_WORDS[state]})" if state in WELL else title


def breakdown(launch: Launch) -> Breakdown:
    """Split a launch's warp time over the warp states of the catalog.

    Returns shares that add up to 1; no shares and source "" if the report holds neither samples nor
    ratios.
    """
    return _breakdowns(launch)


def _broken_down(launch: Launch) -> Breakdown:
    states = catalog().group(GROUP)
    columns = launch.instructions.columns
    lines = {state.id: line_metric(launch, state) for state in states}
    sampled = {state: sum(columns[name].values) if name else 0 for state, name in lines.items()}
    cycles = {state.id: value_of(launch, state.id) for state in states}
    # Only some states, without the one that issues, are no whole.
    known = {k: v for k, v in cycles.items() if v is not None and cycles["selected"] is not None}
    total = sum(sampled.values())
    enough = _MANY_SAMPLES if len(known) == len(states) else LEAST_SAMPLES
    if total < enough and any(known.values()):
        total = 0
    weights = sampled if total else known
    whole = sum(weights.values())
    if not whole:
        return Breakdown(source="")
    shares = [
        Share(
            state=state,
            share=weights[state.id] / whole,
            samples=sampled[state.id] if total else None,
            cycles=cycles[state.id],
        )
        for state in states
        if weights.get(state.id)
    ]
    shares.sort(key=lambda share: -share.share)
    return Breakdown(
        source="samples" if total else "ratios",
        shares=tuple(shares),
        samples=total,
        counted=tuple(weights),
    )


def sampled_lines(launch: Launch) -> tuple[HotLine, ...]:
    """The source lines on which warp samples fell, most samples first.

    Instructions without a source line are left out of the list, but not of the
    total that shares refer to.
    """
    return _lines(launch)


def _sampled(launch: Launch) -> tuple[HotLine, ...]:
    # Reports of ncu 2021 hold the states without their total: they add up to it.
    samples = line_metric(launch, catalog()[SAMPLES])
    every = [
        (state, name)
        for state in catalog().group(GROUP)
        if (name := line_metric(launch, state)) is not None
    ]
    parts = [samples] if samples else [name for __, name in every]
    if not parts:
        return ()
    states = [(state, name) for state, name in every if state.id not in WELL]
    lines = line_counters(launch)
    counts = {key: sum(own.get(name, 0) for name in parts) for key, own in lines.items()}
    total = sum(counts.values())
    out = []
    for key, counters in lines.items():
        count = counts[key]
        if key[1] <= 0 or not count:
            continue
        # States may have been counted in another pass than all samples, and exceed them.
        whole = max(count, sum(counters.get(name, 0) for __, name in every))
        stalls = [(state, counters[name] / whole) for state, name in states if name in counters]
        stalls.sort(key=lambda item: -item[1])
        out.append(HotLine(key=key, samples=count, share=count / total, stalls=tuple(stalls)))
    out.sort(key=lambda line: (-line.samples, line.key))
    return tuple(out)


def barrier_waits(launch: Launch) -> tuple[float, LineKey | None]:
    """The part (0-1) of the barrier samples that are not a warpgroup's, and their main line.

    1 and no line if no samples are known per instruction.
    """
    table = launch.instructions
    name = line_metric(launch, catalog()[BARRIER])
    column = table.columns.get(name) if name else None
    whole: Number = 0
    lines: dict[LineKey, Number] = defaultdict(int)
    for row, count in zip(column.rows, column.values, strict=True) if column else ():
        whole += count
        if "WARPGROUP." not in table.text[row]:
            lines[table.file[row], table.line[row]] += count
    known = {key: count for key, count in lines.items() if key[1] > 0 and count}
    best = max(known, key=lambda key: known[key], default=None)
    return (sum(lines.values()) / whole if whole else 1.0), best


#: A panel, gutters and both sides of a step need the same launch.
_breakdowns, _lines = Recent(_broken_down), Recent(_sampled)


#: Launches without samples, such as those of one or two blocks, may take this part of the time.
UNSAMPLED = 0.5


def state_seconds(profile: Profile) -> dict[str, float] | None:
    """Seconds of all of a profile's launches under the profiler, by the warp state's catalog id.

    A state that was counted and never seen has 0; one that no launch counted is left out. None if
    no state was counted for most of the time: the warps' activity in it is unknown.
    """
    seconds: dict[str, float] = {}
    unseen = whole = 0.0
    for launch in profile.launches:
        duration = value_of(launch, "duration")
        if not duration:
            continue
        found = breakdown(launch)
        whole += duration
        unseen += 0.0 if found.shares else duration
        for state in found.counted:
            seconds.setdefault(state, 0.0)
        for share in found.shares:
            seconds[share.state.id] += share.share * float(duration)
    return seconds if whole and unseen <= UNSAMPLED * whole else None


#: A state with this share of any profile is named.
NAMED = 0.15


def heaviest_states(profiles: Sequence[dict[str, float]], most: int) -> list[tuple[str, list[str]]]:
    """The states of several profiles that are shown separately, heaviest first; the rest as one.

    One that takes `NAMED` of any of them is always separate; `most`: the most separate states.
    Shares decide, so that a slow first version does not hide the other versions' states. Lists, not
    sets: the last digit of a sum of seconds depends on its order.
    """
    weight: dict[str, float] = {}
    named: set[str] = set()
    for seconds in profiles:
        whole = sum(seconds.values())
        for state, amount in seconds.items():
            weight[state] = weight.get(state, 0.0) + amount / whole
            if amount > NAMED * whole:
                named.add(state)
    order = sorted(filter(weight.get, weight), key=lambda state: -weight[state])
    named.update(order[:most])
    groups = [(title_of(state), [state]) for state in order if state in named]
    others = [state for state in order if state not in named]
    return [*groups, (_("All others"), others)] if others else groups


# --- The active time of SMs: the cost of a launch itself, and of blocks that end unevenly ---
#
# ``sm__cycles_active`` counts the cycles in which an SM held a warp, ``sm__cycles_elapsed`` all
# of them (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure).
# No grid fills the idle time of the busiest SM: a launch has to begin and to end, which took 1.2 to
# 2.4 µs in nine of ten launches that were recorded here. Blocks cause the mean SM's further idle
# time.

#: A part of the SMs' cycles that limits before any unit does: cycles left idle by blocks, ...
UNEVEN = 0.25
#: ... or the launch itself, if no unit is busy while SMs are active, ...
SHORT = 1 / 3
#: ... or the launch even if one is.
VERY_SHORT = 0.5


class Running(Record, frozen=True):
    """Parts (0-1) of a launch's cycles in which the mean SM and the busiest one were active.

    `busiest` is 1 if only the mean is known: then the launch itself is not judged.
    """

    mean: float
    busiest: float = 1.0

    @property
    def outside(self) -> float:
        """The largest part of the cycles in which not even the busiest SM was active."""
        return 1.0 - self.busiest

    @property
    def uneven(self) -> float:
        """The part of the busiest SM's cycles in which the mean SM had no block."""
        return 1.0 - self.mean / self.busiest

    @property
    def short(self) -> bool:
        """True if the launch itself takes more of the time than blocks leave idle."""
        return self.outside >= SHORT and self.outside > self.busiest - self.mean


#: From this many waves on, the last wave is at most an eighth of the time.
_MANY_WAVES = 8
#: A warp that executes fewer instructions has no work, and ends at once.
_AT_ONCE = 32
#: The value for a launch without counters of active cycles.
UNKNOWN = Running(mean=1.0)


def running_of(launch: Launch) -> Running:
    """The time that SMs were active in one launch; `UNKNOWN`, all of it, without a counter."""
    mean, busiest, elapsed = (
        value_of(launch, name) for name in ("active_cycles", "busiest_cycles", "cycles")
    )
    if not mean or not elapsed:
        return UNKNOWN
    # Passes of one launch differ by a few cycles.
    most = min(max(busiest, mean) / elapsed, 1.0) if busiest else 1.0
    return Running(mean=min(mean / elapsed, most), busiest=most)


ResourceId = Literal[
    "issue", "l1_data", "lsu", "l2", "dram", "tensor", "fma", "alu", "xu", "fp64", "constant",
    "tex", "adu", "sm", "memory", "latency", "grid", "sync", "launch",
]  # fmt: skip

#: From this share of its peak on, a unit limits. The hand-labelled steps agree with this value;
#: ncu's own rules call 60% "low utilization" and 80% a bottleneck.
FULL = 60.0
#: States in which warps wait for global memory, and the least part of their time spent in them.
_MEMORY = frozenset({"long_scoreboard", "lg_throttle", "drain_stall", "membar", "barrier_stall"})
_WAITED = 0.10
#: Units for which warps queue in states of their own, and these states; if code loads from global
#: memory, the answers come through these units as well.
_QUEUED = ("l1_data", "lsu")
_QUEUES = frozenset({"mio_throttle", "short_scoreboard", "lg_throttle", "tex_throttle"})
#: From this part of the barrier samples on, warps wait at barriers.
_AT_BARRIERS = 0.5
#: If warps spend this much of their time in one state that is not a queue for a unit, a unit of the
#: SM below `_BOTTLENECK` does not limit them.
_LATENT = 0.6
_FOR_UNITS = _QUEUES | {"math_pipe_throttle", BARRIER}
#: From this share on a unit limits whether or not warps wait (asynchronous copies let no warp
#: wait): ncu's rules call 80% a bottleneck. From `_MUCH` on it is shown beside a wait.
_BOTTLENECK, _MUCH = 80.0, 75.0
#: If device memory limits, an L2 that is fuller by this many points limits before it.
_FULLER = 10.0


class Resource(Record, frozen=True):
    """A unit whose rate has a peak: a row of ``data/machine.toml``."""

    id: ResourceId
    named: str
    metrics: tuple[str, ...]
    counter: str = ""
    inside: bool = True
    full: float = FULL
    low: float = FULL
    high: float = 85.0
    worked: tuple[str, ...] = ()
    clock: str = ""
    counts: tuple[str, ...] = ()
    rest: bool = False

    @property
    def title(self) -> str:
        """Its name inside a sentence."""
        return _(self.named)


RESOURCES = of_all_chips("resource", Resource)
UNITS: dict[str, Resource] = {unit.id: unit for unit in RESOURCES if not unit.rest}


class Load(Record, frozen=True):
    """The use of one resource.

    `elapsed` and `active` are shares of its peak in % over all of the time and over the
    cycles in which an SM was active (equal for caches and memory).
    """

    resource: Resource
    elapsed: float
    active: float

    @property
    def full(self) -> bool:
        """True if the resource limits."""
        return self.active >= self.resource.full


class Limit(Record, frozen=True):
    """The limit of one side. `share` is in % of the resource's peak, or of the warps' time.

    `names` are the names in the words beside the resource: the warp state of a latency, the blocks
    and SMs of a grid that is too small. Empty if the resource is enough. `kernel` is the limited
    one of several kernels.
    """

    id: ResourceId
    words: str
    share: float
    others: tuple[Load, ...] = ()
    names: tuple[str | int, ...] = ()
    kernel: str = ""

    def of(self, kernel: str, part: float | None) -> Limit:
        """The limit of one of several kernels, which takes a part (0-1) of the time."""
        words = _("{words}, in {kernel}").format(words=self.words, kernel=kernel)
        if part:
            share = quantity(100 * part, "%")
            words = _("{words} ({share} of the time)").format(words=words, share=share)
        return structs.replace(self, words=words, kernel=kernel)

    def when(self, before: Limit | None) -> Literal["still ", "now ", ""]:
        """``still`` if the same unit limited the earlier side, whatever its share.

        Empty if the limit of that side is unknown.
        """
        if before is None:
            return ""
        return "still " if (before.id, before.names) == (self.id, self.names) else "now "


#: If the highest share exceeds the known ones by this (points), it belongs to another unit.
_APART = 5.0


def loads(launch: Launch) -> tuple[Load, ...]:
    """The use of every resource for which the launch has a share, the busiest first.

    An idle resource is included with 0; one that was not measured is left out.
    """
    spread, most = running_of(launch).mean, 0.0
    out: list[Load] = []
    for resource in RESOURCES:
        elapsed = largest(*(_percent(launch, name) for name in resource.metrics))
        if not elapsed and resource.counter:
            known = value_of(launch, resource.counter)
            # The catalog's shares of an SM's units are relative to its active cycles.
            elapsed = largest(elapsed, times(known, spread) if resource.inside else known)
        if elapsed is not None:
            active = min(elapsed / spread, 100.0) if resource.inside else elapsed
            if not resource.rest or active > most + _APART:
                out.append(Load(resource=resource, elapsed=elapsed, active=active))
                most = max(most, active)
    return tuple(sorted(out, key=lambda load: -load.active))


def limit_of(profile: Profile) -> Limit | None:
    """The limit of the launch with the most of a profile's time; None if unknown."""
    launch = main_launch(profile) if not broken(profile) else None
    return limit_of_launch(launch, profile.device) if launch is not None else None


def limit_of_launch(launch: Launch, device: Device) -> Limit | None:
    """The limit of one launch."""
    busy = loads(launch)
    waited = _waits(launch, _MEMORY)
    # If warps load nothing themselves, they do not queue for the copy engine.
    own = {"long_scoreboard"} if value_of(launch, "global_load_requests") != 0 else set[str]()
    queued = _waits(launch, _QUEUES | own)
    first = breakdown(launch).top
    latent = first is not None and first.share > _LATENT and first.state.id not in _FOR_UNITS

    def limits(load: Load) -> bool:
        if not load.full or load.active >= _BOTTLENECK:
            return load.full
        if load.resource.id in _QUEUED:
            return queued and not latent
        return not latent if load.resource.inside else waited

    full = tuple(filter(limits, busy))
    if queued and not waited and any(load.resource.id in _QUEUED for load in full):
        # A memory that no warp waits for ranks behind units that warps queue for.
        full = tuple(sorted(full, key=lambda load: not load.resource.inside))
    l2 = next((load for load in busy if load.resource.id == "l2"), None)
    dram = next((load for load in full if load.resource.id == "dram"), None)
    if l2 and dram and full[0] in (l2, dram):
        first_of = l2 if l2.active >= dram.active + _FULLER else dram
        full = (first_of, *(load for load in full if load is not first_of))
    time, grid = running_of(launch), _short_grid(launch, device, full)
    if time.short and (time.outside >= VERY_SHORT or (not full and grid is None)):
        share = 100 * time.busiest
        words = _("a short launch: the busiest SM is active {share:.0f}% of the time").format(
            share=share
        )
        return Limit(id="launch", words=words, share=share, others=full)
    # Units that all SMs share may be full although some SMs are idle.
    if grid is not None and all(load.resource.inside for load in full):
        return grid
    if full:
        best = full[0]
        words = _("{resource}, {share:.0f}%").format(
            resource=best.resource.title, share=best.active
        )
        return Limit(id=best.resource.id, words=words, share=best.active, others=full[1:])
    return _short_grid(launch, device, busy[:1], alone=True) or _latency(launch, busy)


def _waits(launch: Launch, states: frozenset[str]) -> bool:
    """True if warps waited in these states: a busy unit without waiting warps is not a limit.

    True if no warp state is known.
    """
    shares = breakdown(launch).shares
    return not shares or sum(s.share for s in shares if s.state.id in states) >= _WAITED


def _latency(launch: Launch, busy: tuple[Load, ...]) -> Limit | None:
    found = breakdown(launch)
    waits = [share for share in found.shares if share.state.id not in WELL]
    if not waits:
        return None
    first = waits[0]
    share = 100 * first.share
    part = _("{share:.0f}% of warp time").format(share=share)
    for load in busy[:1] if busy and busy[0].active >= _MUCH else ():
        part = _("{part}, alongside {unit} at {share:.0f}%").format(
            part=part, unit=load.resource.title, share=load.active
        )
    words = _("latency: {id}, {part}")
    if first.state.id == BARRIER:
        words = _("latency: barrier stalls of warpgroups (wgmma), {part}")
        if barrier_waits(launch)[0] >= _AT_BARRIERS:
            words = _("waiting at barriers, {part}").format(part=part)
            return Limit("sync", words, share, busy[:1])
    words = words.format(id=stall_words(first.state.id), part=part)
    return Limit("latency", words, share, busy[:1], (first.state.id,))


def _short_grid(
    launch: Launch, device: Device, others: tuple[Load, ...], alone: bool = False
) -> Limit | None:
    """The limit from a grid that leaves SMs without work for long.

    `alone`: the cycles of SMs are unknown, so the launch tells how many SMs have no block.
    """
    blocks = math.prod(launch.grid)
    chip = chip_for(device)
    sms = device.sms or (chip.sms if chip is not None else 0)
    time = running_of(launch)
    uneven = time.uneven
    if alone and sms and time is UNKNOWN:
        uneven = max(1.0 - blocks / sms, 0.0)
    if not blocks or not sms or uneven < UNEVEN:
        return None
    if blocks < sms:
        threads = math.prod(launch.block)
        words = _("a grid of {blocks} on {sms} SMs").format(
            blocks=several(blocks, "block"), sms=sms
        )
        if blocks == 1 and threads < WARP_SIZE:
            all_of = _("one thread") if threads == 1 else several(threads, "thread")
            words = _("{all_of} in all, on one of {sms} SMs").format(all_of=all_of, sms=sms)
        return Limit("grid", words, 100 * blocks / sms, others, (blocks, sms))
    part = 100 * time.mean
    waves = value_of(launch, "waves")
    if waves is not None and waves >= _MANY_WAVES:
        # A nearly empty last wave leaves SMs idle for at most one wave's time.
        warps = blocks * -(-math.prod(launch.block) // WARP_SIZE)
        each = over(value_of(launch, "instructions"), warps)
        idle = each is not None and each < _AT_ONCE
        what = _("that end almost at once") if idle else _("with unequal work")
        words = _(
            "{waves:.0f} waves of blocks {what}: SMs are active {part:.0f}% of the time"
        ).format(waves=waves, what=what, part=part)
        return Limit("grid", words, part, others, ("waves",))
    text = _("an uneven tail: SMs are active {part:.0f}% of the time")
    if waves is not None and waves < 1:
        text = _("{blocks} on {sms} SMs, under a wave: they are active {part:.0f}% of the time")
    words = text.format(part=part, blocks=several(blocks, "block"), sms=sms)
    return Limit("grid", words, part, others, ("tail",))


def _percent(launch: Launch, name: str) -> float | None:
    for suffix in (ELAPSED, ".sum.pct_of_peak_sustained_elapsed"):
        metric = launch.metrics.get(name + suffix)
        if metric is not None and not isinstance(metric.value, str):
            return float(metric.value)
    return None


# --- The work of units ---------------------------------------------------------------------------
#
# ncu's set *basic* holds no counts, but how near its peak every unit was; and no count says what a
# unit did whose instructions differ in size or cost. Share × cycles are the cycles that the unit
# needs for its work at its peak rate, so that their ratio between two sides is that of the work,
# whatever the peak is
# (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#metrics-structure). An SM's
# units count its cycles. The L2 counts its own where a report holds them; its clock follows the
# SMs' within 2% in one run, and 7% in two.

#: The end of the name of a share of peak over all of the time.
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


def works_of(profile: Profile) -> dict[str, float]:
    """The known cycles that units need at their peak, by the keys of `UNITS`."""
    launches = [launch for launch in profile.launches if launch.profiled]
    found = {name: total(_work(one, unit) for one in launches) for name, unit in UNITS.items()}
    return {name: work for name, work in found.items() if work is not None}


def _work(launch: Launch, unit: Resource) -> Maybe:
    cycles = _read(launch, unit.clock) if unit.clock else None
    names = (name + ELAPSED for name in unit.worked or unit.metrics)
    share = next((s for name in names if (s := _read(launch, name)) is not None), None)
    if share is None and unit.counter:  # older reports have it for active cycles only
        share = times(value_of(launch, unit.counter), running_of(launch).mean)
    return times(over(share, 100.0), cycles or value_of(launch, "cycles"))


def _read(launch: Launch, name: str) -> Maybe:
    metric = launch.metrics.get(name)
    return None if metric is None or isinstance(metric.value, str) else float(metric.value)
