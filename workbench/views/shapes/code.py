"""``diff``, the whole: one step with the machine code of its hunks where that was asked for."""

from __future__ import annotations

from workbench.model import Number
from workbench.views.shapes import Document
from workbench.views.shapes.step import (
    AttributedCounter,
    CauseFacts,
    CounterMove,
    EditedHunk,
    JudgedExpectation,
    KernelMove,
    MatchedLaunch,
    OccupancyChange,
    RuleScore,
    StepSide,
    StoryTold,
    StripStop,
    TimeParts,
    TimeRatio,
    TriedWay,
)


class CodeAmount(Document, frozen=True):
    """One side of a hunk: its instructions, how often they ran, and seconds of blame."""

    instructions: int
    executed: Number
    seconds: float
    live: int


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


class ReplacedOpcode(Document, frozen=True):
    """Instructions of one class where the old side had another of the same role."""

    old: str
    new: str
    rows: int


class HunkMachineCode(Document, frozen=True):
    """What the compiler made of one hunk; `rows` of both instruction tables."""

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
