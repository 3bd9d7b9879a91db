"""``verify``, ``time`` and ``list jobs``: what was run, and what came of it."""

from __future__ import annotations

from typing import Literal

from workbench.measure.sanitizer import Place
from workbench.model import Estimate, Notice
from workbench.views.shapes import Document


class NoticeFacts(Document, Notice, frozen=True):
    """A warning that travels with a record."""


class VerifiedProblem(Document, frozen=True):
    """One version on one problem; `error` is null where it could not be computed.

    `judged` is false where nothing could run it: it is neither right nor wrong. `against` is the
    version whose results are the right answer; empty where study.py computes that. `problem` is
    empty of a version whose file cannot be used. `fixed`: another seed gave the same inputs, so
    that a result that is kept from the first run would not show.
    """

    version: str
    problem: str
    ok: bool
    error: float | None
    tolerance: float
    worst: str = ""
    compared: int = 0
    unwritten: int = 0
    sampled: int = 0
    judged: bool = True
    message: str = ""
    hint: str = ""
    against: str = ""
    fixed: bool = False


class FindingPlace(Document, Place, frozen=True):
    """A line that a finding names; 0 where the build has no line information."""


class SanitizerFinding(Document, frozen=True):
    """One mistake that compute-sanitizer found."""

    version: str
    tool: str
    message: str
    count: int
    thread: list[int] | None
    block: list[int] | None
    places: list[FindingPlace]
    details: list[str]


class VerifyDocument(Document, frozen=True):
    """Versions against the float64 reference."""

    study: str
    seed: int
    results: list[VerifiedProblem]
    sanitized: list[str]
    findings: list[SanitizerFinding]


class MedianFacts(Document, Estimate, frozen=True):
    """A median (seconds, or a ratio) with its 95% interval over `n` samples."""


class ClockState(Document, frozen=True):
    """Clocks (hertz), power (watts) and temperature (°C) while timing: lowest, highest.

    `waited` are seconds of load before the first time was taken, null where nobody could ask;
    `settled` is false where the clocks had not come to rest by then.
    """

    sm_clock: list[float]
    memory_clock: list[float]
    power: list[float]
    temperature: list[float]
    waited: float | None
    settled: bool


class TimedVersion(Document, frozen=True):
    """The time of a version on a problem, outside of any profiler."""

    version: str
    problem: str
    device: str
    captured: str
    seconds: MedianFacts
    cache: Literal["cold", "warm"]
    method: Literal["events", "graph"]
    converged: bool
    first_launch: float
    launches: dict[str, float]
    flops: int
    bytes: int
    baseline: str | None
    baseline_seconds: MedianFacts | None
    ratio: MedianFacts | None
    state: ClockState | None
    notices: list[NoticeFacts]


class TimeDocument(Document, frozen=True):
    """Times of one study."""

    study: str
    times: list[TimedVersion]
