"""The counter catalog: ids, meanings and units for the numbers that a profile holds.

The catalog itself is data (``data/counters.toml``, documented there and in
docs/counters.md). This module looks a counter up in a launch: by the names that different chips and
ncu versions gave it, else by formula, else from the instruction table. A counter that cannot be
found is `Missing`, with the reason, and never zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import tomli

from workbench.errors import UsageError
from workbench.language import N_, _
from workbench.model import Launch, Number, Record, Spread
from workbench.units import inside, quantity

#: The operation in a SASS line: ``@!P0 LDG.E.128 R4, [R2]`` -> ``LDG``.
_OPCODE = re.compile(r"^\s*(?:@!?U?P\w+\s+)?([A-Z0-9]+)")
_REFERENCE = re.compile(r"@(\w+)")
_FACTOR = re.compile(r"ceil\(|[^\s()]+|[+*/-]|\)")
#: Units of things that are counted in whole numbers; ncu gives some of them as floats.
_COUNTS = frozenset(
    "inst sector wavefront request byte block thread warp branch register sample flop cycle".split()  # noqa: SIM905
)


class Counter(Record, frozen=True, rename={"named": "title", "explained": "meaning"}):
    """One entry of the catalog. `title` and `meaning` translate `named` and `explained`.

    `noise` is a relative and `floor` an absolute change (in `unit`) that two captures of the same
    kernel can show; a move must exceed both. `lines` are the names of the per-instruction metric
    behind the counter, newest first; `line` is the first of them. If `additive`, the line metric's
    sum over all lines is the counter. `touching` names a per-instruction metric: the counter is the
    executions of all instructions that have any of it. A share or ratio is undefined without one of
    the counters `needs`; `rest` is the other part of a share. Where a formula of `denied`
    exceeds 1, other counters of the report deny the value. A change of the counters `follows`
    changes this one too. The emulator has `instead`. `derived` are formulas, from a unit's share of
    its peak, that are only right to a few percent.
    """

    id: str
    named: str
    explained: str
    unit: str
    group: str
    doc: str  # URL of the section in NVIDIA's documentation
    names: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    opcodes: tuple[str, ...] = ()
    opcodes_of: str = "thread_inst_executed_true"
    touching: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    rest: str = ""
    denied: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    instead: str = ""
    derived: tuple[str, ...] = ()
    better: Literal["lower", "higher", ""] = ""
    noise: float = 0.0
    floor: float = 0.0
    lines: tuple[str, ...] = ()
    additive: bool = False
    combine: Literal["sum", "mean", "longest", ""] = ""

    @property
    def title(self) -> str:
        """The name shown to readers."""
        return _(self.named)

    @property
    def meaning(self) -> str:
        """Its meaning, in a sentence."""
        return _(self.explained)

    @property
    def origin(self) -> str:
        """Its best source: ncu's name, a formula, or opcodes of the listing."""
        return (*self.names, *self.formulas, f"{self.opcodes_of} of {'/'.join(self.opcodes)}")[0]

    @property
    def over_launches(self) -> Literal["sum", "mean", "longest"]:
        """The rule that joins several launches: counts add, rates are weighted (see `below`).

        Values that the compiler and the launch fix (registers, block size, limits) have no sum or
        mean; for these, the value of the longest launch is used.
        """
        if self.combine:
            return self.combine
        if self.group in ("resources", "launch"):
            return "longest"
        return "sum" if self.unit == "s" or self.unit in _COUNTS - {"warp", "block"} else "mean"

    @property
    def below(self) -> str:
        """The counter by which its formula divides, which weights its mean: else the duration."""
        found = re.fullmatch(r"@\w+ / @(\w+)", (*self.formulas, "")[0])
        return found[1] if found else "duration"

    @property
    def phrase(self) -> str:
        """The title inside a sentence: ``shared wavefronts``, but ``MIO throttle``."""
        return inside(self.title)

    @property
    def line(self) -> str | None:
        """Today's name of the per-instruction metric, or None."""
        return self.lines[0] if self.lines else None


class Reading(NamedTuple):
    """A counter's value in one launch. `ncu` is the name or formula it came from.

    `derived`: not counted, but computed from shares of peaks; right to a few percent.
    """

    value: Number
    unit: str
    ncu: str
    derived: bool = False

    @property
    def mark(self) -> str:
        """``≈`` before a value that was derived or estimated, wherever it is shown."""
        return "≈" if self.derived or (self.value and self.ncu.startswith(MACHINE)) else ""

    @property
    def text(self) -> str:
        """The formatted value, after its mark."""
        return f"{self.mark}{quantity(self.value, self.unit)}"


