"""One launch with the quantities that experiments need, and a bound on the saving of each.

`Mix` counts its machine code by role, `Touched` the memory that its requests touch; `Examined` adds
how busy its units were. The bound is one sentence: *this part of the time went to a resource, this
part of that is needless, and the busiest of the other units needs the rest.* The time that went to
a resource is the larger of two readings: how busy it was, and how long warps were in the states
that its users wait in. Both are upper bounds, as a unit that is busy may hide behind another one,
and a warp that waits may be covered by its neighbours. All are parts of the time that SMs were
active: no experiment saves the time of the launch itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from workbench.analysis.aggregate import readings_of
from workbench.analysis.cause.hypotheses import Behaviour, behaviour_of
from workbench.analysis.code import code_of, issues
from workbench.analysis.limits.limit import FULL, breakdown, loads, sampled_lines, stall_words
from workbench.analysis.limits.memory import access_of
from workbench.analysis.misread import is_misread
from workbench.analysis.optional import Maybe, largest, over, times
from workbench.counters import PTX, catalog, line_metric
from workbench.gpus import LINE_BYTES, SECTOR_BYTES, Chip, chip_for
from workbench.language import N_, _
from workbench.model import Device, Launch, LineKey, Number
from workbench.sass import COPIES, HOLDING, Access, lane_width, role
from workbench.units import listed, quantity

#: Roles that do the job's arithmetic, and those that only decide where, when and how often.
WORK = frozenset({"product", "floating point"})
OVERHEAD = frozenset({"integer", "move", "control"})
#: Widest access of a lane, in bytes.
WIDEST = 16
#: Accesses whose width is each lane's; matrix loads have a width of their own.
_PLAIN = {"global load": ("LDG", "LD"), "shared load": ("LDS",)}


class Mix:
    """A launch's machine code by role. All numbers are 0 if it was not counted.

    Attributes:
        issued: Warp instructions by role.
        total: All of them.
        copies_alone: Only asynchronous copies bring in data, not loads of warps.
    """

    def __init__(self, launch: Launch) -> None:
        table = launch.instructions
        self.issued: dict[str, Number] = defaultdict(int)
        self._narrow: dict[str, float] = defaultdict(float)
        self._plain: dict[str, Number] = defaultdict(int)
        self._overhead: dict[LineKey, Number] = defaultdict(int)
        operations, lines, files = code_of(launch).operations, table.line, table.file
        opcodes: set[str] = set()
        for row, count in issues(table).items():
            operation = operations[row]
            kind = role(operation)
            opcodes |= {operation.opcode} if count else set()
            self.issued[kind] += count
            if operation.opcode in _PLAIN.get(kind, ()):
                self._plain[kind] += count
                self._narrow[kind] += count * min(
                    lane_width(operation.name.split(".")[1:]) / WIDEST, 1.0
                )
            if kind in OVERHEAD and lines[row] > 0:
                self._overhead[files[row], lines[row]] += count
        self.total = sum(self.issued.values())
        self.copies_alone = bool(opcodes & COPIES) and not opcodes & HOLDING["long_scoreboard"]

    def part(self, roles: frozenset[str]) -> float:
        """Part of the instructions issued (0-1) that have these roles."""
        return sum(self.issued[r] for r in roles) / self.total if self.total else 0.0

    def width(self, kind: str) -> Maybe:
        """Mean bytes of a lane's plain load of a role; none without such a load."""
        return over(WIDEST * self._narrow[kind], self._plain[kind])

    @property
    def overhead_line(self) -> LineKey | None:
        """The source line with the most overhead."""
        return max(self._overhead, key=lambda key: self._overhead[key], default=None)


def heaviest_line(launch: Launch, counter: str, less: str = "") -> LineKey | None:
    """The source line with the most of a counter (less another one); None if no line has any."""
    table = launch.instructions
    amounts: dict[LineKey, Number] = defaultdict(int)
    for row, amount in rows_of(launch, counter, less).items():
        if table.line[row] > 0 and (less or not is_misread(table.text[row])):
            amounts[table.file[row], table.line[row]] += amount
    best = max(amounts, key=lambda key: amounts[key], default=None)
    return best if best is not None and amounts[best] > 0 else None


class Touched(NamedTuple):
    """The parts of global memory that requests touch: sectors, and lines of 128 bytes.

    Each line is a tag that the L1 looks up, and for a store also a request to the L2, however
    few of its sectors are used.
    """

    sectors: float = 0.0
    lines: float = 0.0


