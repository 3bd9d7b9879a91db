"""``show @NAME`` and ``diff @OLD @NEW``: a captured program, and the difference of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from workbench.model import Number
from workbench.programs.capture.records import Counted, ProgramFault
from workbench.views.shapes import Document
from workbench.views.shapes.measured import NoticeFacts
from workbench.views.shapes.step import StepDocument

FateName = Literal["same", "fused", "split", "replaced", "came", "went"]


class ProgramTime(Document, frozen=True):
    """Seconds of all kernels of one run; the interval is null with a single run."""

    seconds: float
    low: float | None
    high: float | None
    runs: int


class RankFacts(Document, frozen=True):
    """One rank (null: a process without a number), per iteration if the program has them.

    `work_s`: a kernel ran that waits for no rank; `alone_s`: only communication ran; `talk_s`: the
    sum of kernels that communicate; `wait_s`: the part of it before the last rank arrived, null if
    unknown.
    """

    rank: int | None
    gpus: list[int]
    work_s: float
    alone_s: float
    talk_s: float
    wait_s: float | None


class ProgramSide(Document, frozen=True):
    """Facts about every capture; `commit` is null outside Git, `nvtx` without ``--nvtx``.

    If the emulator made the survey, every time in these documents is null.
    """

    capture: str
    command: list[str]
    captured: str
    commit: str | None
    clean: bool
    device: str | None
    survey: Literal["trace", "ncu", "emulator"]
    nvtx: str | None
    time: ProgramTime | None
    ranks: list[RankFacts]
    tools: dict[str, str]


class RunFacts(Document, frozen=True):
    """One run of the program, in seconds."""

    wall_s: float
    busy_s: float
    span_s: float
    processes: int


class RangeRow(Document, frozen=True):
    """An NVTX range in which a kernel was launched, and its part of one run."""

    range: str
    launches: float
    seconds: float


class CountedFacts(Document, Counted, frozen=True):
    """The emulator's total counts for launches: of warps, and of 32-byte sectors."""


class CountedLine(Document, frozen=True):
    """A kernel's line with the most instructions, sectors and wavefronts; its share, 0 to 1."""

    file: str
    line: int
    share: float


class LaunchClassFacts(Document, frozen=True):
    """Launches in one run with one block and shared memory, and (nearly) equal grids."""

    grids: list[list[int]]
    block: list[int]
    dynamic_shared: int
    launches: float
    seconds: float | None
    counted: CountedFacts | None


class KernelRow(Document, frozen=True):
    """A kernel of a program; seconds and launches are of one run, `share` 0 to 1.

    `grid` and `block` are those with most of its time; `configurations` are all, or the longest
    among `configuration_count`. `ranges` are those with most of its time, among `range_count`;
    `range` is the first. `counted` (for all launches) and `hottest` are present if the emulator ran
    it.
    """

    kernel: str
    kind: Literal["kernel", "copy", "fill"]
    symbol: str
    seconds: float | None
    share: float | None
    launches: float
    mean_s: float | None
    shortest_s: float | None
    longest_s: float | None
    grid: list[int] | None
    block: list[int] | None
    configurations: list[LaunchClassFacts]
    configuration_count: int
    graph: bool
    range: str | None
    range_count: int
    profiled: int
    ranges: list[RangeRow]
    counted: CountedFacts | None
    hottest: CountedLine | None


class ProgramDocument(ProgramSide, frozen=True):
    """A captured program, or a large report shown as one; `said` is its text for readers."""

    said: list[str]
    runs: list[RunFacts]
    kernels: list[KernelRow]
    notices: list[NoticeFacts]


class ClassFate(Document, frozen=True):
    """A class of launches on both sides; null on a side that lacks it."""

    old: LaunchClassFacts | None
    new: LaunchClassFacts | None


class KernelFate(Document, frozen=True):
    """The fate of a kernel; null on a side that lacks it."""

    kernel: str
    fate: FateName
    old_s: float | None
    new_s: float | None
    change_s: float | None
    share: float | None
    old_launches: Number | None
    new_launches: Number | None
    configurations: list[ClassFate]
    old_counted: CountedFacts | None
    new_counted: CountedFacts | None


class ProgramStep(Document, frozen=True):
    """One kernel's step, or null and the reason; `said` is its text for readers.

    `told` is the class of launches in the step, null if there is only one; `explains` is their part
    of the kernel's change in the program. For several kernels, `told` is the part of all launches,
    with each class as often as in the program (``1/31 of all launches``). `doubt` describes a
    disagreement between the profiler's and the program's launches, or unprofiled ones. `opposed`
    describes launches of another class whose time changed in the opposite direction.
    """

    kernel: str
    fate: FateName
    said: list[str]
    step: StepDocument | None
    missing: str | None
    told: str | None
    explains: float | None
    doubt: str | None
    opposed: str | None


class PartTime(Document, frozen=True):
    """The time of kernels (with fills), or of copies, on both sides."""

    old: ProgramTime
    new: ProgramTime
    change: ProgramTime
    moved: bool


class ProgramsDocument(Document, frozen=True):
    """The difference of two captures: all times are for one run, or `per` iteration of both.

    `said` are the first lines for readers. `spans` are the times from the start of an iteration to
    that of the next, before and after.
    """

    old: ProgramSide
    new: ProgramSide
    said: list[str]
    comparable: bool
    warnings: list[str]
    change: ProgramTime | None
    moved: bool
    per: Literal["run", "iteration"]
    of_kernels: PartTime | None
    of_copies: PartTime | None
    spans: list[ProgramTime] | None
    kernels: list[KernelFate]
    steps: list[ProgramStep]


class FaultFacts(Document, ProgramFault, frozen=True):
    """A fault of kernels at a source line."""


class RunDocument(Document, frozen=True):
    """``workbench run``: the result of a program on the CPU; `program` is null without launches.

    `code` is the program's own exit code, `exit_code` that of the command. `stopped` says why the
    run ended before the program did; empty: it did not.
    """

    code: int
    exit_code: int
    seconds: float
    launches: int
    repeated: int
    failed: int
    thread_instructions: int
    stopped: str
    checks: list[str]
    faults: list[FaultFacts]
    notices: list[str]
    program: ProgramDocument | None


#: Command -> its documents on programs.
SHAPES: Mapping[str, tuple[type[Document], ...]] = {
    "show": (ProgramDocument,),
    "diff": (ProgramsDocument,),
    "run": (RunDocument,),
}
