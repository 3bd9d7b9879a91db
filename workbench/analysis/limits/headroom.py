"""The limit of a kernel now, and a bound on the gain of each experiment.

A `Way` is an experiment with a bound: the part of the time spent on what it removes, derived from
peaks, excess and waits, and at most the time that busier units leave. `panel_of` finds and ranks
the experiments, `score_ways` compares their bounds with the next version's gain. Nothing here
predicts: a bound limits the gain, and a kernel about which too little is known gets no way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import structs

from workbench.analysis.aggregate import main_launch, value_of
from workbench.analysis.cause.hypotheses import WAITS, shared_part
from workbench.analysis.expectations import Score, weigh
from workbench.analysis.limits.examined import (
    LEAST,
    OVERHEAD,
    SPREAD,
    WIDEST,
    WORK,
    Examined,
    Share,
    bound,
    counted,
    heaviest_line,
    rows_of,
    touched_by,
)
from workbench.analysis.limits.limit import (
    HotLine,
    Limit,
    barrier_waits,
    limit_of_launch,
    loads,
    sampled_lines,
    stall_words,
)
from workbench.analysis.optional import Maybe, largest, minus, over, plus, times
from workbench.analysis.plausible import broken
from workbench.gpus import SECTOR_BYTES, WARP_SIZE
from workbench.language import _, told
from workbench.model import Device, Launch, LineKey, Profile, Record
from workbench.units import quantity

#: Kinds of experiments.
Kind = Literal[
    "coalesce", "conflicts", "wide", "spills", "lanes", "grid", "launch", "occupancy", "overlap",
    "barriers", "instructions", "reuse", "tensor", "traffic",
]  # fmt: skip


class Way(Record, frozen=True, kw_only=False):
    """One thing to try.

    `saves` is the most that it can save, as a part (0-1) of the duration, `because` its arithmetic.
    `effort` is 1 for an expression or two, 2 for a loop, 3 for another design. `counter` is the
    catalog's counter that shows it, `line` the source line with most of it.
    """

    kind: Kind
    words: str
    saves: float
    because: str
    effort: int
    counter: str
    line: LineKey | None = None

    @property
    def speedup(self) -> float:
        """The largest possible factor of its speed-up."""
        return 1.0 / (1.0 - self.saves)

    @property
    def rank(self) -> float:
        """Its possible saving per effort."""
        return self.saves / self.effort


class Panel(Record, frozen=True):
    """The launch that takes the most of a profile's time: its limit, hottest line, and ways.

    `hot` is None if no samples fell on lines. `ways` are sorted by saving per effort, the best
    first; empty if nothing known could save 5% of the time. `amounts` are the known quantities that
    ways should move, by kind and counter: see `moved`.
    """

    limit: Limit | None
    hot: HotLine | None
    ways: tuple[Way, ...]
    amounts: Mapping[tuple[Kind, str], float] = {}

    @property
    def waited(self) -> str:
        """The main wait of the hottest line: ``64.0% of them in MIO throttle stalls``."""
        if self.hot is None or not self.hot.stalls:
            return ""
        state, part = self.hot.stalls[0]
        return _("{stall_1} of them in {id}").format(
            stall_1=quantity(100.0 * part, "%"), id=stall_words(state.id)
        )


def made(
    kind: Kind, found: Share | None, words: str, effort: int, counter: str, line: LineKey | None
) -> Way | None:
    """A way with this bound and its arithmetic; None without a bound."""
    return Way(kind, words, *found, effort, counter, line) if found is not None else None


#: Units whose work stays the same if loads, addresses or the schedule change.
_ARITHMETIC = frozenset({"fma", "tensor", "xu", "fp64"})
_ISSUING = _ARITHMETIC | {"issue", "alu"}
_FAR = frozenset({"dram"})
_L1 = frozenset({"l1_data", "lsu"})
#: States in which warps wait for data from global memory, and for their own block.
_GLOBAL = ("lg_throttle", "long_scoreboard")
_SHARED = WAITS["shared_wavefronts"]
#: Below this theoretical occupancy (%), more warps may hide waits.
_FEW_WARPS = 50.0
#: From this part of its instructions on, a kernel counts as a kernel of multiply-adds.
_PRODUCTS = 0.4
#: TF32 products that make one float32 product: high by high, high by low, low by high.
_TF32_PRODUCTS = 3
#: From this many active lanes per warp on, divergence is not mentioned.
_MOST_LANES = 29.0
#: A byte of device memory that crosses the L1 more often than this should be kept nearer.
_AGAIN = 4.0
#: From this share (%) of its peak on, device memory gets faster only with fewer bytes.
_NEAR_PEAK = 80.0


def _excess(seen: Examined, whole: str, noun: str) -> Share | None:
    """The part (0-1) of a count in excess of the lanes' requests."""
    total, excess = (seen.side.value(name) for name in (whole, f"{whole}_excess"))
    if not total or excess is None:
        return None
    if excess and (rows := rows_of(seen.launch, whole, f"{whole}_ideal")):
        excess = float(sum(rows.values()))
    return _beyond(total, total - excess, noun) if excess > 0 else None


