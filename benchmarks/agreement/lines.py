"""How near the emulator comes to the hardware: recorded profiles, launch by launch, line by line.

The PTX that a recorded profile keeps is run on the same problem; what both count is
compared over source lines. Launches that are too large are sampled: blocks at random in
every stratum of the grid, its edges included, and a line then agrees if it lies within
three standard errors of what the sample suggests, or within one percent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import ptxemu
from benchmarks.agreement.misread import MISREAD, LeftOut, left_out
from ptxemu import Counts, Executed, GlobalMemory, Module
from workbench.callers import foreign
from workbench.compile.compilers import Nvcc, choose
from workbench.engines import Subject
from workbench.engines.emulated.emulation import arrays_of, launched, memory_of
from workbench.engines.emulated.engine import recorded_build
from workbench.errors import KernelError
from workbench.model import Build, Launch, Profile
from workbench.study.folder import Study
from workbench.study.launches import ResolvedLaunch

#: Line counters of ncu -> the emulator's counter of an instruction.
COUNTERS = {
    "memory_l2_theoretical_sectors_global": "sectors",
    "memory_l1_wavefronts_shared": "wavefronts",
    "memory_l2_theoretical_sectors_global_ideal": "ideal",
    "memory_l1_tag_requests_global": "tags",
    "memory_l1_wavefronts_shared_ideal": "wideal",
    "memory_l2_theoretical_sectors_local": "sectors",
}
#: Thread instructions of one launch that are run at most; of more, a sample.
BUDGET = 800_000_000
#: A tensor-core instruction of a warp takes about as long to emulate as so many others; one of a
#: warpgroup as long as others of as many threads as it multiplies and adds.
_TENSOR = 60
_PILOT = 8
_ERRORS = 3.0
#: Batches are few, so where blocks differ the error itself is known badly.
_SAMPLED = 0.01

Place = tuple[str, int]


@dataclass(slots=True)
class Tally:
    """One counter over the lines of a launch."""

    seen: float = 0.0
    want: float = 0.0
    same: int = 0
    lines: int = 0
    timed: int = 0  # lines whose count the emulator says to depend on timing
    timed_same: int = 0
    timed_seen: float = 0.0
    timed_want: float = 0.0
    apart: list[str] = field(default_factory=list)

    @property
    def deviation(self) -> float | None:
        """Relative deviation of the total; None where there is nothing to compare."""
        return self.seen / self.want - 1 if self.want else None

    @property
    def known(self) -> float | None:
        """The same of the lines whose count does not depend on timing."""
        want = self.want - self.timed_want
        return (self.seen - self.timed_seen) / want - 1 if want else None


@dataclass(slots=True)
class Agreement:
    """One launch, emulated and recorded.

    `instructions`: counted over recorded, less 1; `misread`: machine instructions whose
    counters of copies are not compared (`benchmarks.agreement.misread`), and
    `lines_left_out`: lines that are not compared because of them.
    """

    kernel: str
    columns: dict[str, Tally]
    instructions: float
    sampled: float
    misread: int = 0
    lines_left_out: int = 0
    timed: tuple[Place, ...] = ()  # lines whose counts depend on timing


def recorded_place(profile: Profile, launch: Launch, row: int) -> Place:
    """Where a machine instruction comes from."""
    file = launch.instructions.file[row]
    path = profile.sources[file].path if file >= 0 else "?"
    return Path(path).name, launch.instructions.line[row]


def counted_place(module: Module, row: Executed) -> Place:
    """Where a PTX instruction comes from."""
    path, line = module.place(row.instr)
    return Path(path or "?").name, line


def recorded_lines(
    profile: Profile, launch: Launch, column: str, without: LeftOut | None = None
) -> dict[Place, float]:
    """A line counter of a recorded launch, summed over (file, line)."""
    out: dict[Place, float] = defaultdict(float)
    found = launch.instructions.columns.get(column)
    if found is None:
        return out
    for row, value in zip(found.rows, found.values, strict=True):
        if without is None or row not in without.rows:
            out[recorded_place(profile, launch, row)] += value
    return out


def counted_lines(
    outcome: Counts, module: Module, column: str, without: LeftOut | None = None
) -> tuple[dict[Place, float], dict[Place, float]]:
    """The same of an emulated launch, and each line's standard error."""
    name = COUNTERS[column]
    local = column.endswith("_local")
    out: dict[Place, float] = defaultdict(float)
    margin: dict[Place, float] = defaultdict(float)
    for row in outcome.rows:
        if name in ("sectors", "ideal", "tags") and (row.site.space == "local") != local:
            continue
        if without is not None and id(row.site) in without.sites:
            continue
        place = counted_place(module, row)
        out[place] += getattr(row.site, name)
        margin[place] += outcome.margin(row.site, name)
    return out, margin


def kept(lines: dict[Place, float], without: LeftOut | None) -> dict[Place, float]:
    """The lines that are compared."""
    hidden = without.places if without is not None else ()
    return {place: value for place, value in lines.items() if place not in hidden}


