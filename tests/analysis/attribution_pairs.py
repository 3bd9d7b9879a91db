"""Reads the hand-written pairs of tests/data/attribution into profiles and expected parts."""

from __future__ import annotations

import tomllib
from math import fsum
from pathlib import Path
from typing import Any

from workbench.analysis.attribution import Attribution
from workbench.model import Column, Device, InstructionTable, Launch, Profile, SourceFile

FOLDER = Path(__file__).parent.parent / "data" / "attribution"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/expected.toml"))
DEVICE = Device(name="NVIDIA H200", slug="h200", compute_capability=(9, 0), sms=132)


def launch_of(entry: dict[str, Any], index: int, files: list[str]) -> Launch:
    """A launch with one instruction per line that any counter names."""
    cells: dict[str, dict[tuple[int, int], int | float]] = {}
    for counter, lines in entry.get("lines", {}).items():
        for key, value in lines.items():
            file, _, line = key.rpartition(":")
            cells.setdefault(counter, {})[files.index(file) if file else 0, int(line)] = value
    keys = sorted({key for column in cells.values() for key in column})
    return Launch(
        kernel=entry["kernel"],
        index=index,
        grid=tuple(entry.get("grid", (1, 1, 1))),
        block=tuple(entry.get("block", (32, 1, 1))),
        instructions=InstructionTable(
            address=tuple(range(0, 16 * len(keys), 16)),
            text=("NOP",) * len(keys),
            file=tuple(file for file, _ in keys),
            line=tuple(line for _, line in keys),
            columns={
                counter: Column(
                    rows=tuple(n for n, key in enumerate(keys) if column.get(key)),
                    values=tuple(column[key] for key in keys if column.get(key)),
                )
                for counter, column in cells.items()
            },
        ),
    )


def side_of(folder: Path, table: dict[str, Any], default: str) -> Profile:
    sources = table.get("sources", {"kernel.cu": default})
    files = list(sources)
    return Profile(
        engine="ncu",
        device=DEVICE,
        captured="",
        launches=tuple(launch_of(entry, n, files) for n, entry in enumerate(table["launches"])),
        sources=tuple(
            SourceFile(path=path, text=(folder / name).read_text())
            for path, name in sources.items()
        ),
    )


def pair(name: str) -> tuple[Profile, Profile, dict[str, Any]]:
    """(old, new, expected.toml) of one pair."""
    folder = FOLDER / name
    expected = tomllib.loads((folder / "expected.toml").read_text())
    return (
        side_of(folder, expected["old"], "old.cu"),
        side_of(folder, expected["new"], "new.cu"),
        expected,
    )


def parts_of(result: Attribution, counter: str) -> list[list[Any]]:
    """[link, hunks, symbols, delta] of each part that is not zero; 0 and "" for none of them."""
    return [
        [
            part.link,
            list(part.hunks) if len(part.hunks) > 1 else part.hunk or 0,
            list(part.symbols) if len(part.symbols) > 1 else part.symbol or "",
            part.delta,
        ]
        for part in result[counter].parts
        if part.delta
    ]


def assert_adds_up(result: Attribution) -> None:
    """The parts of every counter give its whole change, exactly where all are integers."""
    for split in result.counters:
        deltas = [part.delta for part in split.parts]
        whole = [split.new - split.old, split.delta]
        if all(isinstance(value, int) for value in (*deltas, split.old, split.new)):
            assert [sum(deltas)] * 2 == whole, split.counter
        # Each part is rounded once from an exact fraction: relative to what was added up.
        scale = max(1.0, abs(split.old) + abs(split.new))
        assert all(abs(fsum(deltas) - value) <= 1e-9 * scale for value in whole), split.counter
        for part in split.parts:
            assert abs(fsum(line.delta for line in part.lines) - part.delta) <= 1e-9 * scale
