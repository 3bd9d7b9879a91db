"""The part of PyCUDA's driver interface that the worker uses, on host memory.

`FAKE_KERNEL` chooses how the one kernel, ``scale`` (y = 2·x), behaves:
``ok``, ``wrong``, ``half`` (writes half of y), ``stray`` (writes behind y), ``nan``,
``crash``, ``crash-later`` (from the third launch on), ``hang``, ``die`` (the process ends),
``slow``, ``oom``, ``add`` (y += 2·x), ``kept`` (y as it was first), ``overwrite`` (of x),
``table`` (y = x times the sum of the symbol ``table``,
two floats). With a version behind it (``crash v1``) only that version's does.
`FAKE_LOG` is a file that every launch is written to, with its time; with `FAKE_MEET` a launch
waits until so many devices stand in it, a minute at most. `FAKE_NAMES` are the devices' names by
UUID and `FAKE_LOST` the UUID of one that cannot be opened, each as CUDA_VISIBLE_DEVICES has it.
With ``FAKE_CLOCK="0.001 0.02"`` events tell the time of a clock of its own: a launch takes a
thousandth of a second (times what its cubin says it takes), with a noise of 2% that is slow in
part, and now and then a delay. The noise is drawn once an event, not once a launch: how many
launches warm a device up depends on the host, and with ``FAKE_SEED`` the times shall not.
With `FAKE_WAITS` who waits for the device sleeps for as long as that clock says it works.
Calls are checked as the driver would: a launch needs a context and a live module.
"""

import ctypes
import json
import math
import mmap
import os
import random
import struct
import time

import numpy as np

from workbench.engines.gpu import device, stopwatch

MODE, _, ONLY = os.environ.get("FAKE_KERNEL", "ok").partition(" ")
_stack: list["Context"] = []
_lost = False
_launches = 0
busied = 0  # bytes of asynchronous memsets: what a device is kept busy with
_concerned = not ONLY  # whether the version at work is the one that misbehaves
_table = ctypes.create_string_buffer(8)
_kept: dict[tuple[str, int], np.ndarray] = {}
_begin = time.perf_counter()
_pace = [float(word) for word in os.environ.get("FAKE_CLOCK", "").split()]
_chance = random.Random(os.environ.get("FAKE_SEED", os.getpid()))
_clock = 0.0  # of the device, where it has its own
_ahead = 0.0  # seconds of the work that no event has come after yet
_wander = 0.0  # the slow part of its noise
_waited = 0.0  # up to where the host has slept for it


class Error(Exception):
    pass


class LogicError(Error):
    pass


class LaunchError(Error):
    pass


class MemoryError(Error):
    pass


def _need_context() -> None:
    if not _stack:
        raise LogicError("invalid device context")
    if _lost:
        raise LogicError("cuCtxSynchronize failed: an illegal memory access was encountered")


class device_attribute:  # noqa: N801 - PyCUDA's own name
    MULTIPROCESSOR_COUNT = "sms"
    CLOCK_RATE = "clock"
    MEMORY_CLOCK_RATE = "memory"
    GLOBAL_MEMORY_BUS_WIDTH = "bus"
    L2_CACHE_SIZE = "l2"


class function_attribute:  # noqa: N801 - PyCUDA's own name
    MAX_DYNAMIC_SHARED_SIZE_BYTES = "shared"


_ATTRIBUTES = {"sms": 4, "clock": 1_000_000, "memory": 2_000_000, "bus": 64, "l2": 1 << 16}


def init() -> None:
    if os.environ.get("FAKE_DEVICES") == "0":
        raise LogicError("cuInit failed: no CUDA-capable device is detected")
    if _visible() == os.environ.get("FAKE_LOST"):
        raise LogicError("cuInit failed: the device has fallen off the bus")
    if "FAKE_LOG" not in os.environ:  # nobody looks at which of several devices does what
        # Host memory has no clocks that must wake up: the same loops, but short.
        device._WAKE_S = stopwatch._WARM_UP_S = 0.005


