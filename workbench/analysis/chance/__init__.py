"""Counts that are chance in part, and what can be said of them all the same.

The emulator runs one order of the warps, of which a chip has many, and marks the instructions
that run as often as that order has it (`model.ByTiming`). In comes a profile with such marks;
`ranges` gives the `Chance` of every counter that they are counted in, and `possible` asks
whether a verdict holds whatever a chip would count.
"""

from __future__ import annotations

from workbench.model import Record


class Chance(Record, frozen=True):
    """What a chip may count where the emulator counted one number: from `low` to `high`.

    In the counter's unit. `words` name the lines that it hangs on, as a clause.
    """

    low: float
    high: float
    words: str


class Chances(Record, frozen=True):
    """Those of two sides that are compared, None where a side is certain.

    `together`: the same code ran on both, so that neither has more than the other by it.
    """

    old: Chance | None
    new: Chance | None
    together: bool = False
