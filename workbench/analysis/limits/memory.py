"""What moved between the levels of memory: the flows of one profile, and who asked for them.

A flow's amount is a counter of the chip (or, for what only the machine code tells apart, the
part of a line counter that belongs to some opcodes). Its share of peak is the amount over what
the same path could have moved while the launch ran:

* shared memory: one wavefront per cycle and SM, L1: 128 bytes of global or local memory per
  cycle and SM (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#hardware-model);
* device memory: the data sheet's bytes per second, for the duration;
* between L1 and L2: ncu's own percentages of the crossbar's ports, because its width differs
  from chip to chip.

What a report does not tell is None with a reason, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from workbench.analysis.absent import times
from workbench.analysis.aggregate import Combined, Recent, combine, metric_sum, weights_of
from workbench.counters import Missing, catalog, line_metric
from workbench.gpus import SECTOR_BYTES as SECTOR
from workbench.gpus import chip_for
from workbench.language import N_, _
from workbench.model import Launch, LineKey, Number, Profile, Record
from workbench.sass import OPCODES, Access, opcode_of

# --- The kinds of flow between levels of memory, and by which counters each is known -------------
#
# Amounts are counters of the chip; what only the machine code tells apart (shared loads from
# stores, asynchronous copies) is the part of a line counter that belongs to some opcodes.

Place = Literal["sm", "shared", "l1", "tma", "l2", "dram"]
Unit = Literal["byte", "wavefront"]

_PTX = re.compile(r"^\s*(?:@!?%\w+\s+)?([\w.:]+)")
#: How opcodes of PTX begin; the first that fits.
_ACCESSES: tuple[tuple[str, Access], ...] = (
    (r"cp\.async\.bulk\.(tensor\.\dd\.)?shared", "bulk in"),
    (r"cp\.(reduce\.)?async\.bulk\.(tensor\.\dd\.)?global", "bulk out"),
    (r"cp\.async\.c[ag]", "copy"),
    (r"atom|red\.", "atomic"),
    (r"ld|wgmma", "load"),
    (r"st", "store"),
)


@lru_cache(maxsize=1 << 14)  # a kernel's code is asked for once a flow, on every problem
def access_of(text: str) -> Access:
    """What an instruction does with memory, by its opcode in SASS or PTX; "" for nothing."""
    opcode, __ = opcode_of(text)
    if opcode in OPCODES:
        if opcode == "UBLKCP" and "UBLKCP.S" not in text:
            return "bulk out"
        return OPCODES[opcode].access if OPCODES[opcode].space != "constant" else ""
    found = _PTX.match(text)
    name = found[1] if found else ""
    return next((access for pattern, access in _ACCESSES if re.match(pattern, name)), "")


class Kind(NamedTuple):
    """How a flow is found.

    `amounts` are sums of counters of the catalog (``@id``) or of ncu's names, times a factor;
    the first that a report fills counts. Without one, and where `split` holds before all, it
    is the part of the line counter `column` that belongs to the instructions of `accesses`.
    `peaks` are ncu's percentages, or the catalog's word for what a formula needs (``wavefront``,
    ``line``, ``bandwidth``). Kinds that are not `usual` are left out where nothing of them is
    known to have happened.
    """

    id: str
    title: str
    start: Place
    end: Place
    amounts: tuple[tuple[int, tuple[str, ...]], ...]
    peaks: tuple[str, ...]
    counter: str = ""
    column: str = ""
    accesses: tuple[Access, ...] = ()
    unit: Unit = "byte"
    usual: bool = True
    split: bool = False


_WAVES, GLOBAL, LOCAL = "shared_wavefronts", "global_sectors", "local_sectors"
_DATA = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
_L1 = "l1tex__t_sectors_pipe_"
_IN, _OUT = "l1tex__m_xbar2l1tex_read_", "l1tex__m_l1tex2xbar_"
_L2 = "lts__t_sectors_srcunit_tex_op_"
#: How ncu's percentages of a peak end.
PERCENT = ".pct_of_peak_sustained_elapsed"


def _shared(name: str, title: str, ways: tuple[Place, Place], *accesses: Access) -> Kind:
    ncu = {"load": "ld", "store": "st", "atomic": "atom"}.get(accesses[0])
    return Kind(
        f"shared_{name}",
        title,
        *ways,
        amounts=((1, (f"{_DATA}{ncu}.sum",)),) if ncu else (),
        peaks=("wavefront",),
        counter=_WAVES,
        column=_WAVES,
        accesses=accesses,
        unit="wavefront",
        usual=name in ("loads", "stores"),
        split=True,
    )


KINDS = (
    # The matrix units read their operands from shared memory without a load.
    _shared("loads", N_("Shared loads"), ("shared", "sm"), "load", ""),
    _shared("stores", N_("Shared stores"), ("sm", "shared"), "store"),
    _shared("atomics", N_("Shared atomics"), ("sm", "shared"), "atomic"),
    _shared("copies", N_("Asynchronous copies"), ("l1", "shared"), "copy", "bulk in", "bulk out"),
    Kind(
        "global_loads", N_("Global loads"), "l1", "sm", ((SECTOR, ("@global_load_sectors",)),),
        ("line",), "global_load_sectors", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "global_stores", N_("Global stores"), "sm", "l1", ((SECTOR, ("@global_store_sectors",)),),
        ("line",), "global_store_sectors", GLOBAL, ("store",),
    ),
    Kind(
        "global_atomics", N_("Global atomics"), "sm", "l1",
        ((SECTOR, (f"{_L1}lsu_mem_global_op_atom.sum", f"{_L1}lsu_mem_global_op_red.sum")),),
        ("line",), GLOBAL, GLOBAL, ("atomic",), usual=False,
    ),
    Kind(
        "local_loads", "Local loads", "l1", "sm", ((SECTOR, (f"{_L1}lsu_mem_local_op_ld.sum",)),),
        ("line",), LOCAL, LOCAL, ("load",), usual=False,
    ),
    Kind(
        "local_stores", N_("Local stores"), "sm", "l1",
        ((SECTOR, (f"{_L1}lsu_mem_local_op_st.sum",)),),
        ("line",), LOCAL, LOCAL, ("store",), usual=False,
    ),
    Kind(
        "texture", N_("Texture"), "l1", "sm", ((SECTOR, (f"{_L1}tex_mem_texture.sum",)),),
        ("line",), usual=False,
    ),
    Kind(
        "tma_loads", N_("TMA copies in"), "l2", "tma",
        ((1, (f"{_IN}bytes_mem_global_op_tma_ld.sum",)),),
        (f"{_IN}bytes_mem_global_op_tma_ld.sum{PERCENT}",),
        column="instructions", accesses=("bulk in",), usual=False,
    ),
    Kind(
        "tma_stores", N_("TMA copies out"), "tma", "l2",
        ((1, tuple(f"{_OUT}write_bytes_mem_global_op_tma_{way}.sum" for way in ("st", "red"))),),
        (f"{_OUT}write_bytes_mem_global_op_tma_st.sum{PERCENT}",),
        column="instructions", accesses=("bulk out",), usual=False,
    ),
    Kind(
        "l2_reads", N_("L2 reads"), "l2", "l1", ((SECTOR, ("@l2_read_sectors",)),),
        (f"{_IN}sectors.sum{PERCENT}", f"{_IN}sectors.avg{PERCENT}"),
        "l2_read_sectors", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "l2_writes", N_("L2 writes"), "l1", "l2", ((SECTOR, ("@l2_write_sectors",)),),
        (f"{_OUT}write_bytes.sum{PERCENT}", f"{_OUT}req_cycles_active.sum{PERCENT}"),
        "l2_write_sectors", GLOBAL, ("store",),
    ),
    Kind(
        "l2_atomics", N_("L2 atomics"), "l1", "l2",
        ((SECTOR, (f"{_L2}atom.sum", f"{_L2}red.sum")),),
        (f"{_L2}atom.sum{PERCENT}",), "", GLOBAL, ("atomic",), usual=False,
    ),
    Kind(
        "dram_reads", N_("Device memory read"), "dram", "l2", ((1, ("@dram_read_bytes",)),),
        ("bandwidth",), "dram_read_bytes", GLOBAL, ("load", "copy"),
    ),
    Kind(
        "dram_writes", N_("Device memory written"), "l2", "dram", ((1, ("@dram_write_bytes",)),),
        ("bandwidth",), "dram_write_bytes", GLOBAL, ("store", "atomic"),
    ),
)  # fmt: skip
#: Place, title, hit rate and throughput as counters.
LEVELS: tuple[tuple[Place, str, str, str], ...] = (
    ("sm", "SM", "", "sm_throughput"),
    ("shared", N_("Shared memory"), "", ""),
    ("l1", "L1/TEX", "l1_hit_rate", "l1_throughput"),
    ("tma", "TMA", "", ""),
    ("l2", "L2", "l2_hit_rate", "l2_throughput"),
    ("dram", N_("Device memory"), "", "dram_throughput"),
)


class LineAmount(NamedTuple):
    """What one source line asked for, and its share of all lines; file -1 or line 0: unknown."""

    key: LineKey
    amount: Number
    share: float


class Transfer(Record, frozen=True):
    """What went one way between two places.

    `amount` is in `unit`, `share` 0-1 of what the path can move in that time; None where
    the report does not tell (`missing` says why). `ncu` and `peak` say what both are made of.
    `counter` is the catalog's entry to read on, "" where there is none. `lines` are the
    askers, the largest first, by `line_metric`: of flows behind the L1 those that asked the
    L1, since nothing counts by line what missed it.
    """

    id: str
    title: str
    start: Place
    end: Place
    unit: Unit
    amount: float | None
    share: float | None
    ncu: str = ""
    peak: str = ""
    missing: str = ""
    counter: str = ""
    line_metric: str = ""
    lines: tuple[LineAmount, ...] = ()
    shown: bool = True  # False: an unusual kind of which nothing is known to have happened


class Level(Record, frozen=True):
    """A place with its hit rate and its busiest part's share of peak, percent; None: unknown."""

    place: Place
    title: str
    hit_rate: float | None = None
    throughput: float | None = None
    hit_counter: str = ""
    throughput_counter: str = ""


