"""Flows between the levels of memory in one profile, and the lines that requested them.

A flow's amount is a counter of the chip (or, if only the machine code distinguishes it, the part of
a line counter that belongs to some opcodes). Its share of peak is the amount divided by the most
that the same path could have moved while the launch ran:

* shared memory: one wavefront per cycle and SM; L1: 128 bytes of global or local memory per
  cycle and SM (https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#hardware-model);
* device memory: the data sheet's bytes per second, for the duration;
* between L1 and L2: ncu's own percentages of the crossbar's ports, because its width differs
  from chip to chip.

Amounts that a report lacks are None with a reason, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from workbench.analysis.aggregate import Combined, Recent, combine, metric_sum, weights_of
from workbench.analysis.optional import times
from workbench.counters import Missing, catalog, line_metric
from workbench.gpus import SECTOR_BYTES as SECTOR
from workbench.gpus import chip_for, of_all_chips
from workbench.language import _
from workbench.model import Launch, LineKey, Number, Profile, Record
from workbench.sass import OPCODES, Access, opcode_of

# --- The kinds of flow between levels of memory, and the counters of each ------------------------
#
# Amounts are counters of the chip; if only the machine code distinguishes them (shared loads from
# stores, asynchronous copies), they are the part of a line counter that belongs to some opcodes.

Place = Literal["sm", "shared", "l1", "tma", "l2", "dram"]
Unit = Literal["byte", "wavefront"]

_PTX = re.compile(r"^\s*(?:@!?%\w+\s+)?([\w.:]+)")
#: Beginnings of PTX opcodes -> the access; the first match counts.
_ACCESSES: tuple[tuple[str, Access], ...] = (
    (r"cp\.async\.bulk\.(tensor\.\dd\.)?shared", "bulk in"),
    (r"cp\.(reduce\.)?async\.bulk\.(tensor\.\dd\.)?global", "bulk out"),
    (r"cp\.async\.c[ag]", "copy"),
    (r"atom|red\.", "atomic"),
    (r"ld|wgmma", "load"),
    (r"st", "store"),
)


@lru_cache(maxsize=1 << 14)  # each flow needs a kernel's code once, on every problem
def access_of(text: str) -> Access:
    """The memory access of an instruction, by its opcode in SASS or PTX; "" for none."""
    opcode, __ = opcode_of(text)
    if opcode in OPCODES:
        if opcode == "UBLKCP" and "UBLKCP.S" not in text:
            return "bulk out"
        return OPCODES[opcode].access if OPCODES[opcode].space != "constant" else ""
    found = _PTX.match(text)
    name = found[1] if found else ""
    return next((access for pattern, access in _ACCESSES if re.match(pattern, name)), "")


class Kind(Record, frozen=True):
    """The definition of a flow: a row of ``data/machine.toml``, which documents the fields."""

    id: str
    title: str
    start: Place
    end: Place
    peaks: tuple[str, ...]
    factor: int = 1
    counted: tuple[str, ...] = ()
    counter: str = ""
    column: str = ""
    accesses: tuple[Access, ...] = ()
    unit: Unit = "byte"
    usual: bool = True
    split: bool = False


class _LevelSpec(Record, frozen=True):
    """A level of memory, with its counters."""

    place: Place
    title: str
    hits: str = ""
    busy: str = ""


#: The suffix of ncu's percentages of peak.
PERCENT = ".pct_of_peak_sustained_elapsed"
GLOBAL, LOCAL = "global_sectors", "local_sectors"
KINDS, _LEVELS = of_all_chips("flow", Kind), of_all_chips("level", _LevelSpec)


class LineAmount(NamedTuple):
    """The amount of one source line, and its share of all lines; file -1 or line 0: unknown."""

    key: LineKey
    amount: Number
    share: float


class Transfer(Record, frozen=True):
    """The flow in one direction between two places.

    `amount` is in `unit`, `share` is 0-1 of the most that the path can move in that time; None if
    the report lacks them (`missing` says why). `ncu` and `peak` name their sources. `counter` is
    the catalog's entry to read next, or "". `lines` are the source lines that requested it, the
    largest first, by `line_metric`: for flows beyond the L1, the lines that used the L1, since no
    counter has its misses by line.
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
    shown: bool = True  # False: an unusual kind that is not known to have occurred


