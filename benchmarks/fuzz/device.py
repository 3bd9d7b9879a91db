"""One mutant on a GPU, through the project's own session, programs and checks.

Only children import the driver. Every buffer has guard bytes around it and memory of its own;
after a fault, or a write beside a buffer, the child's context is given up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks.fuzz.cases import SEED, Case
from benchmarks.fuzz.crew import Answer
from benchmarks.fuzz.findings import Status, finding
from workbench.engines.gpu.bench import Bench, Run
from workbench.engines.gpu.device import DeviceContext, WorkerError
from workbench.engines.host.job import Executable
from workbench.model import Problem
from workbench.study.folder import Study

_LOADING = ("loading", "finding")


@cache
def _session() -> DeviceContext:
    return DeviceContext().__enter__()


_BENCHES: dict[tuple[str, str], Bench] = {}


def _bench(study: Study, problem: Problem) -> Bench:
    key = (study.name, problem.name)
    if key not in _BENCHES:
        _BENCHES[key] = Bench(study, problem, SEED)
    return _BENCHES[key]


def on_device(case: Case, begun: Callable[[], None]) -> Answer:
    """What the GPU makes of a mutant; `begun` is called when its kernels are about to run."""
    session, subject = _session(), case.subject
    assert subject.built is not None
    bench = _bench(subject.study, subject.problem)
    check, said, status = None, "", "right"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "mutant.ptx"
        image.write_bytes(subject.built.build.ptx.encode() + b"\0")
        program = Executable(
            version=subject.version.id, kind="cuda", path=subject.version.path, cubin=str(image),
            launches=subject.launches, scratch=subject.scratch, fills=subject.fills,
        )  # fmt: skip
        try:
            arrays = {spec.name: session.allocate(spec) for spec in bench.specs}
            for name, values in bench.inputs.items():
                session.upload(arrays[name], values)
            run = Run(session, bench, program, arrays, poison=True)
            begun()
            begin = time.perf_counter()
            run.execute()
            check = run.check()
            # Bytes beside a buffer do not make its values wrong: they are noted apart.
            status = "right" if _values_right(check.error, check.tolerance, check.far_off,
                                              check.unwritten) else "wrong"  # fmt: skip
        except WorkerError as error:
            failure = error.failure
            said = f"{failure.during}: {failure.code or failure.message}"
            status = "refused" if failure.during.startswith(_LOADING) else "fault"
    seconds = time.perf_counter() - begin
    alive = status != "fault" and not (check and check.strayed) and session.alive()
    if alive:
        session.release()
    return Answer(finding(case, _status(status), said=said, check=check, seconds=seconds), alive)


def _values_right(error: float | None, tolerance: float, far_off: int, unwritten: int) -> bool:
    return error is not None and error <= tolerance and not far_off and not unwritten


def _status(text: str) -> Status:
    statuses: dict[str, Status] = {
        "right": "right", "wrong": "wrong", "fault": "fault", "refused": "refused",
    }  # fmt: skip
    return statuses[text]
