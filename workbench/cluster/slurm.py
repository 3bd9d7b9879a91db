"""Slurm: its settings, what a job of it does, arrays through submitit, and what becomes of them.

``[tool.workbench.cluster.slurm]`` says how jobs are asked for; a complaint names file and line.

A job does pieces of a dispatch, each written down when it is begun and when it is done. One that
was killed, timed out or put back does only what is not done yet, and of times only what is not
stored yet: so it goes on where it was.

submitit writes the batch script, pickles the work, and puts a job that reaches its time
limit back into the queue. States are not asked of it: it reads them from the accounting
alone, and calls every job that has ended UNKNOWN where there is none. ``squeue`` knows
ended jobs as well, for some minutes; after that the accounting is asked, if there is one.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from workbench.cluster import Element, Phase, Queue, Slot
from workbench.cluster.dispatch import LOG, Begun, Dispatch, Fault, JobOrder, PieceOutcome
from workbench.disk.limits import SETTINGS, read_regular
from workbench.engines import Engine, RunOptions, Subject, Verdict, iso_time
from workbench.engines.choice import choose, on_gpu
from workbench.engines.host import presence
from workbench.errors import MissingError, UsageError, WorkbenchError, did_you_mean
from workbench.measure.experiment import Experiment, report_lines
from workbench.measure.plan import Combination, recorded
from workbench.model import Timing
from workbench.processes.starting import answered, interpreter, program
from workbench.project import Project, require_project
from workbench.specs import Version
from workbench.store import device_slug
from workbench.study.folder import Study, load_study, source_hash
from workbench.study.keys import key_lines
from workbench.tune.running import TuneManner, Tuner, tune_version, tuning_engine

_TABLE = "cluster.slurm"
#: What msgspec says of a value.
_EXPECTED = "expected `{expected}`, got `{got}`"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_Count = Annotated[int, msgspec.Meta(ge=1)]


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How jobs are asked for; what is empty is left to the cluster.

    Attributes:
        gres: What each job gets; one GPU.
        time: Limit of one job: minutes, or ``1:30:00``, or ``2-00:00:00``.
        array_parallelism: How many jobs of ours may run at once.
        per_job: How many combinations one job does, one after another.
        exclusive: Jobs that take times have their node for themselves.
        setup: Lines of the shell before the work: ``module load cuda``.
        exclude: Nodes that no job may go to.
        patience: Seconds until a job that ended without a result is taken for lost: a network
            file system may show a file so much later on another node.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = "gpu:1"
    mem: str = ""
    cpus_per_task: _Count | None = None
    time: int | str = "1:00:00"
    array_parallelism: _Count = 64
    per_job: _Count = 1
    exclusive: bool = True
    setup: tuple[str, ...] = ()
    exclude: str = ""
    patience: Annotated[float, msgspec.Meta(ge=0)] = 60.0

    @property
    def minutes(self) -> int:
        """The limit of one job in whole minutes, as ``sbatch --time`` reads it."""
        if isinstance(self.time, int):
            return self.time
        match = _TIME.fullmatch(self.time)
        if match is None:
            return 0
        days, first, second, third = match.groups()
        if days is not None:  # days-hours[:minutes[:seconds]]
            return int(days) * 1440 + int(first) * 60 + int(second or 0) + bool(int(third or 0))
        if third is not None:  # hours:minutes:seconds
            return int(first) * 60 + int(second) + bool(int(third))
        return int(first) + bool(int(second or 0))  # minutes[:seconds]


#: Key -> how it is written, for what is no plain text.
_FORMS = {
    "cpus_per_task": "cpus_per_task = 8",
    "time": 'time = "1:00:00"',
    "array_parallelism": "array_parallelism = 16",
    "per_job": "per_job = 4",
    "exclusive": "exclusive = false",
    "setup": 'setup = ["module load cuda"]',
    "patience": "patience = 60",
}


def read_settings(project: Project) -> SlurmSettings:
    """The project's settings for Slurm; what it does not set has its default.

    Raises:
        UsageError: an unknown key or a wrong value, with its file and line.
    """
    cluster = project.settings.get("cluster", {})
    if not isinstance(cluster, dict):
        raise _wrong(project, "cluster", "`cluster` must be a table", f"Write [{_TABLE}].")
    if unknown := sorted(set(cluster) - {"slurm"}):
        hint = "The only cluster system supported is `slurm`."
        raise _wrong(project, f"cluster.{unknown[0]}", f"unknown cluster `{unknown[0]}`", hint)
    try:
        settings = msgspec.convert(cluster.get("slurm", {}), SlurmSettings)
    except msgspec.ValidationError as error:
        raise _complaint(project, str(error)) from error
    if settings.minutes < 1:
        raise _wrong(
            project,
            f"{_TABLE}.time",
            f"`time` must be minutes or hours:minutes:seconds, not {settings.time!r}",
            f"Write {_FORMS['time']}.",
        )
    return settings


def _complaint(project: Project, message: str) -> UsageError:
    """The complaint of msgspec in our words."""
    if unknown := re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        key = unknown[1]
        hint = did_you_mean(key, SlurmSettings.__struct_fields__, "keys")
        return _wrong(project, f"{_TABLE}.{key}", f"unknown key `{key}` in [{_TABLE}]", hint)
    place = re.search(r"at `\$\.?(\w*)", message)
    key = place[1] if place else ""
    if not key:
        return _wrong(project, _TABLE, f"[{_TABLE}] must be a table", "Write keys below it.")
    what = message.partition(" - at")[0].lower()
    write = _FORMS.get(key, f'{key} = "…"')
    return _wrong(project, f"{_TABLE}.{key}", f"`{key}`: {what}", f"Write {write}.")


def _wrong(project: Project, key: str, what: str, hint: str) -> UsageError:
    """The error for a key, with the line on which it stands."""
    path, prefix = project.root / "workbench.toml", ""
    if not path.exists():
        path, prefix = project.root / "pyproject.toml", "tool.workbench."
    lines = _lines(path)
    key = prefix + key
    while key not in lines and "." in key:
        key = key.rpartition(".")[0]
    return UsageError(f"{path.name}:{lines.get(key, 1)}: {what}", hint)


def _lines(path: Path) -> dict[str, int]:
    try:
        return key_lines(read_regular(path, SETTINGS).decode())
    except (OSError, UnicodeDecodeError):
        return {}


class JobWork:
    """What submitit calls in a job: some pieces of a dispatch.

    Args:
        root: The project's root, the same on all nodes.
        name: The dispatch's.
        numbers: The pieces.
    """

    def __init__(self, root: str, name: str, numbers: tuple[int, ...]) -> None:
        self.root = root
        self.name = name
        self.numbers = numbers

    def __call__(self) -> None:
        """Do them."""
        os.chdir(self.root)
        Payload(Dispatch(Path(self.root), self.name)).do(self.numbers)

    def checkpoint(self) -> Any:
        """The same again: what is done is written down, so the job goes on where it was."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def node_name() -> str:
    """The node's name, as the queue knows it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class Payload:
    """The pieces of one job, which share engine, builds and, where times are taken, a worker."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._order: JobOrder = dispatch.order
        self._project: Project = require_project(dispatch.root)
        self._study: Study | None = None
        self._engine: Engine | None = None
        self._outcomes: dict[int, PieceOutcome] = {}

    def do(self, numbers: tuple[int, ...]) -> None:
        """Do those that are not done yet; no failure keeps the others from their turn."""
        keys = self._dispatch.pieces
        left: dict[int, Subject] = {}
        for number in numbers:
            if self._dispatch.outcome(number) is not None:
                continue
            version, problem = keys[number]
            self._begin(number, version, problem)
            try:
                if self._order.tuning is not None:
                    self._tune(number, self._order.tuning)
                elif (subject := self._subject(number)) is not None:
                    left[number] = subject
            except WorkbenchError as error:
                self._finish(number, fault=Fault.of(error))
        if not left:
            return
        try:
            self._run(left)
        except WorkbenchError as error:  # nothing can run here: that holds for all
            for number in left:
                if self._dispatch.outcome(number) is None:
                    self._finish(number, fault=Fault.of(error))

    def _begin(self, number: int, version: str, problem: str) -> None:
        begun = Begun(
            node=node_name(),
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            job=os.environ.get("SLURM_JOB_ID", "0"),
            at=time.time(),
        )
        self._dispatch.begin(number, begun)
        self._outcomes[number] = PieceOutcome(
            version=version,
            problem=problem,
            node=begun.node,
            gpus=begun.gpus,
            job=begun.job,
            begun=begun.at,
        )

    def _finish(self, number: int, **found: Any) -> None:
        """Write down what became of a piece."""
        outcome = msgspec.structs.replace(self._outcomes[number], ended=time.time(), **found)
        self._dispatch.finish(number, outcome)

    def _subject(self, number: int) -> Subject | None:
        """What is to be run; None: its time is stored already, and that is written down."""
        runner, outcome = self._runner, self._outcomes[number]
        version = self._version(number)
        one = Combination.of(runner.study, version, runner.study.problem(outcome.problem))
        if self._order.kind == "time" and (slug := self._stored(one)):
            self._finish(number, device=slug, taken=True)
            return None
        return runner.subject(*one)

    def _version(self, number: int) -> Version:
        """The version that a piece is of; its sources as they are now are written down."""
        version = self._runner.study.version(self._outcomes[number].version)
        self._know(number, source_hash=source_hash(self._project, version))
        return version

    def _know(self, number: int, **found: Any) -> None:
        self._outcomes[number] = msgspec.structs.replace(self._outcomes[number], **found)

    @property
    def _runner(self) -> Experiment:
        if self._study is None:
            self._study = load_study(self._project, self._order.study)
        if self._engine is None:
            self._engine = self._start()
        return Experiment(self._project, self._study, self._engine, say=_log)

    def _start(self) -> Engine:
        order = self._order
        if order.kind == "time":
            return on_gpu(self._project, order.run, _log)
        if order.tuning is not None:
            return tuning_engine(self._project, order.engine, self._given, _log)
        profiling = order.kind == "profile"
        return choose(order.engine, self._project, order.run, _log, profiling=profiling)

    def _stored(self, one: Combination) -> str:
        """Slug of the GPU here, if a time of it is stored that holds."""
        order = self._order
        slug = device_slug(presence.need_gpu().name)
        cache = order.sampling.cache
        found = recorded(self._project, self._runner.study, [one.key], slug, cache, order.since)
        return slug if found.current else ""

    def _run(self, left: dict[int, Subject]) -> None:
        """Run pieces in their order, and write down each as it is done."""
        numbers, subjects = list(left), list(left.values())
        if self._order.kind == "profile":
            for number, subject in left.items():
                self._profile(number, subject)
            return
        if self._order.kind == "time":
            self._time(left)
            return

        def verified(place: int, verdict: Verdict) -> None:
            fault = Fault.of(verdict.error) if verdict.error else None
            self._finish(numbers[place], check=verdict.check, fault=fault)

        self._runner.verify(subjects, verified)

    def _time(self, left: dict[int, Subject]) -> None:
        numbers = {id(subject): number for number, subject in left.items()}

        def timed(subject: Subject, found: Timing | WorkbenchError) -> None:
            number = numbers[id(subject)]
            if isinstance(found, WorkbenchError):
                self._finish(number, fault=Fault.of(found))
            else:
                self._finish(number, device=found.device.slug)

        self._runner.time_all(list(left.values()), self._order.sampling, timed)

    @property
    def _given(self) -> RunOptions:
        """Where and how versions are tuned: on all GPUs that the job has."""
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        several = seen if "," in seen and self._order.engine != "emulator" else ""
        return msgspec.structs.replace(self._order.run, gpus=several)

    def _tune(self, number: int, manner: TuneManner) -> None:
        """Tune a version; one that was begun before goes on, and what it had kept stays."""
        version, runner = self._version(number), self._runner
        first, *again = self._dispatch.begun(number)
        if again:
            manner = manner._replace(since=iso_time(first.at))
        said = _Notes()
        tune_version(
            Tuner(runner, version, self._given, said),
            [runner.study.problem(name) for name in self._outcomes[number].problem.split()],
            manner,
            lambda done: self._know(number, device=done.gpu, tuned=done.engine),
        )
        self._finish(number, lines=tuple(said.notes))

    def _profile(self, number: int, subject: Subject) -> None:
        runner = self._runner
        try:
            profile, path = runner.profile(subject, self._order.profiling)
            if self._order.timed and runner.engine.times:
                runner.time(subject, self._order.sampling)
        except WorkbenchError as error:
            self._finish(number, fault=Fault.of(error))
            return
        shown = path.relative_to(self._project.root).as_posix()
        lines = report_lines(profile, runner.engine, shown)
        self._finish(number, device=profile.device.slug, lines=lines)


