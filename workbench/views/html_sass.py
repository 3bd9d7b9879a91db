"""View model of a kernel's instructions, each tied to its source line."""

from __future__ import annotations

from collections.abc import Callable

from workbench import units
from workbench.analysis.stalls import GROUP, ISSUING, SAMPLES
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Record
from workbench.views.html_common import percent, width

#: A longer kernel shows its hottest instructions, in the order of their addresses.
_MAX_INSTRUCTIONS = 1_000


class Instruction(Record, frozen=True):
    """A SASS row; `row` is its index, or -1 for a gap whose `operands` say what is left out."""

    row: int
    offset: str
    guard: str
    operation: str
    operands: str
    line: str = ""
    href: str = ""
    at: str = ""
    samples: str = ""
    width: str = "0"
    executed: str = ""
    stall: str = ""


def instructions(
    launch: Launch, anchor: Callable[[LineKey], str]
) -> tuple[tuple[Instruction, ...], int]:
    """The rows to show, and how many instructions the kernel has.

    Args:
        launch: Holds the instruction table.
        anchor: Line key -> address of that line on the page, or "".
    """
    table = launch.instructions
    count = len(table.address)
    samples = _by_row(launch, line_metric(launch, catalog()[SAMPLES]))
    executed = _by_row(launch, line_metric(launch, catalog()["instructions"]))
    stalls = [
        (state.title, _by_row(launch, line_metric(launch, state)))
        for state in catalog().group(GROUP)
        if state.id != ISSUING
    ]
    rows = list(range(count))
    if count > _MAX_INSTRUCTIONS:
        rows.sort(key=lambda row: (-samples.get(row, 0), -executed.get(row, 0), row))
        rows = sorted(rows[:_MAX_INSTRUCTIONS])
    total, top = sum(samples.values()), max(samples.values(), default=0)
    out: list[Instruction] = []
    previous = -1
    for row in rows:
        if row != previous + 1:
            gap = f"{row - previous - 1:,} instructions with fewer samples"
            out.append(Instruction(row=-1, offset="", guard="", operation="", operands=gap))
        previous = row
        guard, operation, operands = _split(table.text[row])
        key = (table.file[row], table.line[row])
        here = samples.get(row, 0)
        worst = max(((values.get(row, 0), title) for title, values in stalls), default=(0, ""))
        out.append(
            Instruction(
                row=row,
                offset=f"{table.address[row]:04x}",
                guard=guard,
                operation=operation,
                operands=operands,
                line=str(key[1]) if key[1] > 0 else "",
                href=anchor(key),
                at=f"{key[0]}:{key[1]}" if key[1] > 0 else "",
                samples=percent(here / total) if here else "",
                width=width(here / top) if here else "0",
                executed=units.count(executed[row]) if row in executed else "",
                stall=worst[1] if worst[0] else "",
            )
        )
    return tuple(out), count


def _by_row(launch: Launch, name: str | None) -> dict[int, Number]:
    column = launch.instructions.columns.get(name) if name else None
    return dict(zip(column.rows, column.values, strict=True)) if column else {}


def _split(text: str) -> tuple[str, str, str]:
    """``@!P0 LDG.E R1, [R2]`` -> guard, operation, operands."""
    words = text.strip().rstrip(";").split(None, 1)
    guard = ""
    if words and words[0].startswith("@"):
        guard = words[0]
        words = words[1].split(None, 1) if len(words) > 1 else []
    operation = words[0] if words else ""
    return guard, operation, words[1].strip() if len(words) > 1 else ""
