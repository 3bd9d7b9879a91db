"""Launch what was lifted, from its record alone, and compare what it writes: ``replay.py FOLDER``.

By the driver alone (ctypes), so that it shares nothing with the engine that runs studies.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_char_p, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from workbench.study.lifted import LiftedLaunch, lifted_bytes, read_lifted


class Attribute(ctypes.Structure):
    """``CUlaunchAttribute``."""

    _fields_ = (("id", c_uint), ("pad", c_uint), ("value", c_uint * 16))


class Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    )


class Driver:
    """A context on the first device."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), c_void_p()
        self("cuDeviceGet", byref(device), 0)
        self("cuDevicePrimaryCtxRetain", byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *given: Any) -> None:
        code = getattr(self._cuda, name)(*given)
        if code:
            raise RuntimeError(f"{name}: {code}")


def replay(folder: Path) -> dict[str, bool]:
    """Of each buffer, whether it holds after the launch what was recorded."""
    launch, cuda = read_lifted(folder), Driver()
    module, function = c_void_p(), c_void_p()
    cuda("cuModuleLoadData", byref(module), lifted_bytes(folder, launch.image or ""))
    cuda("cuModuleGetFunction", byref(function), module, c_char_p(launch.kernel.encode()))
    places: dict[str, c_uint64] = {}
    for each in launch.buffers:
        place, size = c_uint64(), c_size_t()
        if each.symbol is not None:
            cuda("cuModuleGetGlobal_v2", byref(place), byref(size), module, each.symbol.encode())
        else:
            cuda("cuMemAlloc_v2", byref(place), c_size_t(each.size))
        places[each.name] = place
    for each in launch.buffers:
        data = moved(launch, lifted_bytes(folder, each.before), places, buffer=each.name)
        cuda("cuMemcpyHtoD_v2", places[each.name], data, c_size_t(each.size))
    pointers = (c_void_p * (len(launch.arguments) + 1))()
    held = []
    for argument in launch.arguments:
        data = moved(launch, argument.data, places, argument=argument.index)
        room = ctypes.create_string_buffer(len(data) + 64)  # a tensor map lies at a multiple of 64
        at = (ctypes.addressof(room) + 63) & ~63
        ctypes.memmove(at, data, len(data))
        pointers[argument.index] = at
        held.append(room)
    if launch.dynamic_shared > 48 << 10:
        cuda("cuFuncSetAttribute", function, 8, launch.dynamic_shared)
    config = Config(*launch.grid, *launch.block, launch.dynamic_shared, None, None, 0)
    attributes = (Attribute * 2)()
    if launch.cluster is not None:
        attributes[config.count] = Attribute(4, 0, (*launch.cluster, *[0] * 13))
        config.count += 1
    if launch.cooperative:
        attributes[config.count] = Attribute(2, 0, (1, *[0] * 15))
        config.count += 1
    config.attributes = ctypes.addressof(attributes)
    cuda("cuLaunchKernelEx", byref(config), function, pointers, None)
    cuda("cuCtxSynchronize")
    assert len(held) == len(launch.arguments)  # alive until now
    same = {}
    for each in launch.buffers:
        out = ctypes.create_string_buffer(each.size)
        cuda("cuMemcpyDtoH_v2", out, places[each.name], c_size_t(each.size))
        wanted = lifted_bytes(folder, each.after or each.before)
        same[each.name] = out.raw == moved(launch, wanted, places, buffer=each.name)
    return same


def moved(
    launch: LiftedLaunch,
    data: bytes,
    places: dict[str, c_uint64],
    *,
    argument: int | None = None,
    buffer: str | None = None,
) -> bytes:
    """Bytes whose addresses lead into our buffers."""
    out = bytearray(data)
    for each in launch.pointers:
        if (each.argument, each.buffer) == (argument, buffer):
            value = places[each.target].value + each.target_offset
            out[each.offset : each.offset + 8] = value.to_bytes(8, "little")
    return bytes(out)


if __name__ == "__main__":
    found = replay(Path(sys.argv[1]))
    sys.stdout.write(f"{'same' if all(found.values()) else 'DIFFERENT'} {found}\n")
    sys.exit(not all(found.values()))
