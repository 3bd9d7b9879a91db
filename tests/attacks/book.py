"""How many attacks there are, which random numbers they draw, and what came of them.

``WORKBENCH_ATTACKS`` is the share of the whole that is run, ``WORKBENCH_ATTACK_SEED`` the seed
of all, and ``WORKBENCH_ATTACK`` (``PTX mutants:117``) one attack alone, as a finding names it.
A long run writes its findings to ``WORKBENCH_ATTACK_LOG`` as it meets them. What takes longer than
``WORKBENCH_ATTACK_HANG_S`` (120 seconds) is a hang; a busy machine needs more.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SHARE = float(os.environ.get("WORKBENCH_ATTACKS", "0.01"))
SEED = os.environ.get("WORKBENCH_ATTACK_SEED", "14")
#: Marks of a test whose smaller self runs every time: the whole of it is on request.
WHOLE = (pytest.mark.attack, pytest.mark.skipif(SHARE < 1, reason="make test-attacks runs it"))
_ONE = os.environ.get("WORKBENCH_ATTACK", "")
_LOG = os.environ.get("WORKBENCH_ATTACK_LOG", "")
#: What must never come of an attack.
COLUMNS = (
    "exits of 70",
    "hangs",
    "touched outside",
    "lost or half",
    "left running",
    "other answers",
)
#: A test makes as many attacks at least, where there are as many: each prepares a project.
_LEAST = 5
#: All attacks of a kind, whatever share of them is made: docs/security.md says these numbers.
WHOLES: Counter[str] = Counter()
#: Longer words than this tell no more.
_MOST = 1500


class Turn(NamedTuple):
    """One attack: its kind and number, and random numbers that are its own."""

    kind: str
    number: int
    rng: random.Random


class Portion(NamedTuple):
    """The attacks of a kind that one test makes, by their numbers."""

    kind: str
    numbers: tuple[int, ...]


def dealt(kind: str, whole: int, parts: int = 1) -> list[Portion]:
    """The attacks of a kind that are run, a share of `whole`, dealt to at most `parts` tests.

    A smaller share is a part of a larger one, so what CI finds is found again by the whole.
    """
    WHOLES[kind] += whole
    order = random.Random(f"{SEED} {kind}").sample(range(whole), whole)
    wanted = order[: max(1, round(whole * SHARE))]
    if _ONE:
        name, _, one = _ONE.rpartition(":")
        wanted = [int(one)] if name == kind else []
    parts = min(parts, -(-len(wanted) // _LEAST))
    return [Portion(kind, tuple(sorted(wanted[part::parts]))) for part in range(parts)]


class Book:
    """What was tried and found, by kind; emptied for every test."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self._turn = ""

    def clear(self) -> None:
        """Begin anew."""
        self.counts.clear()
        self.findings.clear()
        self._turn = ""

    def turns(self, portion: Portion) -> Iterator[Turn]:
        """The attacks of a portion, one after the other; what is found meanwhile names them."""
        for number in portion.numbers:
            self._turn = f"{portion.kind}:{number}"
            yield Turn(portion.kind, number, random.Random(f"{SEED} {self._turn}"))
        self._turn = ""

    def tried(self, kind: str) -> None:
        """Count one attack; what only prepares or looks after it has no kind."""
        if kind:
            self._count(kind, "tried")

    def found(self, kind: str, what: str, words: str) -> None:
        """Enter what must not be."""
        self._count(kind, what)
        told = f"{what} ({self._turn or kind}, seed {SEED}): {words[-_MOST:]}"
        self.findings.append(told)
        if _LOG:
            with Path(_LOG).open("a", encoding="utf-8", errors="replace") as log:
                log.write(f"{told}\n")

    def ended(self, kind: str, code: int) -> None:
        """Count an exit code."""
        if kind:
            self._count(kind, f"code {code}")

    def _count(self, kind: str, column: str) -> None:
        self.counts[f"{kind}|{column}"] += 1

    def must(self, holds: bool, kind: str, words: object) -> None:
        """Enter an answer that is none of those that an attack may get."""
        if not holds:
            self.found(kind, "other answers", str(words))

    @contextlib.contextmanager
    def watched(self, kind: str, what: str) -> Iterator[None]:
        """Enter whatever is raised in the block."""
        try:
            yield
        except Exception as error:
            self.found(kind, what, f"{type(error).__name__}: {error}")


#: Of the test that runs.
book = Book()


def table(counts: Counter[str]) -> list[str]:
    """The lines of the summary: a row a kind with its exit codes, and the sum of all."""
    kinds = sorted({name.partition("|")[0] for name in counts})
    head = ("tried", *COLUMNS)
    wide = max(map(len, (*kinds, "attacks")))

    def row(name: str, values: Iterable[int], more: str = "") -> str:
        cells = (f"{n:>{len(column)},}" for n, column in zip(values, head, strict=True))
        return f"{name:<{wide}}  {'  '.join(cells)}  {more}".rstrip()

    lines = [f"{'attacks':<{wide}}  {'  '.join(head)}  exit codes (seed {SEED}, share {SHARE:g})"]
    for kind in kinds:
        codes = {name: n for name, n in counts.items() if name.startswith(f"{kind}|code ")}
        words = ", ".join(f"{name.rpartition(' ')[2]}: {n:,}" for name, n in sorted(codes.items()))
        lines.append(row(kind, (counts[f"{kind}|{column}"] for column in head), words))
    sums = (sum(counts[f"{kind}|{column}"] for kind in kinds) for column in head)
    return [*lines, row("all", sums)]
