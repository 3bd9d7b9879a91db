"""``workbench show`` on a terminal: one profile, the longest launch in detail.

It is one module because a screen has one layout: a section's size depends on the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table

from workbench.analysis.aggregate import seconds_of, weights_of
from workbench.analysis.compare import remarks
from workbench.analysis.launches import classes_of_launches
from workbench.analysis.limits.headroom import Panel, Way, line_at, panel_of_launch, statement_at
from workbench.analysis.limits.limit import HotLine, breakdown, sampled_lines
from workbench.analysis.misread import Opinion, opinions
from workbench.analysis.naming import titles
from workbench.analysis.optional import over, plus, times, total
from workbench.analysis.plausible import broken
from workbench.analysis.times.timing import speed_beside
from workbench.counters import (
    ESTIMATED,
    MACHINE,
    NEVER_EMULATED,
    PTX,
    Missing,
    Reading,
    catalog,
    line_metric,
    read,
    read_all,
)
from workbench.gpus import chip_for
from workbench.language import N_, _, ngettext, told
from workbench.model import Device, Launch, LineKey, Number, Profile, Rule, Timing, line_counters
from workbench.units import capital, count, extent, factor, listed, quantity, several, span
from workbench.views.terminal.console import (
    DIM,
    GOOD,
    HEAD,
    WARN,
    Drawn,
    Text,
    bar,
    cut,
    grid,
    least,
    needed,
    notes_block,
    provenance,
    section,
    with_unit,
)

#: The most rows that are shown without --all.
_ROWS = 60


class _Fill(NamedTuple):
    """The amount of detail: `ways` to a faster kernel, `hot` lines, ncu's `rules`, `launches`.

    `because` adds the ways' reasons, `counts` the lines' counts, `words` the rules' texts.
    """

    ways: int
    because: bool
    hot: int
    counts: bool
    rules: int
    words: bool
    launches: int


_FILLS = (
    _Fill(3, True, 8, True, 5, True, 24),
    _Fill(3, True, 8, True, 5, False, 24),
    _Fill(3, True, 8, False, 5, False, 24),
    _Fill(3, False, 5, False, 3, False, 12),
    _Fill(3, False, 4, False, 0, False, 8),
    _Fill(2, False, 2, False, 0, False, 5),
    _Fill(2, False, 0, False, 0, False, 5),
)
_EVERYTHING = _Fill(99, True, 24, True, 999, True, 99_999)

#: Counters in the table of launches.
_OVERVIEW = ("sm_throughput", "memory_throughput")


def show_view(
    profile: Profile,
    *,
    label: str,
    title: str = "",
    timing: Timing | None = None,
    baseline: Timing | None = None,
    notes: Sequence[str] = (),
    everything: bool = False,
    width: int = 80,
) -> RenderableType:
    """One profile: header, overview of its launches, details of the longest one.

    `label` is ``sgemm/v3``, or the report's name. `notes` are warnings beside the numbers.
    `everything`: every counter and every rule instead of the important ones.
    """
    head = Text(label, style=HEAD)
    if title:
        head.append(f"  {title}", style="not bold")
    parts: list[RenderableType] = [head, Text(provenance(profile), style=DIM)]
    parts += notes_block([*notes, *remarks(profile)])
    if timing is not None:
        parts += [Text(), _time(timing, baseline)]
    profiled = [launch for launch in profile.launches if launch.profiled]
    if not profiled:
        return Group(*parts, Text(), Text(_("No launch of it was profiled.")))
    weights = weights_of(profiled)[0]
    longest = profiled[max(range(len(profiled)), key=lambda place: weights[place])]
    body = _body(profile, longest, width, everything)
    if everything:
        return Group(*parts, *body(_EVERYTHING))
    known: dict[int, Drawn] = {}  # of the views that `body` keeps
    for detail in _FILLS:
        views = [*parts, *body(detail)]
        shown = [known.setdefault(id(view), Drawn(view, width)) for view in views]
        if least(Group(*views), width) <= _ROWS and Drawn.height(shown, width) <= _ROWS:
            break
    return Group(*shown)


def _time(timing: Timing, baseline: Timing | None) -> Text:
    time = timing.time
    text = Text(f"{_('Time')}  ", style=HEAD)
    text.append(quantity(time.value, "s"))
    ends = [quantity(bound, "s") for bound in (time.low, time.high)]
    # The ends of a narrow interval look the same as the time.
    facts = [*([] if ends == [quantity(time.value, "s")] * 2 else [span(*ends)])]
    facts.append(_("warm cache") if timing.cache == "warm" else _("cold cache"))
    if not timing.converged:
        facts.append(_("not converged"))
    text.append(_(" ({facts})").format(facts=_(", ").join(facts)), style=f"not bold {DIM}")
    if timing.flops:
        rate = quantity(timing.flops / time.value, "flop/s")
        text.append(f"  {rate}", style="not bold")
    speed = speed_beside(timing, baseline)
    name = timing.baseline if timing.ratio else baseline.version if baseline else ""
    if speed is not None and name != timing.version:
        words = _("{share} of the speed of {name}")
        words = words.format(share=quantity(100.0 * speed, "%"), name=name)
        text.append(f"  {words}", style="not bold")
    return text


def _overview(profile: Profile, longest: Launch, width: int, most: int) -> RenderableType:
    """One row per launch; the longest is marked, because its details follow.

    For a report, launches with the same kernel and configuration share a row with their mean.
    """
    classes = [[launch] for launch in profile.launches]
    if not profile.study:
        classes = classes_of_launches(profile.launches)
    sums = [total(map(seconds_of, own)) for own in classes]
    whole = total(one for own, one in zip(classes, sums, strict=True) if own[0].profiled)
    wide = width >= 100
    table = grid("r", "l", "f", *("lr" if wide else ""), "r", "r", "r", "r")
    table.expand = True
    header = ["", "", N_("kernel"), *([N_("grid"), N_("block")] if wide else [])]
    header += [N_("duration"), N_("share"), N_("compute"), N_("memory")]
    table.add_row(*(Text(_(each), style=DIM) for each in header))
    named = zip(classes, titles([own[0] for own in classes]), sums, strict=True)
    # They keep their order; if there are too many, those with the most time are shown.
    heaviest = sorted(range(len(classes)), key=lambda place: -(sums[place] or 0.0))[:most]
    for place, (own, title, duration) in enumerate(named):
        if place not in heaviest and not any(launch is longest for launch in own):
            continue
        # The launch shown below, or the first, represents values that are not sums.
        first = next((launch for launch in own if launch is longest), own[0])
        # With thousands of launches, only the table's rows are read.
        readings = {name: read(first, name) for name in _OVERVIEW}
        share = times(100.0, over(duration, whole))
        mark = Text("▸" if first is longest else "", style=HEAD)
        name = Text(cut(title, 60), style=HEAD if first is longest else "")
        if len(own) > 1:
            name.append(f"  {several(len(own), 'launch', 'launches')}", style=DIM)
        if not first.profiled:
            name.append(f"  {_('never profiled')}", style=DIM)
        sizes = [extent(first.grid), extent(first.block)] if wide else []
        table.add_row(
            str(own[0].index),
            mark,
            name,
            *sizes,
            quantity(over(duration, float(len(own))), "s"),
            quantity(share, "%"),
            readings["sm_throughput"].text,
            readings["memory_throughput"].text,
        )
    left = len(classes) - table.row_count + 1
    note = ngettext("{n} more row with --all", "{n} more rows with --all", left)
    note = note.format(n=count(left)) if left > 0 else ""
    return section(several(len(profile.launches), "launch", "launches"), table, note)


def _body(
    profile: Profile, launch: Launch, width: int, everything: bool
) -> Callable[[_Fill], list[RenderableType]]:
    """Overview and details as a function of the amount of detail; constant parts are made once."""
    facts = [_("grid {size}").format(size=extent(launch.grid))]
    facts.append(_("block {size}").format(size=extent(launch.block)))
    if launch.dynamic_shared:
        size = quantity(launch.dynamic_shared, "byte")
        facts.append(_("{size} dynamic shared memory").format(size=size))
    readings = read_all(launch)
    duration = value_of(readings, "duration")
    if duration is not None:
        facts.append(_("{time} under the profiler").format(time=quantity(duration, "s")))
    head = Text(cut(launch.kernel, 120), style=f"{HEAD} underline")
    head.append(f"  {_(', ').join(facts)}", style="not bold not underline")
    seconds = opinions(launch)
    wrong = bool(broken(profile))
    panel = None if wrong else panel_of_launch(launch, profile.device)
    bars = _bars(launch, readings, width)
    middle = [*occupancy(readings, seconds), *scheduler(readings)]
    late = [_every_counter(readings), *_of_ptx(launch, readings)] if everything else []
    late += _missing(readings, everything)
    several_launches = len(profile.launches) > 1
    above = cache(lambda most: [_overview(profile, launch, width, most)])
    ways = cache(lambda most, because: headroom(profile, panel, most, because))
    kept = cache(lambda short: memory(readings, profile.device, seconds, short=short))
    hot = cache(lambda limit, counts: hot_lines(profile, launch, limit=limit, counts=counts))
    ruled = cache(lambda most, words: [] if wrong else rules(launch, most, words, everything))
    blank = Text()

    def body(detail: _Fill) -> list[RenderableType]:
        return [
            *(above(detail.launches) if several_launches else ()),
            *(blank, head),
            *ways(detail.ways, detail.because),
            *bars,
            *kept(not detail.counts),
            *middle,
            *hot(detail.hot, detail.counts),
            *ruled(detail.rules, detail.words),
            *late,
        ]

    return body


def _bars(launch: Launch, readings: Readings, width: int) -> list[RenderableType]:
    """Throughputs and the states of warps, beside each other if there is room."""
    narrow = [*speed_of_light(readings, 0), *stall_bars(launch, 0)]
    table = Table.grid(*(Column(width=needed(each)) for each in narrow), padding=(0, 2, 0, 0))
    table.add_row(*narrow)
    if len(narrow) == 2 and sum(column.width or 0 for column in table.columns) + 2 <= width:
        return [table]
    return [*speed_of_light(readings, width), *stall_bars(launch, width)]


def _every_counter(readings: Readings) -> RenderableType:
    table = grid("l", "r", "l", "f")
    group = ""
    for counter in catalog():
        reading = readings[counter.id]
        if isinstance(reading, Missing):
            continue
        if counter.group != group:
            group = counter.group
            table.add_row(Text(_(catalog().groups[group]), style=HEAD), "", "", "")
        value = f"{reading.mark}{with_unit(reading.value, reading.unit)}"
        ncu = Text(reading.ncu, style=DIM, overflow="ellipsis", no_wrap=True)
        table.add_row(Text(f"  {_(counter.title)}"), Text(value), Text(counter.id, style=DIM), ncu)
    return section(_("All counters"), table)


def _of_ptx(launch: Launch, readings: Readings) -> list[RenderableType]:
    """The emulator's PTX counts that have no counter in the catalog."""
    taken = {each.ncu for each in readings.values() if not isinstance(each, Missing)}
    table = grid("l", "r")
    for name, metric in launch.metrics.items():
        if name.startswith("ptx__") and name not in taken:
            shown = metric.value if isinstance(metric.value, str) else None
            value = shown or with_unit(float(metric.value), metric.unit)
            table.add_row(Text(f"  {name}"), Text(value))
    return [section(_("Counted in PTX"), table)] if table.row_count else []


