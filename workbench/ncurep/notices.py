"""What a report lacks, and what that means for its reader.

Judged from the records alone, so that it can be judged again when only some of a
report's launches are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import Launch, Notice, SourceFile
from workbench.ncurep.values import is_static
from workbench.units import listed, several

#: The codes that `lacks` gives.
CODES = (
    "unprofiled-launch",
    "nan-launch",
    "nan-counters",
    "no-instruction-metrics",
    "no-line-info",
    "no-sass",
    "no-source",
    "no-rules",
)


def _listed(launches: Sequence[Launch]) -> str:
    names = [f"{x.kernel[:60] or '?'} (launch {x.index})" for x in launches[:3]]
    return ", ".join(names) + (f" and {len(launches) - 3} more" if len(launches) > 3 else "")


def _mostly_nan(launch: Launch) -> bool:
    nan = sum(reason == "NaN" for reason in launch.absent.values())
    return nan > 0 and nan > sum(not is_static(name) for name in launch.metrics)


def lacks(launches: Sequence[Launch], sources: Sequence[SourceFile]) -> tuple[Notice, ...]:
    """One notice for each thing that these launches do not have."""
    found: dict[str, str] = {}
    measured = [x for x in launches if x.profiled]
    unprofiled = [x for x in launches if not x.profiled]
    if unprofiled:
        found["unprofiled-launch"] = f"listed but never measured: {_listed(unprofiled)}"
    nan = [x for x in measured if _mostly_nan(x)]
    if nan:
        found["nan-launch"] = f"most values are NaN, so nothing was measured of {_listed(nan)}"
    partly = [x.absent for x in measured if not _mostly_nan(x)]
    names = sorted({name for absent in partly for name, why in absent.items() if why == "NaN"})
    if names:
        found["nan-counters"] = (
            f"NaN instead of a number for {several(len(names), 'metric')}, which are "
            f"unknown (an ncu older than the chip gives these): {listed(names, 6)}"
        )
    kernels = [x for x in measured if x.workload == "kernel"]
    tables = [x for x in kernels if x.instructions.address]
    bare = [x for x in kernels if not x.instructions.address]
    if bare:
        which = _listed(bare)
        found["no-instruction-metrics"] = f"no counters per instruction or line: {which}"
    if tables and not any(any(x.instructions.line) for x in tables):
        found["no-line-info"] = "instructions without source lines: compile with -lineinfo"
    if tables and not any(any(x.instructions.text) for x in tables):
        found["no-sass"] = "the native reader no longer disassembles this chip's code"
    if not any(source.text for source in sources):
        found["no-source"] = "no source text in the report: capture with --import-source yes"
    if measured and not any(x.rules for x in measured):
        found["no-rules"] = "no rule results: ncu's own advice was not part of the capture"
    return tuple(Notice(code=code, message=message) for code, message in found.items())