def _beyond(total: float, least: float, noun: str) -> Share:
    """The part (0-1) of a count beyond the least that suffices, with its words."""
    part = over(total - least, total) or 0.0
    return part, _("{excess} of {total} {noun} are excessive ({part:.0%})").format(
        excess=quantity(total - least), total=quantity(total), noun=noun, part=part
    )


def _coalesce(seen: Examined) -> Way | None:
    part = _excess(seen, "global_sectors", _("global sectors"))
    if part is None:
        return None
    if part[0] > SPREAD:
        every, fewer = touched_by(seen.launch)
        part = max(part, _beyond(every.lines, fewer.lines, _("look-ups of 128-byte lines")))
    resources = {"l1_data": minus(1.0, shared_part(seen.side)), "l2": 1.0}
    # The queues before a full L2 fill up too, as far as that of all memory instructions.
    behind = _SHARED if seen.full("l2") and not seen.side.value("shared_wavefronts") else ()
    went = seen.went(resources, (*_GLOBAL, "drain_stall", *behind))
    found = bound(seen, part, went, _ISSUING) or counted(seen, part, "global_sectors")
    line = heaviest_line(seen.launch, "global_sectors", "global_sectors_ideal")
    words = _("Let neighbouring lanes touch neighbouring addresses of global memory")
    return made("coalesce", found, words, 1, "global_sectors_excess", line)


def _conflicts(seen: Examined) -> Way | None:
    part = _excess(seen, "shared_wavefronts", _("shared wavefronts"))
    if part is None:
        return None
    went = seen.went({"l1_data": shared_part(seen.side)}, _SHARED)
    found = bound(seen, part, went, _ISSUING | _FAR)
    found = found or counted(seen, part, "shared_wavefronts")
    line = heaviest_line(seen.launch, "shared_wavefronts", "shared_wavefronts_ideal")
    words = _("Pad or swizzle shared memory to avoid bank conflicts")
    return made("conflicts", found, words, 1, "shared_wavefronts_excess", line)


def _wide(seen: Examined) -> Iterator[Way | None]:
    for kind, states, counter, where in (
        ("global load", _GLOBAL, "global_load_requests", "global"),
        ("shared load", _SHARED, "shared_accesses", "shared"),
    ):
        width = seen.mix.width(kind)
        if width is None:
            continue
        of_lsu = seen.mix.issued[kind] / max(1, sum(seen.mix.issued[k] for k in _THROUGH_LSU))
        part = (
            1.0 - width / WIDEST,
            _("a lane loads {width:.2g} bytes at a time where 16 are possible").format(width=width),
        )
        # Wider loads are fewer; their bytes still pass the data stage and the L2.
        stays = _ARITHMETIC | _FAR | ({"l1_data"} if where == "shared" else frozenset())
        found = bound(seen, part, seen.went({"lsu": of_lsu}, states), stays)
        names = "global_load_requests" if where == "global" else "shared_wavefronts"
        line = heaviest_line(seen.launch, names) or seen.line_waiting(states)
        words = _("Load from {where} memory with wider accesses (float4, int4)").format(
            where=told(where)
        )
        yield made("wide", found, words, 2, counter, line)