class MemoryChart(Record, frozen=True):
    """The memory chart of one profile: places from the SM outwards, flows between them.

    Both are the same for all profiles, in the same order.
    """

    levels: tuple[Level, ...]
    flows: tuple[Transfer, ...]

    def __getitem__(self, identity: str) -> Transfer:
        """The flow of that name."""
        return next(flow for flow in self.flows if flow.id == identity)


_SECTOR_COLUMNS = (GLOBAL, LOCAL)
_Split = dict[Access, dict[LineKey, Number]]


def memory(profile: Profile) -> MemoryChart | None:
    """The memory chart of all launches of a profile: amounts add, rates are means by duration.

    Returns:
        None where no launch was measured, or no amount of any flow is known.
    """
    return _recent(profile)


def _memory(profile: Profile) -> MemoryChart | None:
    if not any(launch.profiled for launch in profile.launches):
        return None
    reader = _Counted(profile)
    flows = tuple(map(reader.flow, KINDS))
    if all(flow.amount is None for flow in flows):
        return None
    return MemoryChart(
        flows=flows,
        levels=tuple(
            Level(
                place=place,
                title=_(title),
                hit_rate=reader.value(hits),
                throughput=reader.value(busy),
                hit_counter=hits,
                throughput_counter=busy,
            )
            for place, title, hits, busy in LEVELS
        ),
    )


