"""NVML: list the GPUs, and watch their clocks during timing."""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.language import N_
from workbench.model import DeviceState, Record

#: Bits of NVML's clock-event reasons that slow a chip down -> the words for them
#: (nvml.h, nvmlClocksEventReasons). Idle and user-set clocks are not listed.
_REASONS = {
    0x0000000000000004: N_("power cap"),
    0x0000000000000008: N_("hardware slowdown"),
    0x0000000000000020: N_("thermal slowdown (software)"),
    0x0000000000000040: N_("thermal slowdown (hardware)"),
    0x0000000000000080: N_("power brake"),
}
#: Reasons that disappear when the chip is idle: heat, and the board's reactions to it.
_HEAT = 0x8 | 0x20 | 0x40


class Gpu(Record, frozen=True):
    """A GPU as NVML lists it, before any context exists."""

    index: int
    name: str
    uuid: str
    driver: str
    compute_capability: tuple[int, int]
    memory_bytes: int

    def is_meant(self, word: str) -> bool:
        """Test whether a word is its number or the start of its UUID."""
        return word == str(self.index) or (len(word) > 4 and self.uuid.startswith(word))


class Look(NamedTuple):
    """One reading of the device: clocks in hertz, power in watts, °C; `reasons` as NVML's bits."""

    sm_clock: float
    memory_clock: float
    power: float
    temperature: float
    reasons: int

    @property
    def hot(self) -> bool:
        """True if heat lowers the clocks."""
        return bool(self.reasons & _HEAT)


class NvmlError(Exception):
    """NVML cannot answer: not installed, no driver, no device."""


class NvmlAbsentError(NvmlError):
    """The package nvidia-ml-py is not installed, so NVML was not asked."""


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise NvmlAbsentError("the package nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NvmlError(f"NVML cannot be started: {error}") from error
    return pynvml


def _visible(gpus: list[Gpu]) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return gpus
    chosen: list[Gpu] = []
    for word in (part.strip() for part in setting.split(",")):
        match = [gpu for gpu in gpus if gpu.is_meant(word)]
        if not match:
            # CUDA itself ignores everything after the first entry that names no device.
            break
        chosen.extend(match)
    return chosen


def gpus() -> list[Gpu]:
    """Return the GPUs that CUDA programs started from here can see.

    Raises NvmlError: NVML is not installed, does not start, or does not answer.
    """
    nvml = _nvml()
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        found = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
            found.append(
                Gpu(
                    index=index,
                    name=_text(nvml.nvmlDeviceGetName(handle)),
                    uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                    driver=driver,
                    compute_capability=(int(major), int(minor)),
                    memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                )
            )
    except nvml.NVMLError as error:
        raise NvmlError(f"NVML does not answer: {error}") from error
    finally:
        nvml.nvmlShutdown()
    return _visible(found)


class Sampler:
    """Samples clocks, power and temperature in a thread, from `start` to `stop`.

    Without NVML, `stop` returns None and timing continues. `bus_id` is the device's PCI address
    from CUDA.
    """

    def __init__(self, bus_id: str, interval_s: float = 0.05) -> None:
        self._interval = interval_s
        self._done = threading.Event()
        self._rows: list[Look] = []
        self._thread: threading.Thread | None = None
        self.problem = ""
        try:
            self._nvml = _nvml()
        except NvmlError as error:
            self.problem = str(error)
            return
        try:
            self._handle = self._nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        except self._nvml.NVMLError as error:
            self.problem = f"NVML does not know the device: {error}"
            return
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin sampling, with one sample immediately."""
        if self._thread is not None:
            self._sample()
            self._thread.start()

    def stop(self) -> DeviceState | None:
        """End sampling; return the lowest and highest of each value, or None."""
        if self._thread is not None and self._thread.is_alive():
            self._sample()
            self._done.set()
            self._thread.join()
        if not self._rows:
            return None
        sm, memory, power, heat, _ = zip(*self._rows, strict=True)
        return DeviceState(
            sm_clock=_ends(sm),
            memory_clock=_ends(memory),
            power=_ends(power),
            temperature=_ends(heat),
        )

    def look(self) -> Look | None:
        """One reading now; None if NVML is missing or does not answer."""
        if self._thread is None:
            return None
        nvml = self._nvml
        try:
            return Look(
                nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM) * 1e6,
                nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM) * 1e6,
                nvml.nvmlDeviceGetPowerUsage(self._handle) * 1e-3,
                float(nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU)),
                self._read_reasons(),
            )
        except nvml.NVMLError as error:
            # Some boards lack a sensor; the rest of the measurement is valid.
            self.problem = str(error)
            return None

    def forget(self) -> None:
        """Discard the samples so far: they do not belong to the measurement that starts now."""
        del self._rows[:]

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """Reasons why the chip lowered its clocks while we sampled; empty if it did not."""
        seen = functools.reduce(operator.or_, (row.reasons for row in self._rows), 0)
        return tuple(word for bit, word in _REASONS.items() if seen & bit)

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        look = self.look()
        if look is not None:
            self._rows.append(look)

    def _read_reasons(self) -> int:
        # Renamed from "throttle" to "event" reasons in NVML 12.2; either may be missing.
        for name in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            function = getattr(self._nvml, name, None)
            if function is not None:
                return int(function(self._handle))
        return 0


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