_THROUGH_LSU = ("global load", "global store", "shared load", "shared store", "local memory")


def _spills(seen: Examined) -> Way | None:
    local, far = seen.side.value("local_sectors"), seen.side.value("global_sectors")
    share = over(local, plus(local, far))
    if not share or not seen.side.value("spill_instructions"):
        return None
    part = (
        share,
        _("{local} sectors are spilled registers in local memory").format(local=quantity(local)),
    )
    resources = {"l1_data": minus(1.0, shared_part(seen.side)), "l2": 1.0}
    found = bound(seen, part, seen.went(resources, _GLOBAL), _ISSUING)
    line = heaviest_line(seen.launch, "local_sectors")
    words = _("Allow more registers (__launch_bounds__), or keep fewer values alive")
    return made("spills", found, words, 1, "local_sectors", line)


def _lanes(seen: Examined) -> Way | None:
    if math.prod(seen.launch.block) < WARP_SIZE:
        return None  # its warps are not full, whichever branch they take
    lanes = seen.side.value("lanes_per_instruction")
    if lanes is None or not 0 < lanes < _MOST_LANES:
        return None
    part = (
        1.0 - lanes / WARP_SIZE,
        _("{lanes:.1f} of 32 lanes are active in an instruction").format(lanes=lanes),
    )
    stays = _ARITHMETIC - {"fma"} | _FAR
    found = bound(seen, part, seen.went({"issue": 1.0}, ()), stays)
    words = _("Let all lanes of a warp take the same branch")
    return made("lanes", found, words, 2, "lanes_per_instruction", None)


def _grid(seen: Examined) -> Way | None:
    time = seen.side.running
    blocks, sms = seen.side.value("blocks"), seen.side.value("sms")
    idle = time.busiest - time.mean
    if not blocks or not sms or idle < LEAST:
        return None
    because = _(
        "{blocks:,.0f} blocks on {sms:.0f} SMs; an SM is active {mean:.0%} of the time"
    ).format(blocks=blocks, sms=sms, mean=time.mean)
    because += _(", the busiest {busiest:.0%}").format(busiest=time.busiest) if time.outside else ""
    words = _("Spread the work evenly: more and smaller blocks, or split the sums (split-K)")
    return Way("grid", words, idle, because, 2, "tail_idle")


def _launch(seen: Examined) -> Way | None:
    time = seen.side.running
    if not time.short:
        return None
    words = _("Launch less often: fuse it with the kernels before or after it")
    why = _("the busiest SM is active {busiest:.0%} of the time").format(busiest=time.busiest)
    return Way("launch", words, time.outside, why, 3, "busiest_cycles")


def _overlap(seen: Examined) -> Way | None:
    went = seen.went({}, ("long_scoreboard",))
    found = bound(seen, (1.0, ""), went, _ISSUING | _L1 | _FAR)
    line = seen.line_waiting(("long_scoreboard",))
    words = _(
        "Start loads from global memory earlier: ahead of the loop, or as asynchronous copies"
    )
    if seen.mix.copies_alone:
        words = _("Start copies from global memory earlier: more stages in flight at a time")
    return made("overlap", found, words, 2, "long_scoreboard", line)


