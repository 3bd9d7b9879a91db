"""Slurm: settings, the work of a job, arrays through submitit, and states of jobs.

``[tool.workbench.cluster.slurm]`` holds the settings of jobs; an error names file and line.

A job does pieces of a dispatch, and records the start and the end of each. After a kill, a time
limit or a requeue it does only the unfinished pieces, and measures only times that are not stored.

submitit writes the batch script, pickles the work, and puts a job that reaches its time
limit back into the queue. It is not asked for states: it reads them only from the accounting, and
without one it calls every ended job UNKNOWN. ``squeue`` lists ended jobs too, for some minutes;
after that the accounting is asked, if there is one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import msgspec

from workbench.cluster.dispatch import LOG, Dispatch, PieceOutcome, packed
from workbench.disk.limits import SETTINGS, read_regular
from workbench.engines import iso_time
from workbench.errors import MissingError, WorkbenchError, did_you_mean
from workbench.measure.experiment import Silent
from workbench.measure.plan import Combination, Key
from workbench.model import Record
from workbench.processes.starting import answered, environment, interpreter, program
from workbench.project import Project, require_project
from workbench.session.runners import Here, Task
from workbench.study.folder import load_study, source_hash
from workbench.study.keys import Keys

_TABLE = "cluster.slurm"
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_Count = Annotated[int, msgspec.Meta(ge=1)]


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for submitting jobs; the cluster decides about empty fields.

    Attributes:
        time: Limit of one job: minutes, or ``1:30:00``, or ``2-00:00:00``.
        array_parallelism: How many jobs of ours may run at once.
        per_job: How many combinations one job does, one after another.
        exclusive: Jobs that measure times have a node to themselves.
        setup: Lines of the shell before the work: ``module load cuda``.
        patience: Seconds until a job that ended without a result counts as lost: a network file
            system may show a file this much later on another node.
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


#: Key -> its written form, for values that are not plain text.
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
    """The project's settings for Slurm; a missing key has its default.

    Raises UsageError: an unknown key or a wrong value, with its file and line.
    """
    cluster = project.settings.get("cluster", {})
    if not isinstance(cluster, dict):
        _wrong(project, "cluster", "`cluster` must be a table", f"Write [{_TABLE}].")
    if unknown := sorted(set(cluster) - {"slurm"}):
        hint = "The only cluster system supported is `slurm`."
        _wrong(project, f"cluster.{unknown[0]}", f"unknown cluster `{unknown[0]}`", hint)
    try:
        settings = msgspec.convert(cluster.get("slurm", {}), SlurmSettings)
    except msgspec.ValidationError as error:
        _complain(project, str(error))
    if settings.minutes < 1:
        _wrong(
            project,
            f"{_TABLE}.time",
            f"`time` must be minutes or hours:minutes:seconds, not {settings.time!r}",
            f"Write {_FORMS['time']}.",
        )
    return settings


def _complain(project: Project, message: str) -> NoReturn:
    """Raise msgspec's error in our own words."""
    if unknown := re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        key = unknown[1]
        hint = did_you_mean(key, SlurmSettings.__struct_fields__, "keys")
        _wrong(project, f"{_TABLE}.{key}", f"unknown key `{key}` in [{_TABLE}]", hint)
    place = re.search(r"at `\$\.?(\w*)", message)
    key = place[1] if place else ""
    if not key:
        _wrong(project, _TABLE, f"[{_TABLE}] must be a table", "Write keys below it.")
    what = message.partition(" - at")[0].lower()
    write = _FORMS.get(key, f'{key} = "…"')
    _wrong(project, f"{_TABLE}.{key}", f"`{key}`: {what}", f"Write {write}.")


def _wrong(project: Project, key: str, what: str, hint: str) -> NoReturn:
    """Raise the error for a key, with its line."""
    path, prefix = project.root / "workbench.toml", ""
    if not path.exists():
        path, prefix = project.root / "pyproject.toml", "tool.workbench."
    text = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = read_regular(path, SETTINGS).decode()
    Keys(path.name, text, 1, 1).fail(prefix + key, what, hint)


class JobWork:
    """The callable that submitit runs in a job; it does the pieces `numbers` of a dispatch.

    The project's `root` is the same on all nodes.
    """

    def __init__(self, root: str, name: str, task: Task[Any], numbers: tuple[int, ...]) -> None:
        self.root = root
        self.name = name
        self.task = task
        self.numbers = numbers

    def __call__(self) -> None:
        """Do the pieces that are not done yet."""
        os.chdir(self.root)
        dispatch = Dispatch(Path(self.root), self.name)
        left = [number for number in self.numbers if dispatch.outcome(number) is None]
        size = 1 if self.task.alone else max(1, len(left))
        for numbers in (left[at : at + size] for at in range(0, len(left), size)):
            _JobPieces(dispatch, self.task, numbers).do()

    def checkpoint(self) -> Any:
        """The same work: finished pieces are recorded, so the job resumes where it stopped."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def node_name() -> str:
    """The node's name in the queue."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