def _missing(readings: Readings, everything: bool) -> list[RenderableType]:
    """Every counter without a value and why; or their number, and how to see them."""
    absent = {name: reading for name, reading in readings.items() if isinstance(reading, Missing)}
    head = ngettext("{n} counter without a value", "{n} counters without a value", len(absent))
    head = head.format(n=count(len(absent)))
    if not everything:
        kinds = Counter(map(_kind, absent.values()))
        why = listed([f"{number} {_(kind)}" for kind, number in kinds.most_common()])
        said = _("{what}: {why}; ").format(what=head, why=why) if absent else ""
        said += _("--all shows all counters, hot lines and rules of ncu.")
        return [Text(), Text(said, style=DIM)]
    table = grid("l", "f")
    for name, reading in absent.items():
        table.add_row(Text(name), Text(told(reading.reason), style=DIM))
    return [section(head, table)] if absent else []


def _kind(reading: Missing) -> str:
    if reading.undefined:
        return N_("undefined here")
    if reading.reason.startswith("not collected"):
        return N_("not collected")
    if reading.reason.startswith(NEVER_EMULATED):
        return N_("never emulated")
    if "without a number" in reading.reason:
        return N_("no number")
    return N_("unknown")


# --- sections ---------------------------------------------------------------------------------

Readings = dict[str, Reading | Missing]