def _barriers(seen: Examined) -> Way | None:
    went = seen.went({}, ("barrier_stall",))
    if went is None:
        return None
    share, words = went
    held, line = barrier_waits(seen.launch)
    # The warps of a warpgroup wait for one another's products in the same state.
    if held < 1.0:
        share *= held
        words = _(
            "warps spend {share:.0%} of their time in barrier stalls that wgmma does not cause"
        ).format(share=share)
    found = bound(seen, (1.0, ""), (share, words), _ISSUING | _L1 | _FAR)
    words = _("Wait at fewer barriers: double buffering, or smaller blocks")
    return made("barriers", found, words, 2, "barrier_stall", line)


def _occupancy(seen: Examined) -> Way | None:
    possible = seen.side.value("theoretical_occupancy")
    # More warps only queue for a full unit; without a full wave, there are no more warps to run.
    full = any(load.full and load.resource.inside for load in loads(seen.launch))
    waves = seen.side.value("waves")
    if full or possible is None or not 0 < possible <= _FEW_WARPS or waves is None or waves < 1:
        return None
    limits = {
        name: blocks
        for name in ("registers", "shared")
        if (blocks := seen.side.value(f"occupancy_limit_{name}"))
    }
    least = min(limits, key=lambda name: limits[name], default="")
    if not least:
        return None
    what = {"registers": _("registers"), "shared": _("shared memory")}[least]
    part = (
        1.0 - possible / 100.0,
        _("room for {possible:.0f}% of the warps, limited by {what}").format(
            possible=possible, what=what
        ),
    )
    states = ("long_scoreboard", "short_scoreboard", "wait_stall")
    went = seen.went({}, states)
    found = bound(seen, part, went, _ISSUING | _L1 | _FAR)
    less = (
        _("fewer registers per thread")
        if least == "registers"
        else _("less shared memory per block")
    )
    words = _("Fit more warps on an SM: {less}").format(less=less)
    return made("occupancy", found, words, 2, "theoretical_occupancy", None)


def _instructions(seen: Examined) -> Way | None:
    spent = seen.mix.part(OVERHEAD)
    if not seen.full("issue"):
        return None
    part = (
        spent,
        _("{spent:.0%} of the instructions are address arithmetic, moves and control").format(
            spent=spent
        ),
    )
    found = bound(seen, part, seen.went({"issue": 1.0}, ()), _ARITHMETIC | _L1 | _FAR)
    words = _("Move address arithmetic and conditions out of the loop")
    return made("instructions", found, words, 2, "instructions", seen.mix.overhead_line)


def _reuse(seen: Examined) -> Way | None:
    if not seen.full("l1_data", "lsu"):
        return None
    work = sum(seen.mix.issued[kind] for kind in WORK)
    shared, far = (seen.mix.issued[f"{where} load"] for where in ("shared", "global"))
    asked = times(SECTOR_BYTES, seen.side.value("global_sectors"))
    again = over(asked, largest(1.0, seen.side.value("dram_bytes")))
    if not work or (not shared and (again is None or again < _AGAIN)):
        return None
    through = shared_part(seen.side)
    if through is None:
        return None
    counter = "shared_wavefronts" if through >= 0.5 else "global_load_requests"
    ratio = work / max(1, shared + far)
    excess = over(seen.side.value(f"{counter}_excess"), seen.side.value(counter))
    said = _("{ratio:.2g} arithmetic instructions per load").format(ratio=ratio)
    went = seen.went({"l1_data": 1.0, "lsu": 1.0}, (*_SHARED, "lg_throttle"))
    found = bound(seen, (1.0 - (excess or 0.0), said), went, _ARITHMETIC | _FAR)
    words = _("Load less per operation: more outputs per thread, kept in registers")
    line = heaviest_line(seen.launch, "shared_wavefronts" if through >= 0.5 else "global_sectors")
    return made("reuse", found, words, 3, counter, line)