def _log(line: str) -> None:
    """Into the job's own output, which the queue keeps in the dispatch's folder."""
    print(line, flush=True)  # noqa: T201


class _Notes:
    """A display in a job: into its output, and what is to be known where the command waits."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, line: str) -> None:
        """A line that stays; a note is told to who waits."""
        _log(line)
        if line.startswith("note: "):
            self.notes.append(line)

    def doing(self, text: str) -> None:
        """What is being done now."""
        _log(text)

    def counting(self, total: int) -> AbstractContextManager[None]:
        """Says how many there are; nobody looks on while they are done."""
        _log(f"0 of {total}")
        return nullcontext()

    def done(self, count: int) -> None:
        """Nobody looks on."""

    def prepare(self) -> None:
        """Nothing is printed at the end."""

    def timing(self, place: str, timing: Timing, work: Literal["flop", "op"]) -> None:
        """Of versions alone, which are not timed here."""


_QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNNING = {
    *("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"),
}
#: How the states of nodes begin that take no work.
_TROUBLED = ("down", "drain", "fail", "inval", "unknown")
#: Seconds that one of Slurm's commands may take; a busy controller needs some.
_ANSWER_S = 60.0
#: How often a job may reach its time limit before it is given up.
_TIMEOUTS = 10


class SlurmQueue(Queue):
    """The Slurm whose login node this is.

    Args:
        settings: How jobs are asked for.
        root: The project's root, which jobs find at the same path.

    Raises:
        MissingError: no Slurm, or no submitit.
    """

    def __init__(self, settings: SlurmSettings, root: Path) -> None:
        if program("sbatch") is None:
            raise MissingError(
                "sbatch is not on PATH: jobs cannot be sent from this machine",
                "Run this on the cluster's login node.",
            )
        try:
            import submitit  # noqa: F401 - a long import, and here it is only looked for
        except ImportError as error:
            raise MissingError(
                "submitit, which sends the jobs, is not installed",
                "Install it: pip install '.[cluster]' in workbench's checkout, or "
                "pip install submitit.",
            ) from error
        self._settings = settings
        self._root = root

    def submit(
        self,
        name: str,
        works: Sequence[tuple[int, ...]],
        folder: Path,
        *,
        exclusive: bool,
        minutes: int | None,
        avoid: Sequence[str],
    ) -> str:
        """See `Queue.submit`."""
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        settings = self._settings
        executor = submitit.SlurmExecutor(
            folder=folder / LOG, max_num_timeout=_TIMEOUTS, python=shlex.join(interpreter())
        )
        nodes = [part for part in (settings.exclude, *avoid) if part]
        asked = {
            "partition": settings.partition,
            "account": settings.account,
            "qos": settings.qos,
            "constraint": settings.constraint,
            "gres": settings.gres,
            "mem": settings.mem,
            "cpus_per_task": settings.cpus_per_task,
            "exclude": ",".join(nodes),
            "setup": list(settings.setup),
        }
        executor.update_parameters(
            job_name=name,
            time=minutes or settings.minutes,
            array_parallelism=settings.array_parallelism,
            exclusive=(exclusive and settings.exclusive) or None,
            stderr_to_stdout=True,
            # A node that fails must not take the work with it, whatever the cluster's default.
            additional_parameters={"requeue": True},
            **{key: value for key, value in asked.items() if value},
        )
        payloads = [JobWork(str(self._root), folder.name, work) for work in works]
        try:
            jobs = executor.submit_array(payloads)
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            errors = [line for line in str(error).splitlines() if "error" in line.lower()]
            raise MissingError(
                f"Slurm refused the jobs: {(errors or [str(error).strip()])[-1].strip()}",
                "The settings are in [cluster.slurm] of workbench.toml or pyproject.toml.",
            ) from error
        return str(jobs[0].job_id).partition("_")[0]

    def elements(self, names: Sequence[str]) -> dict[Slot, Element] | None:
        """See `Queue.elements`."""
        if not names:
            return {}
        rows = _ask(
            *("squeue", "-h", "-r", "-t", "all", f"--name={','.join(names)}"),
            *("-O", "Name:|,ArrayTaskID:|,State:|,NodeList:|,RestartCnt:|,Reason:|"),
        )
        if rows is None:
            return None
        found: dict[Slot, Element] = {}
        for row in rows:
            name, number, word, node, restarts, reason = (
                part.strip() for part in row.rstrip("|").split("|", 5)
            )
            found[_place(name, number)] = _element(word, node, reason, int(restarts or 0))
        if gone := [name for name in names if not any(place.array == name for place in found)]:
            found |= self._accounted(gone)
        return found

    def _accounted(self, names: Sequence[str]) -> dict[Slot, Element]:
        """What the accounting says of arrays that the controller has forgotten."""
        rows = _ask(
            *("sacct", "-n", "-X", "-P", f"--name={','.join(names)}"),
            *("--format=JobName,JobID,State,NodeList", "-S", "now-30days"),
        )
        found: dict[Slot, Element] = {}
        for row in rows or ():
            name, job, word, node = row.split("|")
            if name in names and "[" not in job:
                place = _place(name, job.partition("_")[2] or "0")
                found[place] = _element(word.split()[0], node)
        return found

    def cancel(self, names: Sequence[str]) -> None:
        """See `Queue.cancel`."""
        for name in names:
            _ask("scancel", f"--name={name}")

    def end(self, place: Slot) -> None:
        """See `Queue.end`."""
        rows = _ask("squeue", "-h", "-r", f"--name={place.array}", "-o", "%A|%K")
        for row in rows or ():
            job, number = row.split("|")
            if _place(place.array, number) == place:
                _ask("scancel", job)

    def troubled(self) -> Mapping[str, str]:
        """See `Queue.troubled`."""
        found = {}
        for row in _ask("sinfo", "-h", "-N", "-o", "%N|%T|%E") or ():
            node, state, reason = row.split("|", 2)
            # A star behind the state says that the node does not answer.
            if state.startswith(_TROUBLED) or state.endswith("*"):
                why = "" if reason == "none" else f" ({reason})"
                found[node] = f"{state.rstrip('*')}{why}"
        return found


def _place(name: str, number: str) -> Slot:
    # A single job is no array: Slurm has no number for it.
    return Slot(name, int(number) if re.fullmatch(r"\d+", number) else 0)


def _element(word: str, node: str, reason: str = "", restarts: int = 0) -> Element:
    phase: Phase = "queued" if word in _QUEUED else "running" if word in _RUNNING else "ended"
    known = node if re.fullmatch(r"[\w.-]+", node) else ""
    return Element(phase=phase, word=word, node=known, reason=reason, restarts=restarts)


def _ask(*words: str) -> list[str] | None:
    """The lines that one of Slurm's commands prints; None where it fails."""
    try:
        done = answered(*words, timeout_s=_ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        # Names that the controller does not know any more are no failure of its.
        return [] if "Invalid job" in done.stderr else None
    return [line for line in done.stdout.splitlines() if line.strip()]
