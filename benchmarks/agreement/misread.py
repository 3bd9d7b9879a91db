"""Copies past the first-level cache that ncu counts wrongly, to be left out of comparisons.

`workbench.analysis.compare` says which they are: those that depend on predicate register P0.
PTX has no such registers, so which of its copies these are follows from the order alone: asm
volatile is not reordered. Where machine instructions and copies of a line are not as many, or
their tags differ, the whole line is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from ptxemu import Counts, Executed
from workbench.analysis.misread import is_copy, is_misread
from workbench.model import Launch

#: The counters of a copy that are wrong.
MISREAD = (
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
)
_TAGS = "memory_l1_tag_requests_global"
_ERRORS, _LEAST = 3.0, 0.01

Place = tuple[str, int]
Key = TypeVar("Key")


@dataclass(slots=True)
class LeftOut:
    """What is not compared: machine instructions, PTX copies (by id of their sites), lines."""

    rows: set[int] = field(default_factory=set)
    sites: set[int] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)


def _by_place(items: Iterable[Key], place_of: Callable[[Key], Place]) -> dict[Place, list[Key]]:
    out: dict[Place, list[Key]] = defaultdict(list)
    for item in items:
        out[place_of(item)].append(item)
    return out


def left_out(
    launch: Launch,
    outcome: Counts,
    recorded_place: Callable[[int], Place],
    counted_place: Callable[[Executed], Place],
) -> LeftOut:
    """Find the misread copies of a launch.

    Args:
        launch: As recorded.
        outcome: The same launch, emulated.
        recorded_place: The line (or group of lines) of a machine instruction, by its row.
        counted_place: The line of a PTX instruction.
    """
    table = launch.instructions
    tags, often = (
        dict(zip(found.rows, found.values, strict=True)) if found is not None else {}
        for found in (table.columns.get(_TAGS), table.columns.get("thread_inst_executed_true"))
    )
    copies = _by_place(
        (at for at, text in enumerate(table.text) if is_copy(text) and often.get(at)),
        recorded_place,
    )
    counted = _by_place(
        (
            row
            for row in outcome.rows
            if row.instr.op == "cp" and "cg" in row.instr.parts and row.on
        ),
        counted_place,
    )
    out = LeftOut()
    for place, rows in copies.items():
        if not any(is_misread(table.text[at]) for at in rows):
            continue
        ours = counted.get(place, [])
        if len(ours) == len(rows) and all(
            _near(outcome, row, tags.get(at, 0.0)) for at, row in zip(rows, ours, strict=True)
        ):
            for at, row in zip(rows, ours, strict=True):
                if is_misread(table.text[at]):
                    out.rows.add(at)
                    out.sites.add(id(row.site))
        else:
            out.places.add(place)
            out.rows.update(at for at in rows if is_misread(table.text[at]))
    return out


def _near(outcome: Counts, row: Executed, tags: float) -> bool:
    """Whether a copy touches as many lines as was recorded, as far as a sample can tell."""
    ours = float(row.site.tags)
    slack = 0.5
    if outcome.sampled < 1:
        slack += _ERRORS * outcome.margin(row.site, "tags") + _LEAST * max(ours, tags)
    return abs(ours - tags) <= slack
