"""A version, loaded into the worker and bound to buffers: what `run()` runs.

Used for verifying, timing and profiling alike, so what is profiled is what was
verified.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from workbench.engines.gpu.device import DeviceArray, Session, WorkerError
from workbench.engines.host.job import Executable
from workbench.model import Problem
from workbench.study.launches import BufferArg, ResolvedLaunch

#: The C types of `workbench.study.launches.CTYPES` -> NumPy type and format of `struct`.
CTYPES: dict[str, tuple[type[np.generic], str]] = {
    "int": (np.int32, "i"),
    "uint": (np.uint32, "I"),
    "long": (np.int64, "q"),
    "ulong": (np.uint64, "Q"),
    "float": (np.float32, "f"),
    "double": (np.float64, "d"),
}

Step = tuple[str, Callable[[], None]]
Buffers = Mapping[str, DeviceArray]


class Loaded(Protocol):
    """A version in device memory, ready to be bound to sets of buffers."""

    #: Brings the outputs of the last binding into the study's order; None where they are.
    collect: Callable[[], None] | None

    def bind(self, buffers: Buffers) -> tuple[Step, ...]:
        """The launches as (kernel name, callable), for one set of buffers."""
        ...


class CudaProgram:
    """Kernels of a cubin."""

    def __init__(self, session: Session, program: Executable) -> None:
        self.collect: Callable[[], None] | None = None
        self._session = session
        self._program = program
        self._cubin = Path(program.cubin).read_bytes()
        with session.doing(f"loading {program.version}"):
            self._module = session.cuda.module_from_buffer(self._cubin)

    def bind(self, buffers: Buffers) -> tuple[Step, ...]:
        """Pack the arguments of every launch once."""
        return tuple(
            (launch.kernel, self._step(launch, buffers)) for launch in self._program.launches
        )

    def _step(self, launch: ResolvedLaunch, buffers: Buffers) -> Callable[[], None]:
        session = self._session
        values: list[np.generic] = []
        # Kernel parameters lie in memory as the fields of a C structure do.
        layout = "@"
        for argument in launch.args:
            if isinstance(argument, BufferArg):
                values.append(np.uintp(buffers[argument.name].address))
                layout += "P"
            else:
                kind, code = CTYPES[argument.ctype]
                values.append(kind(argument.value))
                layout += code
        if launch.cooperative or (launch.cluster is not None and launch.cluster != (1, 1, 1)):
            return self._extended_step(launch, values)
        with session.doing(f"finding kernel {launch.kernel}"):
            function = self._module.get_function(launch.kernel)
            if launch.dynamic_shared:
                # Needed as soon as static and dynamic memory together exceed 48 KB (CUDA
                # C++ Programming Guide, "Shared Memory" of compute capability 7.x on).
                function.set_attribute(
                    session.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    launch.dynamic_shared,
                )
        # Below PyCUDA's launch methods, which pack the arguments anew every time and call
        # cuFuncSetBlockShape, a relic that ncu's range replay does not know.
        launch_kernel = function._launch_kernel
        packed = struct.pack(layout, *(value.item() for value in values))
        grid, block, shared = launch.grid, launch.block, launch.dynamic_shared
        stream = session.stream

        def step() -> None:
            launch_kernel(grid, block, packed, shared, stream)

        return step

    def _extended_step(
        self, launch: ResolvedLaunch, values: list[np.generic]
    ) -> Callable[[], None]:
        from workbench.engines.gpu.libcuda import Driver, DriverError

        try:
            return Driver().extended_kernel(
                self._cubin, launch, int(self._session.stream.handle), values
            )
        except DriverError as error:
            what = ["a cooperative launch"] if launch.cooperative else []
            if launch.cluster is not None:
                what.append("a launch in clusters of {}×{}×{} blocks".format(*launch.cluster))
            raise WorkerError(
                "unsupported",
                " and ".join(what),
                step=f"finding kernel {launch.kernel}",
                code=str(error),
            ) from error


class PythonProgram:
    """A ``.py`` version: ``prepare(problem, parameters, buffers) -> callable``."""

    def __init__(
        self, session: Session, program: Executable, problem: Problem, parameters: dict[str, int]
    ) -> None:
        self.collect: Callable[[], None] | None = None
        self._session = session
        self._program = program
        self._problem = problem
        self._parameters = parameters
        self._module = _import(Path(program.path), program.version)
        available = getattr(self._module, "available", None)
        word = available() if available is not None else ""
        if word:
            raise WorkerError("unavailable", str(word))
        if not callable(getattr(self._module, "prepare", None)):
            raise WorkerError("bad-version", f"{program.path} defines no function prepare()")

    def bind(self, buffers: Buffers) -> tuple[Step, ...]:
        """Call ``prepare`` for this set of buffers, on our stream.

        Raises:
            WorkerError: it fails, or gives back nothing to call.
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
                "bad-version", f"{self._program.path}: prepare() failed: {_said(error)}"
            ) from error
        if not callable(call):
            raise WorkerError(
                "bad-version", f"{self._program.path}: prepare() returned no callable"
            )
        collect = getattr(call, "collect", None)
        self.collect = None if collect is None else on_stream(collect, self._session)
        return ((self._program.version, on_stream(call, self._session)),)


def load(
    session: Session, program: Executable, problem: Problem, parameters: dict[str, int]
) -> Loaded:
    """Load a version of either kind."""
    if program.kind == "cuda":
        return CudaProgram(session, program)
    return PythonProgram(session, program, problem, parameters)


def on_stream(call: Callable[[], Any], session: Session) -> Callable[[], Any]:
    """Make `call` put its work on the session's stream, where PyTorch is in use.

    Triton launches on PyTorch's current stream too. A library that does neither
    uses the legacy default stream, which our blocking stream is ordered with.
    """

    def run() -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return call()
        with torch.cuda.stream(torch.cuda.ExternalStream(int(session.stream.handle))):
            return call()

    return run


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