def _tensor(seen: Examined) -> Way | None:
    chip, clock = seen.chip, value_of(seen.launch, "sm_clock")
    share, tensor = seen.mix.part(WORK), seen.busy("tensor")
    if chip is None or not chip.tensor_tf32 or not clock or tensor is None or tensor >= 0.01:
        return None
    if share < _PRODUCTS or not seen.side.value("ffma_threads"):
        return None
    if not seen.full("issue", "fma"):
        return None
    ratio = chip.tensor_peak(chip.tensor_tf32, clock) / chip.fp32_peak(clock) / _TF32_PRODUCTS
    if ratio <= 1.0:
        return None
    said = _(
        "{share:.0%} of the instructions are float32 arithmetic, which tensor "
        "cores do {ratio:.2g} times as fast, even with three TF32 products for each"
    ).format(share=share, ratio=ratio)
    part = share * (1.0 - 1.0 / ratio), said
    found = bound(seen, part, seen.went({"issue": 1.0, "fma": 1.0}, ()), _FAR)
    words = _("If it is a matrix product: use the tensor cores")
    return made("tensor", found, words, 3, "tensor_utilization", None)


def _traffic(seen: Examined) -> Way | None:
    share = seen.side.share("dram")
    if share is None or share < _NEAR_PEAK:
        return None
    because = _("device memory at {share:.0f}% of its peak: {share2:.0f}% is left").format(
        share=share, share2=100 - share
    )
    words, left = _("Move fewer bytes: device memory is near its peak"), 1.0 - share / 100.0
    line = seen.line_waiting(_GLOBAL)
    return Way("traffic", words, max(left, 0.0), because, 3, "dram_bytes", line)


_FINDERS: tuple[Callable[[Examined], Way | None], ...] = (
    _coalesce, _conflicts, _spills, _lanes, _grid, _launch, _overlap, _barriers, _occupancy,
    _instructions, _reuse, _tensor, _traffic,
)  # fmt: skip
#: Kinds whose quantity grows if the advice was followed; for all others it falls.
_GROW: frozenset[Kind] = frozenset({"wide", "lanes", "occupancy", "reuse", "tensor"})
#: The advice was followed if its own quantity moved by at least this part.
_MOVED = 0.02


def amounts_of(seen: Examined) -> dict[tuple[Kind, str], float]:
    """The quantity that each kind of way should move, by kind and counter."""
    side, mix, runs = seen.side, seen.mix, seen.side.running
    seconds = side.value("duration")
    loads = sum(mix.issued[f"{where} load"] for where in ("shared", "global"))
    known: dict[tuple[Kind, str], Maybe] = {
        ("wide", "global_load_requests"): mix.width("global load"),
        ("wide", "shared_accesses"): mix.width("shared load"),
        ("spills", "local_sectors"): side.value("local_sectors"),
        ("lanes", "lanes_per_instruction"): side.value("lanes_per_instruction"),
        ("grid", "tail_idle"): runs.busiest - runs.mean,
        ("launch", "busiest_cycles"): runs.outside,
        ("overlap", "long_scoreboard"): times(seen.waited(("long_scoreboard",)), seconds),
        ("barriers", "barrier_stall"): times(seen.waited(("barrier_stall",)), seconds),
        ("occupancy", "theoretical_occupancy"): side.value("theoretical_occupancy"),
        ("instructions", "instructions"): sum(mix.issued[r] for r in OVERHEAD) or None,
        ("tensor", "tensor_utilization"): seen.busy("tensor"),
        ("traffic", "dram_bytes"): side.value("dram_bytes"),
    }
    for counter in ("global_sectors", "shared_wavefronts"):
        kind: Kind = "coalesce" if counter == "global_sectors" else "conflicts"
        known[kind, f"{counter}_excess"] = side.value(f"{counter}_excess")
    for counter in ("shared_wavefronts", "global_load_requests"):
        known["reuse", counter] = over(float(sum(mix.issued[kind] for kind in WORK)), loads)
    return {name: amount for name, amount in known.items() if amount is not None}