_SPEED = (
    (N_("Compute"), "sm_throughput"),
    (N_("Memory"), "memory_throughput"),
    (N_("  L1 and shared"), "l1_throughput"),
    ("  L2", "l2_throughput"),
    ("  DRAM", "dram_throughput"),
)
_LIMITS = (
    (N_("registers"), "occupancy_limit_registers"),
    (N_("shared memory"), "occupancy_limit_shared"),
    (N_("warps"), "occupancy_limit_warps"),
    (N_("block slots"), "occupancy_limit_blocks"),
    (N_("barriers"), "occupancy_limit_barriers"),
)
_CONFLICTS = {
    "shared_load_bank_conflicts": N_("loads"),
    "shared_store_bank_conflicts": N_("stores"),
    "shared_bank_conflicts": N_("all"),
}
_PIPES = (
    ("FMA", "fma_utilization"),
    ("ALU", "alu_utilization"),
    ("LSU", "lsu_utilization"),
    (N_("tensor"), "tensor_utilization"),
    ("FP64", "fp64_utilization"),
    ("XU", "xu_utilization"),
)
#: Stall reasons under this share of the warp time are noise on a bar chart.
_SMALL = 0.01
_TOP_STALLS = 6


def value_of(readings: Readings, counter: str) -> Number | None:
    """A counter's value, or None if it is missing."""
    reading = readings[counter]
    return None if isinstance(reading, Missing) else reading.value


