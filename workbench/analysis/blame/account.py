"""The account of a launch's warp samples: who waited, and who is to blame for it.

Samples are shared out in whole `UNITS`, so that every sum is a sum of integers and exact,
and the parts of a wait add up to it with nothing left over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from workbench.model import Record

#: Parts that a sample is shared out in: sums of them are integers, and exact.
UNITS = 1 << 16

Kind = Literal["register", "queue", "barrier", "stores", "order", "itself"]


class Culprit(Record, frozen=True):
    """A row that is to blame for `units` / `UNITS` samples, `via` a register or a queue."""

    row: int
    units: int
    via: str = ""

    @property
    def samples(self) -> Fraction:
        """Samples, exactly."""
        return Fraction(self.units, UNITS)


class Debt(Record, frozen=True):
    """Rows that waited in one state, and the rows that made them wait.

    `waited` is row -> samples; the causes' samples add up to them. `passed` is the same
    amount put on what the warps waited for between two barriers: it holds where the barrier
    is not itself what changed.
    """

    state: str
    kind: Kind
    waited: dict[int, int]
    causes: tuple[Culprit, ...]
    passed: tuple[Culprit, ...] = ()

    @property
    def samples(self) -> int:
        """All samples that are shared out."""
        return sum(self.waited.values())


class Account(Record, frozen=True):
    """All samples of a launch: those that are a row's `own`, and those that others caused.

    `own` is state -> row -> samples. `known` is False where the instructions are no SASS, so
    that nothing can be followed and every row answers for itself.
    """

    own: dict[str, dict[int, int]]
    debts: tuple[Debt, ...]
    known: bool = True

    @property
    def samples(self) -> int:
        """All samples of the launch."""
        own = sum(count for rows in self.own.values() for count in rows.values())
        return own + sum(debt.samples for debt in self.debts)

    def causes(self, row: int, state: str) -> list[Culprit]:
        """Who made a row wait in a state; the units add up to its samples."""
        out = []
        if count := self.own.get(state, {}).get(row, 0):
            out.append(Culprit(row=row, units=count * UNITS))
        for debt in self.debts:
            if debt.state == state and row in debt.waited:
                parts = apportion(debt.waited[row] * UNITS, [c.units for c in debt.causes])
                out += [
                    Culprit(row=cause.row, units=units, via=cause.via)
                    for cause, units in zip(debt.causes, parts, strict=True)
                    if units
                ]
        return out

    def units(self) -> dict[int, dict[str, int]]:
        """Row -> state -> samples that it is to blame for, in parts of `UNITS`."""
        out: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for state, rows in self.own.items():
            for row, count in rows.items():
                out[row][state] += count * UNITS
        for debt in self.debts:
            for cause in debt.causes:
                out[cause.row][debt.state] += cause.units
        return out

    def totals(self) -> dict[int, dict[str, Fraction]]:
        """Row -> state -> samples that it is to blame for."""
        return {
            row: {state: Fraction(units, UNITS) for state, units in states.items()}
            for row, states in self.units().items()
        }


def apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Integer shares in proportion to weights that sum to the amount, by largest remainder.

    Equal remainders go to the earlier weight; weights that are all 0 count as equal.
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    shares = [amount * weight // whole for weight in weights]
    left = amount - sum(shares)
    if left:
        order = sorted(range(len(weights)), key=lambda n: (-(amount * weights[n] % whole), n))
        for n in order[:left]:
            shares[n] += 1
    return shares