#: The suffixes of the titles of derived and of estimated counters, wherever they are shown.
DERIVED, ESTIMATED = N_(" (derived)"), N_(" (estimated)")
#: Prefix of the emulator's metrics of machine instructions, which it estimates.
MACHINE = "ptx__machine_"
#: Its metric of executed PTX.
PTX = "ptx__inst_executed"
#: Two derived counts of one kernel differ by up to this fraction (docs/counters.md).
DERIVED_NOISE = 0.03


class Missing(NamedTuple):
    """The reason for a counter's missing value in one launch.

    `undefined`: the kernel does nothing of the kind (bytes per load sector of a kernel without
    loads); otherwise it was not measured.
    """

    reason: str
    undefined: bool = False

    @property
    def text(self) -> str:
        """An em dash in place of a value."""
        return quantity(None)


class Catalog:
    """All counters, in the order in which views show them."""

    def __init__(self, counters: tuple[Counter, ...], groups: Mapping[str, str]) -> None:
        self._by_id = {counter.id: counter for counter in counters}
        self._groups = dict(groups)
        self._by_name: dict[str, Counter] = {}
        self._by_line: dict[str, Counter] = {}
        for counter in counters:
            for name in counter.names:
                self._by_name.setdefault(name, counter)
            for name in counter.lines:
                self._by_line.setdefault(name, counter)

    @property
    def groups(self) -> dict[str, str]:
        """Group id -> title, in display order."""
        return {group: _(title) for group, title in self._groups.items()}

    def group_title(self, group: str) -> str:
        """The title of a group; "" if there is no such group."""
        return _(self._groups.get(group, ""))

    def __iter__(self) -> Iterator[Counter]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, counter_id: object) -> bool:
        return counter_id in self._by_id

    def __getitem__(self, counter_id: str) -> Counter:
        """Return the counter of that id; UsageError: unknown; the hint names the nearest ones."""
        counter = self._by_id.get(counter_id)
        if counter is None:
            near = get_close_matches(counter_id, self._by_id, n=3)
            raise UsageError(
                _("no counter {counter_id!r} in the catalog").format(counter_id=counter_id),
                _("Did you mean {near}?").format(near=", ".join(near))
                if near
                else _("`workbench docs counters` lists them all."),
            )
        return counter

    def by_name(self, ncu: str) -> Counter | None:
        """The counter that ncu reports under this name, or None."""
        return self._by_name.get(ncu)

    def by_line(self, ncu: str) -> Counter | None:
        """The counter whose per-instruction metric has this name, or None."""
        return self._by_line.get(ncu)

    def following(self, counter_id: str) -> frozenset[str]:
        """Return counters that move with one: its terms, those computed from it, its followers."""
        found = set(_references(self[counter_id]))
        found.update(other.id for other in self if counter_id in _references(other))
        waiting = [counter_id]
        while waiting:
            cause = waiting.pop()
            new = [c.id for c in self if cause in c.follows and c.id not in found]
            found.update(new)
            waiting += new
        return frozenset(found - {counter_id})

    def group(self, group: str) -> list[Counter]:
        """The counters of one group, in order."""
        return [counter for counter in self if counter.group == group]


def _references(counter: Counter) -> list[str]:
    """The counters in its first formula; further formulas are only other ways to find it."""
    return _REFERENCE.findall(counter.formulas[0]) if counter.formulas else []


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """The catalog from ``data/counters.toml``, read once per process."""
    text = (Path(__file__).parent / "data/counters.toml").read_text(encoding="utf-8")
    table = tomli.loads(text)
    docs: dict[str, str] = table["docs"]
    rows = []
    for entry in table["counter"]:
        row = dict(entry, doc=docs[entry["doc"]])
        for key, field in (("ncu", "names"), ("formula", "formulas"), ("line", "lines")):
            row[field] = row.pop(key, ())
        rows.append(row)
    counters = msgspec.convert(rows, tuple[Counter, ...], strict=False)
    return Catalog(counters, table["groups"])


