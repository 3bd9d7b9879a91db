"""Faults of a program's kernels: one record per place, however often a fault occurs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

import ptxemu
from workbench.programs.capture.records import ProgramFault
from workbench.study.mangling import own_name

#: CUresult codes of a context that a kernel broke.
ILLEGAL_ADDRESS, LAUNCH_FAILED, ASSERT, ILLEGAL_INSTRUCTION, MISALIGNED = 700, 719, 710, 715, 716
_CODES = {"out-of-bounds": ILLEGAL_ADDRESS, "misaligned": MISALIGNED, "assert": ASSERT}
#: Names of arrays until their real names are looked up.
ARRAY = "array#{}"
_ARRAY = re.compile(r"array#(\d+)")
#: A toolkit's header in a message: its folder is irrelevant.
HEADER = re.compile(r"(?<=\(in )/[^\s:]*/include/(?=[^\s:]+:\d+\))")


@dataclass(slots=True)
class FaultLog:
    """All faults of a run. `name` names an array by its number; paths are relative to `folder`."""

    name: Callable[[int], str]
    folder: Path
    _by: dict[tuple[str, str, str, int], ProgramFault] = field(default_factory=dict)

    def add(self, fault: ptxemu.Fault, kernel: str, launch: int) -> None:
        """Add a fault of a launch."""
        path, line = fault.place or ("", 0)
        key = fault.kind, kernel, path, line
        if known := self._by.get(key):
            self._by[key] = replace(known, count=known.count + 1)
            return
        message = _ARRAY.sub(lambda found: self.name(int(found[1])), fault.message)
        self._by[key] = ProgramFault(
            kind=fault.kind,
            message=HEADER.sub("cuda/", message.replace(f"{self.folder}/", "")),
            hint=fault.hint,
            kernel=own_name(kernel),
            launch=launch,
            path=path,
            line=line,
            count=1,
            fatal=fault.fatal,
        )

    @property
    def all(self) -> tuple[ProgramFault, ...]:
        """The faults, in the order of their first occurrence."""
        return tuple(self._by.values())


def code_of(fault: ptxemu.Fault) -> int:
    """The error code that a GPU gives for a fault that ends a launch."""
    return _CODES.get(fault.kind, LAUNCH_FAILED)