def speed_of_light(readings: Readings, width: int) -> list[RenderableType]:
    """Throughputs as bars that show the busiest unit; `width` 0: in as few columns as needed."""
    known = [(title, v) for title, c in _SPEED if (v := value_of(readings, c)) is not None]
    if not known:
        return []
    cells = max(8, min(40, width - 36))
    table = grid("l", "r", "l")
    for title, value in known:
        share = float(value) / 100.0
        color = "green" if share >= 0.8 else "yellow" if share >= 0.4 else "blue"
        gauge = Text(bar(share, cells), style=color)
        gauge.append("·" * (cells - len(gauge.plain)), style=DIM)
        table.add_row(_(title), quantity(value, "%"), gauge)
    note = _("share of what the chip can sustain") if width else ""
    return [section(_("Speed of light"), table, note)]


class _Facts:
    """A section's table: a row for each known counter, with notes."""

    def __init__(self, readings: Readings, *, short: bool = False) -> None:
        self.readings, self.table, self._short = readings, grid("l", "r", "f"), short or None

    def add(self, title: str, value: str, *notes: str) -> None:
        """Add a row, even if its value is missing; in a short table the notes are cut."""
        said = _(", ").join(filter(None, notes))
        note = Text(said, DIM, no_wrap=self._short, overflow="ellipsis")
        self.table.add_row(title, value, note)

    def row(self, title: str, counter: str, *notes: str) -> None:
        if value_of(self.readings, counter) is not None:
            self.add(title, self.readings[counter].text, *notes)

    def said(self, counter: str, words: str) -> str:
        """``12.5 warps/SM`` from ``{value} warps/SM``; "" if the counter is missing."""
        known = value_of(self.readings, counter) is not None
        return words.format(value=self.readings[counter].text) if known else ""

    def second(self, seconds: Sequence[Opinion], names: Mapping[str, str], of: str = "") -> None:
        """Add rows below misleading counters: the exact value, and why they differ."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in seconds:
            if one.counter in names:
                found[quantity(one.exact, one.unit), one.why].append(_(names[one.counter]))
        for (exact, why), whose in found.items():
            self.add(f"  {listed(whose)}", exact, f"{of}{why}")

    def excess(self, title: str, counter: str) -> None:
        """Add a row for a count, with its excess over the ideal."""
        total = value_of(self.readings, counter)
        excess = value_of(self.readings, f"{counter}_excess")
        if not total:
            return
        note = "" if excess is None else _("none in excess")
        if excess:
            part = quantity(100.0 * excess / total, "%")
            note = _("{amount} in excess ({part})").format(amount=quantity(excess), part=part)
        self.add(title, quantity(total), note)

    def section(self, title: str) -> list[RenderableType]:
        """The section, if anything is known."""
        return [section(title, self.table)] if self.table.row_count else []


def memory(
    readings: Readings, device: Device, seconds: Sequence[Opinion], *, short: bool
) -> list[RenderableType]:
    """The use of sectors, banks and caches by accesses; `short`: one row each."""
    facts = _Facts(readings, short=short)
    for kind, title in (("load", _("Global loads")), ("store", _("Global stores"))):
        if value_of(readings, f"global_{kind}s") == 0:
            continue
        per = readings[f"global_{kind}_sectors_per_request"].text
        used = facts.said(f"global_{kind}_efficiency", _("{value} of bytes used"))
        if used or per != quantity(None):
            facts.add(title, per, _("sectors per request"), used)
    facts.excess(_("Global sectors"), "global_sectors")
    facts.excess(_("Shared wavefronts"), "shared_wavefronts")
    facts.row(_("  to the ideal"), "shared_conflict_ways", _("1: no bank conflict"))
    if value_of(readings, "shared_bank_conflicts"):
        loads, stores = (readings[f"shared_{k}_bank_conflicts"].text for k in ("load", "store"))
        note = _("loads {loads}, stores {stores}").format(loads=loads, stores=stores)
        facts.row(_("Bank conflicts"), "shared_bank_conflicts", note)
        facts.second(seconds, _CONFLICTS, _("by addresses: "))
    facts.row(_("L1 hit rate"), "l1_hit_rate")
    facts.row(_("L2 hit rate"), "l2_hit_rate")
    chip = chip_for(device)
    peak = chip.memory_bandwidth if chip else 0.0
    facts.row(
        *("DRAM", "dram_bandwidth"),
        _("of {peak}").format(peak=quantity(peak, "byte/s")) if peak else "",
        facts.said("dram_read_bytes", _("{value} read")),
        facts.said("dram_write_bytes", _("{value} written")),
    )
    local = [readings[name] for name in ("local_loads", "local_stores")]
    known = [each for each in local if not isinstance(each, Missing)]
    if len(known) == 2 and any(each.value for each in known):
        mark = max(each.mark for each in known)
        both = mark + quantity(sum(each.value for each in known))
        spills = facts.said("spill_instructions", _("{value} spill instructions"))
        facts.add(_("Local accesses"), both, _("instructions"), spills)
    return facts.section(_("Memory"))


def occupancy(readings: Readings, seconds: Sequence[Opinion]) -> list[RenderableType]:
    """Warps on an SM, their limit, and the resources of a block."""
    facts = _Facts(readings)
    limits = {name: v for name, c in _LIMITS if (v := value_of(readings, c)) is not None}
    low = min(limits.values(), default=0)
    by = _(", ").join(_(name) for name, value in limits.items() if value == low)
    words = ngettext("{n} block/SM, limited by {limit}", "{n} blocks/SM, limited by {limit}", low)
    blocks = words.format(n=quantity(low), limit=by) if by else ""
    facts.row(_("Theoretical"), "theoretical_occupancy", blocks)
    facts.second(seconds, {"theoretical_occupancy": N_("of this grid")})
    warps = facts.said("warps_per_sm", _("{value} warps/SM"))
    facts.row(_("Achieved"), "achieved_occupancy", warps)
    facts.row(_("Registers"), "registers", _("per thread"))
    static, dynamic = (value_of(readings, f"{kind}_shared") for kind in ("static", "dynamic"))
    both = plus(static, dynamic)
    if both:
        part = _("{size} of it dynamic").format(size=quantity(dynamic, "byte")) if dynamic else ""
        facts.add(_("Shared memory"), quantity(both, "byte"), _("per block"), part)
    elif both is None and (static or dynamic):
        kind = _("static, per block") if static else _("dynamic, per block")
        facts.add(_("Shared memory"), quantity(static or dynamic, "byte"), kind)
    facts.row(_("Waves"), "waves", facts.said("tail_idle", _("{value} of block slots idle")))
    return facts.section(_("Occupancy"))


def scheduler(readings: Readings) -> list[RenderableType]:
    """Issue slots and the busiest pipes."""
    facts = _Facts(readings)
    ready = facts.said("eligible_warps", _("{value} warps ready on average"))
    facts.row(_("Issue slots busy"), "issue_active", ready)
    known = {title: v for title, c in _PIPES if (v := value_of(readings, c)) is not None}
    pipes = sorted(known.items(), key=lambda pipe: -pipe[1])
    if pipes:
        (name, busiest), *others = pipes
        rest = [f"{_(title)} {quantity(value, '%')}" for title, value in others[:3] if value]
        title = _("{pipe} pipe busy").format(pipe=capital(_(name)))
        facts.add(title, quantity(busiest, "%"), *rest)
    facts.row(_("Instructions"), "ipc", _("per cycle and SM"))
    lanes = value_of(readings, "lanes_per_instruction")
    if lanes is not None and lanes < 31.95:
        facts.row(_("Active lanes"), "lanes_per_instruction", _("of 32, on average"))
    return facts.section(_("Scheduler and pipes"))


def stall_bars(launch: Launch, width: int) -> list[RenderableType]:
    """The warps' time by state, the largest first; `width` 0: in as few columns as needed."""
    found = breakdown(launch)
    if not found.shares:
        return []
    shown = [share for share in found.shares if share.share >= _SMALL][:_TOP_STALLS]
    timed = any(share.cycles is not None for share in shown)
    cells = max(6, min(28, width - 52))
    table = grid("l", "r", *("r" if timed else ""), "l")
    for share in shown:
        gauge = Text(bar(share.share, cells), style="red" if share.stalled else "green")
        cycles = [quantity(share.cycles)] if timed else []
        table.add_row(_(share.state.title), quantity(100.0 * share.share, "%"), *cycles, gauge)
    rest = 1.0 - sum(share.share for share in shown)
    if rest >= 0.0005:
        table.add_row(Text(_("others"), style=DIM), quantity(100.0 * rest, "%"))
    note = _("share of time")
    if width:
        sampled = _("share of time ({n} samples)").format(n=quantity(found.samples))
        note = sampled if found.source == "samples" else _("share of time (cycle counts)")
    note += _(", cycles/inst") if timed else ""
    return [section(_("Warp states"), table, note)]