def touched_by(launch: Launch, *accesses: Access) -> tuple[Touched, Touched]:
    """The sectors and lines that some accesses touch (by default all), and the fewest that suffice.

    The fewest are the ideal number of their sectors, and one line for each request, or for the
    sectors that a line holds. Both are zero if instructions have no counts. If half of the sectors
    or more are used, as in accesses that begin within a line or fill rows of a tile, the same
    fraction of the lines counts as used; if ncu misreads their number, all lines count as used.
    """
    table = launch.instructions
    names = ("global_sectors", "global_sectors_ideal", "l1_tag_requests", "instructions")
    every, ideal, tags, issued = (rows_of(launch, name, "") for name in names)
    if (ptx := table.columns.get(PTX)) is not None:  # the rows are PTX
        issued = dict(zip(ptx.rows, ptx.values, strict=True))
    now, least = [Touched()], [Touched()]
    for row, lines in tags.items():
        if accesses and access_of(table.text[row]) not in accesses:
            continue
        sectors, meant = every.get(row, 0), ideal.get(row, 0)
        now.append(Touched(sectors, lines))
        if sectors <= meant or is_misread(table.text[row]):
            least.append(now[-1])
            continue
        fewer = min(max(issued.get(row, lines), meant * _OF_LINE), lines)
        spread = sectors - meant > SPREAD * sectors
        least.append(Touched(meant, fewer if spread else lines * meant / sectors))
    first, second = (Touched(*map(sum, zip(*rows, strict=True))) for rows in (now, least))
    return first, second


#: A sector's part of a line.
_OF_LINE = SECTOR_BYTES / LINE_BYTES
#: From this part of unrequested sectors on, lanes are spread over lines.
SPREAD = 0.5


def rows_of(launch: Launch, counter: str, less: str) -> dict[int, Number]:
    """Instruction -> its part of a counter, less that of another counter; {} if unknown.

    The excess is unknown where ncu misreads it, and a copy takes a wavefront of shared memory for
    each line of global memory that it reads, wherever it writes it.
    """
    table = launch.instructions
    names = [
        line_metric(launch, catalog()[name]) if name in catalog() else None
        for name in (counter, less)
    ]
    out: dict[int, Number] = defaultdict(int)
    for name, sign in zip(names, (1, -1), strict=True) if names[0] else ():
        column = table.columns.get(name) if name else None
        for row, value in zip(column.rows, column.values, strict=True) if column else ():
            out[row] += sign * value
    lines = rows_of(launch, "l1_tag_requests", "") if less == "shared_wavefronts_ideal" else {}
    ideal = rows_of(launch, less, "") if lines else {}
    for row in out if less else ():
        if is_misread(table.text[row]):
            out[row] = 0
        elif row in lines and access_of(table.text[row]) == "copy":
            out[row] = max(0, out[row] - max(0, lines[row] - ideal.get(row, 0)))
    return out


#: The least part of the time that an experiment must be able to save.
LEAST = 0.05
#: An experiment must be able to save this part of what it removes.
_MOSTLY = 0.5
#: A part (0-1) of something, with its description.
Share = tuple[float, str]


class Examined:
    """One launch with everything from which ways are derived."""

    def __init__(self, launch: Launch, device: Device) -> None:
        self.launch = launch
        self.chip: Chip | None = chip_for(device)
        self.mix = Mix(launch)
        found = breakdown(launch)
        waits = dict.fromkeys(found.counted, 0.0)
        waits.update((share.state.id, share.share) for share in found.shares)
        self.side: Behaviour = behaviour_of(readings_of(launch), device, waits or None, launch)

    def busy(self, resource: str) -> Maybe:
        """The use (0-1) of a resource."""
        return over(self.side.share(resource), 100.0)

    def full(self, *resources: str) -> bool:
        """True if one of these units is known to be near its peak."""
        share = largest(*(self.side.share(resource) for resource in resources))
        return share is not None and share >= FULL

    def waited(self, states: tuple[str, ...]) -> Maybe:
        """Part of the warps' time (0-1) spent in some states."""
        return self.side.part(frozenset(states))

    def line_waiting(self, states: tuple[str, ...]) -> LineKey | None:
        """The line on which most samples of some states fell."""
        found = {
            line.key: line.samples * sum(part for state, part in line.stalls if state.id in states)
            for line in sampled_lines(self.launch)
        }
        best = max(found, key=lambda key: found[key], default=None)
        return best if best is not None and found[best] else None

    def rest(self, stays: frozenset[str]) -> tuple[str, float]:
        """The busiest of the units whose work stays: its title, and how busy (0-1) it was."""
        found = [load for load in loads(self.launch) if load.resource.id in stays]
        if not found:
            return "", 0.0
        return found[0].resource.title, found[0].active / 100.0

    def went(self, resources: dict[str, Maybe], states: tuple[str, ...]) -> Share | None:
        """The part (0-1) of the time that went to something, with its words; None if unknown.

        `resources` are units by id, each with the part (0-1) of its load that counts; `states` are
        those that its users wait in.
        """
        waited = self.waited(states)
        loads_of = {name: times(self.busy(name), share) for name, share in resources.items()}
        known = {name: load for name, load in loads_of.items() if load is not None}
        best = max(known, key=lambda name: known[name], default="")
        busy = known.get(best)
        if waited is not None and (busy is None or waited >= busy):
            named = [s for s in states if (spent := self.side.waited(s)) and spent >= 0.01]
            names = listed([stall_words(state) for state in named])
            return waited, _("warps spend {waited:.0%} of their time in {names}").format(
                waited=waited, names=names
            )
        share, whole = resources.get(best), self.busy(best)
        if busy is None or share is None or whole is None:
            return None
        title = next(load.resource.title for load in loads(self.launch) if load.resource.id == best)
        part = _(", {share:.0%} of that by these").format(share=share) if share < 0.995 else ""
        return busy, _("{title} at {whole:.0%} of peak{part}").format(
            title=title, whole=whole, part=part
        )


