"""``workbench check --format json``: all gates, and the measurements for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from workbench.views.shapes import Document
from workbench.views.shapes.measured import ClockState, MedianFacts, NoticeFacts


class GateFacts(Document, frozen=True):
    """One checked thing; `line` is null if the whole file is meant."""

    version: str
    kind: str
    name: str
    status: Literal["pass", "fail", "inconclusive"]
    message: str
    file: str
    line: int | None


class MeasuredTurns(Document, frozen=True):
    """Times in s of two states of a version, by pair; `silence`: why there is no slow-down."""

    version: str
    problem: str
    device: str
    slowdown: MedianFacts | None
    silence: str | None
    old_s: list[float]
    new_s: list[float]
    state: ClockState | None
    notices: list[NoticeFacts]


class ClaimFacts(Document, frozen=True):
    """A claimed speed-up; `ratio`, of times, is null if it was not measured."""

    verdict: Literal["accepted", "refused", "not judged"]
    version: str
    over: str
    at_least: float
    problem: str
    device: str
    ratio: MedianFacts | None
    in_turns: bool


class CheckDocument(Document, frozen=True):
    """All gates and the verdict; `measured` if two ran alternately, `claim` with --claim."""

    status: Literal["pass", "fail", "inconclusive"]
    gates: list[GateFacts]
    measured: list[MeasuredTurns] | UnsetType = UNSET
    claim: ClaimFacts | UnsetType = UNSET


SHAPES: Mapping[str, tuple[type[Document], ...]] = {"check": (CheckDocument,)}
