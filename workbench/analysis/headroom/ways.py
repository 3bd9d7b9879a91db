"""The experiments that a launch's numbers speak for, each with the time that it can save."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workbench.analysis.aggregate import value_of
from workbench.analysis.cause.hypotheses import WAITS, shared_part
from workbench.analysis.headroom import Way
from workbench.analysis.headroom.examined import LEAST, Examined, bound, made
from workbench.analysis.headroom.mix import OVERHEAD, WORK, heaviest_line, misread
from workbench.analysis.limit import FULL, loads
from workbench.analysis.stalls import barrier_waits
from workbench.counters import catalog
from workbench.model import Device, Launch
from workbench.units import quantity

#: Units that go on doing what they do, whatever is done to loads, addresses or the schedule.
_ARITHMETIC = frozenset({"fma", "tensor", "xu", "fp64"})
_ISSUING = _ARITHMETIC | {"issue", "alu"}
_FAR = frozenset({"dram"})
_L1 = frozenset({"l1_data", "lsu"})
#: States in which warps wait for what comes from global memory, and for what their own block does.
_GLOBAL = ("lg_throttle", "long_scoreboard")
_SHARED = WAITS["shared_wavefronts"]
#: Below this theoretical occupancy (%) more warps may hide what warps wait for.
_FEW_WARPS = 50.0
#: A kernel of multiply-adds: from this part of its instructions on.
_PRODUCTS = 0.4
#: Products of TF32 that give one of float32: high by high, high by low, low by high.
_TF32_PRODUCTS = 3
#: Lanes of a warp, and from how many of them on nobody speaks of divergence.
_LANES, _MOST_LANES = 32, 29.0
#: A byte of device memory that crosses the L1 more often than this is worth keeping nearer.
_AGAIN = 4.0
_SECTOR = 32
#: Share (%) of its peak from which on device memory has nothing to give but fewer bytes.
_NEAR_PEAK = 80.0


def _excess(seen: Examined, whole: str, noun: str) -> tuple[float, str] | None:
    """The part (0-1) of a count that is in excess of what lanes asked for."""
    total, excess = (seen.side.value(name) for name in (whole, f"{whole}_excess"))
    if excess and f"{whole}_ideal" in catalog():
        excess -= misread(seen.launch, whole, f"{whole}_ideal")
    if not total or excess <= 0:
        return None
    part = excess / total
    return part, f"{quantity(excess)} of {quantity(total)} {noun} are excessive ({part:.0%})"


def _coalesce(seen: Examined) -> Way | None:
    part = _excess(seen, "global_sectors", "global sectors")
    if part is None:
        return None
    resources = {"l1_data": 1.0 - shared_part(seen.side), "l2": 1.0}
    went = seen.went(resources, (*_GLOBAL, "drain_stall"))
    found = bound(seen, part, went, _ISSUING)
    line = heaviest_line(seen.launch, "global_sectors", "global_sectors_ideal")
    words = "Let neighbouring lanes touch neighbouring addresses of global memory"
    return made("coalesce", found, words, 1, "global_sectors_excess", line)


def _conflicts(seen: Examined) -> Way | None:
    part = _excess(seen, "shared_wavefronts", "shared wavefronts")
    if part is None:
        return None
    went = seen.went({"l1_data": shared_part(seen.side)}, _SHARED)
    found = bound(seen, part, went, _ISSUING | _FAR)
    line = heaviest_line(seen.launch, "shared_wavefronts", "shared_wavefronts_ideal")
    words = "Pad or swizzle shared memory to avoid bank conflicts"
    return made("conflicts", found, words, 1, "shared_wavefronts_excess", line)


def _wide(seen: Examined) -> Iterator[Way | None]:
    for kind, states, counter, where in (
        ("global load", _GLOBAL, "global_load_requests", "global"),
        ("shared load", _SHARED, "shared_accesses", "shared"),
    ):
        spared = seen.mix.spared(kind)
        loaded = seen.mix.issued[kind]
        of_lsu = loaded / max(1, sum(seen.mix.issued[k] for k in _THROUGH_LSU))
        width = seen.mix.width(kind)
        part = spared, f"a lane loads {width:.2g} bytes at a time where 16 are possible"
        # Wider loads are fewer; what they carry still passes the data stage and the L2.
        stays = _ARITHMETIC | _FAR | ({"l1_data"} if where == "shared" else frozenset())
        found = bound(seen, part, seen.went({"lsu": of_lsu}, states), stays)
        names = "global_load_requests" if where == "global" else "shared_wavefronts"
        line = heaviest_line(seen.launch, names) or seen.line_waiting(states)
        words = f"Load from {where} memory with wider accesses (float4, int4)"
        yield made("wide", found, words, 2, counter, line)


_THROUGH_LSU = ("global load", "global store", "shared load", "shared store", "local memory")


def _spills(seen: Examined) -> Way | None:
    local, far = seen.side.value("local_sectors"), seen.side.value("global_sectors")
    if not local or not seen.side.value("spill_instructions"):
        return None
    share = local / (local + far)
    part = share, f"{quantity(local)} sectors are spilled registers in local memory"
    resources = {"l1_data": 1.0 - shared_part(seen.side), "l2": 1.0}
    found = bound(seen, part, seen.went(resources, _GLOBAL), _ISSUING)
    line = heaviest_line(seen.launch, "local_sectors")
    words = "Allow more registers (__launch_bounds__), or keep fewer values alive"
    return made("spills", found, words, 1, "local_sectors", line)


def _lanes(seen: Examined) -> Way | None:
    lanes = seen.side.value("lanes_per_instruction")
    if not 0 < lanes < _MOST_LANES:
        return None
    part = 1.0 - lanes / _LANES, f"{lanes:.1f} of 32 lanes are active in an instruction"
    stays = _ARITHMETIC - {"fma"} | _FAR
    found = bound(seen, part, seen.went({"issue": 1.0}, ()), stays)
    words = "Let all lanes of a warp take the same branch"
    return made("lanes", found, words, 2, "lanes_per_instruction", None)


def _grid(seen: Examined) -> Way | None:
    time = seen.side.running
    blocks, sms = seen.side.value("blocks"), seen.side.value("sms")
    idle = time.busiest - time.mean
    if not blocks or not sms or idle < LEAST:
        return None
    because = f"{blocks:,.0f} blocks on {sms:.0f} SMs; an SM is active {time.mean:.0%} of the time"
    because += f", the busiest {time.busiest:.0%}" if time.outside else ""
    words = "Spread the work evenly: more and smaller blocks, or split the sums (split-K)"
    return Way(kind="grid", words=words, saves=idle, because=because, effort=2, counter="tail_idle")


def _launch(seen: Examined) -> Way | None:
    time = seen.side.running
    if not time.short:
        return None
    return Way(
        kind="launch",
        words="Launch less often: join it with the kernels before or after it",
        saves=time.outside,
        because=f"the busiest SM is active {time.busiest:.0%} of the time",
        effort=3,
        counter="busiest_cycles",
    )


def _overlap(seen: Examined) -> Way | None:
    went = seen.went({"sm": 0.0}, ("long_scoreboard",))
    found = bound(seen, (1.0, ""), went, _ISSUING | _L1 | _FAR)
    line = seen.line_waiting(("long_scoreboard",))
    words = "Start loads from global memory earlier: ahead of the loop, or as asynchronous copies"
    if seen.mix.copies_alone:
        words = "Start copies from global memory earlier: more stages under way at a time"
    return made("overlap", found, words, 2, "long_scoreboard", line)


def _barriers(seen: Examined) -> Way | None:
    share, words = seen.went({"sm": 0.0}, ("barrier_stall",))
    held, line = barrier_waits(seen.launch)
    # The warps of a warpgroup wait for one another's products in the same state.
    if held < 1.0:
        share *= held
        words = f"warps spend {share:.0%} of their time in barrier stalls that are not of wgmma"
    found = bound(seen, (1.0, ""), (share, words), _ISSUING | _L1 | _FAR)
    words = "Wait at fewer barriers: double buffering, or smaller blocks"
    return made("barriers", found, words, 2, "barrier_stall", line)


def _occupancy(seen: Examined) -> Way | None:
    possible = seen.side.value("theoretical_occupancy")
    # Where a unit is full, more warps only queue for it; without a whole wave there are none.
    full = any(load.full and load.resource.inside for load in loads(seen.launch))
    if full or not 0 < possible <= _FEW_WARPS or seen.side.value("waves") < 1:
        return None
    limits = {
        name: seen.side.value(f"occupancy_limit_{name}")
        for name in ("registers", "shared")
        if seen.side.value(f"occupancy_limit_{name}")
    }
    least = min(limits, key=lambda name: limits[name], default="")
    if not least:
        return None
    what = {"registers": "registers", "shared": "shared memory"}[least]
    part = 1.0 - possible / 100.0, f"room for {possible:.0f}% of the warps, limited by {what}"
    states = ("long_scoreboard", "short_scoreboard", "wait_stall")
    went = seen.went({"sm": 0.0}, states)
    found = bound(seen, part, went, _ISSUING | _L1 | _FAR)
    less = "fewer registers per thread" if least == "registers" else "less shared memory per block"
    words = f"Fit more warps on an SM: {less}"
    return made("occupancy", found, words, 2, "theoretical_occupancy", None)


def _instructions(seen: Examined) -> Way | None:
    spent = seen.mix.part(OVERHEAD)
    if seen.side.share("issue") < FULL:
        return None
    part = spent, f"{spent:.0%} of the instructions are address arithmetic, moves and control"
    found = bound(seen, part, seen.went({"issue": 1.0}, ()), _ARITHMETIC | _L1 | _FAR)
    words = "Move address arithmetic and conditions out of the loop"
    return made("instructions", found, words, 2, "instructions", seen.mix.overhead_line)


def _reuse(seen: Examined) -> Way | None:
    if max(seen.side.share("l1_data"), seen.side.share("lsu")) < FULL:
        return None
    work = sum(seen.mix.issued[kind] for kind in WORK)
    shared, far = (seen.mix.issued[f"{where} load"] for where in ("shared", "global"))
    again = seen.side.value("global_sectors") * _SECTOR / max(1.0, seen.side.value("dram_bytes"))
    if not work or (not shared and again < _AGAIN):
        return None
    through = shared_part(seen.side)
    counter = "shared_wavefronts" if through >= 0.5 else "global_load_requests"
    ratio = work / max(1, shared + far)
    needed = 1.0 - (_excess(seen, counter, "") or (0.0, ""))[0]
    said = f"{ratio:.2g} arithmetic instructions per load"
    went = seen.went({"l1_data": 1.0, "lsu": 1.0}, (*_SHARED, "lg_throttle"))
    found = bound(seen, (needed, said), went, _ARITHMETIC | _FAR)
    words = "Load less per operation: more outputs per thread, kept in registers"
    line = heaviest_line(seen.launch, "shared_wavefronts" if through >= 0.5 else "global_sectors")
    return made("reuse", found, words, 3, counter, line)


def _tensor(seen: Examined) -> Way | None:
    chip, clock = seen.chip, value_of(seen.launch, "sm_clock")
    share = seen.mix.part(WORK)
    if chip is None or not chip.tensor_tf32 or not clock or seen.busy("tensor") >= 0.01:
        return None
    if share < _PRODUCTS or not seen.side.value("ffma_threads"):
        return None
    if max(seen.side.share("issue"), seen.side.share("fma")) < FULL:
        return None
    ratio = chip.tensor_peak(chip.tensor_tf32, clock) / chip.fp32_peak(clock) / _TF32_PRODUCTS
    if ratio <= 1.0:
        return None
    said = (
        f"{share:.0%} of the instructions are float32 arithmetic, which tensor cores do "
        f"{ratio:.2g} times as fast, with three TF32 products for one"
    )
    part = share * (1.0 - 1.0 / ratio), said
    found = bound(seen, part, seen.went({"issue": 1.0, "fma": 1.0}, ()), _FAR)
    words = "If it is a matrix product: use the tensor cores"
    return made("tensor", found, words, 3, "tensor_utilization", None)


def _traffic(seen: Examined) -> Way | None:
    share = seen.side.share("dram")
    if share < _NEAR_PEAK:
        return None
    because = f"device memory at {share:.0f}% of its peak: {100 - share:.0f}% is left"
    return Way(
        kind="traffic",
        words="Move fewer bytes: these cannot come much faster",
        saves=max(1.0 - share / 100.0, 0.0),
        because=because,
        effort=3,
        counter="dram_bytes",
        line=seen.line_waiting(_GLOBAL),
    )


_FINDERS: tuple[Callable[[Examined], Way | None], ...] = (
    _coalesce, _conflicts, _spills, _lanes, _grid, _launch, _overlap, _barriers, _occupancy,
    _instructions, _reuse, _tensor, _traffic,
)  # fmt: skip


def ways_of(launch: Launch, device: Device) -> tuple[Way, ...]:
    """All experiments of one launch, the most to save for the least effort first."""
    seen = Examined(launch, device)
    found = [*(find(seen) for find in _FINDERS), *_wide(seen)]
    ways = [way for way in found if way is not None and way.saves >= LEAST]
    return tuple(sorted(ways, key=lambda way: (-way.rank, way.effort)))