def read(launch: Launch, counter: Counter | str) -> Reading | Missing:
    """Read a counter's value in one launch.

    It tries in order: the instructions that touch a metric, the ncu names, the formulas, the
    opcodes in the instruction table, for additive counters the sum of the line metric, and values
    from shares of peaks (`Reading.derived`). A value that is NaN, text or undefined (a share of
    nothing) is `Missing`.
    """
    if isinstance(counter, str):
        counter = catalog()[counter]
    if not launch.profiled:
        return Missing("the report lists this launch, but it was never profiled")
    found = _found(launch, counter)
    return _untrue(launch, counter, found) or found


def _untrue(launch: Launch, counter: Counter, found: Reading | Missing) -> Missing | None:
    """Explain why what was found is no value: it lacks a whole, or is denied; None if it is one."""
    for formula in counter.denied:
        part = _evaluate(launch, formula)
        if not isinstance(part, Missing) and part > MARGIN:
            return Missing("denied by other counters of the report")
    if isinstance(found, Reading) and counter.unit == "%" and 0 < found.value < 100:
        return None
    wholes = [read(launch, name) for name in counter.needs]
    if wholes and all(isinstance(whole, Reading) and whole.value == 0 for whole in wholes):
        titles = [catalog()[name].phrase for name in counter.needs]
        several = f"{', '.join(titles[:-1])} or {titles[-1]}" if titles[1:] else titles[0]
        return Missing(f"undefined: the kernel executed no {several}", undefined=True)
    if counter.rest and isinstance(found, Reading) and found.value == 0:
        rest = read(launch, counter.rest)
        if isinstance(rest, Reading) and rest.value == 0:
            title = catalog()[counter.rest].phrase
            return Missing(f"undefined: a share of zero ({title} are 0 too)", undefined=True)
    return None


def _found(launch: Launch, counter: Counter) -> Reading | Missing:
    touched = _sum_of_touching(launch, counter)
    if touched is not None:
        return touched
    for name in counter.names:
        value = _number(launch, name)
        if value is not None:
            return _reading(value, counter, name)
    why: Missing | None = None
    for formula in counter.formulas:
        result = _evaluate(launch, formula)
        if not isinstance(result, Missing):
            return _reading(result, counter, formula, _of_derived(launch, formula))
        why = why or result
    if counter.opcodes:
        count = _sum_of_opcodes(launch, counter)
        if count is not None:
            return _reading(count, counter, f"{counter.opcodes_of} of {'/'.join(counter.opcodes)}")
    if counter.additive:
        name = line_metric(launch, counter) or ""
        column = launch.instructions.columns.get(name)
        if column is not None:
            return _reading(sum(column.values), counter, f"sum of {name} over lines")
    for formula in counter.derived:
        result = _evaluate(launch, formula)
        if not isinstance(result, Missing):
            return _reading(result, counter, formula, True)
    return _missing(launch, counter, why)


def read_all(launch: Launch) -> dict[str, Reading | Missing]:
    """Every counter of the catalog, by id, in order."""
    return {counter.id: read(launch, counter) for counter in catalog()}


def spread(launch: Launch, counter: Counter) -> Spread | None:
    """Return the counter's variation over repeated captures of the launch, if any."""
    return next((launch.spreads[name] for name in counter.names if name in launch.spreads), None)


def line_metric(launch: Launch, counter: Counter) -> str | None:
    """The name under which this launch holds the counter per instruction, or None."""
    columns = launch.instructions.columns
    return next((name for name in counter.lines if name in columns), None)


def _of_derived(launch: Launch, formula: str) -> bool:
    """Test whether one of a formula's counters was derived, which makes its result derived."""
    found = (read(launch, name) for name in _REFERENCE.findall(formula))
    return any(isinstance(reading, Reading) and reading.derived for reading in found)


def _reading(value: Number, counter: Counter, ncu: str, derived: bool = False) -> Reading:
    if isinstance(value, float) and counter.unit in _COUNTS and value.is_integer():
        value = int(value)
    return Reading(value, counter.unit, ncu, derived)


def _number(launch: Launch, name: str) -> Number | None:
    metric = launch.metrics.get(name)
    if metric is None or isinstance(metric.value, str) or not math.isfinite(metric.value):
        return None
    return metric.value


#: Groups of counters that cannot be derived from a program: a chip has to run it.
_HARDWARE = ("time", "throughput", "cache", "dram", "issue", "stalls", "pipes", "samples")
NEVER_EMULATED = "the emulator never has it"


