"""The engine for a GPU: the worker verifies and times versions; ncu profiles the worker.

The worker that ncu wraps verifies the version first, outside the NVTX range that ncu profiles, and
only then launches it inside: the profiled binary is the verified one.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from workbench import __version__
from workbench.compile.build import BuildResult, build
from workbench.compile.image import check_fits, with_text
from workbench.engines import (
    Engine,
    ProfileOptions,
    Say,
    Subject,
    Verdict,
    Where,
    fresh_seed,
    now,
    silent,
)
from workbench.engines.host.client import (
    RESULT,
    Feed,
    folder_for,
    run_jobs,
    run_name,
    stage,
    worker_argv,
    workspace,
)
from workbench.engines.host.job import (
    Executable,
    Job,
    Result,
    Task,
    TimeOptions,
    nvtx_range,
    read_results,
)
from workbench.engines.host.process import Finished, run_group
from workbench.engines.host.worker_pool import Crew, Ending, crew
from workbench.engines.ncu.collection import Collection, Keep
from workbench.engines.ncu.faults import find_fault
from workbench.engines.ncu.report import (
    RawReport,
    fold_repeats,
    library_notices,
    machine_words,
    metric_notices,
    own_sources,
    pack_report,
)
from workbench.errors import KernelError, WorkbenchError
from workbench.model import EngineName, Profile, Record, Timing
from workbench.ncurep.child import Standby
from workbench.ncurep.files import exported, read_raw
from workbench.ncurep.read import read_report
from workbench.processes.starting import worker_environment
from workbench.project import Project
from workbench.specs import Version
from workbench.study.sources import source_hash

REPORT = "report"
SUFFIX = ".ncu-rep"
DOMAIN = "workbench"


class Command(Record, frozen=True):
    """One ncu command, to be run in the project root.

    All its paths are relative except those of ncu and Python, which `neutral` leaves out.
    """

    ncu: str
    version: str
    output: str
    worker: tuple[str, ...]
    collection: Collection = Collection()
    launcher: tuple[str, ...] = ()

    @property
    def ncu_arguments(self) -> tuple[str, ...]:
        """Arguments between ncu and the worker."""
        # The slash at the end makes it match push/pop ranges.
        one = f"{DOMAIN}@{nvtx_range(self.version)}/"
        words = ("--nvtx", "--nvtx-include", one, *self.collection.words)
        return (*words, "--force-overwrite", "--export", self.output)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command as it is run, in the project root."""
        return (*self.launcher, self.ncu, *self.ncu_arguments, *self.worker)

    @property
    def neutral(self) -> tuple[str, ...]:
        """The command as stored in a profile: it names no path and no host.

        Only the name of a launcher's program stays: its options may name hosts, accounts and
        partitions, and say nothing about the measured work.
        """
        launcher = (Path(self.launcher[0]).name, "…") if self.launcher else ()
        return (*launcher, "ncu", *self.ncu_arguments, "python", *self.worker[1:])

    @property
    def shell(self) -> str:
        """The command for a shell."""
        return shlex.join(self.argv)