# --- lines ------------------------------------------------------------------------------------

#: Line counters shown beside the code: (catalog id, ideal, words).
_COUNTERS = (
    ("shared_wavefronts", "shared_wavefronts_ideal", N_("{n} wavefronts")),
    ("global_sectors", "global_sectors_ideal", N_("{n} sectors")),
    ("instructions", "", N_("{n} instructions")),
)
_TELLING = ("optimization", "warning")


def hot_lines(
    profile: Profile, launch: Launch, limit: int, *, counts: bool
) -> list[RenderableType]:
    """The lines with the most warp samples, with their largest stall, text and counters."""
    if not limit:
        return []
    hot = [line for line in sampled_lines(launch) if line.telling][:limit]
    if not hot:
        return _without_samples(profile, launch, limit, counts=counts)
    counters = line_counters(launch) if counts else {}
    many = sum(index >= 0 for index in {*launch.instructions.file}) > 1
    table = grid("r", "r", "l", "f")
    table.expand = True
    header = [N_("line"), N_("time"), N_("largest stall"), N_("source")]
    table.add_row(*(Text(_(each), style=DIM) for each in header))
    for line in hot:
        share = quantity(100.0 * line.share, "%")
        code = _code(profile, launch, line.key, counters)
        table.add_row(_place(profile, line.key, many), share, _largest_stall(line), code)
    index = hot[0].key[0]
    name = profile.sources[index].path if index >= 0 and not many else ""
    return [section(_("Hot lines"), table, name)]


