"""The records of a captured program. Times are whole nanoseconds, so that sums are exact."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, NamedTuple

import msgspec

from workbench.model import Config, Device, Dim3, Notice, Record
from workbench.revisions import State

#: Bumped whenever `ProgramCapture` changes shape.
SCHEMA = 1
#: How a survey was taken: by tracing, by ncu with one metric, or by the emulator without times.
Way = Literal["trace", "ncu", "emulator"]
WorkKind = Literal["kernel", "copy", "fill"]


class Range(Record, frozen=True):
    """One range. `pushed` ones nest in their thread; others are started and ended."""

    name: str
    domain: str = ""
    pushed: bool = True

    def __str__(self) -> str:
        """As in ncu's filters, without the sign for nesting."""
        return f"{self.domain}@{self.name}" if self.domain else self.name


class TracedLaunch(NamedTuple):
    """One kernel, copy or fill. Times in nanoseconds of one clock; `graph`: of a CUDA graph."""

    symbol: str
    process: int
    device: int
    stream: int
    graph: bool
    start: int
    end: int
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    dynamic_shared: int = 0
    bytes: int = 0
    ranges: tuple[Range, ...] = ()
    multi_device: bool = False

    @property
    def duration(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start

    @property
    def config(self) -> Config:
        """Grid, block, and bytes of dynamic shared memory."""
        return self.grid, self.block, self.dynamic_shared


class Counted(Record, frozen=True):
    """The emulator's total counts for some launches: of warps, and of 32-byte sectors."""

    instructions: int = 0
    sectors: int = 0
    sectors_ideal: int = 0
    wavefronts: int = 0
    wavefronts_ideal: int = 0

    @property
    def weight(self) -> int:
        """A measure of the work when no time is known."""
        return self.instructions + self.sectors + self.wavefronts

    def plus(self, other: Counted, times: int = 1) -> Counted:
        """The sum of this one and `times` times another."""
        names = self.__struct_fields__
        own = {name: getattr(self, name) + times * getattr(other, name) for name in names}
        return Counted(**own)


def summed(several: Iterable[Counted | None]) -> Counted:
    """The sum of the known counts."""
    found = Counted()
    for one in several:
        found = found.plus(one or Counted())
    return found


class Shape(Record, frozen=True):
    """One launch configuration of a kernel, over all runs. `dynamic_shared` is in bytes.

    `counted` is present if the emulator ran it; then `total_ns` is unknown.
    """

    grid: Dim3
    block: Dim3
    dynamic_shared: int = 0
    launches: int = 0
    total_ns: int = 0
    counted: Counted | None = None

    @property
    def config(self) -> Config:
        """The configuration, which identifies it."""
        return self.grid, self.block, self.dynamic_shared

    @property
    def weight(self) -> int:
        """Nanoseconds; `Counted.weight` if nothing was timed."""
        return self.total_ns if self.counted is None else self.counted.weight


class RangeShare(Record, frozen=True):
    """Launches of a kernel inside NVTX ranges (``domain@outer/domain@inner``), over all runs."""

    path: str
    launches: int
    total_ns: int


class Work(Record, frozen=True):
    """A kernel (or all copies of one direction, or all fills) of a program.

    `launches` and `total_ns` have one value per run. `quantiles_ns` are evenly spaced order
    statistics of all durations, the shortest and the longest included. `shapes` are the
    configurations that take the most time, of `shape_count` (0: a record from before these were
    counted). `before` and `after` are the works (indices in `Survey.works`) that are launched most
    often just before and just after it on its stream; -1: none. `bytes` is the amount that copies
    and fills moved in all runs. `counted` is present if the emulator ran it (once); then `total_ns`
    and `quantiles_ns` are empty.
    """

    symbol: str  # the function in the machine code; "[copy HtoD]", "[fill]"
    name: str  # the function's name alone
    signature: str = ""  # demangled, if it differs from `name`
    kind: WorkKind = "kernel"
    launches: tuple[int, ...] = ()
    total_ns: tuple[int, ...] = ()
    quantiles_ns: tuple[int, ...] = ()
    shapes: tuple[Shape, ...] = ()
    shape_count: int = 0
    devices: tuple[int, ...] = (0,)
    before: int = -1
    after: int = -1
    graph: bool = False  # launched as a node of a CUDA graph, at least once
    bytes: int = 0
    ranges: tuple[RangeShare, ...] = ()  # those with most of its time
    range_count: int = 0  # how many there are
    multi_device: bool = False  # a part of a cooperative launch on several GPUs, at least once
    ranks_ns: tuple[int, ...] = ()  # total of all runs, for each of `Survey.ranks`
    counted: Counted | None = None

    @property
    def weights(self) -> tuple[int, ...]:
        """Nanoseconds of each run; `Counted.weight` if nothing was timed."""
        return self.total_ns if self.counted is None else (self.counted.weight,)

    @property
    def on_gpu(self) -> bool:
        """True if one GPU alone does it: not a copy to, from or within the host or another GPU."""
        return self.kind != "copy" or self.symbol == "[copy DtoD]"


class ProgramRun(Record, frozen=True):
    """One run of the program. `busy_ns`: something ran on a device; `span_ns`: first to last.

    `busy_ns` is less than the sum of all works if they overlap; it is summed over devices. `cut`
    processes were killed: up to half a second of their last launches may be missing. If nothing was
    timed, both times of the GPU are 0.
    """

    wall_s: float
    busy_ns: int = 0
    span_ns: int = 0
    processes: int = 1
    cut: int = 0


class Rank(Record, frozen=True):
    """The work of one of several processes, in each run (or each kept iteration).

    `rank` is its launcher's number, -1 without one. `work_ns` is the time in which a kernel ran
    that waits for no other rank, `busy_ns` the time in which any kernel ran; their difference is
    communication alone. `talk_ns` is the sum of kernels that communicate, `wait_ns` the part of it
    before the last rank arrived; empty if the launches cannot be matched.
    """

    rank: int
    devices: tuple[int, ...]
    launches: tuple[int, ...]
    busy_ns: tuple[int, ...]
    work_ns: tuple[int, ...]
    talk_ns: tuple[int, ...]
    wait_ns: tuple[int, ...] = ()


class SteadyWork(Record, frozen=True):
    """A work (`place` is its index in the survey) in iterations: one value per kept iteration.

    `shapes` are its configurations over those, as in `Work`.
    """

    place: int
    launches: tuple[int, ...]
    total_ns: tuple[int, ...]
    shapes: tuple[Shape, ...] = ()


class Steady(Record, frozen=True):
    """The part of a program that repeats itself: the last iterations of all runs together.

    `period` is the number of kernels that an iteration launches on the busiest stream.
    `iterations` (all of them) and `warm_ns` (the work before the first) have one value per run;
    `spans_ns`, from the start of an iteration to that of the next, one per kept iteration.
    """

    period: int
    iterations: tuple[int, ...]
    warm_ns: tuple[int, ...]
    works: tuple[SteadyWork, ...]
    spans_ns: tuple[int, ...] = ()
    ranks: tuple[Rank, ...] = ()

    @property
    def kept(self) -> int:
        """The number of iterations with values."""
        return len(self.works[0].total_ns) if self.works else 0

    @property
    def repeated(self) -> tuple[SteadyWork, ...]:
        """The works, except those that only the first iteration of a run launches.

        A launch made once at the program's start may fall into it, but belongs to no iteration.
        """
        if sum(self.iterations) != self.kept:
            return self.works
        first = {0, *accumulate(self.iterations)}
        return tuple(
            work
            for work in self.works
            if any(n for at, n in enumerate(work.launches) if at not in first)
        )


class Survey(Record, frozen=True):
    """Every kernel of a program with its time; the works with the largest total come first.

    The emulator has nothing `timed`: works have counts instead, and are ordered by them. `nvtx`:
    covers only launches inside that range. `steady` None: nothing repeats itself, or an old record.
    `sequence` are the works in the order of their launches, without repetitions: of an iteration,
    or else from the program's start; empty in an old record. `ranks` are two or more, or none.
    """

    way: Way
    works: tuple[Work, ...]
    runs: tuple[ProgramRun, ...]
    nvtx: str = ""
    steady: Steady | None = None
    sequence: tuple[int, ...] = ()
    ranks: tuple[Rank, ...] = ()

    @property
    def timed(self) -> bool:
        """True if times are known."""
        return self.way != "emulator"

    def counted(self, places: Iterable[int] | None = None) -> Counted:
        """The sum of the emulator's counts for some works; None: for all."""
        works = self.works if places is None else [self.works[place] for place in places]
        return summed(work.counted for work in works)

    @property
    def totals(self) -> tuple[int, ...]:
        """The sum over all works for each run, in nanoseconds if they were timed."""
        return tuple(sum(work.weights[run] for work in self.works) for run in range(len(self.runs)))

    @property
    def gpus(self) -> int:
        """The number of devices in use; each process has its own numbers for them."""
        if self.ranks:
            return sum(len(rank.devices) for rank in self.ranks)
        return len({device for work in self.works for device in work.devices})

    def total_ns(self, *kinds: WorkKind) -> tuple[int, ...]:
        """The sum over all works of some kinds, for each run."""
        own = [work for work in self.works if work.kind in kinds]
        return tuple(sum(work.total_ns[run] for work in own) for run in range(len(self.runs)))

    @property
    def launches(self) -> int:
        """The number of kernel launches in the first run."""
        return sum(work.launches[0] for work in self.works if work.kind == "kernel")


class ProgramFault(Record, frozen=True):
    """A kernel's fault at a line (`path`, `line`; empty and 0 if unknown).

    `launch` is the first launch with it, counted from 1; `count` launches had it. A `fatal` fault
    broke the program's context.
    """

    kind: str
    message: str
    hint: str
    kernel: str
    launch: int
    path: str
    line: int
    count: int
    fatal: bool


class ProgramCapture(Record, frozen=True):
    """One capture: the command, the state of the sources, the machine, and the survey.

    `detail` has the work (its index in the survey) of each launch of the detailed profile that is
    stored beside it; -1 if the survey lacks it.
    """

    name: str
    command: tuple[str, ...]
    captured: str  # ISO 8601, UTC, seconds
    survey: Survey
    schema_version: int = SCHEMA
    folder: str = ""  # where it was run, relative to the root of the sources
    state: State = State()
    device: Device | None = None
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    detail: tuple[int, ...] = ()
    notices: tuple[Notice, ...] = ()