def _meet(log: str) -> None:
    """However late another device's worker begins, it finds something to do."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with open(log) as file:  # noqa: PTH123
            whole = file.read().rpartition("\n")[0]  # the last line may be half written
        devices = {json.loads(line)["gpu"] for line in whole.splitlines()}
        if len(devices) >= int(os.environ.get("FAKE_MEET", "1")):
            return
        time.sleep(0.01)


def _visible() -> str:
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


class Context:
    @staticmethod
    def synchronize() -> None:
        _need_context()
        if MODE == "hang" and _launches and _concerned:
            time.sleep(3600)
        _wait()

    def push(self) -> None:
        _stack.append(self)

    def pop(self) -> None:
        _stack.pop()


class Device:
    def __init__(self, index: int) -> None:
        assert index == 0

    @staticmethod
    def count() -> int:
        return 1

    def retain_primary_context(self) -> Context:
        return Context()

    def name(self) -> str:
        names = json.loads(os.environ.get("FAKE_NAMES", "{}"))
        return str(names.get(_visible(), "NVIDIA Stand-In 1"))

    def compute_capability(self) -> tuple[int, int]:
        return (9, 0)

    def get_attribute(self, attribute: str) -> int:
        return _ATTRIBUTES[attribute]

    def total_memory(self) -> int:
        return 1 << 30

    def pci_bus_id(self) -> str:
        return "0000:00:00.0"


def get_driver_version() -> int:
    return 13000


def mem_get_info() -> tuple[int, int]:
    return (1 << 28, 1 << 30)


class DeviceAllocation:
    def __init__(self, size: int) -> None:
        # Pages of a mapping are made when they are touched; most of what is asked for never is.
        self._memory = (ctypes.c_char * size).from_buffer(mmap.mmap(-1, size))

    def __int__(self) -> int:
        return ctypes.addressof(self._memory)

    def free(self) -> None:
        del self._memory


def mem_alloc(size: int) -> DeviceAllocation:
    _need_context()
    if MODE == "oom":
        raise MemoryError("cuMemAlloc failed: out of memory")
    return DeviceAllocation(size)


def memset_d8(address: int, value: int, size: int) -> None:
    _need_context()
    ctypes.memset(address, value, size)


def memset_d8_async(address: int, value: int, size: int, stream: "Stream") -> None:
    global busied
    _need_context()
    busied += size
    if size < 1 << 20:  # larger ones only keep a device busy
        ctypes.memset(address, value, size)


def memset_d32_async(address: int, value: int, count: int, stream: "Stream") -> None:
    _need_context()
    np.ctypeslib.as_array((ctypes.c_uint32 * count).from_address(address))[:] = value


def memcpy_htod(address: int, host: np.ndarray) -> None:
    _need_context()
    ctypes.memmove(address, host.ctypes.data, host.nbytes)


def memcpy_dtoh(host: np.ndarray, address: int) -> None:
    _need_context()
    ctypes.memmove(host.ctypes.data, address, host.nbytes)


def memcpy_dtod(target: int, source: int, size: int) -> None:
    _need_context()
    ctypes.memmove(target, source, size)


def memcpy_dtod_async(target: int, source: int, size: int, stream: "Stream") -> None:
    memcpy_dtod(target, source, size)


class Stream:
    handle = 1

    def synchronize(self) -> None:
        _need_context()
        _wait()


class Event:
    def record(self, stream: "Stream | None" = None) -> "Event":
        _catch_up()
        self.time = _clock if _pace else time.perf_counter()
        return self

    def time_since(self, other: "Event") -> float:
        return (self.time - other.time) * 1e3


def _catch_up() -> None:
    """Let the device's clock run over the work before an event."""
    global _clock, _wander, _ahead
    if not _ahead:
        return
    noise = _pace[1]
    _wander = 0.98 * _wander + 0.2 * _chance.gauss(0, noise)
    late = 1.5 if _chance.random() < 0.01 else 1.0
    _clock += _ahead * late * math.exp(_wander + _chance.gauss(0, noise))
    _ahead = 0.0


def _wait() -> None:
    global _waited
    if "FAKE_WAITS" in os.environ:
        _catch_up()
        time.sleep(_clock - _waited)
        _waited = _clock


class Function:
    def __init__(self, version: str, takes: float) -> None:
        self._version = version
        self._takes = takes

    def set_attribute(self, attribute: str, value: int) -> None:
        assert attribute == "shared"

    def _launch_kernel(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        parameters: bytes,
        shared: int,
        stream: Stream,
    ) -> None:
        global _launches, _lost, _concerned, _ahead
        _need_context()
        assert len(grid) == 3 and len(block) == 3 and shared == 0
        assert isinstance(stream, Stream)
        _launches += 1
        _concerned = not ONLY or self._version == ONLY
        mode = MODE if _concerned else "ok"
        if mode == "die":
            os._exit(77)
        if mode == "slow":
            time.sleep(1.5)
        if _pace:
            _ahead += _pace[0] * self._takes
        x, y, n = struct.unpack("@PPi", parameters)
        if log := os.environ.get("FAKE_LOG"):
            row = {"gpu": _visible(), "version": self._version, "n": n, "at": time.time()}
            with open(log, "a") as file:  # noqa: PTH123 - one write, which appends whole
                file.write(json.dumps(row) + "\n")
            _meet(log)
        if mode == "crash" or (mode == "crash-later" and _launches > 2):
            _lost = True
            return
        source = np.ctypeslib.as_array((ctypes.c_float * n).from_address(x))
        extra = 1 if mode == "stray" else 0
        target = np.ctypeslib.as_array((ctypes.c_float * (n + extra)).from_address(y))
        if mode == "add":
            target += source * 2
            return
        if mode == "kept":
            target[:] = _kept.setdefault((self._version, n), source * 2)
            return
        if mode == "table":
            target[:] = source * sum(struct.unpack("ff", _table.raw))
            return
        end = n // 2 if mode == "half" else n
        target[:end] = source[:end] * 2
        if mode == "wrong" and n > 100:
            target[7] += 0.5
        if mode == "overwrite":
            source[0] = 0
        if mode == "nan":
            target[3] = np.float32("nan")
        if mode == "stray":
            target[n] = 1.0


class Module:
    def __init__(self, version: str, takes: float) -> None:
        self._version = version
        self._takes = takes

    def get_function(self, name: str) -> Function:
        if name != "scale":
            raise LogicError("cuModuleGetFunction failed: named symbol not found")
        return Function(self._version, self._takes)

    def get_global(self, name: str) -> tuple[int, int]:
        if name != "table":
            raise LogicError("cuModuleGetGlobal failed: named symbol not found")
        return ctypes.addressof(_table), 8


def module_from_buffer(data: bytes) -> Module:
    _need_context()
    if not data.startswith(b"stand-in cubin"):
        raise LogicError("cuModuleLoadDataEx failed: device kernel image is invalid")
    *_, takes, _of, version = data.decode().split()
    return Module(version, float(takes))
