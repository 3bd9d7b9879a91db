"""``show``: one profile with its limit, and its memory chart."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from workbench.analysis.misread import Opinion
from workbench.model import KernelResources, Number, Rule, RuleFocus
from workbench.views.shapes import Document


class ReadingValue(Document, frozen=True):
    """A counter's value; `ncu` is the metric or formula that gave it."""

    value: Number
    unit: str
    ncu: str
    derived: bool


class SourcePlace(Document, frozen=True):
    """A line of source; line 0 is not a line."""

    file: str
    line: int
    text: str


class LineCounters(SourcePlace, frozen=True):
    """A line with its counters, by ncu's names."""

    counters: dict[str, Number]


class FocusMetric(Document, RuleFocus, frozen=True):
    """A metric to look at according to a rule."""

    value: Number | None  # type: ignore[assignment]  # JSON: null if it is not a number


class RuleFinding(Document, Rule, frozen=True):
    """One finding of ncu's rules; `speedup` is its estimate in percent."""

    focus: tuple[FocusMetric, ...] = ()


class SecondOpinion(Document, Opinion, frozen=True):
    """A counter that misleads, the exact value (null: unknown), and why the two differ."""


class ShownLaunch(Document, frozen=True):
    """One launch: every counter of the catalog is in `counters` or in `missing`."""

    kernel: str
    grid: list[int]
    block: list[int]
    counters: dict[str, ReadingValue]
    missing: dict[str, str]
    lines: list[LineCounters]
    rules: list[RuleFinding]
    index: int
    workload: str
    profiled: bool
    signature: str
    opinions: list[SecondOpinion]


class BuiltKernel(Document, KernelResources, frozen=True):
    """Resources that the compiler gave one kernel; sizes are in bytes."""


class BuildFacts(Document, frozen=True):
    """The build: compiler, flags and kernels; an empty object if unknown."""

    compiler: str | UnsetType = UNSET
    arch: str | UnsetType = UNSET
    flags: list[str] | UnsetType = UNSET
    kernels: list[BuiltKernel] | UnsetType = UNSET


class TimeFacts(Document, frozen=True):
    """The recorded time, in seconds; an empty object if there is none."""

    seconds: float | UnsetType = UNSET
    low: float | UnsetType = UNSET
    high: float | UnsetType = UNSET
    n: int | UnsetType = UNSET
    cache: Literal["cold", "warm"] | UnsetType = UNSET
    method: Literal["events", "graph"] | UnsetType = UNSET
    converged: bool | UnsetType = UNSET
    captured: str | UnsetType = UNSET
    flops: int | UnsetType = UNSET
    bytes: int | UnsetType = UNSET
    baseline: str | UnsetType = UNSET
    ratio: float | UnsetType | None = UNSET


class LoadShare(Document, frozen=True):
    """Another resource that is almost full, in % of its peak."""

    id: str
    share: float


class LimitFacts(Document, frozen=True):
    """The limit of a kernel: the resource nearest its peak, in % of that peak."""

    id: str
    words: str
    share: float
    others: list[LoadShare]


class HottestLine(SourcePlace, frozen=True):
    """The line with the most time (`share`, in %), and the reason why its warps wait."""

    share: float
    stall: str | None


class WayToTry(Document, frozen=True):
    """One thing to try; it saves at most this part (0 to 1) of the duration."""

    kind: str
    words: str
    saves: float
    speedup: float
    because: str
    effort: int
    counter: str
    line: SourcePlace | None


class Headroom(Document, frozen=True):
    """The limit of the launch that takes the most time, and ways to try."""

    limit: LimitFacts | None
    hottest: HottestLine | None
    ways: list[WayToTry]


class StallShare(LoadShare, frozen=True):
    """A warp state's part of a line's time, in %."""


class HotSource(SourcePlace, frozen=True):
    """A line with its part (in %) of the time, or of the instructions if nothing was sampled.

    `sectors` are those of global memory: all, and those that coalesced accesses would avoid; null
    if they were not counted.
    """

    share: float
    stalls: list[StallShare]
    sectors: Number | None
    sectors_excess: Number | None


class HotLines(Document, frozen=True):
    """The lines with the most time in the longest launch, in order of their share."""

    by: Literal["samples", "instructions"]
    lines: list[HotSource]


class ShowDocument(Document, frozen=True):
    """One profile: every launch with its counters, lines and rules."""

    study: str
    version: str
    problem: str
    engine: Literal["ncu", "emulator"]
    device: str
    launches: list[ShownLaunch]
    build: BuildFacts
    time: TimeFacts
    captured: str
    stale: bool
    parameters: dict[str, int]
    tools: dict[str, str]
    notices: list[str]
    seed: int | None
    headroom: Headroom | None
    hot_lines: HotLines | None


# --- --memory ----------------------------------------------------------------------------


class MemoryLevel(Document, frozen=True):
    """A place of the memory chart; both rates in %."""

    place: str
    title: str
    hit_rate: Number | None
    throughput: Number | None


class FlowLine(Document, frozen=True):
    """A line that caused a flow."""

    file: str
    line: int
    amount: Number
    share: float


class MemoryFlow(Document, frozen=True):
    """The flow in one direction; `share` is 0 to 1 of `peak`."""

    id: str
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    unit: str
    amount: Number | None
    share: float | None
    ncu: str
    peak: str
    missing: str
    line_metric: str
    lines: list[FlowLine]


class MemorySide(Document, frozen=True):
    """The memory chart of one profile."""

    levels: list[MemoryLevel]
    flows: list[MemoryFlow]


class MemoryPair(Document, frozen=True):
    """The memory charts of both sides."""

    old: MemorySide
    new: MemorySide


class MemoryDocument(Document, frozen=True):
    """``show --memory``."""

    memory: MemorySide


class MemoryStepDocument(Document, frozen=True):
    """``diff --memory``."""

    memory: MemoryPair
