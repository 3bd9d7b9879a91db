"""Reports of less than ncu collected: real ones with parts removed, nothing added.

No GPU is needed for a report of ncu's set *basic* with its sources, or of *full* without machine
code: what a smaller set does not have is taken out of the bytes of `ladder_full`, whose five
kernels were captured under ``--set full --import-source yes``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from workbench.ncurep.container import MAGIC, SIZE, read_blocks
from workbench.ncurep.excerpt import METRIC, METRIC_NAMES, encode, packed
from workbench.ncurep.wire import fields, messages, text

#: Of a result: its sections and rules, each with the name of its section; the files of its source.
_SECTION, _RULE = 17, 19
_FILES = 21
#: Of a section: its identifier. Of a metric: the number of its name, its values by instruction.
_IDENTIFIER = 1
_NAME, _INSTANCES = 1, 3
#: Of a source: the machine code as an ELF file, the text of the files that it was made of.
_ELF, _TEXTS = 4, 8
#: What ncu's sets collect; of *full* that is all that `ladder_full` has.
_BASIC = {"LaunchStats", "Occupancy", "SpeedOfLight", "WorkloadDistribution"}
SETS: dict[str, set[str] | None] = {
    "basic": _BASIC,
    "detailed": _BASIC
    | {"ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"}
    | {"SourceCounters", "SpeedOfLight_RooflineChart"},
    "full": None,
}
#: Metrics that a report has whatever was asked for.
_ALWAYS = (b"device__", b"launch__", b"gpu__time_duration", b"profiler__", b"numa__")


class Kind(NamedTuple):
    """What a report holds.

    `code` is that of the instructions: ``whole``, ``textless`` (they have addresses and values and
    no text) or ``none`` (no value by instruction).
    """

    collected: str
    sources: bool
    code: str

    def __str__(self) -> str:
        """As a file may be called."""
        return f"{self.collected}-{'sources' if self.sources else 'nosource'}-{self.code}"


#: All of them; of the set *basic* none has values by instruction.
KINDS = tuple(
    Kind(name, sources, code)
    for name in SETS
    for sources in (True, False)
    for code in (("none",) if name == "basic" else ("whole", "textless", "none"))
)


def reduce(whole: bytes, kind: Kind, kernels: Collection[int], path: Path) -> Path:
    """Write what a report of less would hold.

    Args:
        whole: A report.
        kind: What is left of it.
        kernels: Which of its results are left, counted from 0.
        path: The file to write.
    """
    out = bytearray(whole[: len(MAGIC) + SIZE.size + SIZE.unpack_from(whole, len(MAGIC))[0]])
    names: list[bytes] = []
    number = 0
    for block in read_blocks(whole, path):
        for key, table in block.header:
            if key == METRIC_NAMES and isinstance(table, bytes):
                names += messages(table, 1)
        results = []
        for result in block.results:
            if number in kernels:
                results.append(_result(result, kind, names))
            number += 1
        left = [_source(source, kind) for source in block.sources]
        out += packed(dataclasses.replace(block, sources=left), results)
    path.write_bytes(out)
    return path


def _source(source: bytes, kind: Kind) -> bytes:
    gone = {_TEXTS} if not kind.sources else set()
    gone |= {_ELF} if kind.code == "textless" else set()
    return b"".join(encode(field) for field in fields(source) if field[0] not in gone)


def _result(result: bytes, kind: Kind, names: list[bytes]) -> bytes:
    return b"".join(map(encode, _left(result, kind, names)))


def _left(result: bytes, kind: Kind, names: list[bytes]) -> Iterator[tuple[int, int | bytes]]:
    wanted = SETS[kind.collected]
    sections = {text(section, _IDENTIFIER): section for section in messages(result, _SECTION)}
    kept = b"".join(s for name, s in sections.items() if wanted is None or name in wanted)
    for key, value in fields(result):
        if not isinstance(value, bytes):
            yield key, value
        elif key == _SECTION:
            if wanted is None or text(value, _IDENTIFIER) in wanted:
                yield key, value
        elif key == METRIC:
            name = names[next(v for k, v in fields(value) if k == _NAME and isinstance(v, int))]
            root = name.removeprefix(b"breakdown:").partition(b".")[0]
            if wanted is None or root.startswith(_ALWAYS) or root in kept:
                yield key, _metric(value, kind)
        elif not (key == _RULE and wanted is not None) and not (key == _FILES and not kind.sources):
            yield key, value


def _metric(metric: bytes, kind: Kind) -> bytes:
    if kind.code != "none":
        return metric
    return b"".join(encode(field) for field in fields(metric) if field[0] != _INSTANCES)
