"""The instruction table of one launch, with its per-instruction metrics.

Runs in the child process only. A metric's correlation ids may be program counters,
block sizes, opcodes, time stamps or link numbers; only the first kind makes a column. The reader
returns *some* text for almost any small number, so a reliable anchor is needed: the metrics that
are per instruction by definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Any

from workbench.model import Column, InstructionTable, Number
from workbench.ncurep.values import (
    base_unit,
    clean,
    instances,
    is_dropped,
    is_static,
    known_name,
    to_base,
)

#: Per instruction by definition, in ncu 2021 to 2026; they show where the function lies.
_ANCHORS = ("inst_executed", "thread_inst_executed", "thread_inst_executed_true")
_ANCHOR_PREFIXES = ("smsp__pcsamp_", "memory_l1_", "memory_l2_")
#: Codes (4: shared) and ratios. Values of a column are added up over lines; these must not be.
_NOT_ADDITIVE = ("memory_type", "memory_access_type", "memory_access_size_type")
#: Device code lies far above this; block sizes, link masks and PM slots far below.
_LOWEST_PC = 1 << 20
#: Bytes of one instruction since Volta; before, every fourth 8-byte word was a control word.
_STRIDE, _OLD_STRIDE = 16, 8
#: A gap of more instructions than this lies between two functions, not inside one.
_MAX_GAP = 256

SourceIndex = Callable[[str], int]


#: A metric's values, by the program counters of their instructions in ascending order.
Counts = dict[int, Number]


@cache
def _is_candidate(name: str) -> bool:
    if is_dropped(name) or is_static(name) or name in _NOT_ADDITIVE:
        return False
    return not name.startswith("derived__") or name.endswith("_excessive")


def _instances(native: Any) -> Counts:
    """The values by ascending correlation ids; empty if these are not integers."""
    if native is None or not native.has_correlation_ids():
        return {}
    count = native.num_instances()
    ids = native.correlation_ids()
    if not count or ids.num_instances() != count or not isinstance(ids.value(0), int):
        return {}
    found: Counts = {}
    for pc, value in zip(instances(ids, count), instances(native, count), strict=True):
        if isinstance(value, (int, float)) and math.isfinite(value):
            # If a PC occurs twice, its instruction was reported in parts.
            found[pc] = found.get(pc, 0) + value
    return dict(sorted(found.items()))


# Launches of one kernel have the same metrics.
@lru_cache(maxsize=64)
def _candidates(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The metrics that may be per instruction: the reader's name and ours."""
    kept = set(names)
    return tuple((raw, known_name(raw, kept)) for raw in sorted(kept) if _is_candidate(raw))


def _columns(action: Any) -> dict[str, tuple[Counts, str]]:
    """Ncu name -> (values by PC, unit) of the metrics that are per instruction."""
    found: dict[str, tuple[Counts, str]] = {}
    by_name = action.metric_by_name
    for raw, name in _candidates(tuple(action.metric_names())):
        try:
            native = by_name(raw)
            if counts := _instances(native):
                found[name] = counts, native.unit() or ""
        except Exception:
            # One unreadable column must not lose the table; its scalar is named in `absent`.
            continue
    anchors = [name for name in found if name in _ANCHORS or name.startswith(_ANCHOR_PREFIXES)]
    # Samples outside any code have small ids.
    if any(max(found[name][0]) >= _LOWEST_PC for name in anchors):
        for name in anchors:
            counts, unit = found[name]
            found[name] = {pc: each for pc, each in counts.items() if pc >= _LOWEST_PC}, unit
    anchor = frozenset(chain.from_iterable(found[name][0] for name in anchors))
    return {
        name: (counts, unit)
        for name, (counts, unit) in found.items()
        if counts.keys() <= anchor
        or all(pc >= _LOWEST_PC and _sass(action, pc) is not None for pc in counts)
    }


def _sass(action: Any, pc: int) -> str | None:
    """Disassembly at `pc`: None outside the kernel, empty if the reader has none.

    Today's reader has no disassembler for chips before Turing and says ``???``.
    """
    text = action.sass_by_pc(pc)
    if not text:
        return None
    text = clean(text).strip()
    return "" if text == "???" else text


def _function_starts(action: Any) -> list[int]:
    native = action.metric_by_name("launch__function_pcs")
    if native is None:
        return []
    values = [native.value(i) for i in range(native.num_instances())] or [native.value()]
    return [int(v) for v in values if isinstance(v, (int, float)) and v >= _LOWEST_PC]


