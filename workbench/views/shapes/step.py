"""``diff``: the changes from one version to another, and the story of the step."""

from __future__ import annotations

from typing import Literal

from workbench.analysis.attribution import LineShare
from workbench.analysis.duration import CodeLine, WaitPath
from workbench.analysis.expectations import Score
from workbench.analysis.kernels import KernelValue
from workbench.analysis.listing import CodeSide, StandIn
from workbench.analysis.sentence import Stop
from workbench.analysis.times.timing import TimeChange
from workbench.analysis.wording import LeftOut
from workbench.model import Number, Spread
from workbench.views.shapes import Document
from workbench.views.shapes.show import LimitFacts

LinkName = Literal["hunk", "symbol", "launch", "unknown", "elsewhere"]


class StepSide(Document, frozen=True):
    """One side of a comparison."""

    version: str
    label: str
    study: str
    problem: str
    engine: str
    device: str
    captured: str
    kernels: list[str]
    stale: bool


class TimeRatio(Document, TimeChange, frozen=True):
    """Median times in seconds, and old over new with its interval."""


class CounterMove(Document, frozen=True):
    """One counter of the catalog on both sides; null if it is missing."""

    id: str
    ncu: str
    unit: str
    old: Number | None
    new: Number | None
    delta: Number | None
    better: Literal["lower", "higher", ""]
    moved: bool
    verdict: Literal["better", "worse", "changed", "same", "missing"]
    derived: bool


class EditedHunk(Document, frozen=True):
    """One block of the source diff; an empty range is [n + 1, n]."""

    id: int
    old: list[int]
    new: list[int]
    kind: Literal["code", "moved", "renamed", "comment", "whitespace", "front-matter"]
    symbols: list[str]
    old_file: str
    new_file: str


class LineDelta(Document, LineShare, frozen=True):
    """A line's share of a part; null on the side that lacks it."""


class CounterPart(Document, frozen=True):
    """The part of a counter's change that one link explains."""

    link: LinkName
    hunk: int | None
    symbol: str | None
    delta: Number
    shared: bool
    note: str
    lines: list[LineDelta]
    hunks: list[int]
    symbols: list[str]


class AttributedCounter(Document, frozen=True):
    """A counter's change, split over the edits: the parts add up to `delta`."""

    counter: str
    old: Number
    new: Number
    delta: Number
    parts: list[CounterPart]
    ncu: str
    unit: str
    chip_old: Number | None
    chip_new: Number | None


class JudgedExpectation(Document, frozen=True):
    """The author's prediction, and its verdict."""

    counter: str
    expected: str
    observed: str
    verdict: Literal["confirmed", "refuted", "inconclusive"]
    reason: str
    why: str
    line: int | None
    learned: str


class StripStop(Document, Stop, frozen=True):
    """One word of the causal strip: its proof is a hunk, a counter, or named by `kind`."""


class CauseProof(Document, frozen=True):
    """An edit moved this counter; `score` and `share` are 0 to 1."""

    counter: str
    beside: str | None
    way: str
    score: float
    link: str
    hunks: list[int]
    share: float | None
    by: str


class StallChange(Document, frozen=True):
    """A warp state over the whole kernel, in seconds."""

    stall: str
    old_s: float
    new_s: float


class WorkDoubt(Document, frozen=True):
    """A reason why the two sides may not have done the same work."""

    kind: str
    words: str
    certain: bool


class CauseFacts(Document, frozen=True):
    """The cause of the step's change in time; the best proof first."""

    proofs: list[CauseProof]
    stalls: list[StallChange]
    limit_old: LimitFacts | None
    limit_new: LimitFacts | None
    doubts: list[WorkDoubt]


class StallTime(Document, frozen=True):
    """Seconds of one warp state, with their interval."""

    id: str
    delta_s: float
    low_s: float
    high_s: float


class PathLine(Document, CodeLine, frozen=True):
    """A line on either side; null: absent, 0: unknown."""


class BlamePath(Document, WaitPath, frozen=True):
    """The time that warps waited on one line because of another."""

    waited: PathLine
    blamed: PathLine


class TimeShare(Document, frozen=True):
    """The part of the change in time that one link explains, in seconds."""

    link: LinkName
    hunk: int | None
    symbol: str | None
    delta_s: float
    low_s: float
    high_s: float
    stalls: list[StallTime]
    note: str
    hunks: list[int]
    symbols: list[str]
    waited_s: float
    paths: list[BlamePath]