def moved(way: Way, old: Panel, new: Panel) -> bool:
    """True if a way's quantity moved in its direction; False if a side does not have it."""
    before, after = (panel.amounts.get((way.kind, way.counter)) for panel in (old, new))
    change = minus(after, before)
    if before is None or change is None:
        return False
    if way.kind not in _GROW:
        change = -change
    return change > _MOVED * before


def _ways(seen: Examined) -> tuple[Way, ...]:
    found = [*(find(seen) for find in _FINDERS), *_wide(seen)]
    ways = [way for way in found if way is not None and way.saves >= LEAST]
    return tuple(sorted(ways, key=lambda way: (-way.rank, way.effort)))


#: Panels of the latest launches: a report needs each of them four times.
_found: deque[tuple[Launch, Panel]] = deque(maxlen=32)


def panel_of(profile: Profile) -> Panel | None:
    """The panel of the launch that takes most of a profile's time; None if none was profiled."""
    launch = main_launch(profile) if not broken(profile) else None
    return panel_of_launch(launch, profile.device) if launch is not None else None


def panel_of_launch(launch: Launch, device: Device) -> Panel:
    """The panel of one launch."""
    for known, panel in tuple(_found):
        if known is launch:
            return panel
    panel = _panel(launch, device)
    _found.append((launch, panel))
    return panel


def _panel(launch: Launch, device: Device) -> Panel:
    hot = next((line for line in sampled_lines(launch) if line.telling), None)
    seen = Examined(launch, device)
    return Panel(
        limit=limit_of_launch(launch, device), hot=hot, ways=_ways(seen), amounts=amounts_of(seen)
    )


def line_at(profile: Profile, key: LineKey) -> tuple[str, str]:
    """Path and text of a source line; "" if the profile does not hold them."""
    file, number = key
    if not 0 <= file < len(profile.sources):
        return "", ""
    source = profile.sources[file]
    lines = (source.text or "").splitlines()
    return source.path, lines[number - 1].strip() if 0 < number <= len(lines) else ""


#: Files whose statements end as in C; the maximum number of lines to search upwards for a start.
_OF_C = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".inl")
_UPWARDS = 12
_MOST = 120


def statement_at(profile: Profile, key: LineKey) -> str:
    """The line's text; in C++ code, the statement from its first line on, cut to one line.

    The operands of inline assembly mean nothing without the instruction above them.
    """
    path, text = line_at(profile, key)
    if not text or not path.lower().endswith(_OF_C):
        return text
    lines = [line.strip() for line in (profile.sources[key[0]].text or "").splitlines()[: key[1]]]
    first = len(lines) - 1
    while first > max(len(lines) - _UPWARDS, 0) and _goes_on(lines[first - 1]):
        first -= 1
    whole = " ".join(lines[first:])
    return whole if len(whole) <= _MOST else f"{whole[:_MOST].rstrip()}…"


def _goes_on(line: str) -> bool:
    """True if a statement that began on this line, or above, continues below."""
    code = line.split("//")[0].rstrip()
    return bool(code) and not code.startswith("#") and code[-1] not in ";{}:"


def score_ways(old: Panel | None, new: Panel | None, speedup: float) -> tuple[Score, ...]:
    """Score the old side's ways by the step's gain, as ncu's rules are scored.

    A way that `new` still has, as large as before, was not tried. `speedup` is old time over new
    time, measured outside the profiler if possible.
    """
    if old is None:
        return ()
    later = {(way.kind, way.counter): way.saves for way in new.ways} if new is not None else {}
    scores = [
        weigh(
            Score(
                rule=way.kind,
                title=way.words,
                kernel="",
                promised=way.saves,
                gained=1.0 - 1.0 / speedup,
                still=later.get((way.kind, way.counter)),
            )
        )
        for way in old.ways
    ]
    # Whatever the step gained, advice whose own quantity did not move was not followed.
    return tuple(
        one if new is not None and moved(way, old, new) else structs.replace(one, verdict="open")
        for way, one in zip(old.ways, scores, strict=True)
    )
