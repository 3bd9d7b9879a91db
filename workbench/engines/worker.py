"""The worker: ``python -P -m workbench.engines.worker JOBS --result RESULTS``.

One process verifies, times and profiles, so that ncu profiles exactly the verified code: the same
module in the same context on the same buffers. It runs in the project root, reads a file of jobs
and writes a file of results; its printed output is not read. Its exit code is 0 if all went well, 1
if a result names a failure.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from workbench.disk.writing import replace_file
from workbench.engines.gpu.bench import Bench, Benches, Run, load_library
from workbench.engines.gpu.device import DeviceArray, DeviceContext, WorkerError
from workbench.engines.gpu.libcuda import DriverError, open_device
from workbench.engines.gpu.race import Field, race
from workbench.engines.host.job import (
    Check,
    Executable,
    Failure,
    Job,
    Result,
    encode,
    nvtx_range,
    read_orders,
)
from workbench.model import Notice

#: After these failures, the process cannot do further jobs.
_FATAL = frozenset(("internal", "no-device", "no-pycuda"))
#: Seconds between two polls for further jobs.
_LOOK_S = 0.01
#: Seconds without a job after which a race waits for steady clocks again.
_RESTED_S = 0.5


def _checked(result: Result, job: Job, check: Check, again: str = "") -> Result:
    """The result with its check, and a failure if it is wrong; `again`: seed of a second run."""
    version = job.executable.version
    failure = Failure(
        kind="wrong-result",
        message=f"{version} gives a wrong result",
        during=f"checking {version}",
        code=again,
    )
    return msgspec.structs.replace(result, check=check, failure=None if check.ok else failure)


def _wake_for(session: DeviceContext, executable: Executable) -> None:
    """Wake the device for a Python version: its library may choose kernels by timing them."""
    if executable.kind == "python":
        with session.doing(f"waking the device for {executable.version}"):
            session.wake()


def _profile(run: Run, job: Job) -> None:
    import nvtx

    for _ in range(job.repeats):
        run.begin()
        # Exactly the version's launches, and nothing else, are inside the range.
        with nvtx.annotate(message=nvtx_range(job.executable.version), domain="workbench"):
            for kernel, call in run.calls:
                with run.session.doing(f"launching {kernel} of {job.executable.version}"):
                    call()
            with run.session.doing(f"running {job.executable.version}"):
                run.session.synchronize()


def _baseline(
    session: DeviceContext,
    bench: Bench,
    job: Job,
    arrays: dict[str, DeviceArray],
    notices: list[Notice],
) -> Run | None:
    """The baseline, verified as well; a baseline that cannot run does not fail the version."""
    if job.baseline is None:
        return None
    try:
        _wake_for(session, job.baseline)
        run = Run(session, bench, job.baseline, arrays, poison=True)
        run.execute()
        if run.check().ok:
            return run
        why = "its result is wrong"
    except WorkerError as error:
        if error.failure.kind in ("crash", "internal"):
            raise
        why = str(error)
    message = f"The baseline {job.baseline.version} was not timed: {why}."
    notices.append(Notice("no-baseline", message))
    return None


def _time(
    session: DeviceContext, bench: Bench, job: Job, run: Run, notices: list[Notice]
) -> dict[str, Any]:
    from workbench.engines.gpu.stopwatch import Conditions, Stopwatch, contestant, rotating

    rival = _baseline(session, bench, job, run.arrays, notices)
    sets, said = rotating(session, bench, run.arrays, job.time.cache)
    version = contestant(run, sets)
    other = contestant(rival, sets) if rival is not None else None
    stopwatch = Stopwatch(session, job.time)
    with Conditions(session.bus_id, job.time.settle_s) as conditions:
        times = stopwatch.measure(version, other, conditions.settle)
    notices += [*said, *stopwatch.notices, *conditions.notices]
    return {"times": times, "state": conditions.state}


class Answers:
    """The results so far, in the order of the jobs, and the file in which they are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results: list[Result] = []
        self._kept = 0

    def add(self, result: Result) -> None:
        """Append a result, without writing it yet."""
        self._results.append(result)

    def keep(self) -> None:
        """Write the added results to the file."""
        if self._kept < len(self._results):
            replace_file(self._path.parent, self._path.name, encode(self._results))
            self._kept = len(self._results)

    @property
    def well(self) -> bool:
        """True if no result names a failure."""
        return all(result.failure is None for result in self._results)


def incoming(path: Path, idle: Callable[[], None]) -> Iterator[Job]:
    """Yield the jobs in a file, and those added to it as long as it says that more follow.

    The file is only ever replaced as a whole. `idle` is called before waiting for others. Raises
    OSError, msgspec.DecodeError: it cannot be read, or holds something else.
    """
    given = 0
    while True:
        stamp = _stamp(path)
        orders = read_orders(path)
        yield from orders.jobs[given:]
        given = len(orders.jobs)
        if not orders.more:
            return
        idle()
        while _stamp(path) == stamp:
            time.sleep(_LOOK_S)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_mtime_ns