def bound(seen: Examined, part: Share, went: Share | None, stays: frozenset[str]) -> Share | None:
    """The bound and its arithmetic; None if too little can be saved, or nothing is known.

    `went` is the time that went to something, and `part` the needless part of it, each with its
    words; `stays` are the units that do as much as before.
    """
    if went is None:
        return None
    product = part[0] * went[0]
    title, busy = seen.rest(stays)
    saves = min(product, 1.0 - busy)
    # If a unit with unchanged work needs most of it, warps waited for that unit.
    if saves < max(LEAST, _MOSTLY * product):
        return None
    words = [text for text in (part[1], went[1]) if text]
    because = _("; ").join(words)
    if part[0] < 0.995:
        because += _(": ") + f"{part[0]:.0%} × {went[0]:.0%} = {product:.0%}"
    if saves < product:
        because += _("; but {busy:.0%} of the time is needed for {title}").format(
            busy=busy, title=title
        )
    runs = seen.side.running.busiest
    if runs < 1.0 - LEAST:
        because += _("; an SM is active for at most {runs:.0%} of the launch").format(runs=runs)
        saves *= runs
    return saves, because


def counted(seen: Examined, part: Share, counter: str) -> Share | None:
    """The bound for an emulated launch: the cycles of the units at their peaks for its counts.

    Its time is unknown. Removing the excess cannot go below the needs of the other units:
    issue slots, arithmetic (flops), device memory (bytes that must move).

    `part` is the needless part of the counter, with its words; `counter` is global sectors or
    shared wavefronts, which pass the L1's data stage.
    """
    chip, launch = seen.chip, seen.launch
    passes = seen.side.value("shared_wavefronts")
    least = {
        _(title): float(metric.value)
        for name, title in _LEAST.items()
        if (metric := launch.metrics.get(f"ptx__bound_cycles_{name}"))
        and not isinstance(metric.value, str)
    }
    if not least or chip is None or not chip.sms or passes is None:
        return None
    (every, fewer), (stores, fewer_stores) = touched_by(launch), touched_by(launch, "store")
    cycles = _through(chip, every, stores, passes)
    if counter == "global_sectors":
        spared = _through(chip, fewer, fewer_stores, passes)
    else:
        spared = _through(chip, every, stores, passes * (1.0 - part[0]))
    unit = max(cycles, key=lambda name: cycles[name])
    now, ideal = cycles[unit], spared[unit]
    if not now:
        return None
    others = least | {_("{unit} needs").format(unit=name): n for name, n in spared.items()}
    other = max(others, key=lambda title: others[title])
    then = others[other]
    because = _(
        "{part_1}; at the chip's peaks {unit} needs {now} cycles, {ideal} without them"
    ).format(part_1=part[1], unit=unit, now=quantity(now), ideal=quantity(ideal))
    if then > ideal:
        because += _("; but {other} {then}").format(other=other, then=quantity(then))
    return max(0.0, 1.0 - then / now), because


def _through(chip: Chip, every: Touched, stores: Touched, passes: float) -> dict[str, float]:
    """Cycles that the units passed by lanes' requests need at their peaks, as far as known.

    Args:
        chip: The chip that would run them.
        every: The memory that all global accesses touch.
        stores: The memory that stores touch; all of them go on to the L2.
        passes: Wavefronts of shared memory.
    """
    out = {_("the L1 data stage"): max(every.lines, every.sectors * _OF_LINE) + passes}
    if chip.store_sectors:
        out[_("the path from L1 to L2")] = stores.sectors / chip.store_sectors
    out = {unit: cycles / chip.sms for unit, cycles in out.items()}
    if chip.l2_requests:
        out[_("the L2")] = stores.lines / chip.l2_requests * chip.sm_clock
    return out


#: The least cycles of other units, which the emulator counts, in words.
_LEAST = {
    "issue_slots": N_("the issue slots need"),
    "fma_pipe": N_("the FMA pipe needs"),
    "load_store_units": N_("the load/store units need"),
    "device_memory": N_("device memory needs"),
}
