"""What-if curves of theoretical occupancy over registers, shared memory and block size."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from workbench import units
from workbench.analysis.occupancy import Occupancy, Resources, occupancy, resources
from workbench.gpus import Chip
from workbench.model import Launch, Record
from workbench.views.html.charts import figure as charts
from workbench.views.html.charts.lines import Axis, Point, Series, lines

_LEAST_REGISTERS = 16
_SHARED_STEP = 1024
_HEIGHT = 210


class WhatIf(Record, frozen=True):
    """The curves, and one table of their corners."""

    figures: tuple[charts.Figure, ...]
    rows: tuple[tuple[str, ...], ...]


class _Question(Record, frozen=True):
    """One resource: what it is called, its unit, where the launch is, and the others' values."""

    id: str
    what: str
    unit: str
    now: int
    values: range


def what_if(launch: Launch, chip: Chip | None, prefix: str) -> WhatIf | None:
    """The curves of a launch; None where the chip or the launch's resources are unknown.

    They take the largest shared-memory part that the chip can give, because the driver
    would choose another one for another need.
    """
    need = resources(launch)
    return _curves(need, chip, prefix) if chip is not None and need is not None else None


@lru_cache(maxsize=64)
def _curves(need: Resources, chip: Chip, prefix: str) -> WhatIf:
    # A version's launches need the same on every problem.
    questions = (
        _Question(
            id="registers",
            what="registers per thread",
            unit="",
            now=need.registers,
            values=range(_LEAST_REGISTERS, chip.registers_per_thread + 1),
        ),
        _Question(
            id="shared",
            what="shared memory per block",
            unit="byte",
            now=need.shared,
            values=range(0, chip.shared_per_block + 1, _SHARED_STEP),
        ),
        _Question(
            id="block_size",
            what="threads per block",
            unit="",
            now=need.block_size,
            values=range(chip.warp_size, chip.max_threads_per_block + 1, chip.warp_size),
        ),
    )
    figures, rows = [], []
    for question in questions:
        corners = _corners(chip, need, question)
        figures.append(_figure(prefix, chip, need, question, corners))
        rows += [_row(question, number, found) for number, found in corners]
    return WhatIf(figures=tuple(figures), rows=tuple(rows))


def _corners(chip: Chip, need: Resources, question: _Question) -> list[tuple[int, Occupancy]]:
    """Where the occupancy changes, and the last value: a step curve needs no more."""
    out: list[tuple[int, Occupancy]] = []
    number, found = 0, occupancy(chip, need)
    for number in question.values:
        changed = msgspec.structs.replace(need, shared_config=0, **{question.id: number})
        found = occupancy(chip, changed)
        if not out or out[-1][1].percent != found.percent:
            out.append((number, found))
    if out[-1][0] != number:
        out.append((number, found))
    return out


def _figure(
    prefix: str,
    chip: Chip,
    need: Resources,
    question: _Question,
    corners: list[tuple[int, Occupancy]],
) -> charts.Figure:
    points = tuple(_point(question, number, found) for number, found in corners)
    return lines(
        f"{prefix}-{question.id.partition('_')[0]}",
        f"Theoretical occupancy over {question.what}, all else as it is",
        [Series(name="theoretical occupancy", points=points)],
        Axis(title=question.what, unit=question.unit, from_zero=True),
        Axis(title="", unit="%", from_zero=True),
        here=_point(question, question.now, occupancy(chip, need)),
        height=_HEIGHT,
    )


def _point(question: _Question, number: int, found: Occupancy) -> Point:
    size = units.quantity(number, question.unit)
    name = question.what if not question.unit else question.what.partition(" per ")[0]
    share = units.quantity(found.percent, "%")
    hover = f"{size} {name}: {share}, limited by {' and '.join(found.limiters)}"
    return Point(x=float(number), y=found.percent, hover=hover)


def _row(question: _Question, number: int, found: Occupancy) -> tuple[str, ...]:
    return (
        f"{question.what}, from",
        units.quantity(number, question.unit),
        units.quantity(found.percent, "%"),
        units.count(found.blocks),
        " and ".join(found.limiters),
    )
