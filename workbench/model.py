"""The records that cross borders. `Profile` is the waist of the program.

Code before a `Profile` may need hardware; code after it is pure. Records are frozen
`msgspec.Struct`s, validated while they are decoded from JSON. Units inside: seconds, bytes,
hertz, percent (0-100) where the unit says ``%``.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

Number = int | float
EngineName = Literal["ncu", "emulator"]
Dim3 = tuple[int, int, int]
#: A launch's grid, block, and bytes of dynamic shared memory.
Config = tuple[Dim3, Dim3, int]

#: Raised whenever a stored record changes shape; `workbench.store` migrates older ones.
SCHEMA_VERSION = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all records: frozen, keyword-only, defaults left out on disk."""


class Problem(Record, frozen=True):
    """A named size of a study.

    `parameters` hold the integers that launch expressions may use; `uses` says which jobs
    take it: ``verify`` (small, awkward), ``profile`` (the default use), ``sweep``.
    """

    name: str
    parameters: dict[str, int]
    uses: tuple[Literal["verify", "profile", "sweep"], ...] = ()


class SourceFile(Record, frozen=True):
    """A source file as it was when the profile was captured.

    `path` is the path in line tables: relative to the project for our own files, as recorded in
    reports captured elsewhere. `text` is None if the report names a file without it.
    """

    path: str
    text: str | None = None
    sha256: str = ""


class KernelResources(Record, frozen=True):
    """The compiler's resources for one kernel; sizes in bytes. Its launch must add `implied_*`."""

    name: str
    registers: int
    static_shared: int = 0
    constant: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    implied_shared: int = 0  # dynamic shared memory
    implied_args: int = 0  # null pointers after the arguments


#: The compiler of machine code that came with a program: compiler and flags are unknown.
IMAGE = "none: the image of a program"