def _missing(launch: Launch, counter: Counter, why: Missing | None) -> Missing:
    emulated = PTX in launch.metrics
    for name in counter.names:
        if name in launch.absent:
            if emulated:
                return Missing(launch.absent[name])
            return Missing(f"ncu recorded {name} without a number ({launch.absent[name]})")
    of_nothing = why is not None and why.undefined
    if emulated and not of_nothing and (counter.instead or counter.group in _HARDWARE):
        instead = f"; take {counter.instead}" if counter.instead else ""
        return Missing(f"{NEVER_EMULATED}{instead}")
    if why is not None:
        return why
    if counter.names:
        return Missing(f"not collected: this profile does not hold {counter.names[0]}")
    return Missing("this profile lacks the counters to derive it from")


def _sum_of_opcodes(launch: Launch, counter: Counter) -> Number | None:
    table = launch.instructions
    column = table.columns.get(counter.opcodes_of)
    if column is None:
        return None
    generic = {code[:2] for code in counter.opcodes}  # an LD may read what an LDS reads
    total: Number = 0
    for row, value in zip(column.rows, column.values, strict=True):
        found = _OPCODE.match(table.text[row])
        # No SASS here (PTX, or a chip the reader cannot disassemble): unknown, not zero.
        if found is None or (value and found.group(1) in generic):
            return None
        if found.group(1) in counter.opcodes:
            total += value
    return total


def _sum_of_touching(launch: Launch, counter: Counter) -> Reading | None:
    """Count executions of the instructions that have any of the metric; None if neither is known.

    An execution with an active lane has at least one of it, so no instruction counts more often.
    """
    columns = launch.instructions.columns
    name = next((name for name in counter.touching if name in columns), "")
    if not name or (executed := columns.get("inst_executed")) is None:
        return None
    amounts = dict(zip(columns[name].rows, columns[name].values, strict=True))
    often = zip(executed.rows, executed.values, strict=True)
    total = sum(min(value, amounts.get(row, 0)) for row, value in often)
    return _reading(total, counter, f"inst_executed of instructions with {name}")


_Factor = tuple[str, bool, str]  # (operator "*" or "/", ceil?, operand)
_Term = tuple[int, tuple[_Factor, ...]]


@cache
def _parse(formula: str) -> tuple[_Term, ...]:
    terms: list[tuple[int, list[_Factor]]] = [(1, [])]
    operator, ceil = "*", False
    for token in _FACTOR.findall(formula):
        if token in ("+", "-"):
            terms.append((1 if token == "+" else -1, []))
            operator = "*"
        elif token in ("*", "/"):
            operator = token
        elif token == "ceil(":
            ceil = True
        elif token == ")":
            ceil = False
        else:
            terms[-1][1].append((operator, ceil, token))
    return tuple((sign, tuple(factors)) for sign, factors in terms)


def _operand(launch: Launch, token: str) -> Number | Missing:
    if token[0].isdigit():
        return float(token) if "." in token else int(token)
    if token.startswith("@"):
        reading = read(launch, token[1:])
        return reading if isinstance(reading, Missing) else reading.value
    value = _number(launch, token)
    return Missing(f"not collected: this profile does not hold {token}") if value is None else value


def _evaluate(launch: Launch, formula: str) -> Number | Missing:
    total: Number = 0
    for sign, factors in _parse(formula):
        product: Number = 1
        for operator, ceil, token in factors:
            value = _operand(launch, token)
            if isinstance(value, Missing):
                return value
            if ceil:
                value = math.ceil(value)
            if operator == "*":
                product *= value
            elif value == 0:
                name = catalog()[token[1:]].title if token.startswith("@") else token
                return Missing(f"undefined: {name.lower()} is 0", undefined=True)
            else:
                product = product / value
        total += sign * product
    return total


#: Marks a value that no run can have.
IMPLAUSIBLE = N_("not plausible")
#: Clocks and passes differ by this factor.
MARGIN = 1.05


def bound_broken(name: str, value: Number, most: float | None = None) -> str:
    """Return the bound that a value breaks (``at most 100%``), or "".

    `most` is the chip's bound, if any, in the counter's unit, as `value`.
    """
    if value < 0:
        return _("at least 0")
    counter = catalog()[name]
    if counter.unit == "%":
        most = None if counter.denied else 100.0
    if not most or value <= most * MARGIN:
        return ""
    return _("at most {most}").format(most=quantity(most, counter.unit))