class _JobPieces:
    """Pieces that a job does together: they share an engine, builds and, if run, a worker."""

    def __init__(self, dispatch: Dispatch, task: Task[Any], numbers: Sequence[int]) -> None:
        self._dispatch, self._task = dispatch, task
        self._display = _JobDisplay()
        self._gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._left: dict[Key, int] = {}
        self._outcomes: dict[int, PieceOutcome] = {}
        keys = dispatch.pieces
        before = [each.begun for number in numbers for each in dispatch.begun(number)]
        self._since = iso_time(min(before)) if before else ""
        job = os.environ.get("SLURM_JOB_ID", "0")
        for number in numbers:
            begun = PieceOutcome(*keys[number], node_name(), self._gpus, job, time.time())
            dispatch.begin(number, begun)
            self._left[keys[number]] = number
            self._outcomes[number] = begun

    def do(self) -> None:
        """Do them; an error in one does not stop the others."""
        try:
            self._run()
        except WorkbenchError as error:  # nothing can run here: this applies to all
            for number in list(self._left.values()):
                self._finish(number, error)
        for number in list(self._left.values()):
            self._finish(number)

    def _run(self) -> None:
        project = require_project(self._dispatch.root)
        study = load_study(project, self._dispatch.order.study)
        task = self._task.resumed(self._since, self._gpus)
        (engine,) = task.engines(project, self._display)
        pieces = []
        for (name, problem), number in list(self._left.items()):
            try:
                version = study.version(name)
                pieces.append(Combination.of(study, version, study.problem(problem)))
            except WorkbenchError as error:
                self._finish(number, error)
            else:
                self._know(number, source_hash=source_hash(project, version))
        Here(project, study, engine, self._display).run(task, pieces, self._tell)

    def _tell(self, piece: Combination, found: object) -> None:
        number = self._left.get(piece.key)
        if number is None:
            return
        if isinstance(found, WorkbenchError):
            self._finish(number, found)
            return
        before = self._outcomes[number].found
        self._know(number, found=(*before, msgspec.Raw(packed(found))))
        if not self._task.alone:
            self._finish(number)

    def _know(self, number: int, **found: Any) -> None:
        self._outcomes[number] = msgspec.structs.replace(self._outcomes[number], **found)

    def _finish(self, number: int, error: WorkbenchError | None = None) -> None:
        """Record the outcome of a piece."""
        notes = tuple(self._display.notes)
        self._know(number, ended=time.time(), notes=notes, error=error)
        outcome = self._outcomes[number]
        del self._left[outcome.key]
        self._dispatch.finish(number, outcome)