def assembled(build: Build) -> Module:
    """The PTX of a recorded profile with the machine code that ptxas makes of it.

    Raises:
        MissingError: there is no nvcc here.
        KernelError: nvcc does not take it.
    """
    tool = choose("nvcc")
    assert isinstance(tool, Nvcc)
    flags = build.flags if build.compiler.startswith("nvcc") else ()  # Triton's are no options
    with TemporaryDirectory() as folder:
        made = tool.assemble(Path(folder), build.ptx, build.arch, flags)
    if made.failed:
        raise KernelError(f"nvcc does not assemble the recorded PTX: {made.log}")
    return ptxemu.load(build.ptx, made.cubin, arch=build.arch, foreign=foreign)


def compare(
    seen: dict[Place, float],
    want: dict[Place, float],
    margin: dict[Place, float],
    least: float = 0.0,
    timed: frozenset[Place] = frozenset(),
) -> Tally:
    """Lines that agree, totals, and the lines that differ in words.

    Args:
        seen: What the emulator counted.
        want: What was recorded.
        margin: Standard errors of what was counted.
        least: Share of a count by which a line may differ in any case.
        timed: Lines whose count depends on timing.
    """
    column = Tally(sum(seen.values()), sum(want.values()))
    for place in sorted({*seen, *want}):
        ours, theirs = seen.get(place, 0.0), want.get(place, 0.0)
        if not ours and not theirs:
            continue
        column.lines += 1
        same = column.same
        if abs(ours - theirs) <= max(
            0.5, _ERRORS * margin.get(place, 0.0), least * max(ours, theirs)
        ):
            column.same += 1
        else:
            column.apart.append(f"{place[0]}:{place[1]} {ours:,.0f} for {theirs:,.0f}")
        if place in timed:
            column.timed += 1
            column.timed_same += column.same - same
            column.timed_seen += ours
            column.timed_want += theirs
    return column


def cost(row: Executed) -> int:
    """Thread instructions that take as long to emulate as a row took."""
    if row.instr.op == "wgmma":
        return row.operations // 2
    return row.threads * (_TENSOR if row.instr.op in ("mma", "wmma") else 1)


def _affordable(outcome: Counts, budget: int) -> int:
    """Blocks of a launch that fit in the budget, judged by a few of them."""
    each = sum(map(cost, outcome.rows)) / outcome.launch.geometry.blocks
    return int(budget / max(each, 1.0))


def _run(
    module: Module, resolved: ResolvedLaunch, build: Build, memory: GlobalMemory, budget: int
) -> Counts:
    blocks, chosen = math.prod(resolved.grid), 0
    if blocks > _PILOT:
        # What it leaves behind (a ticket taken, a lock) is none of the launch's business.
        before = memory.bytes.copy()
        pilot = launched(module, resolved, build, memory, blocks=_PILOT, check=False)
        memory.bytes[:] = before
        wanted = max(_affordable(pilot, budget), 4 * _PILOT)
        chosen = wanted if wanted < blocks else 0
    return launched(module, resolved, build, memory, blocks=chosen, check=False)


def _left_out(profile: Profile, launch: Launch, outcome: Counts, module: Module) -> LeftOut:
    return left_out(
        launch,
        outcome,
        lambda row: recorded_place(profile, launch, row),
        lambda row: counted_place(module, row),
    )


def agreement(
    study: Study, profile: Profile, budget: int = BUDGET, *, misread: bool = False
) -> list[Agreement]:
    """Compare every launch of a recorded profile; empty where it keeps no PTX.

    Args:
        study: The study that the profile belongs to.
        profile: Recorded under ncu.
        budget: Thread instructions of one launch that are run at most; of more, a sample.
        misread: Compare the copies that ncu misreads all the same.

    Raises:
        KernelError: the emulator cannot run its PTX.
    """
    built = recorded_build(profile)
    if built is None:
        return []
    version, problem = study.version(profile.version), study.problem(profile.problem)
    subject = Subject.of(study, version, problem, lambda _version: built)
    module = assembled(built.build)
    # What a line costs may hang on the data: the inputs are those that were profiled.
    arrays = arrays_of(subject, profile.verification.seed if profile.verification else 1)
    memory = memory_of(subject, arrays, module)
    out = []
    for resolved, launch in zip(subject.launches, profile.launches, strict=True):
        outcome = _run(module, resolved, built.build, memory, budget)
        missing = LeftOut() if misread else _left_out(profile, launch, outcome, module)
        timed = frozenset(counted_place(module, row) for row in outcome.schedule_dependent)
        columns = {}
        for name in COUNTERS:
            without = missing if name in MISREAD else None
            seen, margin = counted_lines(outcome, module, name, without)
            want = recorded_lines(profile, launch, name, without)
            columns[name] = compare(
                kept(seen, without),
                kept(want, without),
                kept(margin, without),
                0.0 if outcome.sampled == 1 else _SAMPLED,
                timed,
            )
        executed = sum(recorded_lines(profile, launch, "inst_executed").values())
        code = outcome.machine_code()
        assert code is not None, "the recorded kernel is in its own cubin"
        out.append(
            Agreement(
                launch.kernel,
                columns,
                code.total / executed - 1,
                outcome.sampled,
                len(missing.rows),
                len(missing.places),
                tuple(sorted(timed)),
            )
        )
    return out
