"""``verify``, ``time`` and ``list jobs``: the runs and their results."""

from __future__ import annotations

from typing import Literal

from workbench.measure.sanitizer import Place
from workbench.model import Estimate, Notice
from workbench.views.shapes import Document


class NoticeFacts(Document, Notice, frozen=True):
    """A warning that travels with a record."""


class VerifiedProblem(Document, frozen=True):
    """One version on one problem; `error` is null if it could not be computed.

    `judged` is false if it could not run: it is neither right nor wrong. `against` is the version
    whose results are the right answer; empty if study.py computes it. `problem` is empty for a
    version whose file cannot be used. `fixed`: another seed gave the same inputs, so a result kept
    from the first run would not be noticed. `notes` are likely mistakes that are no errors.
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
    notes: tuple[str, ...] = ()


class FindingPlace(Document, Place, frozen=True):
    """A line that a finding names; 0 if the build has no line information."""


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

    `waited` are seconds of load before the first measurement, null if the clocks could not be read;
    `settled` is false if the clocks were not steady by then.
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
