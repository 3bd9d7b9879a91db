"""What a launch's instructions are there for, counted as they were issued to warps."""

from __future__ import annotations

from collections import defaultdict

from workbench.analysis.arithmetic import lane_width
from workbench.analysis.blame.kernel import code_of
from workbench.analysis.blame.queues import COPIES, LONG, issues
from workbench.analysis.machine.code import role
from workbench.analysis.remarks import is_misread
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number

#: Roles that do the job's arithmetic, and those that only say where, when and how often.
WORK = frozenset({"product", "floating point"})
OVERHEAD = frozenset({"integer", "move", "control"})
#: Widest access of a lane, in bytes.
_WIDEST = 16
#: Accesses whose width is each lane's; matrix loads have their own.
_PLAIN = {"global load": {"LDG", "LD"}, "shared load": {"LDS"}}


class Mix:
    """A launch's machine code by role. All numbers are 0 where it was not counted.

    Attributes:
        issued: Warp instructions by role.
        total: All of them.
        copies_alone: Asynchronous copies bring in data, and no load of a warp.
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
                self._narrow[kind] += count * min(lane_width(operation.name) / _WIDEST, 1.0)
            if kind in OVERHEAD and lines[row] > 0:
                self._overhead[files[row], lines[row]] += count
        self.total = sum(self.issued.values())
        self.copies_alone = bool(opcodes & COPIES) and not opcodes & LONG

    def part(self, roles: frozenset[str]) -> float:
        """Part of the instructions issued (0-1) that have these roles."""
        return sum(self.issued[r] for r in roles) / self.total if self.total else 0.0

    def spared(self, kind: str) -> float:
        """Part of the plain loads (0-1) of a role that accesses of 16 bytes a lane would spare."""
        return 1.0 - self._narrow[kind] / self._plain[kind] if self._plain[kind] else 0.0

    def width(self, kind: str) -> float:
        """Mean bytes of a lane's plain load of a role."""
        return _WIDEST * (1.0 - self.spared(kind))

    @property
    def overhead_line(self) -> LineKey | None:
        """The source line with most of the overhead."""
        return max(self._overhead, key=lambda key: self._overhead[key], default=None)


def heaviest_line(launch: Launch, counter: str, less: str = "") -> LineKey | None:
    """The source line with most of a counter (less another one); None where none has any.

    Of what ncu misreads nothing is known, and no line is blamed for it.
    """
    table = launch.instructions
    amounts: dict[LineKey, Number] = defaultdict(int)
    for row, amount in _rows(launch, counter, less).items():
        if table.line[row] > 0 and not is_misread(table.text[row]):
            amounts[table.file[row], table.line[row]] += amount
    best = max(amounts, key=lambda key: amounts[key], default=None)
    return best if best is not None and amounts[best] > 0 else None


def misread(launch: Launch, counter: str, less: str) -> Number:
    """How much of a counter (less another one) lies on instructions that ncu misreads."""
    table = launch.instructions
    rows = _rows(launch, counter, less)
    return sum(amount for row, amount in rows.items() if is_misread(table.text[row]))


def _rows(launch: Launch, counter: str, less: str) -> dict[int, Number]:
    """Instruction -> its part of a counter, less that of another one; {} where none is known."""
    names = [line_metric(launch, catalog()[name]) if name else None for name in (counter, less)]
    out: dict[int, Number] = defaultdict(int)
    for name, sign in zip(names, (1, -1), strict=True) if names[0] else ():
        column = launch.instructions.columns.get(name) if name else None
        for row, value in zip(column.rows, column.values, strict=True) if column else ():
            out[row] += sign * value
    return out
