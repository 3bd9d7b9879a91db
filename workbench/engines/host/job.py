"""The records that cross the border between the program and its worker process.

`Orders` are written to a file, the worker writes a list of `Result`s to another. Nothing is read
from the worker's output streams, because a kernel's ``printf``, a library's banner or ncu's own
lines may appear there.

JSON has no NaN: numbers that may be NaN are ``float | None`` (None: not a number).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from workbench.model import Device, DeviceState, Estimate, Notice, Record, Verification
from workbench.study.launches import ResolvedFill, ResolvedLaunch, ResolvedScratch

Task = Literal["verify", "time", "race", "profile", "describe", "prepare"]

#: Kinds of the worker's failures. `workbench.engines.host.client` turns each into an error.
FailureKind = Literal[
    "wrong-result",  # the outputs differ from the reference (`code`: only with another seed)
    "crash",  # the kernel accessed forbidden memory, or hit an illegal instruction
    "launch-failed",  # the driver refused the launch: too many resources, bad grid
    "out-of-memory",  # the device has too little memory for this problem
    "no-device",  # no GPU, or no driver
    "no-pycuda",  # PyCUDA is not installed
    "unavailable",  # a Python version says that it cannot run here
    "bad-version",  # the version's own Python code failed
    "bad-data",  # a file that a study reads is damaged
    "bad-study",  # study.py failed or gave a reference that is not finite
    "not-loadable",  # the cubin does not fit the device, or lacks the kernel
    "unsupported",  # the driver lacks a feature that the version needs
    "internal",  # anything else
]


class BufferSpec(Record, frozen=True):
    """A device buffer: an input, an output, or scratch memory of one version."""

    name: str
    role: Literal["input", "output", "scratch"]
    shape: tuple[int, ...]
    dtype: str


class Executable(Record, frozen=True):
    """A cubin and its launches, or only a Python file; paths are relative to the project root."""

    version: str
    kind: Literal["cuda", "triton", "python"]
    path: str
    cubin: str = ""
    launches: tuple[ResolvedLaunch, ...] = ()
    scratch: tuple[ResolvedScratch, ...] = ()
    fills: tuple[ResolvedFill, ...] = ()


def nvtx_range(version: str) -> str:
    """Name the range of a version's launches, without the characters of ncu's filters (``@,[``…).

    A tuning's choice is named like ``v0@64-8``.
    """
    return re.sub(r"[^\w.-]", "_", version)


class TimeOptions(Record, frozen=True):
    """The length of a measurement, and the state of the caches.

    `width` is the wanted width of the 95% interval relative to the median; `limit_s` bounds the
    sampling of one version (and its baseline) in wall time. `graph_below_s`: see
    `workbench.engines.gpu.stopwatch.wants_graph`. `settle_s` bounds the wait for clocks and heat
    before the first sample. `pairs`: version and baseline are two states of one kernel, so that
    `width` is that of the interval of their ratio (`workbench.analysis.times.regression`), and the
    single times are returned. `ceiling_s`: a race of one drops a version that certainly takes
    longer, and does not check it.
    """

    cache: Literal["cold", "warm"] = "cold"
    width: float = 0.01
    min_samples: int = 20
    max_samples: int = 2560
    limit_s: float = 10.0
    graph_below_s: float = 20e-6
    settle_s: float = 5.0
    pairs: bool = False
    ceiling_s: float | None = None


class Job(Record, frozen=True):
    """A worker's task for one version on one problem."""

    task: Task
    study: str
    problem: str
    seed: int
    executable: Executable
    baseline: Executable | None = None
    answering: Executable | None = None  # the version that gives the right answer, if one does
    others: tuple[Executable, ...] = ()  # the others in a race; each was checked alone
    sanitize: bool = False  # under compute-sanitizer: no guard bytes, no poison, no comparison
    repeats: int = 1  # profiled executions of the version
    claim: str = ""  # a file: the worker that creates it does the job
    time: TimeOptions = TimeOptions()


class Orders(Record, frozen=True):
    """A worker's jobs, in order. `more`: others may follow in the same file."""

    jobs: tuple[Job, ...]
    more: bool = False


class Failure(Record, frozen=True):
    """The reason for a missing result: the kind, the event, and the activity."""

    kind: FailureKind
    message: str
    during: str = ""
    code: str = ""  # the driver's own words


class Worst(Record, frozen=True):
    """The output element that is furthest from the reference.

    `got` and `want` are text, because either may be NaN or infinite.
    """

    output: str
    index: tuple[int, ...]
    got: str
    want: str


class Check(Record, frozen=True):
    """The comparison of all outputs of one version with the float64 reference.

    `error` is the largest ``‖out − ref‖ / ‖ref‖`` of the outputs and `largest` the
    largest ``|out − ref|`` (None if an output is not a number). `unwritten` counts elements that
    still hold the poison, `strayed` names buffers beyond which the version wrote, and inputs
    that it overwrote. `sampled` is 0 if every element was compared. `fixed`: another seed gave the
    same inputs, so that a result kept from the first run would go unnoticed.
    """

    ok: bool
    error: float | None
    largest: float | None
    tolerance: float
    compared: int
    sampled: int = 0
    unwritten: int = 0
    not_a_number: int = 0
    far_off: int = 0
    strayed: tuple[str, ...] = ()
    worst: Worst | None = None
    fixed: bool = False
    notes: tuple[str, ...] = ()  # what it does that is likely a mistake, and no error

    def verification(self, problem: str, seed: int) -> Verification:
        """The record of a passed check, as stored with profiles and times."""
        return Verification(
            problem=problem,
            error=self.error or 0.0,
            worst=self.largest or 0.0,
            tolerance=self.tolerance,
            seed=seed,
            sampled=self.sampled,
        )


class Times(Record, frozen=True):
    """Times that the worker measured for one version (and for the baseline in turns with it).

    `samples` and `baseline_samples` are the single times in seconds, pair by pair, if requested.
    """

    time: Estimate
    method: Literal["events", "graph"]
    converged: bool
    first_launch: float
    sets: int
    enqueue: float  # host seconds to enqueue one execution
    launches: dict[str, float] = msgspec.field(default_factory=dict)
    baseline_time: Estimate | None = None
    ratio: Estimate | None = None
    samples: tuple[float, ...] = ()
    baseline_samples: tuple[float, ...] = ()


class Raced(Record, frozen=True):
    """One contestant's times in seconds, in order; `dropped`: it was certainly slower."""

    version: str
    samples: tuple[float, ...]
    dropped: bool = False


class Result(Record, frozen=True):
    """A worker's answer to a job. `failure` is None if it succeeded.

    `elsewhere`: another worker has claimed the job, and nothing was done here. `seconds`: wall time
    of the job.
    """

    task: Task
    elsewhere: bool = False
    failure: Failure | None = None
    device: Device | None = None
    check: Check | None = None
    times: Times | None = None
    raced: tuple[Raced, ...] = ()
    seconds: float = 0.0
    state: DeviceState | None = None
    parameters: dict[str, int] = msgspec.field(default_factory=dict)
    flops: int = 0
    bytes: int = 0
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


def encode(record: Orders | Sequence[Result]) -> bytes:
    """Indented JSON, so that a person can read the request."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def read_orders(path: Path) -> Orders:
    """Read a job file; raises msgspec.DecodeError on anything else."""
    return msgspec.json.decode(path.read_bytes(), type=Orders)


#: Made once: two threads that resolve the types of a record at the same time can crash.
_RESULTS = msgspec.json.Decoder(list[Result])


def read_results(path: Path) -> list[Result]:
    """The worker's results so far; none if it ended before the first one."""
    try:
        return _RESULTS.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return []
