"""What was said of a mutant, by the emulator or by a GPU, and files of it: JSON, one a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.fuzz.cases import Case, replayed
from benchmarks.fuzz.mutations import Edit
from workbench.engines.host.job import Check
from workbench.model import Record

#: ``refused``: by ptxas, or because the emulator does not support it. ``broken``: a traceback, or
#: a process that died. ``hung``: it did not answer and was killed.
Status = Literal["right", "wrong", "fault", "endless", "refused", "broken", "hung"]


class Finding(Record, frozen=True):
    """What one engine says of one mutant.

    Attributes:
        number: Of the mutant.
        title: Version and problem.
        kind: The kind of edit.
        line: The line of PTX that was changed, from 1.
        before: The statement as it was.
        after: As it is; empty: dropped.
        said: The error's first line, or what the driver said.
        place: ``file:line`` that a message begins with.
        error: Relative error of the output; None: not a number, or no output.
        unwritten: Elements that were never written.
        far_off: Elements that are far off.
        worst: The element furthest off: output, index and value.
        strayed: Something was written beside a buffer.
        seconds: That it took.
    """

    number: int
    title: str
    kind: str
    line: int
    before: str
    after: str
    status: Status
    said: str = ""
    place: str = ""
    error: float | None = None
    unwritten: int = 0
    far_off: int = 0
    worst: str = ""
    strayed: bool = False
    seconds: float = 0.0


def finding(
    case: Case,
    status: Status,
    *,
    said: str = "",
    place: str = "",
    check: Check | None = None,
    seconds: float = 0.0,
) -> Finding:
    """The record of a mutant."""
    base = Finding(
        number=case.number, title=case.title, kind=case.edit.kind, line=case.edit.line,
        before=case.edit.before, after=case.edit.after, status=status, said=said, place=place,
        seconds=round(seconds, 3),
    )  # fmt: skip
    if check is None:
        return base
    worst = check.worst
    return msgspec.structs.replace(
        base,
        error=check.error,
        unwritten=check.unwritten,
        far_off=check.far_off,
        worst=f"{worst.output}{list(worst.index)} = {worst.got}" if worst else "",
        strayed=bool(check.strayed),
    )


def replay(roots: Sequence[Path], one: Finding) -> Case | None:
    """The mutant of a finding as it was; None where its PTX is another by now."""
    edit = Edit(one.kind, one.line, one.before, one.after)
    return replayed(roots, one.number, one.title, edit)


def read(path: Path) -> dict[int, Finding]:
    """Findings by number; none where there is no file.

    Raises:
        msgspec.DecodeError: it holds something else.
    """
    if not path.is_file():
        return {}
    lines = path.read_bytes().splitlines()
    decoder = msgspec.json.Decoder(Finding)
    return {one.number: one for one in map(decoder.decode, lines)}


def line_of(one: Finding) -> bytes:
    """A finding as a line of a file."""
    return msgspec.json.encode(one) + b"\n"


def write(path: Path, findings: Iterable[Finding]) -> None:
    """Write findings in the order of their numbers."""
    ordered = sorted(findings, key=lambda one: one.number)
    path.write_bytes(b"".join(map(line_of, ordered)))
