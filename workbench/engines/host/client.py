"""The program's side of a worker: its folder, its jobs, and its run.

A run folder holds job, result and raw report; it is neutral and never shared. It lies below
the project root and is named after the version and the problem, so the command that is printed
is the command that runs, and no path of the machine gets into a report. A lock file keeps out a
second run of the same version, which takes the next name. Workers start before their jobs are
known, and get the rest of them later (`Feed`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from workbench.disk.lock import LOCK, BusyError, locked
from workbench.disk.writing import clear_folder, replace_file
from workbench.engines import Where
from workbench.engines.host.failures import expect_result
from workbench.engines.host.job import Executable, Job, Orders, Result, encode, read_results
from workbench.engines.host.process import Finished, Halt, run_group
from workbench.errors import MissingError, WorkbenchError
from workbench.model import Device
from workbench.processes.starting import worker, worker_environment
from workbench.project import Project

RUNS = Path("build") / "runs"
_MAX_RUNS = 64
JOB, RESULT = "jobs.json", "results.json"


def _safe(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text)


def folder_for(root: Path, name: str) -> Path:
    """Make and empty the run folder of that name (below `root`), without taking its lock.

    Raises MissingError: the project folder cannot be written to.
    """
    relative = RUNS / _safe(name)
    # Version control should ignore this folder, whatever the project's own settings.
    if not (root / RUNS / ".gitignore").exists():
        replace_file(root, (RUNS / ".gitignore").as_posix(), b"*\n")
    _clear(root, relative)
    return relative


def _clear(root: Path, relative: Path) -> None:
    """Remove everything in a run folder except its lock."""
    try:
        clear_folder(root, relative.as_posix(), keep=LOCK)
    except OSError as error:
        raise MissingError(
            f"{root / relative}: cannot be written to: {error.strerror}",
            "A run needs a little space in the project's build folder: free some space, or "
            "correct the permissions.",
        ) from error


@contextlib.contextmanager
def workspace(root: Path, name: str) -> Iterator[Path]:
    """Yield a run folder of our own, relative to `root`; empty it at the end.

    `name` is like ``sgemm-v3-n1024``; a number is added if another run has it. Raises
    MissingError: the project folder is not writable, or 64 runs are active.
    """
    for number in range(1, _MAX_RUNS + 1):
        relative = RUNS / _safe(name if number == 1 else f"{name}-{number}")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(root, 0.0, relative.as_posix(), keep=True))
            except BusyError:
                continue
            folder_for(root, relative.name)
            try:
                yield relative
            finally:
                with contextlib.suppress(WorkbenchError):
                    _clear(root, relative)
        return
    raise MissingError(
        f"{_MAX_RUNS} runs named {name} are under way in {root / RUNS}",
        "Wait for them, or remove that folder.",
    )


class Feed:
    """Jobs in the order in which they will be done.

    `more`: others will follow, with `add`; `closed`: all were added. `grew`: the time at which jobs
    were last added, by `time.monotonic`.
    """

    def __init__(self, jobs: Sequence[Job] = (), *, more: bool = False) -> None:
        self.closed = not more
        self.grew = time.monotonic()
        self._jobs = list(jobs)
        self._watcher: Callable[[], None] | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __getitem__(self, place: int) -> Job:
        return self._jobs[place]

    def add(self, jobs: Sequence[Job], *, more: bool = False) -> None:
        """Append jobs; they are the last ones unless `more` will follow."""
        with self._lock:
            self._jobs.extend(jobs)
            self.closed = not more
            self.grew = time.monotonic()
            if self._watcher is not None:
                self._watcher()

    @contextlib.contextmanager
    def watched(self, look: Callable[[], None]) -> Iterator[None]:
        """Call `look` now, and again when jobs are added."""
        with self._lock:
            self._watcher = look
            look()
        try:
            yield
        finally:
            with self._lock:
                self._watcher = None


def worker_argv(folder: Path) -> tuple[str, ...]:
    """The worker's command line, for a job in `folder` (relative to the root)."""
    files = ((folder / JOB).as_posix(), "--result", (folder / RESULT).as_posix())
    return worker("workbench.engines.worker", *files)