def _without_samples(
    profile: Profile, launch: Launch, limit: int, *, counts: bool
) -> list[RenderableType]:
    """Lines by instructions if nothing was sampled (the emulator, some reports)."""
    name, note = line_metric(launch, catalog()["instructions"]), _("by instructions executed")
    if name is None and PTX in launch.instructions.columns:
        name, note = PTX, _("by PTX instructions")
    if name is None:
        return []
    note += _(ESTIMATED) if name.startswith(MACHINE) else ""
    counters = {key: own for key, own in line_counters(launch).items() if key[1] > 0}
    many = len({index for index, __ in counters if index >= 0}) > 1
    order = sorted(counters, key=lambda key: -counters[key].get(name, 0))
    table = grid("r", "r", "f")
    for key in order[:limit]:
        code = _code(profile, launch, key, counters if counts else {})
        table.add_row(_place(profile, key, many), quantity(counters[key].get(name, 0)), code)
    return [section(_("Lines"), table, note)] if order else []


def _place(profile: Profile, key: LineKey, many: bool) -> str:
    """``44``, or ``kernel.cuh:44`` if the launch has code from several files."""
    index, line = key
    if not many or index < 0:
        return str(line)
    return f"{cut(profile.sources[index].path.rpartition('/')[2], 18)}:{line}"


