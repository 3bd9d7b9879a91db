"""The emulator's word and the GPU's on the same mutants, side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from benchmarks.fuzz.findings import Finding

#: Errors of two wrong results that count as the same.
_SAME = 1e-3


def same_values(ours: Finding, theirs: Finding) -> bool:
    """Whether two wrong results seem to be the same: as many elements off, by as much."""
    if (ours.unwritten, ours.far_off) != (theirs.unwritten, theirs.far_off):
        return False
    if ours.error is None or theirs.error is None:
        return ours.error is theirs.error
    return abs(ours.error - theirs.error) <= _SAME * max(ours.error, theirs.error)


def relation(ours: Finding, theirs: Finding) -> str:
    """The two words joined, as ``right / wrong``; of wrong results, whether they are the same."""
    text = f"{ours.status} / {theirs.status}"
    if text == "wrong / wrong":
        text += ", the same" if same_values(ours, theirs) else ", otherwise"
    return text


def disagrees(ours: Finding, theirs: Finding) -> bool:
    """Whether the emulator may be at fault.

    That it finds a fault where a GPU happened to be right is its purpose. That it finds nothing
    where the GPU does is not, nor another result without a fault, nor a traceback, nor silence.
    """
    if ours.status in ("broken", "hung"):
        return True
    if theirs.status in ("refused", "broken"):
        return False
    if ours.status == "right":
        return theirs.status != "right"
    if ours.status == "wrong":
        return theirs.status != "wrong" or not same_values(ours, theirs)
    return False


def fault_of(one: Finding) -> str:
    """The kind of a fault, without place and numbers: ``shared-memory race``."""
    text = re.sub(r"^(\S+:\d+( \(in \S+\))?|PTX line \d+): ", "", one.said)
    text = re.sub(r"^kernel \w+:? ", "", text)
    return " ".join(re.sub(r"[%(`].*|\d.*|:.*", "", text).split())[:60]


def table(ours: Mapping[int, Finding], theirs: Mapping[int, Finding]) -> str:
    """How often each pair of words was said, and of faults the emulator's kinds, in Markdown."""
    common = sorted(ours.keys() & theirs.keys())
    pairs = Counter(relation(ours[n], theirs[n]) for n in common)
    distinct = {(ours[n].title, ours[n].line, ours[n].after) for n in common}
    lines = [f"{len(common)} mutants, {len(distinct)} of them distinct", ""]
    lines += ["| emulator / GPU | mutants |", "| --- | --- |"]
    lines += [f"| {words} | {count} |" for words, count in sorted(pairs.items())]
    kinds: dict[str, Counter[str]] = {}
    for number in common:
        if ours[number].status in ("fault", "endless", "refused"):
            counts = kinds.setdefault(fault_of(ours[number]), Counter())
            counts[theirs[number].status] += 1
    columns = ("right", "wrong", "fault", "hung", "refused")
    lines += ["", "| what the emulator finds | " + " | ".join(f"GPU: {c}" for c in columns) + " |"]
    lines.append("|" + " --- |" * (len(columns) + 1))
    for kind, counts in sorted(kinds.items(), key=lambda each: -each[1].total()):
        lines.append(f"| {kind} | " + " | ".join(str(counts[c] or "") for c in columns) + " |")
    return "\n".join(lines) + "\n"


def disagreements(ours: Mapping[int, Finding], theirs: Mapping[int, Finding]) -> list[int]:
    """Numbers of mutants on which the emulator may be at fault, and those it broke on."""
    alone = [n for n, one in ours.items() if one.status in ("broken", "hung")]
    common = (n for n in ours.keys() & theirs.keys() if disagrees(ours[n], theirs[n]))
    return sorted({*alone, *common})