class NcuRun(Record, frozen=True):
    """A capture to make: a job, where it runs, and what ncu collects from it."""

    project: Project
    job: Job
    where: Where
    ncu: str
    collection: Collection

    def command(self, folder: Path) -> Command:
        """The command, for a job in `folder` (relative to the project root)."""
        return Command(
            ncu=self.ncu,
            version=self.job.executable.version,
            output=(folder / (REPORT + SUFFIX)).as_posix(),
            worker=worker_argv(folder),
            collection=self.collection,
            launcher=self.where.launcher,
        )

    def prepare(self) -> Command:
        """Write the job to the file that the command reads, and return the command, for --dry-run.

        Raises MissingError: no space for the job.
        """
        folder = folder_for(self.project.root, run_name(self.job))
        stage(self.project.root, folder, [self.job])
        return self.command(folder)

    def capture(
        self, keep: Keep = "auto", on_line: Callable[[str], None] | None = None
    ) -> Captured:
        """Run ncu around the worker, and read the report if and only if it succeeded.

        `keep`: whether to keep the raw report. `on_line` is called with each line that ncu prints.

        Raises:
            KernelError, MissingError, UsageError: as `workbench.engines.ncu.faults` says.
            DataError: the report cannot be read.
        """
        root = self.project.root
        with workspace(root, run_name(self.job)) as folder, Standby() as standby:
            stage(root, folder, [self.job])
            command = self.command(folder)
            finished = run_group(
                command.argv,
                cwd=root,
                limit=self.where.limit,
                env=worker_environment(),
                on_line=on_line,
            )
            report = exported(root / command.output)
            said = next(iter(read_results(root / folder / RESULT)), None)
            fault = find_fault(self.job, self.where, finished, said, report.is_file())
            if fault is not None:
                raise fault
            assert said is not None  # find_fault names a worker without a result
            data, words = read_raw(report), machine_words(root)
            with ThreadPoolExecutor(1) as beside:
                packed = beside.submit(pack_report, data, report, keep, words)
                profile = read_report(report, standby=standby)
            return Captured(
                profile=profile,
                raw=packed.result(),
                result=said,
                command=command,
                wall_s=finished.seconds,
            )


class Captured(Record, frozen=True):
    """A successful capture: the profile as read, the raw report, and the command."""

    profile: Profile
    raw: RawReport
    result: Result
    command: Command
    wall_s: float


