"""A launch's instructions, read once: what they do, cost, and how many registers they keep.

A register is live where its value is still needed: the classic backward data flow over blocks
(Aho, Lam, Sethi and Ullman, *Compilers*, 9.2.5), on general registers. A conditional write keeps
what was there. It is the pressure of the code as it stands, at most what the compiler
allocated: alignment and calls may need more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from workbench.analysis.aggregate import Recent
from workbench.analysis.blame.account import UNITS, Account
from workbench.analysis.blame.debts import blame_launch
from workbench.analysis.blame.flow import Flow
from workbench.analysis.blame.kernel import KernelCode, code_of
from workbench.analysis.blame.queues import issues
from workbench.analysis.blame.sass import UNIFORM, MachineOp
from workbench.counters import Reading, read
from workbench.model import Launch

#: ``R255`` is ``RZ``; wide groups beside it are none.
_MASK = (1 << UNIFORM) - 1


class Listing:
    """A launch's instructions, read once: operations, liveness, blame by row."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.code = code_of(launch)
        self.operations = self.code.operations
        self.issued = issues(launch.instructions)
        self.live = _live(self.code)
        self.account: Account = blame_launch(launch)
        duration = read(launch, "duration")
        seconds = float(duration.value) if isinstance(duration, Reading) else 0.0
        per_sample = seconds / max(1, self.account.samples)
        self.seconds: dict[int, float] = {
            row: sum(states.values()) / UNITS * per_sample
            for row, states in self.account.units().items()
        }


#: Of the launches looked at last: a version is the new side of one step and the old one of others.
listing_of = Recent(Listing, most=4)


@lru_cache(maxsize=24)
def _live(code: KernelCode) -> list[int]:
    return live_registers(code.operations, code.flow)


def live_registers(operations: Sequence[MachineOp], flow: Flow) -> list[int]:
    """Row -> general registers that are live while it runs, its own results among them."""
    reads = [_bits(operation.reads) for operation in operations]
    writes = [_bits(operation.writes) for operation in operations]
    kept = [0 if o.conditional else w for o, w in zip(operations, writes, strict=True)]
    live_in = [0] * len(flow.first)
    waiting = list(range(len(flow.first)))
    while waiting:
        block = waiting.pop()
        live = _out(flow, block, live_in)
        for row in range(flow.last[block], flow.first[block] - 1, -1):
            live = live & ~kept[row] | reads[row]
        if live != live_in[block]:
            live_in[block] = live
            waiting += flow.predecessors[block]
    counts = [0] * len(operations)
    for block in range(len(flow.first)):
        live = _out(flow, block, live_in)
        for row in range(flow.last[block], flow.first[block] - 1, -1):
            before = live & ~kept[row] | reads[row]
            counts[row] = max((live | writes[row]).bit_count(), before.bit_count())
            live = before
    return counts


def _out(flow: Flow, block: int, live_in: Sequence[int]) -> int:
    live = 0
    for after in flow.successors[block]:
        live |= live_in[after]
    return live


def _bits(registers: Sequence[int]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits & _MASK


class Labels(NamedTuple):
    """Branch targets by label: ncu prints where the kernel happened to lie, which nobody looks up.

    `texts` are a launch's instructions by row, `targets` row -> label of where others lead.
    """

    texts: tuple[str, ...]
    targets: dict[int, str]


def labels_of(launch: Launch) -> Labels:
    """A launch's instructions with labels for addresses; as they are where no target is known."""
    code = code_of(launch)
    return Labels(code.texts, code.labels)