def work(jobs: Iterator[Job], answers: Answers) -> None:
    """Do the jobs one after another, in one context, and keep a result of each.

    There are fewer results if a fault destroyed the context. If the first job only prepares, the
    device is opened before the next one is read, and the library finishes loading during that job.
    """
    session = DeviceContext()
    benches = Benches()
    field = Field()
    ended = time.perf_counter()
    first = list(itertools.islice(jobs, 1))
    loading = _prepare(benches, first[0]) if first and first[0].task == "prepare" else None
    jobs = itertools.chain(first, jobs)
    try:
        with session:
            for job in jobs:
                if not _claimed(job):
                    answers.add(Result(task=job.task, elsewhere=True))
                    continue
                answers.keep()  # so that a reader knows which job is running
                begin = time.perf_counter()
                if begin - ended > _RESTED_S:
                    field.settled = False  # its clocks may have gone down
                result = _one(session, benches, job, loading, field)
                ended = time.perf_counter()
                answers.add(msgspec.structs.replace(result, seconds=ended - begin))
                answers.keep()
                failure = result.failure
                if failure and (failure.kind in _FATAL or not session.alive()):
                    break
                if job.task not in ("prepare", "race"):
                    session.release()
    except WorkerError as error:  # the device could not even be opened
        for job in jobs:
            answers.add(Result(task=job.task, failure=error.failure))
            break
    answers.keep()
    if loading is not None and answers.well:  # otherwise the process ends without cleanup
        loading.join()


def _claimed(job: Job) -> bool:
    """Test whether this worker may do a job that other workers have as well."""
    if not job.claim:
        return True
    try:
        os.close(os.open(job.claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True


def _one(
    session: DeviceContext,
    benches: Benches,
    job: Job,
    loading: threading.Thread | None,
    field: Field,
) -> Result:
    """Do one job; every foreseeable failure is in the result."""
    result = Result(task=job.task)
    if job.task == "describe":
        return msgspec.structs.replace(result, device=session.describe())
    if job.task == "prepare":
        return result  # it continues during the next one
    session.guards = not job.sanitize
    session.during = f"preparing {job.problem}"
    try:
        bench = _bench(benches, job, loading)
        result = msgspec.structs.replace(
            result,
            parameters=bench.parameters,
            flops=bench.study.flops(bench.problem),
            bytes=bench.study.bytes(bench.problem),
        )
        if job.task == "race":
            result = _described(session, result)
            result = msgspec.structs.replace(result, **race(session, bench, job, field))
            return _checked(result, job, result.check) if result.check else result
        field.leave(session)
        return _on_device(session, bench, job, _described(session, result))
    except WorkerError as error:
        failure = error.failure
        if not failure.during:
            failure = msgspec.structs.replace(failure, during=session.during)
    except MemoryError:
        failure = Failure(kind="out-of-memory", message="the host has too little memory")
    except Exception as error:
        traceback.print_exc()
        failure = Failure(
            kind="internal", message=f"{type(error).__name__}: {error}", during=session.during
        )
    return msgspec.structs.replace(result, failure=failure)


def _prepare(benches: Benches, job: Job) -> threading.Thread:
    """Open the device, load the jobs' code; return the thread that loads the baseline's library.

    Errors are left to the jobs, which can name the cause.
    """

    def device() -> None:
        with contextlib.suppress(DriverError):
            open_device()

    def library() -> None:
        with contextlib.suppress(Exception):
            baseline = benches.study(job).baseline
            if baseline is not None and baseline.kind == "python":
                load_library(Path(baseline.path), baseline.id)

    opening = threading.Thread(target=device, daemon=True)
    opening.start()
    with contextlib.suppress(WorkerError):
        benches.study(job)
    loading = threading.Thread(target=library, daemon=True)
    loading.start()
    opening.join()
    return loading


def _bench(benches: Benches, job: Job, loading: threading.Thread | None) -> Bench:
    """The bench of a job; loading has ended by then, so that it disturbs no time."""
    try:
        bench = benches.of(job)
        if loading is not None and loading.is_alive() and bench.answering is None:
            with contextlib.suppress(Exception):  # the job will fail again
                bench.refer()
        return bench
    finally:
        if loading is not None:
            loading.join()


def _described(session: DeviceContext, result: Result) -> Result:
    return msgspec.structs.replace(result, device=session.describe(), tools=session.versions())


def _on_device(session: DeviceContext, bench: Bench, job: Job, result: Result) -> Result:
    notices: list[Notice] = []
    arrays = bench.upload(session)
    if job.task in ("time", "profile"):
        _wake_for(session, job.executable)
    run = Run(session, bench, job.executable, arrays, poison=not job.sanitize)
    run.execute()
    if job.sanitize:
        # The sanitizer checks; a comparison would read memory that initcheck watches.
        return result
    result = _checked(result, job, run.check())
    if result.failure is not None:
        return result
    if job.task == "profile":
        _profile(run, job)
    else:
        if job.task == "time":
            result = msgspec.structs.replace(result, **_time(session, bench, job, run, notices))
        check = run.again()
        if not check.ok:
            return _checked(result, job, check, str(run.bench.seed))
        kept = msgspec.structs.replace(result.check, fixed=check.fixed) if result.check else None
        result = msgspec.structs.replace(result, check=kept)
        if run.prepared:
            message = (
                f"{job.executable.version} reads its inputs in prepare(), which is not timed: "
                "a result that it keeps from there would not be noticed."
            )
            notices.append(Notice("prepared", message))
    return msgspec.structs.replace(result, notices=tuple(notices))


def main(argv: Sequence[str]) -> int:
    """Entry point of the child process."""
    if len(argv) != 3 or argv[1] != "--result":
        print("usage: python -m workbench.engines.worker JOBS --result RESULTS", file=sys.stderr)  # noqa: T201
        return 2
    answers = Answers(Path(argv[2]))
    try:
        work(incoming(Path(argv[0]), answers.keep), answers)
    except (OSError, msgspec.DecodeError) as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0 if answers.well else 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        # After a crash the context is lost, and PyCUDA would abort during its cleanup,
        # which would hide our exit code.
        os._exit(code)
    sys.exit(code)
