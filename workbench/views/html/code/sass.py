"""A kernel's instructions, each tied to its source line: all of them as columns for the script.

A kernel has thousands of instructions. The page itself holds the hottest ones; all of them
lie in a file beside it, which the page's script reads when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from markupsafe import Markup

from workbench import units
from workbench.analysis.machine.listing import Labels, labels_of
from workbench.analysis.stalls import GROUP, SAMPLES
from workbench.analysis.weight import WELL
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Record
from workbench.views.html.code.gutters import Cell
from workbench.views.html.parts.common import percent, width

#: Instructions that a page shows without its script, and that are printed.
_HOTTEST = 60
#: Of one launch among many.
_FEWEST = 10
#: Bytes between two instructions of all GPUs since Volta.
_STEP = 16

Columns = dict[str, object]


class SassRow(Record, frozen=True):
    """An instruction; `row` is its index, or -1 for a gap whose `operands` say what is left out."""

    row: int
    operands: str
    offset: str = ""
    label: str = ""
    guard: str = ""
    operation: str = ""
    line: str = ""
    href: str = ""
    at: str = ""
    samples: Markup = Markup("")
    executed: str = ""
    stall: str = ""


class Sass(Record, frozen=True):
    """The instructions of a launch: the hottest as rows, all of them as columns."""

    rows: tuple[SassRow, ...]
    count: int
    columns: Columns


class _Said(NamedTuple):
    """What is said of instructions besides their text, by row; nothing of one that never ran."""

    samples: list[Cell | None]
    executed: list[str]
    stall: list[str]


def sass_view(launch: Launch, anchor: Callable[[LineKey], str], launches: int = 1) -> Sass:
    """The instructions of a launch.

    Args:
        launch: Holds the instruction table.
        anchor: Line key -> address of that line on the page, or "".
        launches: How many share the page, and the rows that it has room for.
    """
    count = len(launch.instructions.address)
    samples = _by_row(launch, line_metric(launch, catalog()[SAMPLES]))
    executed = _by_row(launch, line_metric(launch, catalog()["instructions"]))
    worst = _worst(launch)
    total, top = sum(samples.values()), max(samples.values(), default=0)
    counts = {number: units.count(number) for number in set(executed.values())}
    # Few numbers of samples, for many instructions.
    cells: dict[Number | None, Cell | None] = {
        here: Cell(percent(here / total), float(width(here / top))) if here else None
        for here in set(samples.values())
    }
    cells[None] = None
    rows = range(count)
    said = _Said(
        samples=[cells[samples.get(row)] for row in rows],
        executed=[counts[executed[row]] if row in executed else "" for row in rows],
        stall=[worst.get(row, "") for row in rows],
    )
    hottest = _hottest(count, samples, executed, max(_FEWEST, _HOTTEST // launches))
    labels = labels_of(launch)
    return Sass(
        rows=tuple(_rows(launch, hottest, said, labels, anchor)),
        count=count,
        columns=_columns(launch, hottest, said, labels),
    )


def _rows(
    launch: Launch,
    shown: list[int],
    said: _Said,
    labels: Labels,
    anchor: Callable[[LineKey], str],
) -> Iterator[SassRow]:
    table = launch.instructions
    previous, count = -1, len(table.address)
    for row in [*shown, count]:
        if number := row - previous - 1:
            gap = f"{number:,} instruction{'s' if number > 1 else ''} with fewer samples"
            yield SassRow(row=-1, operands=gap)
        if row == count:
            return
        previous = row
        guard, operation, operands = _split(labels.texts[row])
        file, line = table.file[row], table.line[row]
        samples = said.samples[row]
        yield SassRow(
            row=row,
            offset=f"{table.address[row]:04x}",
            label=labels.targets.get(row, ""),
            guard=guard,
            operation=operation,
            operands=operands,
            line=str(line) if line > 0 else "",
            href=anchor((file, line)),
            at=f"{file}:{line}" if line > 0 else "",
            samples=Markup(samples.markup()) if samples else Markup(""),
            executed=said.executed[row],
            stall=said.stall[row],
        )


def _columns(launch: Launch, hottest: list[int], said: _Said, labels: Labels) -> Columns:
    table = launch.instructions
    # The cells of one number of samples are one.
    words: dict[Cell | None, tuple[str, str]] = {
        cell: (cell.text, f"{cell.width:.1f}") if cell else ("", "0") for cell in set(said.samples)
    }
    return {
        "offset": _offsets(table.address),
        "text": "\n".join(labels.texts),
        "labels": {label: row for row, label in labels.targets.items()},
        **_coded("file", "files", table.file),
        "line": table.line,
        **_coded("samples", "shares", [words[cell] for cell in said.samples]),
        **_coded("executed", "counts", said.executed),
        **_coded("stall", "stalls", said.stall),
        "hot": hottest,
    }


def _coded(name: str, words: str, values: Iterable[object]) -> Columns:
    """A column as numbers of words, and the words; one number where all are the same."""
    known: dict[object, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return {name: numbers if len(known) > 1 else 0, words: list(known)}


def _offsets(address: tuple[int, ...]) -> int | list[str]:
    """The distance of instructions, or all offsets where it is not the usual one."""
    if all(place == row * _STEP for row, place in enumerate(address)):
        return _STEP
    return [f"{place:04x}" for place in address]


def _hottest(
    count: int, samples: dict[int, Number], executed: dict[int, Number], most: int
) -> list[int]:
    """The rows with most samples, in the order of their addresses."""
    rows = sorted(range(count), key=lambda row: (-samples.get(row, 0), -executed.get(row, 0), row))
    return sorted(rows[:most])


def _worst(launch: Launch) -> dict[int, str]:
    """Row -> the title of its largest stall, where it has any."""
    most: dict[int, tuple[Number, str]] = {}
    for state in catalog().group(GROUP):
        if state.id not in WELL:
            for row, value in _by_row(launch, line_metric(launch, state)).items():
                if value and (row not in most or (value, state.title) > most[row]):
                    most[row] = (value, state.title)
    return {row: title for row, (_, title) in most.items()}


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
