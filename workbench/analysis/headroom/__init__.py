"""What limits a kernel now, and how much faster each thing that one can try could make it.

A `Way` is an experiment with a bound: the part of the time that is spent on what it removes,
read from peaks, excess and waits, and never more than what busier units leave. `mix` reads the
machine code, `ways` finds the experiments, `panel` ranks them. Nothing here predicts: a bound
says what cannot be gained, and a kernel of which too little is known gets no way at all.
"""

from __future__ import annotations

from typing import Literal

from workbench.analysis.limit import Limit
from workbench.analysis.stalls import HotLine
from workbench.model import LineKey, Record

#: What can be tried.
Kind = Literal[
    "coalesce", "conflicts", "wide", "spills", "lanes", "grid", "launch", "occupancy", "overlap",
    "barriers", "instructions", "reuse", "tensor", "traffic",
]  # fmt: skip


class Way(Record, frozen=True):
    """One thing to try.

    `saves` is the part of the duration (0-1) that it can save at most, `because` the arithmetic
    behind it. `effort` is 1 for an expression or two, 2 for a loop, 3 for another design.
    `counter` is the catalog's that shows it, `line` the source line that has most of it.
    """

    kind: Kind
    words: str
    saves: float
    because: str
    effort: int
    counter: str
    line: LineKey | None = None

    @property
    def speedup(self) -> float:
        """By what factor it can be faster at most."""
        return 1.0 / (1.0 - self.saves)

    @property
    def rank(self) -> float:
        """What it can save for its effort."""
        return self.saves / self.effort


class Panel(Record, frozen=True):
    """The launch that takes most of a profile's time: its limit, hottest line, and ways.

    `hot` is None where no samples fell on lines. `ways` come with the most to save for the least
    effort first; there is none where nothing that is known could save 5% of the time.
    """

    limit: Limit | None
    hot: HotLine | None
    ways: tuple[Way, ...]
