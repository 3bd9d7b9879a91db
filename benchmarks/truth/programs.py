"""The labelled programs: their own clock beside the headline of their difference.

Each was captured before and after an edit (``tests/data/programs``). Whether what is told of it
is right was judged by hand and stands in the label; the factor and its direction are compared here.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from workbench.model import Record
from workbench.programs.capture.capture_store import Shelf
from workbench.programs.recalled import ProgramDiff, open_capture

LABELS = Path("tests/data/truth/programs.toml")
CAPTURES = Path("tests/data/programs")
#: Factors that differ by more than this part do not agree.
NEAR = 0.1
#: Nearer to one than this a clock has no direction.
STILL = 0.02
#: The part of the judged programs that must be told rightly.
RIGHT = 0.85

Judged = Literal["right", "thin", "misleading", "wrong"]
VERDICTS: tuple[Judged, ...] = ("right", "thin", "misleading", "wrong")


class Clock(Record, frozen=True, forbid_unknown_fields=True):
    """What the program prints of itself on both sides, as text for a person and as a factor."""

    before: str
    after: str
    factor: float


class Program(Record, frozen=True, forbid_unknown_fields=True):
    """One label; the head of its file says what the fields are."""

    name: str
    needs: Literal["cuda", "torch", "ranks"]
    build: str
    before: str
    after: str
    cause: str
    expected: str
    headline: str
    kernels: tuple[str, ...]
    work: str
    must: tuple[str, ...]
    must_not: tuple[str, ...]
    sources: str = ""
    build_after: str = ""
    clock: Clock | None = None
    judged: Judged | None = None
    why: str = ""
    seen: str = ""


class Told(Record, frozen=True):
    """The headline of one program's difference, before over after, and what stands beside it."""

    program: Program
    clock: float
    headline: float
    beside: tuple[tuple[str, float], ...]

    @property
    def contradicts(self) -> bool:
        """Whether clock and headline go different ways."""
        ways = [math.log(factor) for factor in (self.clock, self.headline)]
        return ways[0] * ways[1] < 0 and min(map(abs, ways)) > STILL

    @property
    def explained(self) -> str:
        """What agrees with the clock, in words for the table."""
        if near(self.headline, self.clock):
            return "—"
        found = [f"{words} {factor:.3g}×" for words, factor in self.beside]
        agree = [f for f, (_, x) in zip(found, self.beside, strict=True) if near(x, self.clock)]
        return "; ".join(agree) or f"**nothing** ({'; '.join(found) or 'nothing is beside it'})"


def near(one: float, other: float) -> bool:
    """Whether two factors differ by a tenth at most."""
    return abs(math.log(one / other)) <= math.log1p(NEAR)


def load_programs(path: Path) -> tuple[Program, ...]:
    """All labels of a file.

    Raises:
        msgspec.ValidationError: a label has a wrong key or type.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return msgspec.convert(table["program"], tuple[Program, ...])


def tell(programs: Iterable[Program], shelf: Shelf) -> Iterator[Told]:
    """What is told of the programs that have a clock and were captured on both sides."""
    for program in programs:
        names = [f"{program.name}-{side}" for side in ("before", "after")]
        if program.clock is None or not set(names) <= set(shelf.names()):
            continue
        found = ProgramDiff(*(open_capture(shelf, f"@{name}") for name in names)).difference
        kernels = found.first
        beside = []
        if found.of_copies is not None:
            old, new = found.totals
            beside.append(("with copies", old.value / new.value))
        if found.spans is not None:
            old, new = found.spans
            beside.append(("an iteration starts every", old.value / new.value))
        yield Told(
            program=program,
            clock=program.clock.factor,
            headline=kernels.old.value / kernels.new.value,
            beside=tuple(beside),
        )


def rows(told: Iterable[Told]) -> str:
    """The table: clock and headline (before over after, so over 1 is faster), and the verdict."""
    text = "| program | clock | headline | direction | else beside | by hand |\n"
    text += "| --- | ---: | ---: | --- | --- | --- |\n"
    for each in told:
        program = each.program
        text += (
            f"| {program.name} | {each.clock:.3g}× | {each.headline:.3g}× "
            f"| {'**no**' if each.contradicts else 'yes'} | {each.explained} "
            f"| {program.judged}: {program.why} |\n"
        )
    return text


def totals(told: list[Told]) -> tuple[str, bool]:
    """What holds of all, and whether the goals are reached."""
    count = Counter(each.program.judged for each in told)
    against = sum(each.contradicts for each in told)
    apart = sum(each.explained.startswith("**") for each in told)
    words = f"{len(told)} programs, by hand: "
    words += ", ".join(f"{verdict} {count[verdict]}" for verdict in VERDICTS)
    words += (
        f" (goal: right {RIGHT:.0%}, misleading and wrong 0); headlines that contradict the clock: "
        f"{against} (goal 0); over a tenth apart with nothing beside that agrees: {apart}"
    )
    good = count["right"] >= RIGHT * len(told) and not count["misleading"] and not count["wrong"]
    return words, good and not against