class TimeParts(Document, frozen=True):
    """The change of the profiled duration, split by warp samples: an estimate."""

    old_s: float
    new_s: float
    delta_s: float
    samples: list[int]
    method: str
    parts: list[TimeShare]


class OccupancyChange(Document, frozen=True):
    """Theoretical occupancy in percent, and the causes of its change, in points."""

    kernel: str
    old: float
    new: float
    delta: float
    causes: dict[str, float]


class MatchedLaunch(Document, frozen=True):
    """A launch, and the way its partner was found."""

    old: str | None
    new: str | None
    how: Literal["name", "order", "added", "removed"]
    changes: list[str]


class RuleScore(Document, Score, frozen=True):
    """The promise of an ncu rule and the step's gain, as parts of the old duration."""


class TriedWay(Document, frozen=True):
    """One of the old side's suggestions, and the gain of the step."""

    rule: str
    title: str
    promised: float
    gained: float
    still: float | None
    verdict: Literal["kept", "partly", "not kept", "open"]


class ToldCounter(Document, frozen=True):
    """A counter that a link moved; `weight` is relative to its larger value."""

    counter: str
    delta: Number
    weight: float


class ToldLink(Document, frozen=True):
    """The effects of one link."""

    link: LinkName
    symbol: str | None
    note: str
    weight: float
    time_s: float | None
    stalls: list[str]
    counters: list[ToldCounter]
    hunks: list[int]
    symbols: list[str]


class Untold(Document, LeftOut, frozen=True):
    """The number of facts that are too small to show."""


class ToldRest(Document, frozen=True):
    """Links that no single hunk explains."""

    links: list[ToldLink]
    left_out: Untold


class ToldHunk(Document, frozen=True):
    """The facts of one hunk."""

    hunk: int
    links: list[ToldLink]
    left_out: Untold


class StoryTold(Document, frozen=True):
    """The facts of the step that terminal, Markdown and the page show."""

    threshold: float
    hunks: list[ToldHunk]
    rest: ToldRest


class ValueSpread(Document, Spread, frozen=True):
    """The variation of a value over launches."""


class FixedValue(Document, KernelValue, frozen=True):
    """A counter that compiler and launch determine, if the two sides differ."""


class KernelMove(Document, frozen=True):
    """The change of one kernel; seconds are of one launch, under the profiler."""

    old: str | None
    new: str | None
    how: Literal["signature", "name", "renamed", "order", "added", "removed"]
    launches: list[int]
    old_s: float | None
    new_s: float | None
    spread_old: ValueSpread | None
    spread_new: ValueSpread | None
    moved: bool
    weight: float
    compared: bool
    values: list[FixedValue]


# --- ``diff``, complete: one step, with the machine code of its hunks if it was requested ---------


class CodeAmount(Document, CodeSide, frozen=True):
    """One side of a hunk: its instructions, how often they ran, and seconds of blame."""


class OpcodeAmount(Document, frozen=True):
    """One opcode on one side."""

    instructions: int
    executed: Number
    seconds: float


class OpcodeMove(Document, frozen=True):
    """One opcode, with its width, on both sides."""

    name: str
    role: str
    old: OpcodeAmount
    new: OpcodeAmount


class ReplacedOpcode(Document, StandIn, frozen=True):
    """Instructions of one class that replace another of the same role on the old side."""


class HunkMachineCode(Document, frozen=True):
    """The machine code of one hunk; `rows` of both instruction tables."""

    hunk: int
    kernel: str
    old: CodeAmount
    new: CodeAmount
    classes: list[OpcodeMove]
    replaced: list[ReplacedOpcode]
    rows: list[list[int | None]]


class StepDocument(Document, frozen=True):
    """One step."""

    study: str
    problem: str
    engine: str
    device: str
    old: StepSide
    new: StepSide
    comparable: bool
    warnings: list[str]
    time: TimeRatio | None
    counters: list[CounterMove]
    hunks: list[EditedHunk]
    attribution: list[AttributedCounter]
    expectations: list[JudgedExpectation]
    sentence: str
    strip: list[StripStop]
    cause: CauseFacts
    side_effects: list[str]
    time_split: TimeParts | None
    occupancy: list[OccupancyChange]
    launches: list[MatchedLaunch]
    rules: list[RuleScore]
    story: StoryTold
    kernels: list[KernelMove]
    launch_words: list[str]
    tried: list[TriedWay]
    machine_code: list[HunkMachineCode] | None
