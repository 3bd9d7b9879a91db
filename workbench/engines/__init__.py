"""Engines verify and profile versions. ncu needs a GPU, the emulator does not.

Input: `Subject`s, which are compiled versions on problems that they can do, and options. Output:
`Verdict`s and `Profile`s. `choice` decides which engine is used.

A worker under a profiler imports this module too: it imports no engine or compiler at its top.
"""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from workbench.engines.ncu.collection import Collection, Keep
from workbench.errors import WorkbenchError
from workbench.model import EngineName, Record
from workbench.processes.bounds import Deadline
from workbench.study.launches import (
    ResolvedFill,
    ResolvedLaunch,
    ResolvedScratch,
    complete,
    resolve_fills,
    resolve_launches,
    resolve_scratch,
)
from workbench.study.signatures import check_arguments

if TYPE_CHECKING:
    from workbench.compile.build import BuildResult
    from workbench.engines.host.job import Check
    from workbench.model import Problem, Profile
    from workbench.specs import Version
    from workbench.study.folder import Study

Say = Callable[[str], None]


def silent(_line: str) -> None:
    """Say nothing."""


class RunOptions(Record, frozen=True):
    """A user's options for running versions.

    `seed` is for the inputs; None: a fresh one. `limit` bounds compiling a version and running it
    on a problem; also all work, if it has an end. `arch` is the target; empty: that of the GPU
    here. `launcher` precedes every command, as in a shell. `gpus`: ``all``, or numbers and UUIDs
    separated by commas; empty: the first. `on`: the cluster that runs the jobs (``slurm``);
    empty: this machine. `instruction_limit`: instructions of one thread after which the emulator
    stops a kernel.
    """

    seed: int | None = None
    limit: Deadline = Deadline()
    arch: str = ""
    launcher: str = ""
    gpus: str = ""
    on: str = ""
    instruction_limit: int | None = None

    def within(self, seconds: float | None) -> RunOptions:
        """The same options, ending after this many seconds; None: only the parts are limited."""
        if seconds is None:
            return self
        # The time that a cluster's jobs wait in the queue is not work.
        return replace(self, limit=Deadline(seconds) if self.on else Deadline.after(seconds))


class Where(Record, frozen=True):
    """The worker's place and time limit.

    `launcher` precedes every command (``srun --gres=gpu:1``); `arch` is the target. `gpus` are the
    UUIDs of the GPUs that share the work, all of one model (`device`); empty: CUDA's first GPU.
    """

    arch: str
    launcher: tuple[str, ...] = ()
    limit: Deadline = Deadline()
    gpus: tuple[str, ...] = ()
    device: str = ""


class ProfileOptions(Record, frozen=True):
    """Options of a profile; None: the default.

    `repeats`: captures of every launch under ncu, for the noise of its counters. `keep_raw`: keep
    ncu's raw report beside the profile; ``auto``: if it is small and names no folder of this
    machine. `blocks`: the approximate number of blocks of a launch that the emulator runs; 0: all;
    None: all unless the problem is large.
    """

    collection: Collection | None = None
    repeats: int = 1
    keep_raw: Keep = "auto"
    blocks: int | None = None


class Subject(Record, frozen=True):
    """A compiled version to run on a problem that it can do, with its launches evaluated.

    `built` is None for a Python version, which builds what it needs itself. `answering` is the
    version that gives the right answer on the same problem (``reference = "v0"``), if any; None for
    that version itself.
    """

    study: Study
    version: Version
    problem: Problem
    built: BuildResult | None
    launches: tuple[ResolvedLaunch, ...] = ()
    scratch: tuple[ResolvedScratch, ...] = ()
    fills: tuple[ResolvedFill, ...] = ()
    answering: Subject | None = None

    @property
    def itself(self) -> bool:
        """True if the study takes this version's own results as the right answer."""
        return self.study.answering == self.version.id

    def on(self, problem: Problem) -> Subject:
        """The same version on another problem that it can do."""
        built = {each.version.id: each.built for each in (self, self.answering) if each}
        return self.of(self.study, self.version, problem, lambda version: built[version.id])

    @classmethod
    def of(
        cls,
        study: Study,
        version: Version,
        problem: Problem,
        build: Callable[[Version], BuildResult | None],
    ) -> Subject:
        """Evaluate the launches and buffers of a version for a problem that it can do.

        `build` compiles it, and the version that gives the right answer. Raises UsageError: a
        launch that no chip can run, arguments that do not match the kernel's parameters, or an
        impossible fill.
        """
        built = build(version)
        resources = built.build.resources if built else ()
        answering = None
        if study.answering not in ("", version.id):
            known = study.version(study.answering)
            study.check_requirements(known, problem)
            answering = cls.of(study, known, problem, build)
        ours = version.kind != "python"  # a library's launches are not checked
        launches = complete(resolve_launches(study, version, problem), resources) if ours else ()
        if built and version.kind == "cuda":
            check_arguments(version, built.build.ptx, launches)
        return cls(
            study=study,
            version=version,
            problem=problem,
            built=built,
            launches=launches,
            scratch=resolve_scratch(study, version, problem) if ours else (),
            fills=resolve_fills(study, version, problem) if ours else (),
            answering=answering,
        )


class Verdict(NamedTuple):
    """The result of verifying one problem: the check, and the error if it failed."""

    problem: Problem
    check: Check | None
    error: WorkbenchError | None = None


class Engine(abc.ABC):
    """Verifies and profiles versions.

    `name` names its profiles' files, `under` how they were made (``under ncu``). `verify_line` is
    printed before verifying (if not empty), `profile_line` before profiling; it names what the
    engine cannot know. `seed` is for the inputs of all versions. `times`: it can time versions
    (`workbench.engines.ncu.engine.GpuEngine`).
    """

    name: EngineName
    verify_line: str = ""
    profile_line: str
    under: str
    seed: int
    times: bool = False

    def refuses(self, version: Version) -> str:
        """Return why it cannot run such a version on any problem; empty if it can."""
        del version
        return ""

    def unheard(self, options: ProfileOptions) -> list[str]:
        """The given command-line options that have no effect here."""
        del options
        return []

    @abc.abstractmethod
    def build(self, version: Version) -> BuildResult | None:
        """Compile a version, or find it in the cache; None for a Python version.

        Raises:
            KernelError: it does not compile.
            UsageError, MissingError: see `workbench.compile.build.build`.
        """

    @abc.abstractmethod
    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        begin: Callable[[int], None],
    ) -> None:
        """Check results against the reference; a failure does not stop the others.

        `begin` is called with the place of each subject before it begins, `tell` once with place
        and verdict as it ends, perhaps from another thread. Raises MissingError: nothing can run
        here.
        """

    @abc.abstractmethod
    def profile(self, subject: Subject, options: ProfileOptions) -> tuple[Profile, bytes | None]:
        """Verify and profile a version; return the profile, and the raw report if it is kept.

        Raises:
            KernelError: a wrong result, a crash, a hang.
            MissingError, UsageError, DataError: something is missing or not understood.
        """


def fresh_seed() -> int:
    """A random seed, so that no kernel gives a right result by chance."""
    return int.from_bytes(os.urandom(4), "little")


def now() -> str:
    """The current time as records hold it: ISO 8601, UTC, in seconds."""
    return iso_time(time.time())


def iso_time(at: float) -> str:
    """Seconds since 1970 as records hold them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