class Build(Record, frozen=True):
    """The outcome of compiling one version for one architecture."""

    compiler: str  # "nvcc 13.0.88", or `IMAGE`
    arch: str  # "sm_90"
    flags: tuple[str, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    ptx: str = ""
    log: str = ""  # compiler warnings


class Device(Record, frozen=True):
    """The chip that a profile is about. Clocks in hertz, sizes in bytes."""

    name: str  # "NVIDIA H200"
    slug: str  # "h200": folder name in profiles/
    compute_capability: tuple[int, int] = (0, 0)
    sms: int = 0
    sm_clock: float = 0.0
    memory_clock: float = 0.0
    memory_bus_bits: int = 0
    l2_bytes: int = 0
    memory_bytes: int = 0


class Metric(Record, frozen=True, gc=False):
    """One ncu metric of one launch, in its base unit (``s``, ``byte``, ``hz`` …)."""

    value: Number | str
    unit: str = ""


class Spread(Record, frozen=True):
    """Variation of one metric over repeated captures of the same launch."""

    n: int
    low: Number
    median: Number
    high: Number


class Column(Record, frozen=True, gc=False):
    """Sparse values of one metric over the instruction table: only non-zero rows."""

    rows: tuple[int, ...]
    values: tuple[Number, ...]
    unit: str = ""


class InstructionTable(Record, frozen=True):
    """The instructions of one kernel, as columns of equal length, by address.

    `address` is in bytes from the kernel's first instruction. `file` indexes `Profile.sources`
    (-1: unknown), `line` is 1-based (0: unknown). `columns` maps an ncu metric name to its
    per-instruction values. `ptx` may be empty (engines without it) or as long as `address`.
    """

    address: tuple[int, ...] = ()
    text: tuple[str, ...] = ()
    file: tuple[int, ...] = ()
    line: tuple[int, ...] = ()
    ptx: tuple[str, ...] = ()
    columns: dict[str, Column] = {}


class ByTiming(Record, frozen=True):
    """Emulated instructions whose counts depend on the order of warps, which varies on a chip.

    `rows` are those of the launch's instruction table, `without` the values of the metrics that
    would change without them (None: there would be no value).
    """

    rows: tuple[int, ...]
    without: dict[str, Number | None] = {}


class Timeline(Record, frozen=True):
    """PM samples of a kernel's run by ncu's metric name: row n is at n × `interval` seconds.

    `reached`: number of rows of each metric whose pass ended before the longest one. In later rows
    a metric is absent; in an earlier row that its column lacks, it is 0.
    """

    interval: float
    samples: int
    columns: dict[str, Column] = {}
    reached: dict[str, int] = {}


class RuleFocus(Record, frozen=True):
    """A metric to look at according to a rule."""

    metric: str
    value: float
    info: str = ""


class Rule(Record, frozen=True):
    """One finding of ncu's own rules.

    `speedup` is ncu's estimate in percent of the duration, of the whole launch or of a part.
    """

    id: str
    section: str
    name: str
    kind: Literal["ok", "note", "optimization", "warning", "error"]
    title: str = ""
    message: str = ""
    speedup: float | None = None
    scope: Literal["global", "local", "unknown"] = "unknown"
    focus: tuple[RuleFocus, ...] = ()


class Launch(Record, frozen=True, weakref=True):
    """One profiled kernel launch (or graph, or range: see `workload`)."""

    kernel: str  # function name without parameters
    index: int  # order within the profile
    signature: str = ""  # demangled, if it differs from `kernel`
    workload: Literal["kernel", "graph", "range", "cmdlist", "other"] = "kernel"
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    dynamic_shared: int = 0
    metrics: dict[str, Metric] = {}
    absent: dict[str, str] = {}  # ncu name -> why there is no number: "NaN", "no value"
    spreads: dict[str, Spread] = {}
    instructions: InstructionTable = InstructionTable()
    by_timing: ByTiming | None = None
    timeline: Timeline | None = None
    rules: tuple[Rule, ...] = ()
    nvtx: tuple[str, ...] = ()  # "workbench@v3"
    profiled: bool = True  # False: listed in the report, never measured
    samples: int = 1  # the number of launches of a report in this mean; see `spreads`

    def __repr__(self) -> str:
        # A full repr would print a megabyte at a prompt or in a failed assertion.
        return f"<{self.kernel} grid={self.grid} block={self.block}>"

    @property
    def config(self) -> Config:
        """The configuration that distinguishes it from other launches of the kernel."""
        return self.grid, self.block, self.dynamic_shared


class Verification(Record, frozen=True):
    """The check that preceded a profile: relative error against float64."""

    problem: str
    error: float  # ||out - ref|| / ||ref||
    worst: float  # largest |out - ref|
    tolerance: float
    seed: int
    sampled: int = 0  # 0: every output was compared


class Capture(Record, frozen=True):
    """The origin of a profile; decides comparability."""

    command: tuple[str, ...] = ()  # the argv that was run, with neutral paths
    clock_control: str = ""  # "base", "none"; "" where unknown
    cache_control: str = ""
    replay_mode: str = ""
    sections: tuple[str, ...] = ()
    passes: int = 0
    wall_s: float = 0.0
    repeats: int = 1


DEBUG_BUILD = "debug-build"  #: code of the notice that machine code was built with -G
COMPILER = "compiler"  #: ptxas's changes to a kernel: spills, serialization
COUNTERS_DENIED = "counters-denied"  #: the driver denies this user the GPU's counters


class Notice(Record, frozen=True, kw_only=False):
    """A warning stored with a profile: the fact, and its meaning for the reader."""

    code: str
    message: str


class Profile(Record, frozen=True, weakref=True):
    """All results of one engine for one version on one problem on one device."""

    engine: EngineName
    device: Device
    captured: str  # ISO 8601, UTC, seconds; "" if a foreign report does not say
    launches: tuple[Launch, ...]
    schema_version: int = SCHEMA_VERSION
    study: str = ""
    version: str = ""
    problem: str = ""
    parameters: dict[str, int] = {}
    tools: dict[str, str] = {}  # "ncu": "2025.3.1.0", "driver": …, "workbench": …
    capture: Capture = Capture()
    sources: tuple[SourceFile, ...] = ()
    source_hash: str = ""  # of the version's file and its includes; "" for foreign reports
    build: Build | None = None
    verification: Verification | None = None
    notices: tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        kernels = ", ".join(dict.fromkeys(launch.kernel[:40] for launch in self.launches))
        name = f"{self.study}/{self.version} {self.problem}" if self.study else "a report"
        return f"<{name} on {self.device.name} ({self.engine}): {kernels[:80]}>"


class Estimate(Record, frozen=True):
    """A median with its 95% confidence interval, in seconds (or a ratio)."""

    value: float
    low: float
    high: float
    n: int = 0

    @property
    def error(self) -> float:
        """Distance from the median to the interval's end on its wider side."""
        return max(self.high - self.value, self.value - self.low)


class DeviceState(Record, frozen=True):
    """Clocks (hertz), power (watts) and temperature (°C) seen while timing.

    `waited`: seconds of load until clocks and heat were steady, before the first time (None:
    unknown); `settled` is False if the wait ended first.
    """

    sm_clock: tuple[float, float] = (0.0, 0.0)  # lowest, highest
    memory_clock: tuple[float, float] = (0.0, 0.0)
    power: tuple[float, float] = (0.0, 0.0)
    temperature: tuple[float, float] = (0.0, 0.0)
    waited: float | None = None
    settled: bool = True


class Timing(Record, frozen=True):
    """Time of one version on one problem, outside any profiler.

    `cache` is ``cold`` (buffers rotate over more than twice the L2) or ``warm``, `method`
    ``events`` or ``graph`` (CUDA-graph replay, for short kernels). `first_launch` is the first
    launch's cost, module load included, in seconds. `baseline` was interleaved with the version in
    the same process; `baseline_hash` is the source hash that its file had then ("": older record).
    """

    study: str
    version: str
    problem: str
    device: Device
    captured: str
    time: Estimate
    schema_version: int = SCHEMA_VERSION
    parameters: dict[str, int] = {}
    source_hash: str = ""
    cache: Literal["cold", "warm"] = "cold"
    method: Literal["events", "graph"] = "events"
    converged: bool = True  # the interval reached the wanted width
    first_launch: float = 0.0
    launches: dict[str, float] = {}  # median seconds per kernel, if there are several
    flops: int = 0
    bytes: int = 0
    baseline: str = ""
    baseline_hash: str = ""
    baseline_time: Estimate | None = None
    ratio: Estimate | None = None  # baseline time / version time
    verification: Verification | None = None
    state: DeviceState | None = None
    tools: dict[str, str] = {}
    notices: tuple[Notice, ...] = ()


LineKey = tuple[int, int]  # (index into Profile.sources, 1-based line)
_Lines = dict[LineKey, dict[str, Number]]
#: The most launches whose sums over lines are cached; a page asks for each about ten times.
_summed: deque[tuple[Launch, _Lines]] = deque(maxlen=16)


def line_counters(launch: Launch) -> dict[LineKey, dict[str, Number]]:
    """Sum a launch's per-instruction columns over source lines.

    (file index, line) -> {ncu metric name: sum}, of non-zero values. Instructions without a source
    line are counted under their file (or -1) and line 0, so that sums over all keys are those over
    all instructions. The result is shared: do not change it.
    """
    for known, lines in tuple(_summed):
        if known is launch:
            return lines
    table = launch.instructions
    keys = list(zip(table.file, table.line, strict=True))
    out: _Lines = {}
    for name, column in table.columns.items():
        sums: dict[LineKey, Number] = {}
        for row, value in zip(column.rows, column.values, strict=True):
            key = keys[row]
            sums[key] = sums[key] + value if key in sums else value
        for key, total in sums.items():
            out.setdefault(key, {})[name] = total
    _summed.append((launch, out))
    return out