def stage(root: Path, folder: Path, jobs: Iterable[Job], *, more: bool = False) -> None:
    """Put jobs and cubins where `worker_argv` says; `more`: the worker waits for others.

    The cubins are copied from the compiler's cache, so that the run folder has all that the printed
    command needs and the jobs name no path outside the project. Raises MissingError: no space.
    """
    try:
        staged = tuple(
            msgspec.structs.replace(
                job,
                executable=_staged(root, folder, job.executable),
                baseline=_staged(root, folder, job.baseline) if job.baseline else None,
                answering=_staged(root, folder, job.answering) if job.answering else None,
                others=tuple(_staged(root, folder, each) for each in job.others),
            )
            for job in jobs
        )
        replace_file(root, (folder / JOB).as_posix(), encode(Orders(staged, more)))
    except OSError as error:
        raise MissingError(
            f"{root / folder}: cannot be written to: {error.strerror}",
            "Free some space in the project's build folder.",
        ) from error


def _staged(root: Path, folder: Path, executable: Executable) -> Executable:
    if not executable.cubin:
        return executable
    cubin = folder / f"{executable.version}.cubin"
    if not (root / cubin).exists():
        replace_file(root, cubin.as_posix(), Path(executable.cubin).read_bytes())
    return msgspec.structs.replace(executable, cubin=cubin.as_posix())


def run_name(job: Job) -> str:
    """Name of the run folder."""
    return f"{job.study}-{job.executable.version}-{job.problem}"


def run_jobs(
    project: Project,
    jobs: Feed,
    where: Where,
    *,
    wrapper: Sequence[str] = (),
    on_result: Callable[[int, Result], None] | None = None,
    stop: Halt | None = None,
) -> tuple[list[Result], Finished]:
    """Run jobs in one worker, with `wrapper` (compute-sanitizer) between the launcher and it.

    The worker's working folder is the project's root. The time limit is for each job: it restarts
    with every result, and, if the worker waited for jobs, when they arrive. While more jobs may
    follow, the worker stays and waits for them. `on_result` is called from another thread with each
    result and its place among the jobs as it arrives, even just before an interruption. `stop` ends
    it from another thread. Returns the results it produced, and how it ended.

    Raises:
        MissingError: it cannot be started, or there is no space for its files.
        HaltedError: it was stopped.
    """
    # By its UUID: CUDA, NVML and a cluster's job may number GPUs differently.
    seen = {"CUDA_VISIBLE_DEVICES": where.gpus[0]} if where.gpus else {}
    name = run_name(jobs[0]) if len(jobs) else "worker"
    with workspace(project.root, name) as folder:
        target = project.root / folder / RESULT

        def hand_over() -> None:
            stage(project.root, folder, jobs, more=not jobs.closed)

        def moved() -> float:
            idle = inbox.seen >= len(jobs)
            return time.monotonic() if idle else max(inbox.moved, jobs.grew)

        with jobs.watched(hand_over), _Inbox(target, on_result) as inbox:
            finished = run_group(
                [*where.launcher, *wrapper, *worker_argv(folder)],
                cwd=project.root,
                limit=where.limit,
                moved=moved,
                env={**worker_environment(), **seen},
                stop=stop,
            )
        return read_results(target), finished


class _Inbox:
    """Looks for results five times a second, and passes on each as it arrives.

    `moved`: when the last one arrived, by `time.monotonic`. `seen`: how many arrived.
    """

    def __init__(self, target: Path, on_result: Callable[[int, Result], None] | None) -> None:
        self.moved = time.monotonic()
        self._target = target
        self._on_result = on_result
        self.seen = 0
        self._stamp = (0, 0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> _Inbox:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()  # the last results, or those right before an interruption
        if self._error is not None and kind is None:
            raise self._error

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self._look()

    def _look(self) -> None:
        try:
            stat = self._target.stat()
        except OSError:
            return
        # The worker replaces the file as a whole, so a new one has another inode or time.
        stamp = (stat.st_ino, stat.st_mtime_ns)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        results = read_results(self._target)
        for place in range(self.seen, len(results)):
            self.moved = time.monotonic()
            self.seen = place + 1
            if self._on_result is None or self._error is not None:
                continue
            try:
                self._on_result(place, results[place])
            except BaseException as error:
                self._error = error  # raised in the thread that waits for the worker


def describe(project: Project, where: Where) -> Device:
    """Describe the device that a worker finds; behind a launcher only a worker can find it.

    Raises KernelError, MissingError: the worker does not start, or finds no GPU.
    """
    nothing = Executable(version="nothing", kind="python", path="")
    job = Job(task="describe", study="no", problem="device", seed=0, executable=nothing)
    results, finished = run_jobs(project, Feed([job]), where)
    device = expect_result(job, results[0] if results else None, finished, where).device
    assert device is not None
    return device
