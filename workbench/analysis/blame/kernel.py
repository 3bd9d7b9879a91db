"""A kernel's machine code read once, on whatever problem and at whatever address it ran.

A study's versions are profiled on several problems, and the same code runs on all of them; only
the addresses that branches name are others, since a module lies where the driver put it. So code
is known by its instructions with labels for these addresses. Nothing that was measured is part
of it: what is remembered for one launch holds for every launch of the same code.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from workbench.analysis.aggregate import Recent
from workbench.analysis.blame.flow import Flow, flow_between, targets_of
from workbench.analysis.blame.queues import issues
from workbench.analysis.blame.sass import MachineOp, parse
from workbench.analysis.blame.slices import Slices
from workbench.model import Launch

#: An absolute address at an instruction's end, with the compiler's own label before it.
_ADDRESS = re.compile(r"(?:`\([^)]*\)\s*)?0x[0-9a-f]+\s*\)?\s*$")


@dataclass(frozen=True, eq=False)
class KernelCode:
    """Instructions by row: `texts` with labels for addresses, `leads` row -> row it names.

    `labels` are row -> label of where others lead.
    """

    operations: tuple[MachineOp, ...]
    texts: tuple[str, ...]
    leads: dict[int, int]
    labels: dict[int, str]
    #: Row -> what others have found of it (`machine.code`).
    keys: dict[int, Hashable] = field(default_factory=dict)

    @cached_property
    def flow(self) -> Flow:
        """Blocks, edges and loops."""
        return flow_between(self.operations, self.leads)

    @cached_property
    def slices(self) -> Slices:
        """Ways back, over all instructions."""
        return Slices(self.operations, self.flow)

    @cached_property
    def readable(self) -> bool:
        """Whether the opcodes of all instructions are known."""
        return all(operation.opcode for operation in self.operations)

    def slices_among(self, issued: frozenset[int]) -> Slices:
        """Ways back over the rows that ran, which are the same on most problems."""
        return _slices(self, issued)


@lru_cache(maxsize=24)
def _slices(code: KernelCode, issued: frozenset[int]) -> Slices:
    return code.slices.among(issued)


@dataclass(frozen=True)
class _CodeText:
    """What code is known by; `operations` follow from it but for the addresses."""

    texts: tuple[str, ...]
    leads: tuple[tuple[int, int], ...]
    operations: tuple[MachineOp, ...] = field(compare=False)


@lru_cache(maxsize=24)
def _known(named: _CodeText) -> KernelCode:
    leads = dict(named.leads)
    return KernelCode(named.operations, named.texts, leads, _labels(leads))


def _labels(leads: dict[int, int]) -> dict[int, str]:
    return {row: f".L{n}" for n, row in enumerate(sorted(set(leads.values())), 1)}


def _of_launch(launch: Launch) -> KernelCode:
    table = launch.instructions
    operations = tuple(map(parse, table.text))
    leads = targets_of(operations, table.address, issues(table))
    labels = _labels(leads)
    texts = [text.strip().rstrip("; ").replace("\n", " ") for text in table.text]
    for row, target in leads.items():
        # The label is ours: it is put in as it is, whatever stands in the text.
        found = _ADDRESS.search(texts[row])
        if found is not None:
            texts[row] = texts[row][: found.start()] + labels[target]
    return _known(_CodeText(tuple(texts), tuple(sorted(leads.items())), operations))


#: A launch's machine code; a page asks for it several times.
code_of = Recent(_of_launch, most=16)


def forget() -> None:
    """Drop what was read, so that a measurement begins afresh."""
    code_of.forget()
    _known.cache_clear()
    _slices.cache_clear()
