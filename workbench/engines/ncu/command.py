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

from workbench.engines.host.client import RESULT, run_name, stage, worker_argv
from workbench.engines.host.job import Job, Result, read_results
from workbench.engines.host.presence import Where
from workbench.engines.host.process import run_group
from workbench.engines.host.workspace import folder_for, workspace
from workbench.engines.ncu.collection import Collection
from workbench.engines.ncu.faults import find_fault
from workbench.engines.ncu.raw import Keep, Later, RawReport, machine_words, pack_report
from workbench.model import Profile, Record
from workbench.ncurep.child import Standby
from workbench.ncurep.files import exported, read_raw
from workbench.ncurep.read import read_report
from workbench.project import Project

REPORT = "report"
SUFFIX = ".ncu-rep"
DOMAIN = "workbench"


class Command(Record, frozen=True):
    """One ncu command, to be run in the project root.

    All paths in it are relative but two, those of ncu and of Python, which `neutral`
    leaves out.
    """

    ncu: str
    version: str
    output: str
    program: tuple[str, ...]
    collection: Collection = Collection()
    launcher: tuple[str, ...] = ()

    @property
    def ncu_arguments(self) -> tuple[str, ...]:
        """What stands between ncu and the program."""
        # The slash at the end makes it match push/pop ranges.
        words = ("--nvtx", "--nvtx-include", f"{DOMAIN}@{self.version}/", *self.collection.words)
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


class NcuRun(Record, frozen=True):
    """What is to be captured: a job, where it runs, and what ncu collects of it."""

    project: Project
    job: Job
    where: Where
    ncu: str
    collection: Collection

    def command(self, folder: Path) -> Command:
        """The command, for a job that lies in `folder` (relative to the project root)."""
        return Command(
            ncu=self.ncu,
            version=self.job.program.version,
            output=(folder / (REPORT + SUFFIX)).as_posix(),
            program=worker_argv(folder),
            collection=self.collection,
            launcher=self.where.launcher,
        )

    def prepare(self) -> Command:
        """Write the job where the command expects it, and return the command, for --dry-run.

        Raises:
            MissingError: no room for the job.
        """
        folder = folder_for(self.project.root, run_name(self.job))
        stage(self.project.root, folder, [self.job])
        return self.command(folder)

    def capture(
        self, keep: Keep = "auto", on_line: Callable[[str], None] | None = None
    ) -> Captured:
        """Run ncu around the worker, and read the report if and only if all went well.

        Nearly all of the time should be ncu's own: the child that reads the report warms up
        meanwhile, and reading and compressing go on side by side.

        Args:
            keep: Whether the raw report is to be kept.
            on_line: Called with each line that ncu prints.

        Raises:
            KernelError, MissingError, UsageError: as `workbench.engines.ncu.faults` says.
            DataError: the report cannot be read.
        """
        root = self.project.root
        with workspace(root, run_name(self.job)) as folder, Standby() as standby:
            stage(root, folder, [self.job])
            command = self.command(folder)
            finished = run_group(
                command.argv, cwd=root, timeout_s=self.where.timeout_s, on_line=on_line
            )
            report = exported(root / command.output)
            said = next(iter(read_results(root / folder / RESULT)), None)
            fault = find_fault(self.job, self.where, finished, said, report.is_file())
            if fault is not None:
                raise fault
            assert said is not None  # find_fault names a worker without a result
            data = read_raw(report)
            words = machine_words(root)
            raw = Later(lambda: pack_report(data, report, keep, words))
            return Captured(
                profile=read_report(report, standby=standby),
                raw=raw.result(),
                result=said,
                command=command,
                wall_s=finished.seconds,
            )


class Captured(Record, frozen=True):
    """A successful capture: the profile as read, the raw report, and what was run."""

    profile: Profile
    raw: RawReport
    result: Result
    command: Command
    wall_s: float
