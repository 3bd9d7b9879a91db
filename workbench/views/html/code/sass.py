"""A kernel's instructions, each tied to its source line: all of them as columns for the script.

A kernel has thousands of instructions. The page itself holds the hottest ones; all of them
lie in a file beside it (`html_beside`), which the page's script reads when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench import units
from workbench.analysis.stalls import GROUP, ISSUING, SAMPLES
from workbench.counters import catalog, line_metric
from workbench.model import Launch, LineKey, Number, Record
from workbench.views.html.parts.common import percent, width

#: Instructions that a page shows without its script, and that are printed.
_HOTTEST = 60
#: Bytes between two instructions of all GPUs since Volta.
_STEP = 16

Columns = dict[str, object]


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


class Machine(Record, frozen=True):
    """The instructions of a launch: the hottest as rows, all of them as columns."""

    rows: tuple[Instruction, ...]
    count: int
    columns: Columns


class _Words:
    """Texts that come again and again, told by number."""

    def __init__(self) -> None:
        self.known: dict[object, int] = {}

    def number(self, word: object) -> int:
        return self.known.setdefault(word, len(self.known))

    def words(self) -> list[object]:
        return list(self.known)


def machine(launch: Launch, anchor: Callable[[LineKey], str]) -> Machine:
    """The instructions of a launch.

    Args:
        launch: Holds the instruction table.
        anchor: Line key -> address of that line on the page, or "".
    """
    table = launch.instructions
    count = len(table.address)
    samples = _by_row(launch, line_metric(launch, catalog()[SAMPLES]))
    executed = _by_row(launch, line_metric(launch, catalog()["instructions"]))
    worst = _worst(launch)
    total, top = sum(samples.values()), max(samples.values(), default=0)
    said = {
        row: (percent(here / total), width(here / top)) for row, here in samples.items() if here
    }
    counts = {number: units.count(number) for number in set(executed.values())}
    hottest = _hottest(count, samples, executed)
    rows = []
    previous = -1
    for row in [*hottest, count]:
        if row != previous + 1:
            number = row - previous - 1
            gap = f"{number:,} instruction{'s' if number > 1 else ''} with fewer samples"
            rows.append(Instruction(row=-1, offset="", guard="", operation="", operands=gap))
        if row == count:
            break
        previous = row
        guard, operation, operands = _split(table.text[row])
        key = (table.file[row], table.line[row])
        share, bar = said.get(row, ("", "0"))
        rows.append(
            Instruction(
                row=row,
                offset=f"{table.address[row]:04x}",
                guard=guard,
                operation=operation,
                operands=operands,
                line=str(key[1]) if key[1] > 0 else "",
                href=anchor(key),
                at=f"{key[0]}:{key[1]}" if key[1] > 0 else "",
                samples=share,
                width=bar,
                executed=counts[executed[row]] if row in executed else "",
                stall=worst.get(row, ""),
            )
        )
    columns = {
        "offset": _offsets(table.address),
        "text": "\n".join(text.strip().rstrip(";").replace("\n", " ") for text in table.text),
        **_coded("file", "files", table.file),
        "line": table.line,
        **_coded("samples", "shares", (said.get(row, ("", "0")) for row in range(count))),
        **_coded(
            "executed",
            "counts",
            (counts[executed[row]] if row in executed else "" for row in range(count)),
        ),
        **_coded("stall", "stalls", (worst.get(row, "") for row in range(count))),
        "hot": hottest,
    }
    return Machine(rows=tuple(rows), count=count, columns=columns)


def _coded(name: str, words: str, values: Iterable[object]) -> Columns:
    """A column as numbers of words, and the words; one number where all are the same."""
    found = _Words()
    numbers = [found.number(value) for value in values]
    return {name: numbers if len(found.known) > 1 else 0, words: found.words()}


def _offsets(address: tuple[int, ...]) -> int | list[str]:
    """The distance of instructions, or all offsets where it is not the usual one."""
    if all(place == row * _STEP for row, place in enumerate(address)):
        return _STEP
    return [f"{place:04x}" for place in address]


def _hottest(count: int, samples: dict[int, Number], executed: dict[int, Number]) -> list[int]:
    """The rows with most samples, in the order of their addresses."""
    rows = sorted(range(count), key=lambda row: (-samples.get(row, 0), -executed.get(row, 0), row))
    return sorted(rows[:_HOTTEST])


def _worst(launch: Launch) -> dict[int, str]:
    """Row -> the title of its largest stall, where it has any."""
    most: dict[int, tuple[Number, str]] = {}
    for state in catalog().group(GROUP):
        if state.id != ISSUING:
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