def _all_pcs(action: Any, seen: set[int]) -> list[int]:
    """The counters' PCs, with the instructions between them that never ran.

    Counters leave out instructions that were not executed, or (before 2022) counted nothing.
    The gaps inside a function are filled where the reader knows an instruction at
    every step; the padding after a function's last instruction is left out.
    """
    pcs = sorted(seen)
    stride = _STRIDE if all(not (pc - pcs[0]) % _STRIDE for pc in pcs) else _OLD_STRIDE
    starts = [s for s in _function_starts(action) if not (pcs[0] - s) % stride]
    before = [s for s in starts if 0 < pcs[0] - s <= _MAX_GAP * stride]
    out: list[int] = []
    previous = max(before) - stride if before else pcs[0]
    for pc in pcs:
        gap = range(previous + stride, pc, stride)
        if len(gap) <= _MAX_GAP and all(action.sass_by_pc(p) for p in gap):
            out.extend(gap)
        out.append(pc)
        previous = pc
    return out


def _line(action: Any, pc: int) -> tuple[str, int]:
    """File and 1-based line of an instruction; ("", 0) where there is no line information."""
    try:
        info = action.source_info(pc)
        return ("", 0) if info is None else (info.file_name(), max(0, int(info.line())))
    except Exception:
        return "", 0


def _integral(values: list[Number]) -> list[Number]:
    """Counts that ncu before 2022 gave as doubles, as integers."""
    if all(isinstance(v, int) or v.is_integer() for v in values):
        return [int(v) for v in values]
    return values


@dataclass(frozen=True, eq=False)
class FunctionCode:
    """The code of a function, which its launches share: everything but counters.

    `pcs` are all instructions; `files` and `lines` say where each comes from.
    """

    pcs: tuple[int, ...]
    text: tuple[str, ...]
    files: tuple[int, ...]
    lines: tuple[int, ...]
    ptx: tuple[str, ...]

    @cached_property
    def address(self) -> tuple[int, ...]:
        """The address of each instruction, in bytes from the lowest one."""
        return tuple(pc - self.pcs[0] for pc in self.pcs)

    @cached_property
    def row(self) -> dict[int, int]:
        """The place of each instruction."""
        return {pc: place for place, pc in enumerate(self.pcs)}


#: Function and its instructions that counted something -> its code. The reader disassembles every
#: launch again: a third of its time in a report of thousands.
FunctionCodes = dict[tuple[str, frozenset[int]], FunctionCode]


def _listing(action: Any, seen: set[int], source: SourceIndex) -> FunctionCode:
    pcs = _all_pcs(action, seen)
    places = [_line(action, pc) for pc in pcs]
    ptx = tuple(clean(action.ptx_by_pc(pc) or "").strip() for pc in pcs)
    return FunctionCode(
        pcs=tuple(pcs),
        text=tuple(_sass(action, pc) or "" for pc in pcs),
        files=tuple(source(path) for path, _ in places),
        lines=tuple(line for _, line in places),
        ptx=ptx if any(ptx) else (),
    )


def read_table(
    action: Any, source: SourceIndex, known: FunctionCodes | None = None
) -> InstructionTable:
    """The instructions of one launch with addresses from the lowest one, in bytes.

    A kernel that calls device functions has their instructions in the table too;
    such a function may lie before the kernel's own first instruction.

    `source` gives the index in ``Profile.sources`` of a file named by line information, -1 for no
    name. `known` is the code of functions that were read before; that of these functions is added.
    """
    columns = _columns(action)
    seen = frozenset(chain.from_iterable(counts for counts, _ in columns.values()))
    if not seen:
        return InstructionTable()
    known = {} if known is None else known
    function = action.name(action.NameBase_MANGLED), seen
    code = known.get(function)
    if code is None:
        code = known[function] = _listing(action, set(seen), source)
    return InstructionTable(
        address=code.address,
        text=code.text,
        file=code.files,
        line=code.lines,
        ptx=code.ptx,
        columns={name: _column(code, *column) for name, column in columns.items()},
    )


def _column(code: FunctionCode, counts: Counts, native_unit: str) -> Column:
    """A metric's nonzero values, by the rows of the table."""
    unit, divisor, multiplier = base_unit(native_unit)
    kept = {code.row[pc]: value for pc, value in counts.items() if value}
    scaled = _integral([to_base(value, divisor, multiplier) for value in kept.values()])
    return Column(rows=tuple(kept), values=tuple(scaled), unit=unit)
