"""The GPU as the worker sees it: one primary context, one stream, plain buffers.

Only the worker process imports this module's PyCUDA side. The context is the
device's *primary* one, which the CUDA runtime uses too: PyTorch in the same
process shares memory and modules with us without a copy.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.engines.gpu.libcuda import Driver, DriverError
from workbench.engines.host.buffers import dtype_of, interface_type, poison_byte
from workbench.engines.host.job import BufferSpec, Failure, FailureKind
from workbench.model import Device
from workbench.store import device_slug

#: Bytes of poison on both sides of a guarded buffer. A multiple of 512, so that the
#: buffer keeps the alignment that cuMemAlloc promises (256 bytes).
GUARD = 4096
_PERSISTING_L2 = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_GUARD_BYTE = 0xFF
_ALIGN = 512
#: `DeviceContext.wake`: the size of its memsets, their number between two waits, its duration.
_WAKE_BYTES = 64 * 2**20
_WAKE_BATCH = 100
_WAKE_S = 0.2


class WorkerError(Exception):
    """A failure with its kind already known; becomes the result's `failure`."""

    def __init__(self, kind: FailureKind, message: str, during: str = "", code: str = "") -> None:
        super().__init__(message)
        self.failure = Failure(kind=kind, message=message, during=during, code=code)


#: Words in the driver's error texts -> kind. The first match wins.
_DRIVER_ERRORS: tuple[tuple[str, FailureKind, str], ...] = (
    ("out of memory", "out-of-memory", "the device has too little free memory"),
    ("illegal memory access", "crash", "it read or wrote outside its arrays"),
    ("misaligned address", "crash", "it used an address that is not aligned to its type"),
    ("illegal instruction", "crash", "it hit an illegal instruction"),
    ("invalid program counter", "crash", "it jumped to an invalid address"),
    ("invalid address space", "crash", "it used an address of the wrong memory space"),
    ("stack", "crash", "its stack overflowed"),
    ("assert", "crash", "a device-side assertion failed"),
    ("unspecified launch failure", "crash", "it stopped with an unspecified launch failure"),
    ("timed out", "crash", "the driver stopped it for running too long"),
    ("too many resources", "launch-failed", "a block asks for more registers or threads than fit"),
    ("no kernel image", "not-loadable", "the build holds no code for this device"),
    ("image is invalid", "not-loadable", "the build is not a valid image"),
    ("unsupported toolchain", "not-loadable", "the driver is older than the compiler"),
    ("named symbol not found", "not-loadable", "the build has no kernel of that name"),
    ("named symbol", "not-loadable", "the build has no kernel of that name"),
    ("invalid argument", "launch-failed", "the driver refused the launch's arguments"),
    ("invalid configuration", "launch-failed", "the driver refused the grid or the block"),
    ("cluster", "launch-failed", "the driver refused the cluster size"),
)


def classify(text: str) -> tuple[FailureKind, str]:
    """Kind and plain meaning of a driver error text raised by PyCUDA."""
    low = text.lower()
    for word, kind, meaning in _DRIVER_ERRORS:
        if word in low:
            return kind, meaning
    return "internal", "the driver reported an error"


