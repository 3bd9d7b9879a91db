"""What a job is about: the study's problem on the host, and one version of it on the device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.engines.gpu.device import DeviceArray, Session, WorkerError
from workbench.engines.gpu.programs import Loaded, Step, load
from workbench.engines.host.correctness import compare, random_places
from workbench.engines.host.elements import name_of
from workbench.engines.host.job import BufferSpec, Check, Executable, Job
from workbench.errors import WorkbenchError
from workbench.model import Problem

if TYPE_CHECKING:
    from workbench.study.folder import Study

#: A study may give the reference of chosen elements alone (`reference_at`). It is
#: used from this many operations on, where the whole float64 reference and the comparison
#: take the host seconds for every version.
SAMPLE_ABOVE_FLOPS = 50_000_000_000
#: Host memory that the benches of other problems may take while they wait for their turn.
_KEPT_BYTES = 2**30


class Bench:
    """The study's side of a job: inputs, outputs and reference of one problem."""

    def __init__(self, study: Study, problem: Problem, seed: int) -> None:
        self.study = study
        self.problem = problem
        self.parameters = dict(study.parameters(problem))
        self._rng = np.random.default_rng(seed)
        self.inputs: dict[str, NDArray[Any]] = dict(study.inputs(problem, self._rng))
        self.specs = tuple(
            BufferSpec(name=name, role="input", shape=values.shape, dtype=name_of(values.dtype))
            for name, values in self.inputs.items()
        ) + tuple(
            BufferSpec(name=name, role="output", shape=tuple(shape), dtype=dtype)
            for name, (shape, dtype) in study.outputs(problem).items()
        )
        self._reference: dict[str, NDArray[np.float64]] | None = None
        self._sample: dict[str, NDArray[np.int64]] | None = None

    @property
    def outputs(self) -> tuple[BufferSpec, ...]:
        """The output buffers."""
        return tuple(spec for spec in self.specs if spec.role == "output")

    @property
    def host_bytes(self) -> int:
        """Host memory of inputs and reference, in bytes."""
        return sum(values.nbytes for values in self.inputs.values()) + sum(
            8 * int(np.prod(spec.shape, dtype=np.int64)) for spec in self.outputs
        )

    def refer(self) -> dict[str, NDArray[np.float64]]:
        """The reference, of all elements or of those chosen; it is computed once."""
        if self._reference is None:
            study = self.study
            if study.can_sample and study.flops(self.problem) >= SAMPLE_ABOVE_FLOPS:
                sizes = {
                    spec.name: int(np.prod(spec.shape, dtype=np.int64)) for spec in self.outputs
                }
                self._sample = self._sample or random_places(self._rng, sizes)
                self._reference = study.reference_at(self.problem, self.inputs, self._sample)
            else:
                self._reference = study.reference(self.problem, self.inputs)
        return self._reference

    def check(
        self, version: str, outputs: Mapping[str, NDArray[Any]], strayed: tuple[str, ...]
    ) -> Check:
        """Compare a version's outputs with the reference."""
        reference = self.refer()
        return compare(
            outputs,
            reference,
            self.study.tolerance_of(version),
            sample=self._sample,
            strayed=strayed,
        )


class Benches:
    """The benches of a worker's jobs.

    Versions on the same problem and seed have the same inputs and reference, so these are
    made once; the float64 reference of a large problem takes the host longer than all its
    versions take the device.
    """

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._studies: dict[str, Study] = {}
        self._kept: dict[tuple[str, str, int], Bench] = {}  # the one used last stands last

    def of(self, job: Job) -> Bench:
        """The bench of a job.

        Raises:
            WorkerError: ``bad-study``, in the study's own words.
        """
        key = (job.study, job.problem, job.seed)
        bench = self._kept.pop(key, None) or self._open(job)
        self._kept[key] = bench
        # The current one stays, however large it is.
        while len(self._kept) > 1 and sum(b.host_bytes for b in self._kept.values()) > self._limit:
            del self._kept[next(iter(self._kept))]
        return bench

    def study(self, job: Job) -> Study:
        """The study of a job, which is loaded once.

        Raises:
            WorkerError: ``bad-study``, in the study's own words.
        """
        from workbench.project import require_project
        from workbench.study.folder import load_study

        if job.study not in self._studies:
            with _as_bad_study():
                self._studies[job.study] = load_study(require_project(Path.cwd()), job.study)
        return self._studies[job.study]

    def _open(self, job: Job) -> Bench:
        study = self.study(job)
        with _as_bad_study():
            return Bench(study, study.problem(job.problem), job.seed)


@contextlib.contextmanager
def _as_bad_study() -> Iterator[None]:
    try:
        yield
    except WorkbenchError as error:
        raise WorkerError("bad-study", error.message) from error


class Run:
    """One version on the job's first set of buffers."""

    def __init__(
        self,
        session: Session,
        bench: Bench,
        program: Executable,
        arrays: dict[str, DeviceArray],
        *,
        poison: bool,
    ) -> None:
        self.session = session
        self.bench = bench
        self.program = program
        self.arrays = arrays
        self.poison = poison
        with session.doing(f"allocating the scratch memory of {program.version}"):
            self.scratch = {
                each.name: session.allocate(
                    BufferSpec(name=each.name, role="scratch", shape=each.shape, dtype=each.dtype)
                )
                for each in program.scratch
            }
        begin = time.perf_counter()
        self.loaded: Loaded = load(session, program, bench.problem, bench.parameters)
        self.steps: tuple[Step, ...] = self.loaded.bind({**arrays, **self.scratch})
        self.collect = self.loaded.collect
        self._load_s = time.perf_counter() - begin
        self.first_launch = 0.0

    def execute(self) -> None:
        """Poison what will be written, run every launch, wait for the end."""
        if self.poison:
            for spec in self.bench.outputs:
                self.session.poison(self.arrays[spec.name])
            for array in self.scratch.values():
                self.session.poison(array)
        self.session.synchronize()
        begin = time.perf_counter()
        for kernel, step in self.steps:
            with self.session.doing(f"launching {kernel} of {self.program.version}"):
                step()
        names = ", ".join(dict.fromkeys(kernel for kernel, _ in self.steps))
        with self.session.doing(f"running {names} of {self.program.version}"):
            self.session.synchronize()
        if not self.first_launch:
            self.first_launch = self._load_s + time.perf_counter() - begin

    def check(self) -> Check:
        """Copy the outputs and compare them; once after each `execute`."""
        if self.collect is not None:
            with self.session.doing(f"collecting the outputs of {self.program.version}"):
                self.collect()
                self.session.synchronize()
        with self.session.doing(f"reading the outputs of {self.program.version}"):
            outputs = {
                spec.name: self.session.download(self.arrays[spec.name])
                for spec in self.bench.outputs
            }
            strayed = self.session.strayed()
        try:
            return self.bench.check(self.program.version, outputs, strayed)
        except WorkbenchError as error:
            raise WorkerError("bad-study", error.message) from error
        except ValueError as error:
            raise WorkerError("bad-study", str(error)) from error
