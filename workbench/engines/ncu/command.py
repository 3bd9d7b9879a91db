"""The ncu engine: one frozen command value, its run, and the profile that comes of it.

The worker that ncu wraps verifies the version first, outside of the NVTX range that
ncu profiles, and only then launches it inside. So an unverified result never becomes a
profile, the profiled binary is the verified one, and the whole takes no second start
of a process beyond the bare ncu command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from workbench.engines.host.client import RESULT, run_name, stage, worker_argv
from workbench.engines.host.job import Job, Result, read_results
from workbench.engines.host.process import Finished, run_group
from workbench.engines.host.where import Where
from workbench.engines.host.workspace import folder_for, workspace
from workbench.engines.ncu import collection
from workbench.engines.ncu.faults import find_fault
from workbench.engines.ncu.raw import Keep, Later, RawReport, machine_words, pack_report
from workbench.model import Profile, Record
from workbench.ncurep.child import Standby
from workbench.ncurep.read import read_report
from workbench.project import Project

REPORT = "report"
SUFFIX = ".ncu-rep"
DOMAIN = "workbench"

ClockControl = Literal["none", "base", "boost", "reset"]
CacheControl = Literal["all", "none"]
ReplayMode = Literal["kernel", "application", "range", "app-range"]


class Options(Record, frozen=True):
    """What a user may choose about the collection.

    With neither `sets` nor `sections` the default collection is taken, and `metrics`
    are added to it. Clocks are left alone by default ("none"): ncu's own default
    locks them to the chip's base clock, at which nothing is ever timed here, and which
    shifts the balance of memory and arithmetic; counts do not depend on it.
    """

    sets: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    clock_control: ClockControl = "none"
    cache_control: CacheControl = "all"
    replay_mode: ReplayMode = "kernel"

    @property
    def chosen_sections(self) -> tuple[str, ...]:
        """The sections that are asked for by name."""
        if self.sets or self.sections:
            return self.sections
        return collection.default_sections()

    @property
    def chosen_metrics(self) -> tuple[str, ...]:
        """The metrics that are asked for by name, each once."""
        return tuple(dict.fromkeys((*self.catalog_metrics, *self.metrics)))

    @property
    def catalog_metrics(self) -> tuple[str, ...]:
        """The metrics that are asked for to fill the catalog."""
        return () if self.sets or self.sections else collection.default_metrics()


class Command(Record, frozen=True):
    """One ncu command, to be run in the project root.

    All paths in it are relative but two, those of ncu and of Python, which `neutral`
    leaves out.
    """

    ncu: str
    version: str
    output: str
    program: tuple[str, ...]
    options: Options = Options()
    launcher: tuple[str, ...] = ()

    @property
    def ncu_arguments(self) -> tuple[str, ...]:
        """What stands between ncu and the program."""
        options = self.options
        words = [
            "--nvtx",
            "--nvtx-include",
            # The slash at the end makes it match push/pop ranges.
            f"{DOMAIN}@{self.version}/",
            "--clock-control",
            options.clock_control,
            "--cache-control",
            options.cache_control,
            "--replay-mode",
            options.replay_mode,
            "--import-source",
            "yes",
        ]
        for name in options.sets:
            words += ["--set", name]
        for name in options.chosen_sections:
            words += ["--section", name]
        if options.chosen_metrics:
            words += ["--metrics", ",".join(options.chosen_metrics)]
        return (*words, "--force-overwrite", "--export", self.output)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command as it is run, in the project root."""
        return (*self.launcher, self.ncu, *self.ncu_arguments, *self.program)

    @property
    def neutral(self) -> tuple[str, ...]:
        """The command as it is kept in a profile: it names no path and no host.

        Of a launcher only the program stays: its options may name hosts, accounts and
        partitions, and say nothing about what was measured.
        """
        launcher = (Path(self.launcher[0]).name, "…") if self.launcher else ()
        return (*launcher, "ncu", *self.ncu_arguments, "python", *self.program[1:])

    @property
    def shell(self) -> str:
        """The command for a shell."""
        return shlex.join(self.argv)


def make_command(folder: Path, job: Job, where: Where, options: Options, ncu: str) -> Command:
    """The command for a job that lies in `folder` (relative to the project root)."""
    return Command(
        ncu=ncu,
        version=job.program.version,
        output=(folder / (REPORT + SUFFIX)).as_posix(),
        program=worker_argv(folder),
        options=options,
        launcher=where.launcher,
    )


def prepare(project: Project, job: Job, where: Where, options: Options, ncu: str) -> Command:
    """Write the job where the command expects it, and return the command, for --dry-run.

    Raises:
        MissingError: no room for the job.
    """
    folder = folder_for(project.root, run_name(job))
    stage(project.root, folder, [job])
    return make_command(folder, job, where, options, ncu)


class Captured(Record, frozen=True):
    """A successful capture: the profile as read, the raw report, and what was run."""

    profile: Profile
    raw: RawReport
    result: Result
    command: Command
    wall_s: float


def capture(
    project: Project,
    job: Job,
    where: Where,
    options: Options,
    ncu: str,
    on_line: Callable[[str], None] | None = None,
    keep: Keep = "auto",
) -> Captured:
    """Run ncu around the worker, and read the report if and only if all went well.

    Nearly all of the time should be ncu's own: the child that reads the report warms up
    meanwhile, and reading and compressing go on side by side.

    Raises:
        KernelError, MissingError, UsageError: as `workbench.engines.ncu.faults` says.
        DataError: the report cannot be read.
    """
    with workspace(project.root, run_name(job)) as folder, Standby() as standby:
        stage(project.root, folder, [job])
        command = make_command(folder, job, where, options, ncu)
        finished = run_group(
            command.argv, cwd=project.root, timeout_s=where.timeout_s, on_line=on_line
        )
        report = project.root / command.output
        result = checked(job, where, finished, project.root / folder / RESULT, report)
        data = report.read_bytes()
        words = machine_words(project.root)
        raw = Later(lambda: pack_report(data, report, keep, words))
        return Captured(
            profile=read_report(report, standby=standby),
            raw=raw.result(),
            result=result,
            command=command,
            wall_s=finished.seconds,
        )


def checked(job: Job, where: Where, finished: Finished, result: Path, report: Path) -> Result:
    """The worker's result, once nothing speaks against the capture.

    Raises:
        WorkbenchError: whatever `find_fault` found.
    """
    said = next(iter(read_results(result)), None)
    fault = find_fault(job, where, finished, said, report.is_file())
    if fault is not None:
        raise fault
    assert said is not None  # find_fault names a worker without a result
    return said