class DeviceArray:
    """Device memory of a session, which others can wrap without a copy (``torch.as_tensor(x)``)."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.address = address
        self.shape = shape
        self.dtype = dtype

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": interface_type(self.dtype),
            "data": (self.address, False),
            "version": 3,
        }


class DeviceContext:
    """An open device: allocate, copy, poison, synchronize. Use as a context manager.

    Raises WorkerError ``no-pycuda`` or ``no-device`` on entry.
    """

    def __init__(self) -> None:
        self.guards = True
        self.during = "starting"
        self._memory: list[Any] = []
        self._guarded: dict[int, tuple[str, int]] = {}  # address -> the buffer's name and size
        self._persisting = ctypes.c_size_t()  # bytes of L2 that the driver sets aside: not 0

    def __enter__(self) -> DeviceContext:
        try:
            import pycuda.driver as cuda
        except ImportError as error:
            raise WorkerError("no-pycuda", f"PyCUDA cannot be imported: {error}") from error
        self.cuda = cuda
        try:
            cuda.init()
            if cuda.Device.count() == 0:
                raise WorkerError("no-device", "the driver sees no GPU")
            self._device = cuda.Device(0)
            self._context = self._device.retain_primary_context()
            self._context.push()
        except cuda.Error as error:
            raise WorkerError("no-device", "the GPU cannot be opened", code=str(error)) from error
        # A blocking stream: work that a library puts on the legacy default stream is ordered with
        # ours, so that events around it still enclose it.
        self.stream = cuda.Stream()
        with suppress(DriverError):
            Driver().call("cuCtxGetLimit", ctypes.byref(self._persisting), _PERSISTING_L2)
        return self

    def __exit__(self, *exc: object) -> None:
        # Everything that needs the context must be freed before it is popped, and the
        # context must be popped before the interpreter ends: PyCUDA otherwise aborts
        # the process (exit code 6), after a good profile was already written.
        gc.unfreeze()
        with suppress(Exception):  # after a crash the context is lost: nothing is left to free
            del self.stream
            self.release()
            self._context.pop()
            del self._context
            gc.collect()

    def describe(self) -> Device:
        """The device record; clocks are the chip's maximum, in hertz."""
        attribute = self.cuda.device_attribute
        get = self._device.get_attribute
        name = self._device.name()
        major, minor = self._device.compute_capability()
        return Device(
            name=name,
            slug=device_slug(name),
            compute_capability=(int(major), int(minor)),
            sms=int(get(attribute.MULTIPROCESSOR_COUNT)),
            sm_clock=float(get(attribute.CLOCK_RATE)) * 1e3,
            memory_clock=float(get(attribute.MEMORY_CLOCK_RATE)) * 1e3,
            memory_bus_bits=int(get(attribute.GLOBAL_MEMORY_BUS_WIDTH)),
            l2_bytes=int(get(attribute.L2_CACHE_SIZE)),
            memory_bytes=int(self._device.total_memory()),
        )

    @property
    def bus_id(self) -> str:
        """PCI address, by which NVML finds the same device."""
        return str(self._device.pci_bus_id())

    def versions(self) -> dict[str, str]:
        """Versions of the driver's CUDA interface and of PyCUDA."""
        import pycuda

        number = int(self.cuda.get_driver_version())
        return {
            "cuda driver": f"{number // 1000}.{number % 1000 // 10}",
            "pycuda": str(pycuda.VERSION_TEXT),
        }

    def free_bytes(self) -> int:
        """Free device memory now."""
        free, _total = self.cuda.mem_get_info()
        return int(free)

    def allocate(self, spec: BufferSpec) -> DeviceArray:
        """Allocate one separate buffer, with guard bytes on both sides if requested."""
        dtype = dtype_of(spec.dtype)
        array = DeviceArray(0, spec.shape, dtype)
        size = array.nbytes
        margin = GUARD if self.guards else 0
        # The driver refuses an allocation of no bytes.
        memory = self.cuda.mem_alloc(max(1, size) + 2 * margin)
        self._memory.append(memory)
        array.address = int(memory) + margin
        if margin:
            self.cuda.memset_d8(int(memory), _GUARD_BYTE, size + 2 * margin)
            self._guarded[int(memory)] = (spec.name, size)
        return array

    def arena(self, size: int) -> int:
        """One large piece of memory for rotating buffer sets; its address."""
        memory = self.cuda.mem_alloc(max(1, size))
        self._memory.append(memory)
        return int(memory)

    def upload(self, array: DeviceArray, values: NDArray[Any]) -> None:
        """Copy host values into a buffer; WorkerError if its shape differs."""
        host = np.ascontiguousarray(values, dtype=array.dtype)
        if host.shape != array.shape:
            raise WorkerError(
                "bad-study", f"an input has shape {host.shape}, but {array.shape} was declared"
            )
        if host.nbytes:
            self.cuda.memcpy_htod(array.address, host)

    def download(self, array: DeviceArray) -> NDArray[Any]:
        """A host copy of a buffer."""
        host = np.empty(array.shape, dtype=array.dtype)
        if host.nbytes:
            self.cuda.memcpy_dtoh(host, array.address)
        return host

    def poison(self, array: DeviceArray) -> None:
        """Fill a buffer with values that no kernel computes (`workbench.engines.host.buffers`)."""
        if array.nbytes:
            self.cuda.memset_d8(array.address, poison_byte(array.dtype), array.nbytes)

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy on the device."""
        self.move(target.address, source.address, source.nbytes)

    def move(self, target: int, source: int, size: int) -> None:
        """Copy `size` bytes from one device address to another."""
        if size:
            self.cuda.memcpy_dtod(target, source, size)

    def strayed(self) -> tuple[str, ...]:
        """Names of the buffers whose guard bytes were overwritten."""
        touched = list[str]()
        margin = np.empty(GUARD, dtype=np.uint8)
        for start, (name, size) in self._guarded.items():
            for address in (start, start + GUARD + size):
                self.cuda.memcpy_dtoh(margin, address)
                if np.any(margin != _GUARD_BYTE):
                    touched.append(name)
        return tuple(dict.fromkeys(touched))

    @property
    def allocations(self) -> int:
        """Number of allocations held, for `release`."""
        return len(self._memory)

    def release(self, but: int = 0) -> None:
        """Free all allocations except the first `but`; set aside as much L2 as at first."""
        for each in self._memory[but:]:
            self._guarded.pop(int(each), None)
        del self._memory[but:]
        for start, (_, size) in self._guarded.items():  # a kernel may have written there
            for address in (start, start + GUARD + size):
                self.cuda.memset_d8(address, _GUARD_BYTE, GUARD)
        with suppress(DriverError):
            driver = Driver()
            driver.call("cuCtxResetPersistingL2Cache")
            driver.call("cuCtxSetLimit", _PERSISTING_L2, self._persisting)
        gc.collect()
        gc.freeze()  # remaining objects are examined once: PyTorch alone takes 60 ms each time
        torch = sys.modules.get("torch")
        if torch is not None:
            # PyTorch keeps its tensors' memory; the next problem may need it.
            torch.cuda.empty_cache()

    def alive(self) -> bool:
        """Test whether the context still works; a kernel's fault ends it for good."""
        try:
            self.synchronize()
            self.free_bytes()
        except self.cuda.Error:
            return False
        return True

    def synchronize(self) -> None:
        """Wait for our stream and for the whole context; raise the kernels' errors."""
        self.cuda.Context.synchronize()

    def wake(self) -> None:
        """Keep the device busy until its clocks have left their idle state.

        A library that tries its kernels at the first call and keeps the fastest would otherwise
        time the first ones on a device that is still waking up.
        """
        memory = self.cuda.mem_alloc(_WAKE_BYTES)
        begin = time.perf_counter()
        while time.perf_counter() - begin < _WAKE_S:
            for _ in range(_WAKE_BATCH):
                self.cuda.memset_d8_async(int(memory), 0, _WAKE_BYTES, self.stream)
            self.stream.synchronize()
        memory.free()

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Name the activity, and turn driver errors within it into a `WorkerError`."""
        self.during = what
        try:
            yield
        except self.cuda.Error as error:
            kind, meaning = classify(str(error))
            raise WorkerError(kind, meaning, during=what, code=str(error)) from error


def set_bytes(specs: Iterable[BufferSpec]) -> int:
    """Bytes of one set of buffers, each rounded up to the arena's alignment."""
    total = 0
    for spec in specs:
        total += aligned(DeviceArray(0, spec.shape, dtype_of(spec.dtype)).nbytes)
    return total


def aligned(size: int) -> int:
    """Round up to the alignment of buffers within an arena."""
    return -(-size // _ALIGN) * _ALIGN