_recent = Recent(_memory)


class _Counted:
    """The counters of one profile, and its lines by what their instructions do."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._launches = [launch for launch in profile.launches if launch.profiled]
        self._combined = combine(profile)
        self._chip = chip_for(profile.device)
        self._columns: dict[str, tuple[str, _Split | None]] = {}

    def value(self, counter: str) -> float | None:
        """A counter of the catalog over all launches; None where it is missing."""
        found = self._combined[counter] if counter else None
        return float(found.value) if isinstance(found, Combined) else None

    def flow(self, kind: Kind) -> Transfer:
        """What went that way."""
        lines, metric = self._lines(kind)
        asked = None if lines is None else sum(lines.values())
        amount, ncu, missing = self._amount(kind, asked, metric)
        share, peak = self._share(kind, amount)
        order = sorted((lines or {}).items(), key=lambda item: (-item[1], item[0]))
        return Transfer(
            id=kind.id,
            title=_(kind.title),
            start=kind.start,
            end=kind.end,
            unit=kind.unit,
            amount=amount,
            share=share,
            ncu=ncu,
            peak=peak,
            missing=missing,
            counter=kind.counter,
            line_metric=metric,
            lines=tuple(LineAmount(key, n, n / asked) for key, n in order if asked),
            shown=bool(kind.usual or amount or (amount is None and asked)),
        )

    def _amount(
        self, kind: Kind, asked: Number | None, metric: str
    ) -> tuple[float | None, str, str]:
        """Amount, what it is made of, and why it is missing."""
        of_lines = asked is not None and kind.column != "instructions"
        factor = SECTOR if kind.column in _SECTOR_COLUMNS else 1
        by_line = f"{f'{factor} × ' if factor > 1 else ''}{metric} of {_words(kind.accesses)}"
        if kind.split and of_lines and asked is not None:
            return float(factor * asked), by_line, ""
        why = ""
        for often, names in kind.amounts:
            total, made_of, lacking = self._sum(names)
            if total is not None:
                return often * total, f"{often} × {made_of}" if often > 1 else made_of, ""
            why = why or lacking
        # Behind the L1 only counters of the chip know what went through.
        near = kind.start in ("sm", "shared", "l1") and kind.end in ("sm", "shared", "l1")
        if of_lines and near and asked is not None:
            return float(factor * asked), by_line, ""
        return None, "", why or _("the report does not hold the machine code that would tell")

    def _sum(self, names: tuple[str, ...]) -> tuple[float | None, str, str]:
        """A sum of counters, its names, and why one of them is missing."""
        total, made_of = 0.0, []
        for name in names:
            if name.startswith("@"):
                found = self._combined[name[1:]]
                if isinstance(found, Missing):
                    return None, "", found.reason
                total += found.value
                made_of.append(found.ncu)
                continue
            value = metric_sum(self._profile, name)
            if value is None:
                return (
                    None,
                    "",
                    _("not collected: this profile does not hold {name}").format(name=name),
                )
            total += value
            made_of.append(name)
        several = len(made_of) > 1
        return total, f"({' + '.join(made_of)})" if several else made_of[0], ""

    def _lines(self, kind: Kind) -> tuple[dict[LineKey, Number] | None, str]:
        """Line counters of the kind's instructions, and their name; None: nothing tells."""
        if not kind.column:
            return None, ""
        if kind.column not in self._columns:
            self._columns[kind.column] = self._split(kind.column)
        metric, split = self._columns[kind.column]
        if split is None:
            return None, ""
        out: dict[LineKey, Number] = {}
        for access in kind.accesses:
            for key, value in split.get(access, {}).items():
                out[key] = out.get(key, 0) + value
        return out, metric

    def _split(self, counter: str) -> tuple[str, _Split | None]:
        """A line counter by what its instructions do; None where a launch does not tell."""
        out: _Split = {}
        metric = next(iter(catalog()[counter].lines), "")
        for launch in self._launches:
            name = line_metric(launch, catalog()[counter])
            if name is None:
                if self._none_of(launch, counter):
                    continue
                return metric, None
            metric = name
            table = launch.instructions
            column = table.columns[name]
            for row, value in zip(column.rows, column.values, strict=True):
                if not table.text[row]:
                    return metric, None  # a chip that the reader cannot disassemble
                lines = out.setdefault(access_of(table.text[row]), {})
                key = table.file[row], table.line[row]
                lines[key] = lines.get(key, 0) + value
        return metric, out

    @staticmethod
    def _none_of(launch: Launch, counter: str) -> bool:
        """Whether a launch without the column counted nothing of the kind at all."""
        metrics = (launch.metrics.get(name) for name in catalog()[counter].names)
        return any(metric is not None and metric.value == 0 for metric in metrics)

    def _share(self, kind: Kind, amount: float | None) -> tuple[float | None, str]:
        """Share of peak (0-1), and what it is measured by; None where either is unknown."""
        if amount is None:
            return None, ""
        for peak in kind.peaks:
            if peak.endswith(PERCENT):
                share = self._mean(peak)
                if share is not None:
                    return share / 100, peak
                continue
            most, words = self._most(peak)
            if most:
                return amount / most, words
        return None, ""

    def _most(self, peak: str) -> tuple[float | None, str]:
        """What a path can move at most in the profile's time."""
        chip, cycles, seconds = self._chip, self.value("cycles"), self.value("duration")
        if chip is None:
            return None, ""
        if peak == "bandwidth":
            rate = chip.memory_bandwidth
            return times(rate, seconds), _("{bandwidth_source} × duration").format(
                bandwidth_source=chip.bandwidth_source
            )
        per_cycle = chip.line_bytes if peak == "line" else 1
        word = (
            _("{per_cycle} bytes").format(per_cycle=per_cycle)
            if peak == "line"
            else _("1 wavefront")
        )
        return times(per_cycle * chip.sms, cycles), _("{word} per cycle and SM").format(word=word)

    def _mean(self, name: str) -> float | None:
        """A metric's mean over launches, by duration; None where one of them lacks it."""
        found = [launch.metrics.get(name) for launch in self._launches]
        known = [float(each.value) for each in found if each and not isinstance(each.value, str)]
        if len(known) < len(found):
            return None
        weights, __ = weights_of(self._launches)
        return sum(a * b for a, b in zip(known, weights, strict=True)) / sum(weights)


def shown(sides: Sequence[MemoryChart]) -> tuple[tuple[Transfer, ...], ...]:
    """The flows that at least one side has, each with its counterparts on the others."""
    rows = zip(*(side.flows for side in sides), strict=True)
    return tuple(row for row in rows if any(flow.shown for flow in row))


def _words(accesses: Sequence[Access]) -> str:
    """``loads and copies``."""
    known = {"": "", "copy": "copies", "bulk in": "", "bulk out": ""}
    return " and ".join(filter(None, (known.get(word, f"{word}s") for word in accesses)))
