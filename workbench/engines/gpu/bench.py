"""Data of a job: the study's problem on the host, and one version of it on the device.

A version is loaded once and bound to buffers for verifying, timing and profiling alike, so the
profiled code is the verified code.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import struct
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from workbench.engines import fresh_seed
from workbench.engines.gpu.device import DeviceArray, DeviceContext, WorkerError
from workbench.engines.gpu.libcuda import DeviceTexture, Driver, DriverError
from workbench.engines.host.buffers import (
    as_answer,
    check_copy,
    check_whole,
    compare,
    compare_with_version,
    linked,
    name_of,
    no_symbol,
    overwritten,
    random_places,
    repeated,
    unit,
)
from workbench.engines.host.job import BufferSpec, Check, Executable, Job
from workbench.errors import DataError, UsageError, WorkbenchError
from workbench.model import Number, Problem
from workbench.project import require_project
from workbench.study.folder import Study, load_study
from workbench.study.launches import (
    ResolvedFill,
    ResolvedLaunch,
    ScalarArg,
    StructArg,
    TensorMapArg,
    TextureArg,
    format_of,
    members_of,
)

#: A launch: the kernel's name, and the call that puts it on the stream.
Call = tuple[str, Callable[[], None]]
Buffers = Mapping[str, DeviceArray]


class Binding(NamedTuple):
    """A version's calls on one set of buffers; `restores`: calls that are not timed."""

    calls: tuple[Call, ...]
    restores: tuple[Call, ...] = ()


#: A study may give the reference of chosen elements only (`reference_at`). It is used from this
#: many operations on: there, the whole float64 reference and the comparison take the host seconds
#: for every version.
SAMPLE_ABOVE_FLOPS = 50_000_000_000
#: Host memory that the benches of waiting problems may take.
_KEPT_BYTES = 2**31


class Loaded(Protocol):
    """A version in device memory, ready to be bound to sets of buffers."""

    #: Brings the outputs of the last binding into the study's order; None if they are in order.
    collect: Callable[[], None] | None

    def bind(self, buffers: Buffers) -> Binding:
        """The launches as (kernel name, callable), for one set of buffers."""
        ...