def _code(
    profile: Profile, launch: Launch, key: LineKey, counters: Mapping[LineKey, dict[str, Number]]
) -> RenderableType:
    """A line in one row, and below it its counters, if any."""
    index, number = key
    text = profile.sources[index].text if 0 <= index < len(profile.sources) else None
    rows = (text or "").splitlines()
    code = Text(cut(rows[number - 1], 400).strip() if 0 < number <= len(rows) else "")
    if text is None:
        code = Text(_("(the report holds no source)"), style=DIM)
    note = Text(_line_note(launch, counters.get(key, {})), style=DIM)
    for row in (code, note):
        row.no_wrap, row.overflow = True, "ellipsis"
    return Group(code, note) if note else code


def _largest_stall(line: HotLine) -> Text:
    if not line.stalls:
        return Text("")
    state, share = line.stalls[0]
    return Text(f"{_(state.title)} {quantity(100.0 * share, '%')}")


def _line_note(launch: Launch, counters: dict[str, Number]) -> str:
    parts = []
    for counter, ideal, words in _COUNTERS:
        name = line_metric(launch, catalog()[counter])
        value = counters.get(name, 0) if name else 0
        if not value:
            continue
        mark = "≈" if name and name.startswith(MACHINE) else ""
        text = _(words).format(n=mark + quantity(value))
        least_name = line_metric(launch, catalog()[ideal]) if ideal else None
        least = counters.get(least_name, 0) if least_name else 0
        if least and value > least:
            text += _(" ({factor} ideal)").format(factor=f"{quantity(value / least)}×")
        parts.append(text)
    return _(", ").join(parts)


# --- rules ------------------------------------------------------------------------------------