class _JobDisplay(Silent):
    """Writes to the job's own output, which the queue keeps; collects `notes` for the caller."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, line: str) -> None:
        """Print a line; the waiting command prints notes, too."""
        print(line, flush=True)  # noqa: T201
        if line.startswith("note: "):
            self.notes.append(line)

    def doing(self, text: str) -> None:
        """Print the activity."""
        self.say(text)

    answer = say


Phase = Literal["queued", "running", "ended"]


class Element(Record, frozen=True):
    """One job of an array, as the queue reports it.

    `phase` is waiting, running or over, `word` the queue's own word (``NODE_FAIL``), `node` is
    empty if the queue does not name it. `restarts` counts its returns to the queue after a start.
    """

    phase: Phase
    word: str
    node: str = ""
    reason: str = ""
    restarts: int = 0

    @property
    def stuck(self) -> bool:
        """True if it was requeued and will not start again by itself."""
        return self.phase == "queued" and "requeued held" in self.reason


class Slot(NamedTuple):
    """An element of an array: the array's name, and the element's number in it."""

    array: str
    number: int


#: Settings that are passed to submitit unchanged.
_PASSED_ON = ("partition", "account", "qos", "constraint", "gres", "mem", "cpus_per_task")
_QUEUED = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}
_RUNNING = {
    *("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"),
}
#: Prefixes of the states of nodes that take no work.
_TROUBLED = ("down", "drain", "fail", "inval", "unknown")
#: Seconds that one of Slurm's commands may take; a busy controller needs some.
_ANSWER_S = 60.0
#: A job that reaches its time limit this often is given up.
_TIMEOUTS = 10


class SlurmQueue:
    """The Slurm of this login node. Arrays are identified by names that we give them.

    Raises MissingError: no Slurm, or no submitit.
    """

    def __init__(self, settings: SlurmSettings) -> None:
        if program("sbatch") is None:
            raise MissingError(
                "sbatch is not on PATH: jobs cannot be sent from this machine",
                "Run this on the cluster's login node.",
            )
        try:
            import submitit  # a long import
        except ImportError as error:
            raise MissingError(
                "submitit, which sends the jobs, is not installed",
                "Install it: pip install '.[cluster]' in workbench's checkout, or "
                "pip install submitit.",
            ) from error
        self._settings = settings
        self._submitit = submitit

    def submit(
        self,
        name: str,
        works: Sequence[Callable[[], None]],
        folder: Path,
        *,
        exclusive: bool,
        minutes: int | None,
        avoid: Sequence[str],
    ) -> str:
        """Send an array of jobs, one for each of `works`; return Slurm's own name for it.

        No other array has the same `name`. `exclusive` requests whole nodes, to measure
        times. `minutes` limit an element (None: as the settings say); `avoid` names nodes to leave
        out. Raises MissingError: Slurm refuses it; its words are quoted.
        """
        settings, submitit = self._settings, self._submitit
        refusals = submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError
        executor = submitit.SlurmExecutor(
            folder=folder / LOG, max_num_timeout=_TIMEOUTS, python=shlex.join(interpreter())
        )
        asked = {name: getattr(settings, name) for name in _PASSED_ON}
        nodes = ",".join(filter(None, (settings.exclude, *avoid)))
        asked |= {"exclude": nodes, "setup": list(settings.setup)}
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
        try:
            with _outside_of_the_folder():
                jobs = executor.submit_array(works)
        except (*refusals, OSError) as error:
            errors = [line for line in str(error).splitlines() if "error" in line.lower()]
            raise MissingError(
                f"Slurm refused the jobs: {(errors or [str(error).strip()])[-1].strip()}",
                "The settings are in [cluster.slurm] of workbench.toml or pyproject.toml.",
            ) from error
        return str(jobs[0].job_id).partition("_")[0]

    def elements(self, names: Sequence[str]) -> dict[Slot, Element] | None:
        """Ask the queue about arrays; None: it is not answering now."""
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
        """Ask the accounting about arrays that the controller has forgotten."""
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
        """End arrays in any state; one that is over is not an error."""
        for name in names:
            _ask("scancel", f"--name={name}")

    def end(self, place: Slot) -> None:
        """End one element."""
        rows = _ask("squeue", "-h", "-r", f"--name={place.array}", "-o", "%A|%K")
        for row in rows or ():
            job, number = row.split("|")
            if _place(place.array, number) == place:
                _ask("scancel", job)

    def troubled(self) -> Mapping[str, str]:
        """Nodes that take no work now, and the reason: ``drained (fan broken)``."""
        found = {}
        for row in _ask("sinfo", "-h", "-N", "-o", "%N|%T|%E") or ():
            node, state, reason = row.split("|", 2)
            # A star after the state means that the node does not answer.
            if state.startswith(_TROUBLED) or state.endswith("*"):
                why = "" if reason == "none" else f" ({reason})"
                found[node] = f"{state.rstrip('*')}{why}"
        return found


@contextlib.contextmanager
def _outside_of_the_folder() -> Iterator[None]:
    """Keep submitit and the jobs, which inherit our variables, from running the folder's code."""
    before, safe = dict(os.environ), environment()
    try:
        os.environ.clear()
        os.environ.update(safe)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _place(name: str, number: str) -> Slot:
    # A single job is not an array: Slurm has no element number for it.
    return Slot(name, int(number) if re.fullmatch(r"\d+", number) else 0)


def _element(word: str, node: str, reason: str = "", restarts: int = 0) -> Element:
    phase: Phase = "queued" if word in _QUEUED else "running" if word in _RUNNING else "ended"
    known = node if re.fullmatch(r"[\w.-]+", node) else ""
    return Element(phase=phase, word=word, node=known, reason=reason, restarts=restarts)


def _ask(*words: str) -> list[str] | None:
    """The lines that one of Slurm's commands prints; None if it fails."""
    try:
        done = answered(*words, timeout_s=_ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        # Names that the controller no longer knows are not a failure.
        return [] if "Invalid job" in done.stderr else None
    return [line for line in done.stdout.splitlines() if line.strip()]
