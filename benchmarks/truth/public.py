"""The labelled pairs of public reports, which are not kept here: their manifest says which.

`public.json` has a row for each side of a pair, with its sha256: a report is found by it, whatever
it is called.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.truth.judge import Verdict, judge
from benchmarks.truth.labels import Label
from workbench.analysis.story import Step
from workbench.model import Record
from workbench.ncurep.read import read_report

LABELS = Path("tests/data/truth/public.toml")
MANIFEST = LABELS.with_suffix(".json")


class Side(Record, frozen=True):
    """One report of a pair: where it is from, and its bytes."""

    pair: str
    side: str
    repo: str
    commit: str
    file: str
    sha256: str
    bytes: int


def load_sides(path: Path) -> tuple[Side, ...]:
    """All rows of a manifest. Raises msgspec.ValidationError: a row has a wrong key or type."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Side, ...])


def load_public(path: Path) -> tuple[Label, ...]:
    """The labels. A counter without the catalog's name is read by a person alone."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["pair"]
    named = Label.__struct_fields__
    return tuple(
        msgspec.convert(
            {
                **{name: value for name, value in row.items() if name in named},
                "pair": f"public/{row['name']}",
                "stall": row.get("stall", ""),
                "counter": [
                    {name: moved[name] for name in ("id", "old", "new")}
                    for moved in row["counter"]
                    if "id" in moved
                ],
            },
            Label,
        )
        for row in rows
    )


def verdicts(folder: Path) -> Iterator[Verdict]:
    """Of every pair with both reports in a folder, or below it."""
    sizes = {side.bytes for side in load_sides(MANIFEST)}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    known = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path
        for path in files
        if path.stat().st_size in sizes
    }
    sides = {(f"public/{x.pair}", x.side): known.get(x.sha256) for x in load_sides(MANIFEST)}
    for label in load_public(LABELS):
        old, new = (sides[label.pair, side] for side in ("before", "after"))
        if old is not None and new is not None:
            yield judge(label, Step(read_report(old), read_report(new), ("before", "after")))
