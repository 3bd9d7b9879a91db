"""Work that a cluster's queue does: what is asked of it, by whom it is done, what became of it.

An *order* is one command's work, its *pieces* are versions on problems. `dispatch` keeps both
in files that login node and jobs share, `fleet` sends them out and waits; which queue that is,
only a `Queue` knows. `slurm` is one, and what a job of it does.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from workbench.model import Record

Phase = Literal["queued", "running", "ended"]


class Element(Record, frozen=True):
    """One job of an array, as the queue tells it.

    Attributes:
        phase: Whether it waits, runs, or is over.
        word: The queue's own word for that: ``NODE_FAIL``.
        node: Where it is or was; empty where the queue does not say.
        reason: Why it waits.
        restarts: How often it was put back into the queue after it had begun.
    """

    phase: Phase
    word: str
    node: str = ""
    reason: str = ""
    restarts: int = 0

    @property
    def stuck(self) -> bool:
        """Whether it was put back and will not start again by itself."""
        return self.phase == "queued" and "requeued held" in self.reason


class Slot(NamedTuple):
    """An element of an array: the array's name, and the element's number in it."""

    array: str
    number: int


class Standing(Record, frozen=True):
    """How far a dispatch is, in pieces.

    Attributes:
        words: The command that sent it.
        jobs: The queue's names of its arrays.
        lost: Pieces that are in no job and have no outcome: the same command sends them again.
    """

    name: str
    words: str
    submitted: str
    jobs: tuple[str, ...]
    queued: int
    running: int
    done: int
    failed: int
    lost: int


class Queue(abc.ABC):
    """A cluster's queue. Arrays are known by names that we give them."""

    @abc.abstractmethod
    def submit(
        self,
        name: str,
        works: Sequence[Callable[[], None]],
        folder: Path,
        *,
        exclusive: bool,
        minutes: int | None,
        avoid: Sequence[str],
    ) -> str:
        """Send an array of jobs, one for each of `works`.

        Args:
            name: Of the array; no other one has it.
            works: What each element does: pieces of the dispatch.
            folder: The dispatch's folder.
            exclusive: Times are taken: nobody else should be on the node.
            minutes: Limit of an element; None: what the settings say.
            avoid: Nodes that it must not go to.

        Returns:
            The queue's own name for it.

        Raises:
            MissingError: the queue is not here, or refuses it; its words are quoted.
        """

    @abc.abstractmethod
    def elements(self, names: Sequence[str]) -> dict[Slot, Element] | None:
        """What the queue knows of arrays; None: it does not answer just now."""

    @abc.abstractmethod
    def cancel(self, names: Sequence[str]) -> None:
        """End arrays, whatever they are doing; one that is over is no error."""

    @abc.abstractmethod
    def end(self, place: Slot) -> None:
        """End one element."""

    @abc.abstractmethod
    def troubled(self) -> Mapping[str, str]:
        """Nodes that take no work just now, and why: ``drained (fan broken)``."""