class CudaVersion:
    """Kernels of a cubin."""

    def __init__(self, session: DeviceContext, executable: Executable) -> None:
        self.collect: Callable[[], None] | None = None
        self._session = session
        self._executable = executable
        self._cubin = Path(executable.cubin).read_bytes()
        with session.doing(f"loading {executable.version}"):
            self._module = session.cuda.module_from_buffer(self._cubin)
        #: The driver and the module for launches with attributes, if there are any.
        self._extended: tuple[Driver, ctypes.c_void_p] | None = None
        self._staged: dict[tuple[str, int], DeviceArray] = {}
        #: Texture objects by texture and address; they live as long as this.
        self.textures: dict[tuple[TextureArg, int], DeviceTexture] = {}

    def bind(self, buffers: Buffers) -> Binding:
        """Pack every launch's arguments, fills first; WorkerError: an impossible launch or fill."""
        asked = self._executable
        launches = [(launch.kernel, self._step(launch, buffers)) for launch in asked.launches]
        # After the launches, because these may load the code a second time.
        fills, restores = (
            [
                (f"fill {fill.name}", self._fill(fill, buffers))
                for fill in asked.fills
                if fill.restores == restores
            ]
            for restores in (False, True)
        )
        return Binding((*fills, *launches), tuple(restores))

    def _fill(self, fill: ResolvedFill, buffers: Buffers) -> Callable[[], None]:
        try:
            if fill.symbol:
                places = self._symbols(fill)
            else:
                places = [(buffers[fill.name].address, buffers[fill.name].nbytes)]
            calls = [self._write(fill, address, size, buffers) for address, size in places]
        except UsageError as error:
            raise WorkerError("bad-version", f"{error.message}. {error.hint}") from error

        def run() -> None:
            for call in calls:
                call()

        return run

    def _symbols(self, fill: ResolvedFill) -> list[tuple[int, int]]:
        """Address and bytes of a variable, in each module loaded from the cubin."""
        try:
            address, size = self._module.get_global(fill.name)
            places = [(int(address), int(size))]
            if self._extended is not None:
                driver, module = self._extended
                places.append(driver.symbol(module, fill.name))
        except (self._session.cuda.LogicError, DriverError) as error:
            if fill.restores:
                return []  # the module does not hold unused variables
            raise no_symbol(fill) from error
        return places

    def _write(
        self, fill: ResolvedFill, address: int, size: int, buffers: Buffers
    ) -> Callable[[], None]:
        cuda, stream = self._session.cuda, self._session.stream
        if fill.input:
            source = buffers[fill.input]
            check_copy(fill, source.nbytes, size)
        else:
            check_whole(fill, size)
            once = unit(fill)
            if (once == once[0]).all():
                return partial(cuda.memset_d8_async, address, int(once[0]), size, stream)
            if 4 % len(once) == 0 and size % 4 == 0:
                word = int(np.resize(once, 4).view(np.uint32)[0])
                return partial(cuda.memset_d32_async, address, word, size // 4, stream)
            source = self._stage(fill, size)
        return partial(cuda.memcpy_dtod_async, address, source.address, source.nbytes, stream)

    def _stage(self, fill: ResolvedFill, size: int) -> DeviceArray:
        """Stage contents that no memset can write in device memory, once for all sets."""
        key = (fill.name, size)
        if key not in self._staged:
            name = f"what {fill.name} is filled with"
            spec = BufferSpec(name=name, role="scratch", shape=(size,), dtype="uint8")
            self._staged[key] = self._session.allocate(spec)
            self._session.upload(self._staged[key], repeated(fill, size))
        return self._staged[key]

    def _step(self, launch: ResolvedLaunch, buffers: Buffers) -> Callable[[], None]:
        session = self._session
        cells: list[bytes] = []
        # Kernel parameters are laid out like the fields of a C structure, but a tensor map's
        # alignment (64 or 128 bytes) depends on the headers used in compilation.
        layout, values, mapped = "@", list[Number](), False
        for argument in launch.args:
            if isinstance(argument, TensorMapArg):
                cells.append(self._tensor_map(argument, buffers[argument.buffer]))
                mapped = True
                continue
            if isinstance(argument, TextureArg):
                argument = self._texture(argument, buffers[argument.buffer])
            members = members_of(argument)
            form = format_of([each.ctype for each in members])
            own = [
                m.value if isinstance(m, ScalarArg) else buffers[m.name].address + m.offset
                for m in members
            ]
            cells.append(struct.pack(f"@{form}", *own))
            layout += form
            values += own
        # A struct's alignment may differ from that of its members: the driver knows it.
        mapped = mapped or any(isinstance(each, StructArg) for each in launch.args)
        clustered = launch.cluster is not None and launch.cluster != (1, 1, 1)
        if launch.cooperative or clustered or mapped:
            return self._extended_step(launch, cells)
        with session.doing(f"finding kernel {launch.kernel}"):
            function = self._module.get_function(launch.kernel)
            if launch.dynamic_shared:
                # Needed as soon as static and dynamic memory together exceed 48 KB (CUDA
                # C++ Programming Guide, "Shared Memory" of compute capability 7.x on).
                function.set_attribute(
                    session.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    launch.dynamic_shared,
                )
        # This bypasses PyCUDA's launch methods, which repack the arguments every time and call
        # cuFuncSetBlockShape, an old function that ncu's range replay does not support.
        launch_kernel = function._launch_kernel
        packed = struct.pack(layout, *values)
        grid, block, shared = launch.grid, launch.block, launch.dynamic_shared
        stream = session.stream

        def run() -> None:
            launch_kernel(grid, block, packed, shared, stream)

        return run

    def _tensor_map(self, argument: TensorMapArg, array: DeviceArray) -> bytes:
        with _described(f"the tensor map at {argument.where}", "encoding a tensor map"):
            argument.check(array.nbytes)
            return Driver().tensor_map(argument.map, array.address)

    def _texture(self, argument: TextureArg, array: DeviceArray) -> ScalarArg:
        """The texture object for an array, as a number; if it needs a copy, it is made now."""
        known = (argument, array.address)
        with _described(f"the texture at {argument.where}", "making a texture object"):
            argument.check(array.nbytes)
            if known not in self.textures:
                stream = int(self._session.stream.handle)
                made = DeviceTexture(Driver(), argument.texture, array.address, stream)
                self.textures[known] = made
        return ScalarArg(value=self.textures[known].handle, ctype="ulong")

    def _extended_step(self, launch: ResolvedLaunch, cells: list[bytes]) -> Callable[[], None]:
        try:
            if self._extended is None:
                driver = Driver()
                self._extended = driver, driver.load(self._cubin)
            driver, module = self._extended
            return driver.extended_kernel(module, launch, int(self._session.stream.handle), cells)
        except DriverError as error:
            what = ["a cooperative launch"] if launch.cooperative else []
            if launch.cluster is not None:
                x, y, z = launch.cluster
                what.append(f"a launch in clusters of {x}×{y}×{z} blocks")
            raise WorkerError(
                "unsupported",
                " and ".join(what),
                during=f"finding kernel {launch.kernel}",
                code=str(error),
            ) from error


class PythonVersion:
    """A ``.py`` version: ``prepare(problem, parameters, buffers) -> callable``."""

    def __init__(
        self,
        session: DeviceContext,
        executable: Executable,
        problem: Problem,
        parameters: dict[str, int],
    ) -> None:
        self.collect: Callable[[], None] | None = None
        self._session = session
        self._executable = executable
        self._problem = problem
        self._parameters = parameters
        self._module = load_library(Path(executable.path), executable.version)
        if not callable(getattr(self._module, "prepare", None)):
            raise WorkerError("bad-version", f"{executable.path} defines no function prepare()")

    def bind(self, buffers: Buffers) -> Binding:
        """Call ``prepare`` for this set of buffers, on our stream.

        Raises WorkerError: it fails, or returns nothing to call.
        """
        prepare = self._module.prepare
        try:
            call = on_stream(
                lambda: prepare(self._problem.name, dict(self._parameters), dict(buffers)),
                self._session,
            )()
        except (WorkerError, self._session.cuda.Error):
            raise
        except Exception as error:
            raise WorkerError(
                "bad-version", f"{self._executable.path}: prepare() failed: {_said(error)}"
            ) from error
        if not callable(call):
            raise WorkerError(
                "bad-version", f"{self._executable.path}: prepare() did not return a callable"
            )
        collect = getattr(call, "collect", None)
        self.collect = None if collect is None else on_stream(collect, self._session)
        return Binding(((self._executable.version, on_stream(call, self._session)),))


def load(
    session: DeviceContext, executable: Executable, problem: Problem, parameters: dict[str, int]
) -> Loaded:
    """Load a version of either kind."""
    if executable.kind != "python":
        return CudaVersion(session, executable)
    return PythonVersion(session, executable, problem, parameters)


def on_stream(call: Callable[[], Any], session: DeviceContext) -> Callable[[], Any]:
    """Make `call` put its work on the session's stream if PyTorch is in use.

    Triton launches on PyTorch's current stream too. A library that does neither
    uses the legacy default stream, with which our blocking stream is ordered.
    """

    def run() -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return call()
        with torch.cuda.stream(torch.cuda.ExternalStream(int(session.stream.handle))):
            return call()

    return run


def load_library(path: Path, version: str) -> types.ModuleType:
    """Import the module of a Python version that can run here, and so the libraries that it uses.

    Raises WorkerError: it cannot be imported, or says why it cannot run here.
    """
    module = _import(path, version)
    available = getattr(module, "available", None)
    word = available() if available is not None else ""
    if word:
        raise WorkerError("unavailable", str(word))
    return module


def _import(path: Path, version: str) -> types.ModuleType:
    name = f"workbench_version_{version}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise WorkerError("bad-version", f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise WorkerError("bad-version", f"{path} cannot be imported: {_said(error)}") from error
    return module


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class Bench:
    """The study's side of a job: inputs, outputs and reference of one problem."""

    def __init__(
        self, study: Study, problem: Problem, seed: int, answering: Executable | None = None
    ) -> None:
        self.study = study
        self.answering = answering
        self.problem = problem
        self.parameters = dict(study.parameters(problem))
        self.seed, self.sample_above = seed, SAMPLE_ABOVE_FLOPS
        self._rng = np.random.default_rng(seed)
        self.inputs: dict[str, NDArray[Any]] = dict(study.inputs(problem, self._rng))
        self.specs = tuple(
            BufferSpec(name=name, role="input", shape=values.shape, dtype=name_of(values.dtype))
            for name, values in self.inputs.items()
        ) + tuple(
            BufferSpec(name=name, role="output", shape=tuple(shape), dtype=dtype)
            for name, (shape, dtype) in study.outputs(problem).items()
        )
        self.pointers = study.pointers(problem, self.inputs)
        self._reference: dict[str, NDArray[np.float64]] | None = None
        self._sample: dict[str, NDArray[np.int64]] | None = None

    @property
    def outputs(self) -> tuple[BufferSpec, ...]:
        """The output buffers."""
        return tuple(spec for spec in self.specs if spec.role == "output")

    @cached_property
    def fresh(self) -> Bench:
        """The same problem with new inputs, which no version has seen before its check."""
        with _as_bad_study():
            other = Bench(self.study, self.problem, fresh_seed(), self.answering)
        other.sample_above = 10**8  # a second reference must cost the host little
        return other

    @property
    def host_bytes(self) -> int:
        """Host memory of inputs and references, for both seeds, in bytes."""
        return 2 * sum(values.nbytes for values in self.inputs.values()) + sum(
            16 * int(np.prod(spec.shape, dtype=np.int64)) for spec in self.outputs
        )

    def link(self, session: DeviceContext, arrays: Mapping[str, DeviceArray]) -> None:
        """Set the pointers in inputs to addresses in this set of buffers."""
        for name, values in linked(self.inputs, self.pointers, lambda to: arrays[to].address):
            session.upload(arrays[name], values)

    def fill(self, session: DeviceContext, arrays: Mapping[str, DeviceArray]) -> None:
        """Give the inputs their content, and set their pointers to addresses in these buffers."""
        for name, values in self.inputs.items():
            session.upload(arrays[name], values)
        self.link(session, arrays)

    def upload(self, session: DeviceContext) -> dict[str, DeviceArray]:
        """Make a set of inputs and outputs."""
        with session.doing("allocating inputs and outputs"):
            arrays = {spec.name: session.allocate(spec) for spec in self.specs}
            self.begin(session, arrays)
        return arrays

    def begin(self, session: DeviceContext, arrays: dict[str, DeviceArray]) -> None:
        """Fill the inputs; first run the version that gives the right answer, if there is one."""
        self.fill(session, arrays)
        if session.guards and self.answering is not None and self._reference is None:
            run = Run(session, self, self.answering, arrays, poison=True)
            run.execute()
            self._reference = as_answer(run.outputs())
            self.fill(session, arrays)  # the state before that version ran

    def refer(self) -> dict[str, NDArray[np.float64]]:
        """The reference, for all elements or for the chosen ones; it is computed once."""
        if self._reference is None:
            study = self.study
            if study.can_sample and study.flops(self.problem) >= self.sample_above:
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
        if self.answering is not None:
            itself, tolerance = version == self.answering.version, self.study.tolerance_of(version)
            return compare_with_version(
                outputs, reference, tolerance, itself=itself, strayed=strayed
            )
        return compare(
            outputs,
            reference,
            self.study.tolerance_of(version),
            sample=self._sample,
            strayed=strayed,
            special=self.study.not_finite,
        )


class Benches:
    """The benches of a worker's jobs.

    Versions on the same problem and seed share inputs and reference, which are made once; the
    float64 reference of a large problem takes the host longer than all its versions take the
    device.
    """

    def __init__(self, limit: int = _KEPT_BYTES) -> None:
        self._limit = limit
        self._studies: dict[str, Study] = {}
        self._kept: dict[tuple[str, str, int], Bench] = {}  # the one used last is last

    def of(self, job: Job) -> Bench:
        """Return a job's bench; WorkerError ``bad-study``, in the study's own words."""
        key = (job.study, job.problem, job.seed)
        bench = self._kept.pop(key, None) or self._open(job)
        self._kept[key] = bench
        # The current one is kept, whatever its size.
        while len(self._kept) > 1 and sum(b.host_bytes for b in self._kept.values()) > self._limit:
            del self._kept[next(iter(self._kept))]
        return bench

    def study(self, job: Job) -> Study:
        """Return a job's study, loaded once; WorkerError ``bad-study`` as in `of`."""
        if job.study not in self._studies:
            with _as_bad_study():
                self._studies[job.study] = load_study(require_project(Path.cwd()), job.study)
        return self._studies[job.study]

    def _open(self, job: Job) -> Bench:
        study = self.study(job)
        with _as_bad_study():
            return Bench(study, study.problem(job.problem), job.seed, job.answering)


@contextlib.contextmanager
def _described(what: str, during: str) -> Iterator[None]:
    """A descriptor that does not fit, or that the driver refuses, as the worker's error."""
    try:
        yield
    except UsageError as error:
        raise WorkerError("bad-version", f"{error.message}. {error.hint}") from error
    except DriverError as error:
        raise WorkerError("unsupported", what, during=during, code=str(error)) from error


@contextlib.contextmanager
def _as_bad_study() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise WorkerError("bad-data", error.message, code=error.hint) from error
    except WorkbenchError as error:
        raise WorkerError("bad-study", error.message) from error


class Run:
    """One version on the job's first set of buffers."""

    def __init__(
        self,
        session: DeviceContext,
        bench: Bench,
        executable: Executable,
        arrays: dict[str, DeviceArray],
        *,
        poison: bool,
    ) -> None:
        self.session = session
        self.bench = bench
        self.executable = executable
        self.arrays = arrays
        self.poison = poison
        with session.doing(f"allocating the scratch memory of {executable.version}"):
            self.scratch = {
                each.name: session.allocate(
                    BufferSpec(name=each.name, role="scratch", shape=each.shape, dtype=each.dtype)
                )
                for each in executable.scratch
            }
        begin = time.perf_counter()
        self.loaded: Loaded = load(session, executable, bench.problem, bench.parameters)
        self._bind()
        self._load_s = time.perf_counter() - begin
        self.first_launch = 0.0

    def _bind(self) -> None:
        self.calls, self._restores = self.loaded.bind({**self.arrays, **self.scratch})
        self.collect = self.loaded.collect

    def execute(self) -> None:
        """Poison the buffers to be written, run every launch, and wait for the end."""
        self.begin()
        begin = time.perf_counter()
        for kernel, call in self.calls:
            with self.session.doing(f"launching {kernel} of {self.executable.version}"):
                call()
        names = ", ".join(dict.fromkeys(kernel for kernel, _ in self.calls))
        with self.session.doing(f"running {names} of {self.executable.version}"):
            # Wait for nothing else: the timer does not wait for other work either.
            self.session.stream.synchronize()
        if not self.first_launch:
            self.first_launch = self._load_s + time.perf_counter() - begin

    def again(self) -> Check:
        """Check the loaded code on fresh inputs; sets `prepared` if it was prepared again."""
        first, self.bench = self.bench, self.bench.fresh
        same = first.specs == self.bench.specs
        if same:
            with self.session.doing(f"filling the inputs of {self.executable.version} again"):
                self.bench.begin(self.session, self.arrays)
        else:  # sizes that depend on the seed
            self.arrays = self.bench.upload(self.session)
        if isinstance(self.loaded, CudaVersion):
            self.loaded.textures.clear()  # the old fills hold copies of inputs
        if not same or isinstance(self.loaded, CudaVersion):
            self._bind()
        self.execute()
        check = self.check()
        self.prepared = self.executable.kind == "python" and not (same and check.ok)
        if self.prepared and same:
            self.bench.fill(self.session, self.arrays)
            self._bind()
            self.execute()
            check = self.check()
        fixed = not overwritten(first.inputs, (), (), self.bench.inputs.__getitem__)
        return structs.replace(check, fixed=fixed)

    def begin(self) -> None:
        """Poison the buffers to be written; restore the first content of buffers and variables."""
        if self.poison:
            own = [self.arrays[spec.name] for spec in self.bench.outputs]
            for array in (*own, *self.scratch.values()):
                self.session.poison(array)
        with self.session.doing(f"restoring the buffers of {self.executable.version}"):
            for _, call in self._restores:
                call()
            self.session.synchronize()

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Copy the outputs; once after each `execute`."""
        if self.collect is not None:
            with self.session.doing(f"collecting the outputs of {self.executable.version}"):
                # It is not timed, so it must not compute: here it would compute from nothing.
                for array in (self.arrays[name] for name in self.bench.inputs):
                    self.session.cuda.memset_d8(array.address, 0xFF, max(1, array.nbytes))
                self.collect()
                self.session.synchronize()
                self.bench.fill(self.session, self.arrays)
        with self.session.doing(f"reading the outputs of {self.executable.version}"):
            return {
                spec.name: self.session.download(self.arrays[spec.name])
                for spec in self.bench.outputs
            }

    def check(self) -> Check:
        """Compare the outputs with the right answer; once after each `execute`."""
        outputs = self.outputs()
        with self.session.doing(f"reading the outputs of {self.executable.version}"):
            strayed = self.session.strayed() + overwritten(
                self.bench.inputs, self.bench.pointers, self.executable.fills,
                lambda name: self.session.download(self.arrays[name]),
            )  # fmt: skip
        try:
            return self.bench.check(self.executable.version, outputs, strayed)
        except WorkbenchError as error:
            raise WorkerError("bad-study", error.message) from error
        except ValueError as error:
            raise WorkerError("bad-study", str(error)) from error