class Level(Record, frozen=True):
    """A place with its hit rate and its busiest part's share of peak, in percent; None: unknown."""

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
        return next(flow for flow in self.flows if flow.id == identity)


_SECTOR_COLUMNS = (GLOBAL, LOCAL)
_Split = dict[Access, dict[LineKey, Number]]


def memory(profile: Profile) -> MemoryChart | None:
    """The memory chart of all launches of a profile: amounts add, rates are means by duration.

    Returns None if no launch was measured, or no amount of any flow is known.
    """
    return _recent(profile)


def _memory(profile: Profile) -> MemoryChart | None:
    if not any(launch.profiled for launch in profile.launches):
        return None
    reader = _FlowCounts(profile)
    flows = tuple(map(reader.flow, KINDS))
    if all(flow.amount is None for flow in flows):
        return None
    return MemoryChart(
        flows=flows,
        levels=tuple(
            Level(
                place=each.place,
                title=_(each.title),
                hit_rate=reader.value(each.hits),
                throughput=reader.value(each.busy),
                hit_counter=each.hits,
                throughput_counter=each.busy,
            )
            for each in _LEVELS
        ),
    )


_recent = Recent(_memory)


class _FlowCounts:
    """The counters of one profile, and its lines by the kind of their instructions."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._launches = [launch for launch in profile.launches if launch.profiled]
        self._combined = combine(profile)
        self._chip = chip_for(profile.device)
        self._columns: dict[str, tuple[str, _Split | None]] = {}

    def value(self, counter: str) -> float | None:
        """A counter of the catalog over all launches; None if it is missing."""
        found = self._combined[counter] if counter else None
        return float(found.value) if isinstance(found, Combined) else None

    def flow(self, kind: Kind) -> Transfer:
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
        """An amount, its source, and why it is missing."""
        of_lines = asked is not None and kind.column != "instructions"
        factor = SECTOR if kind.column in _SECTOR_COLUMNS else 1
        by_line = f"{f'{factor} × ' if factor > 1 else ''}{metric} of {_words(kind.accesses)}"
        if kind.split and of_lines and asked is not None:
            return float(factor * asked), by_line, ""
        why = ""
        if kind.counted:
            total, made_of, why = self._sum(kind.counted)
            if total is not None:
                often = kind.factor
                return often * total, f"{often} × {made_of}" if often > 1 else made_of, ""
        # Beyond the L1 only counters of the chip know the traffic.
        near = kind.start in ("sm", "shared", "l1") and kind.end in ("sm", "shared", "l1")
        if of_lines and near and asked is not None:
            return float(factor * asked), by_line, ""
        return None, "", why or _("the report has no machine code that could decide this")

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
        """Line counters of the kind's instructions, and their name; None: unknown."""
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
        """A line counter by the kind of its instructions; None if a launch does not tell."""
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
        """True if a launch without the column has a total of zero for the counter."""
        metrics = (launch.metrics.get(name) for name in catalog()[counter].names)
        return any(metric is not None and metric.value == 0 for metric in metrics)

    def _share(self, kind: Kind, amount: float | None) -> tuple[float | None, str]:
        """The share of peak (0-1), and the name of that peak; None if either is unknown."""
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
        """The most that a path can move in the profile's time."""
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
        """A metric's mean over launches, by duration; None if one of them lacks it."""
        found = [launch.metrics.get(name) for launch in self._launches]
        known = [float(each.value) for each in found if each and not isinstance(each.value, str)]
        if len(known) < len(found):
            return None
        weights, __ = weights_of(self._launches)
        return sum(a * b for a, b in zip(known, weights, strict=True)) / sum(weights)


def shown(sides: Sequence[MemoryChart]) -> tuple[tuple[Transfer, ...], ...]:
    """The flows that at least one side has, each with its counterparts on the other sides."""
    rows = zip(*(side.flows for side in sides), strict=True)
    return tuple(row for row in rows if any(flow.shown for flow in row))


def _words(accesses: Sequence[Access]) -> str:
    """``loads and copies``."""
    known = {"": "", "copy": "copies", "bulk in": "", "bulk out": ""}
    return " and ".join(filter(None, (known.get(word, f"{word}s") for word in accesses)))
