"""``verify``, ``time``, ``sweep``, ``check`` and ``jobs``: what was run, and what came of it."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from workbench.views.shapes import Document
from workbench.views.shapes.program import NoticeFacts


class VerifiedProblem(Document, frozen=True):
    """One version on one problem; `error` is null where it could not be computed.

    `judged` is false where nothing could run it: it is neither right nor wrong.
    """

    version: str
    problem: str
    ok: bool
    error: float | None
    tolerance: float
    worst: str
    compared: int
    unwritten: int
    sampled: int
    judged: bool
    message: str


class FindingPlace(Document, frozen=True):
    """A line that a finding names; 0 where the build has no line information."""

    kernel: str
    file: str
    line: int
    access: str


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


class MedianFacts(Document, frozen=True):
    """A median (seconds, or a ratio) with its 95% interval over `n` samples."""

    value: float
    low: float
    high: float
    n: int


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
    """How long a version takes on a problem, outside of any profiler."""

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


class SweptTime(TimedVersion, frozen=True):
    """A time of a sweep; `stale`: of an older source."""

    stale: bool


class SweptProblem(Document, frozen=True):
    """A size; null where no version has a time."""

    name: str
    parameters: dict[str, int] | None
    flops: int | None
    bytes: int | None


class SweptVersion(Document, frozen=True):
    """A version of the table."""

    id: str
    baseline: bool


class SweptGap(Document, frozen=True):
    """Why there is no time."""

    version: str
    problem: str
    kind: Literal["refused", "unavailable", "failed", "missing"]
    why: str


class SweepDocument(Document, frozen=True):
    """Every version at every size: each is in `times` or in `gaps`."""

    study: str
    device: str
    cache: str
    problems: list[SweptProblem]
    versions: list[SweptVersion]
    times: list[SweptTime]
    gaps: list[SweptGap]
    best: dict[str, str]
    warnings: list[str]


class GateFacts(Document, frozen=True):
    """One thing that was checked; `line` is null where the whole file is meant."""

    version: str
    kind: str
    name: str
    status: Literal["pass", "fail", "inconclusive"]
    message: str
    file: str
    line: int | None


class MeasuredTurns(Document, frozen=True):
    """Two states of a version in turns, in seconds, pair by pair; `silence`: why no slow-down."""

    version: str
    problem: str
    device: str
    slowdown: MedianFacts | None
    silence: str | None
    old_s: list[float]
    new_s: list[float]
    state: ClockState | None
    notices: list[NoticeFacts]


class CheckDocument(Document, frozen=True):
    """All gates, and what they come to; `measured` where two states ran in turns."""

    status: Literal["pass", "fail", "inconclusive"]
    gates: list[GateFacts]
    measured: list[MeasuredTurns] | UnsetType = UNSET


class SentJobs(Document, frozen=True):
    """A command whose work went to a cluster, with its pieces counted.

    `jobs` are the queue's names of its arrays; `lost` pieces are in no job and have no result.
    """

    name: str
    words: str
    submitted: str
    jobs: list[str]
    queued: int
    running: int
    done: int
    failed: int
    lost: int


class JobsDocument(Document, frozen=True):
    """What was sent to a cluster from this project."""

    jobs: list[SentJobs]


class TuneTrial(Document, frozen=True):
    """A choice of values on one problem, and what became of it; see docs/json.md."""

    values: dict[str, int | float | str | bool]
    problem: str
    fate: str
    why: str
    registers: int | None
    shared: int | None
    occupancy: float | None
    bound_s: float | None
    estimate: float | None
    samples: int
    low_s: float | None
    median_s: float | None
    high_s: float | None
    gpu_s: float | None


class TuneWinner(Document, frozen=True):
    """The best choice on a problem; `times_default`: how many times faster than without tuning."""

    problem: str
    best: TuneTrial
    default: TuneTrial | None
    times_default: float | None
    runner_up: TuneTrial | None


class TuneValue(Document, frozen=True):
    """A value of a parameter: choices with a time, and its time over that of the best value."""

    value: int | float | str | bool
    tried: int
    factor: float | None


class TuneEffect(Document, frozen=True):
    """A share (0-1) of the variance, of one parameter or two; null for what `why` says."""

    parameters: list[str]
    share: float | None
    why: str
    levels: list[TuneValue]


class TuneEffects(Document, frozen=True):
    """What matters on a problem; `complete`: every combination of values that were tried was."""

    problem: str
    tried: int
    complete: bool
    mains: list[TuneEffect]
    pairs: list[TuneEffect]


class TuneCliff(Document, frozen=True):
    """One step of one parameter that costs much; `limiter` is empty where nothing is known to."""

    problem: str
    parameter: str
    limiter: str
    factor: float
    cases: int
    fast: dict[str, int | float | str | bool]
    slow: dict[str, int | float | str | bool]
    moved: list[str]


class TuneWrongChoice(Document, frozen=True):
    """What a problem's winner costs on each problem; null where it was not timed."""

    problem: str
    values: dict[str, int | float | str | bool]
    costs: dict[str, float | None]


class TunedVersion(Document, frozen=True):
    """A version's tuning: all of its trials, and the best of each problem."""

    version: str
    device: str
    engine: str
    source_hash: str
    parameters: dict[str, list[int | float | str | bool]]
    default: dict[str, int | float | str | bool]
    requires: str
    strategy: str
    seed: int
    budget_s: float | None
    started: str
    stopped: str
    ended: str
    gpu_s: float | None
    saved: int
    fates: dict[str, int]
    winners: list[TuneWinner]
    trials: list[TuneTrial]
    effects: list[TuneEffects]
    cliffs: list[TuneCliff]
    wrong_choices: list[TuneWrongChoice]


class TuneDocument(Document, frozen=True):
    """Versions that were tuned."""

    study: str
    tunings: list[TunedVersion]
