"""View model of a kernel's PTX, each line tied to its source line by ``.loc``."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from workbench.callers import Callers, files_of, kernel_bodies
from workbench.model import Launch, Profile, Record

#: Rows that a page without instructions of the machine shows without its script.
_FIRST = 60


class PtxRow(Record, frozen=True):
    """A line of PTX; `at` joins it with its source line, "" without one."""

    text: str
    at: str = ""
    line: str = ""


class Ptx(Record, frozen=True):
    """A kernel's PTX: its first lines as rows, all of it as columns for the page's script."""

    rows: tuple[PtxRow, ...] = ()
    count: int = 0
    columns: dict[str, object] = msgspec.field(default_factory=dict)


def ptx_view(profile: Profile, launch: Launch) -> Ptx:
    """The PTX that the build kept, else what the report holds beside the instructions."""
    text = profile.build.ptx if profile.build else ""
    paths = tuple(source.path for source in profile.sources)
    rows = _of_build(paths, text, launch.kernel) if text else ()
    if not rows:
        rows = tuple(_of_report(launch))
    places: dict[str, int] = {}
    numbers = [places.setdefault(row.at, len(places)) for row in rows]
    columns: dict[str, object] = {
        "text": "\n".join(row.text for row in rows),
        "at": numbers,
        "places": list(places),
    }
    return Ptx(rows=rows[:_FIRST], count=len(rows), columns=columns)


# A version is built once for all problems.
@lru_cache(maxsize=16)
def _of_build(sources: tuple[str, ...], text: str, kernel: str) -> tuple[PtxRow, ...]:
    every = text.splitlines()
    files = files_of(every)
    paths = {path: number for number, path in enumerate(sources)}
    body = next(iter(kernel_bodies(every, kernel)), ())
    callers = Callers(files)
    rows: list[PtxRow] = []
    file, line = -1, 0
    for raw in body:
        if place := callers.read(raw):
            number, line = place[1]
            file = paths.get(files.get(number, ""), -1)
            continue
        code = raw.strip().replace("\t", " ")
        if not code or code.startswith("//"):
            continue
        # Labels and declarations belong to no line: what follows `.loc` are instructions.
        tied = file >= 0 and line > 0 and not code.startswith((".", "$", "{", "}", ")"))
        rows.append(
            PtxRow(text=code, at=f"{file}:{line}" if tied else "", line=str(line) if tied else "")
        )
    return tuple(rows)


def _of_report(launch: Launch) -> list[PtxRow]:
    table = launch.instructions
    rows: list[PtxRow] = []
    for text, file, line in zip(table.ptx, table.file, table.line, strict=False):
        tied = file >= 0 and line > 0
        row = PtxRow(
            text=text.strip().replace("\t", " "),
            at=f"{file}:{line}" if tied else "",
            line=str(line) if tied else "",
        )
        # One PTX instruction may have become several of the machine's.
        if row.text and (not rows or rows[-1] != row):
            rows.append(row)
    return rows
