"""What the compiler made of a hunk, under it: opcode classes on both sides, with their waits."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from workbench.analysis.machine.code import CodeClass, HunkCode, MachineDiff
from workbench.model import Number
from workbench.units import quantity
from workbench.views.terminal.console import DIM, clean
from workbench.views.text.tables import more

_CLASSES = 8  # of one hunk
_STAND_INS = 4
#: A class's part of the hunk's time that is worth a number.
_LEAST = 0.01


def machine_lines(codes: Sequence[HunkCode], hunk: int) -> list[Text]:
    """Lines for one hunk; none where it has no machine code."""
    several = len({one.code.kernel for one in codes}) > 1
    out: list[Text] = []
    for one in codes:
        if one.hunk == hunk:
            out += _code(one.code, one.code.kernel if several else "")
    return out


def _code(code: MachineDiff, kernel: str) -> list[Text]:
    old, new = code.old, code.new
    title = f"  machine code{' of ' + clean(kernel, 40) if kernel else ''}: "
    out = [
        Text(title, style="cyan").append(
            f"{old.instructions:,} → {new.instructions:,} instructions, "
            f"{old.live} → {new.live} registers live",
            style="not cyan",
        )
    ]
    stand_ins = [f"{one.old} → {one.new} ({one.rows:,}×)" for one in code.replaced[:_STAND_INS]]
    out += [Text(f"    {words}") for words in stand_ins]
    telling = [one for one in code.classes if one.old != one.new]
    if telling:
        heads = "instructions × issues", "to blame for"
        out.append(Text(f"    {'':<17}{heads[0]:<32}  {heads[1]}", style=DIM))
    least = _LEAST * max(old.seconds, new.seconds)
    out += [_class(one, least) for one in telling[:_CLASSES]]
    if len(telling) > _CLASSES:
        out.append(Text(f"    {more(len(telling) - _CLASSES, 'opcode')}", style=DIM))
    return out


def _class(one: CodeClass, least: float) -> Text:
    row = Text(f"    {clean(one.name, 16):<17}")
    row.append(f"{_side(one.old)} → {_side(one.new)}")
    if max(one.old[2], one.new[2]) >= least > 0:
        row.append(f"   {_seconds(one.old[2])} → {_seconds(one.new[2])}", style=DIM)
    return row


def _side(side: tuple[int, Number, float]) -> str:
    return f"{side[0]:>4,} × {_count(side[1]):>7}" if side[0] else f"{'—':>14}"


def _count(value: Number) -> str:
    return quantity(value, "inst").split(" inst")[0]


def _seconds(value: float) -> str:
    return quantity(value, "s") if value else "0"