def rules(launch: Launch, most: int, words: bool, everything: bool) -> list[RenderableType]:
    """Ncu's findings, those with the largest estimated speed-up first."""
    found = [rule for rule in launch.rules if everything or rule.kind in _TELLING]
    if not found:
        return []
    # A global estimate covers the launch, a local one only a part of it.
    found.sort(key=lambda rule: (rule.scope == "local", -(rule.speedup or 0.0)))
    shown = found[:most]
    body: list[RenderableType] = []
    for rule in shown:
        body += _rule(rule, everything)[: 1 + words]
    note = _("speed-ups are ncu's estimates")
    if len(shown) < len(found):
        note += _("; --all shows {n} more").format(n=len(found) - len(shown))
    return [section(_("What ncu's rules say"), Group(*body), note)] if shown else []


def _rule(rule: Rule, everything: bool) -> list[RenderableType]:
    head = Text()
    if rule.speedup:
        # A local estimate covers one unit's work, not the launch's duration.
        scope = f" {_('local estimate')}" if rule.scope == "local" else ""
        head.append(f"{quantity(rule.speedup, '%')}{scope}  ", style=GOOD)
    style = HEAD if rule.kind in _TELLING else ""
    head.append(rule.title or rule.name, style=style)
    if rule.kind in ("warning", "error"):
        head.append(f"  {_('warning') if rule.kind == 'warning' else told('error')}", style=WARN)
    message = rule.message.replace("\n", " ")
    text = message if everything else _first_sentences(message)
    return [head, Padding(Text(text, style=DIM), (0, 0, 0, 2))]


def _first_sentences(text: str, limit: int = 240) -> str:
    """Whole sentences up to about `limit` characters, as rules may have several paragraphs."""
    if len(text) <= limit:
        return text
    end = text.rfind(". ", 0, limit)
    return text[: end + 1] if end > 60 else text[:limit].rsplit(" ", 1)[0] + " …"


# --- the current limit ------------------------------------------------------------------------


def headroom(
    profile: Profile, panel: Panel | None, most: int, because: bool
) -> list[RenderableType]:
    """The panel with at most `ways` suggestions; `because` adds reasons; [] if nothing is known."""
    counted = profile.engine == "emulator"
    if panel is None or not (panel.limit or (counted and panel.ways)):
        return []
    body: list[RenderableType] = []
    if panel.hot is not None:
        share = _("{share} of the samples").format(share=quantity(100.0 * panel.hot.share, "%"))
        place = _line_place(profile, panel.hot.key)
        hot = Text(_("hottest line  {place}: ").format(place=place))
        hot.append(_(", ").join(filter(None, (share, panel.waited))))
        body.append(hot)
        if line := statement_at(profile, panel.hot.key):
            code = Text(line, no_wrap=True, overflow="ellipsis")
            body.append(Padding(code, (0, 0, 0, 2)))
    table = grid("l", "f")
    for way in panel.ways[:most]:
        elsewhere = panel.hot is None or way.line != panel.hot.key
        said = _way(profile, way, placed=elsewhere, because=because)
        table.add_row(Text(f"≤ {factor(way.speedup)}", style=HEAD), said)
    if table.row_count:
        words = _("to try, each with an upper bound on its speed-up")
        words += _(", with every unit at its peak") if counted else ""
        body += [Text(words), table]
    head = _("By its counts")
    if panel.limit is not None:
        head = _("Now limited by {limit}").format(limit=panel.limit.words)
    return [section(head, Group(*body))]


def _way(profile: Profile, way: Way, *, placed: bool, because: bool) -> RenderableType:
    text = Text(way.words)
    if way.line is not None and placed:
        text.append(f" ({_line_place(profile, way.line)})", style=DIM)
    return Group(text, Text(way.because, style=DIM)) if because else text


def _line_place(profile: Profile, key: LineKey) -> str:
    name = line_at(profile, key)[0].replace("\\", "/").rpartition("/")[2]
    words = _("line {line} of {file}") if name else _("line {line}")
    return words.format(line=key[1], file=name)
