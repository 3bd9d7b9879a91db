"""Reads the hand-written pairs of tests/data/attribution into profiles and expected parts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

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
