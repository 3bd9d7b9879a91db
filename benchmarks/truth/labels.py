"""The labels: what is true of each recorded step, as an engineer worked it out by hand."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

from workbench.model import Number, Record

Lines = tuple[tuple[int, int], ...]
#: What a step's cause is in. ``other work`` and ``none`` are steps of which no edit is the cause.
Where = Literal["hunk", "launch", "compiler", "source unknown", "none", "other work"]
#: What the new version is limited by; the words of `workbench.analysis.limits.limit`.
Resource = Literal[
    "issue", "l1_data", "l1_tag", "lsu", "l2", "dram", "tensor", "fma", "alu", "xu", "fp64",
    "latency", "grid", "sync", "launch", "constant", "adu", "atomic",
]  # fmt: skip


class Moved(Record, frozen=True):
    """A counter that proves the cause, with its raw values on both sides."""

    id: str
    old: Number
    new: Number


class StallMoved(Record, frozen=True):
    """A warp state that the step relieved or made, over the kernel, in sampled Mcycles."""

    id: str
    way: Literal["relieved", "made"]
    old: float
    new: float


class Falsehood(Record, frozen=True):
    """A plausible claim that is false; which fields count depends on `kind`."""

    kind: Literal["counter", "edit", "stall", "limit", "words"]
    id: str = ""
    way: Literal["relieved", "made", ""] = ""
    old: Lines = ()
    new: Lines = ()
    re: str = ""


class Label(Record, frozen=True):
    """One step. Line ranges are 1-based with both ends included."""

    pair: str
    kernel_old: str
    kernel_new: str
    speedup: float
    cause: str
    link: Where
    counter: tuple[Moved, ...]
    stall: str
    limit: tuple[Resource, ...]
    limit_now: str
    must_not_say: str
    must_not: tuple[Falsehood, ...]
    confidence: Literal["high", "medium", "low"]
    problem: str = ""
    speedup_unprofiled: float | None = None
    speedup_all_launches: float | None = None
    edit_old: Lines = ()
    edit_new: Lines = ()
    edit_file_old: str = ""
    edit_file_new: str = ""
    stalls: tuple[StallMoved, ...] = ()
    side_effect: str = ""

    @property
    def study(self) -> str:
        """``sgemm`` of ``sgemm/v2..v3``; ``pairs`` for two reports of other people."""
        return self.pair.split("/")[0]

    @property
    def sides(self) -> tuple[str, str]:
        """``v2`` and ``v3`` of ``sgemm/v2..v3``."""
        old, _, new = self.pair.split("/")[1].partition("..")
        return old, new


def load_labels(path: Path) -> tuple[Label, ...]:
    """All labels of a file.

    Raises:
        msgspec.ValidationError: a label has a wrong key or type.
    """
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return msgspec.convert(table["step"], tuple[Label, ...])