class GpuEngine(Engine):
    """Runs versions on the GPU here, or on the one that a launcher reaches.

    `project`'s root is the worker's working folder. `where` gives the compilation target and the
    way to the GPU. `seed`: None: a fresh one. `ncu` is empty if nothing will be profiled. `workers`
    were started already, for the first jobs; else `ready` does it.
    """

    name: EngineName = "ncu"
    under = "under ncu"
    times = True

    def __init__(
        self,
        project: Project,
        where: Where,
        *,
        seed: int | None = None,
        ncu: str = "",
        say: Say = silent,
        workers: Crew | None = None,
    ) -> None:
        self.project = project
        self.where = where
        self.seed = fresh_seed() if seed is None else seed
        self.profile_line = f"engine: ncu ({ncu}); times are measured without it"
        self._ncu = ncu
        self._say = say
        self._crew = workers
        self._stays = False

    def build(self, version: Version) -> BuildResult | None:
        """See `Engine.build`."""
        if version.kind == "python":
            return None
        self._say(f"build {version.id} for {self.where.arch}")
        built = build(self.project, version, self.where.arch, limit=self.where.limit)
        if version.image:
            check_fits(version, built.build.arch, self.where.arch)
        return built

    def job(
        self,
        task: Task,
        subject: Subject,
        *,
        baseline: Subject | None = None,
        sanitize: bool = False,
        repeats: int = 1,
        time: TimeOptions = TimeOptions(),  # noqa: B008 - frozen
    ) -> Job:
        """Make the worker's job for a subject; see `Job`."""
        # The version that gives the right answer runs twice: its results must repeat.
        answering = subject if subject.itself else subject.answering
        return Job(
            task=task,
            study=subject.study.name,
            problem=subject.problem.name,
            seed=self.seed,
            executable=_executable(subject),
            baseline=_executable(baseline) if baseline else None,
            answering=_executable(answering) if answering else None,
            sanitize=sanitize,
            repeats=repeats,
            time=time,
        )

    @contextlib.contextmanager
    def ready(self, study: str) -> Iterator[None]:
        """Start the workers now, for a study's first `verify`, `time` or `in_turns` in the block.

        Raises MissingError: the project is not writable.
        """
        if self._crew is not None and self._crew.study == study:
            yield
            return
        with crew(self.project, self.where, study) as workers:
            self._crew = workers
            try:
                yield
            finally:
                self._crew = None

    @contextlib.contextmanager
    def staying(self, study: str) -> Iterator[None]:
        """Keep the worker between the `race`s in the block, with its inputs and its reference.

        Several GPUs get new workers for each: a worker that has claimed a job and is gone must end.
        Raises MissingError: the project is not writable.
        """
        with self.ready(study):
            self._stays = True
            try:
                yield
            finally:
                self._stays = False

    def _carry_out(
        self,
        jobs: Sequence[tuple[Subject, Job]],
        tell: Callable[[int, Ending], None],
        begin: Callable[[int], None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Run jobs; on several GPUs, those with the most work first, so that all end together."""
        if not jobs:
            return
        places = list(range(len(jobs)))
        if len(self.where.gpus) > 1:
            # A subject's time is unknown, so its work is estimated: operations, then bytes.
            work = [(x.study.flops(x.problem), x.study.bytes(x.problem)) for x, *_ in jobs]
            places.sort(key=work.__getitem__, reverse=True)
        if self._crew is not None and self._crew.over:
            self._crew = None
        more = self._stays and self._crew is not None and self._crew.stays
        with self.ready(jobs[0][0].study.name):
            workers = self._crew
            if not more:
                self._crew = None
            assert workers is not None
            workers.run(
                [jobs[place][1] for place in places],
                lambda at, ending: tell(places[at], ending),
                lambda at: begin(places[at]),
                meanwhile,
                more=more,
            )

    def verify(
        self,
        subjects: Sequence[Subject],
        tell: Callable[[int, Verdict], None],
        begin: Callable[[int], None],
    ) -> None:
        """See `Engine.verify`; a version that hung is not tried again."""

        def one(place: int, ending: Ending) -> None:
            check = ending.result.check if ending.result else None
            tell(place, Verdict(subjects[place].problem, check, ending.error))

        jobs = [(subject, self.job("verify", subject)) for subject in subjects]
        self._carry_out(jobs, one, begin)

    def verify_under(
        self, subjects: Sequence[Subject], wrapper: Sequence[str]
    ) -> tuple[list[Job], list[Result], Finished]:
        """Run subjects in one worker under compute-sanitizer, which checks them."""
        jobs = [self.job("verify", subject, sanitize=True) for subject in subjects]
        results, finished = run_jobs(self.project, Feed(jobs), self.where, wrapper=wrapper)
        return jobs, results, finished

    def time(
        self,
        pairs: Sequence[tuple[Subject, Subject | None]],
        options: TimeOptions,
        tell: Callable[[int, Timing | WorkbenchError], None],
        begin: Callable[[int], None],
        meanwhile: Callable[[], None],
    ) -> None:
        """Time versions of one study, each in turns with its baseline (or None).

        Each of `pairs` is on one problem, in the order of measuring. `begin` is called with the
        place of each before it is measured, `tell` once with place and timing or error, from
        another thread; `meanwhile` is called while the workers are busy. Raises MissingError: no
        worker can run here.
        """

        def one(place: int, outcome: Result | WorkbenchError) -> None:
            if isinstance(outcome, Result):
                tell(place, self._timing(*pairs[place], options, outcome))
            else:
                tell(place, outcome)

        self.in_turns(pairs, options, one, begin, meanwhile)

    def in_turns(
        self,
        pairs: Sequence[tuple[Subject, Subject | None]],
        options: TimeOptions,
        tell: Callable[[int, Result | WorkbenchError], None],
        begin: Callable[[int], None] = lambda _place: None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Like `time`, but with the worker's own results."""
        jobs = [
            (subject, self.job("time", subject, baseline=beside, time=options))
            for subject, beside in pairs
        ]

        def one(place: int, ending: Ending) -> None:
            tell(place, ending.error or ending.result or KernelError("no result"))

        self._carry_out(jobs, one, begin, meanwhile)

    def race(
        self,
        fields: Sequence[Sequence[Subject]],
        options: TimeOptions,
        tell: Callable[[int, Ending], None],
        begin: Callable[[int], None] = lambda _place: None,
    ) -> None:
        """Time versions of one study on one problem: those of each field in turns, in one process.

        Each field is a race; one of a single version checks its result as well. `begin` is called
        with the place of each before it begins, `tell` once as it ends, from another thread. Raises
        MissingError: no worker can run here.
        """
        jobs = []
        for first, *others in fields:
            job = self.job("race", first, time=options)
            beside = tuple(_executable(each) for each in others)
            jobs.append((first, msgspec.structs.replace(job, others=beside)))
        self._carry_out(jobs, tell, begin)

    def _timing(
        self, subject: Subject, baseline: Subject | None, options: TimeOptions, result: Result
    ) -> Timing:
        """The record of a successful job of task ``time``."""
        times, device, check = result.times, result.device, result.check
        assert times is not None and device is not None and check is not None
        beside = baseline.version if baseline and times.ratio else None
        return Timing(
            study=subject.study.name,
            version=subject.version.id,
            problem=subject.problem.name,
            device=device,
            captured=now(),
            time=times.time,
            parameters=result.parameters,
            source_hash=source_hash(self.project, subject.version),
            cache=options.cache,
            method=times.method,
            converged=times.converged,
            first_launch=times.first_launch,
            launches=times.launches,
            flops=result.flops,
            bytes=result.bytes,
            baseline=beside.id if beside else "",
            baseline_hash=source_hash(self.project, beside) if beside else "",
            baseline_time=times.baseline_time,
            ratio=times.ratio,
            verification=check.verification(subject.problem.name, self.seed),
            state=result.state,
            tools={**result.tools, "workbench": __version__},
            notices=result.notices,
        )

    def _run(self, subject: Subject, options: ProfileOptions) -> NcuRun:
        return NcuRun(
            project=self.project,
            job=self.job("profile", subject, repeats=options.repeats),
            where=self.where,
            ncu=self._ncu,
            collection=options.collection or Collection(),
        )

    def command(self, subject: Subject, options: ProfileOptions) -> Command:
        """Write the job and return the ncu command; MissingError: no space for the job."""
        return self._run(subject, options).prepare()

    def profile(self, subject: Subject, options: ProfileOptions) -> tuple[Profile, bytes | None]:
        """See `Engine.profile`."""
        self._say(f"verify and profile {subject.version.id} on {subject.problem.name}")
        run = self._run(subject, options)
        captured = run.capture(options.keep_raw, self._ncu_line)
        return self._assemble(subject, run, captured), captured.raw.packed

    def _ncu_line(self, line: str) -> None:
        if line.startswith("==PROF== Profiling"):
            self._say(line.removeprefix("==PROF== ").strip())

    def _assemble(self, subject: Subject, run: NcuRun, captured: Captured) -> Profile:
        result, read, job, asked = captured.result, captured.profile, run.job, run.collection
        assert result.check is not None and result.device is not None
        read_notices = read.notices
        if subject.version.kind == "python":
            read_notices = library_notices(read_notices, subject.version.id)
        if subject.version.image:  # the source that was found is the version's own text
            read_notices = tuple(each for each in read_notices if each.code != "no-source")
        notices = [*read_notices, *metric_notices(read, asked.metrics, asked.catalog_metrics)]
        if captured.raw.notice is not None:
            notices.append(captured.raw.notice)
        folded = fold_repeats(read, job.repeats, len(subject.launches))
        built = subject.built
        return msgspec.structs.replace(
            own_sources(
                with_text(folded, subject.version),
                built.sources if built else (),
                closed=self.project.closed,
            ),
            engine="ncu",
            # The chip as ncu describes it; the driver supplies missing facts.
            device=read.device if read.device.name else result.device,
            captured=read.captured or now(),
            study=job.study,
            version=subject.version.id,
            problem=job.problem,
            parameters=result.parameters,
            tools={**result.tools, **read.tools, "workbench": __version__},
            capture=msgspec.structs.replace(
                read.capture,
                command=captured.command.neutral,
                clock_control=asked.clock_control,
                cache_control=asked.cache_control,
                replay_mode=asked.replay_mode,
                sections=asked.chosen_sections,
                wall_s=captured.wall_s,
                repeats=job.repeats,
            ),
            source_hash=source_hash(self.project, subject.version),
            build=built.build if built else None,
            verification=result.check.verification(job.problem, job.seed),
            notices=(*notices, *result.notices),
        )


def _executable(subject: Subject) -> Executable:
    version, built = subject.version, subject.built
    return Executable(
        version=version.id,
        kind=version.kind,
        path=version.path,
        cubin=str(built.cubin) if built else "",
        launches=subject.launches,
        scratch=subject.scratch,
        fills=subject.fills,
    )
