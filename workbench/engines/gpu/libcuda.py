"""The few driver calls that PyCUDA lacks, through ctypes: graphs, clusters, tensor maps, textures.

``cuda-bindings`` has them, but each of its major versions needs the same major version of CUDA, and
its import takes longer than the worker's own. The driver's C interface is stable across CUDA 12 and
13. Names have the version suffix to which ``cuda.h`` maps them.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ptxemu import ELEMENT_BYTES, TensorMap, Texture
from workbench.study.launches import ResolvedLaunch

#: CU_STREAM_CAPTURE_MODE_RELAXED: a library may allocate on its first call while we capture.
_CAPTURE_RELAXED = 2
#: CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4
#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MAX_DYNAMIC_SHARED = 8
#: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_NON_PORTABLE_CLUSTER = 14
#: A cluster of up to eight blocks runs on every chip that has clusters (CUDA C++
#: Programming Guide, "Thread Block Clusters").
_PORTABLE_CLUSTER = 8


#: The size of a CUtensorMap, which CUDA 12 aligns to 64 bytes only.
_TENSOR_MAP_BYTES = _TENSOR_MAP_ALIGN = 128
#: CU_TENSOR_MAP_SWIZZLE_…, CU_TENSOR_MAP_INTERLEAVE_…, CU_TENSOR_MAP_L2_PROMOTION_L2_… by bytes
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_INTERLEAVES = {0: 0, 16: 1, 32: 2}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


#: CU_AD_FORMAT_… by NumPy's name of a channel's type
_FORMATS = {
    "uint8": 0x01, "uint16": 0x02, "uint32": 0x03, "int8": 0x08, "int16": 0x09, "int32": 0x0A,
    "float16": 0x10, "float32": 0x20,
}  # fmt: skip
#: CU_TR_ADDRESS_MODE_…, CU_TR_FILTER_MODE_…
_ADDRESS_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_FILTER_MODES = {"point": 0, "linear": 1}
#: CU_TRSF_READ_AS_INTEGER, CU_TRSF_NORMALIZED_COORDINATES
_AS_INTEGER, _NORMALIZED = 1, 2
#: CU_RESOURCE_TYPE_…, CU_MEMORYTYPE_…
_OF_ARRAY, _OF_LINEAR, _OF_ROWS = 0, 2, 3
_DEVICE, _ARRAY = 2, 3


class DriverError(Exception):
    """A driver call failed; the text names the call and the driver's reason."""


class _AttributeValue(ctypes.Union):
    _fields_ = (
        ("cluster", ctypes.c_uint * 3),
        ("cooperative", ctypes.c_int),
        ("pad", ctypes.c_char * 64),
    )


class _Attribute(ctypes.Structure):
    # CUlaunchAttribute_st: a 4-byte id padded to 8, then a union of 64 bytes.
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _AttributeValue))


class _LaunchConfig(ctypes.Structure):
    # CUlaunchConfig_st
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def attributes_of(resolved: ResolvedLaunch) -> Sequence[_Attribute]:
    """Return a launch's attributes beyond grid, block and memory."""
    out = []
    if resolved.cluster is not None and resolved.cluster != (1, 1, 1):
        out.append(_Attribute(id=_CLUSTER_DIMENSION))
        out[-1].value.cluster[:] = resolved.cluster
    if resolved.cooperative:
        out.append(_Attribute(id=_COOPERATIVE))
        out[-1].value.cooperative = 1
    return out


class Driver:
    """libcuda, with every call checked; DriverError if it is missing, or a call fails."""

    def __init__(self) -> None:
        for name in ("libcuda.so.1", "nvcuda.dll"):
            try:
                self._lib = ctypes.CDLL(name)
                return
            except OSError:
                continue
        raise DriverError("the CUDA driver library (libcuda.so.1) cannot be loaded")

    def call(self, name: str, *args: Any) -> None:
        """Call a driver function that returns a CUresult; DriverError if it is missing or fails."""
        try:
            function = getattr(self._lib, name)
        except AttributeError:
            raise DriverError(f"this driver has no {name}") from None
        status = int(function(*args))
        if status:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorString(ctypes.c_int(status), ctypes.byref(text))
            reason = (text.value or b"unknown error").decode()
            raise DriverError(f"{name} failed: {reason}")

    def capture(self, stream: int, enqueue: Callable[[], None]) -> CudaGraph:
        """Record the work that `enqueue` puts on the stream, ready to be replayed.

        `stream` is not the default one; `enqueue` is called once, and nothing runs on the device
        then. Raises DriverError: its work cannot be recorded.
        """
        handle = ctypes.c_void_p(stream)
        graph = ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", handle, ctypes.c_int(_CAPTURE_RELAXED))
        try:
            enqueue()
        except BaseException:
            # Leave the stream usable: an invalid capture must still be ended.
            self._lib.cuStreamEndCapture(handle, ctypes.byref(graph))
            if graph.value:
                self._lib.cuGraphDestroy(graph)
            raise
        self.call("cuStreamEndCapture", handle, ctypes.byref(graph))
        if not graph.value:
            raise DriverError("cuStreamEndCapture gave no graph")
        executable = ctypes.c_void_p()
        try:
            self.call(
                "cuGraphInstantiateWithFlags",
                ctypes.byref(executable),
                graph,
                ctypes.c_ulonglong(0),
            )
        finally:
            self._lib.cuGraphDestroy(graph)
        return CudaGraph(self, executable)

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        """Load a module into the current context; it stays there.

        PyCUDA keeps its module and function handles to itself, so a cubin whose launches
        have attributes is loaded a second time, with variables of its own.
        """
        module = ctypes.c_void_p()
        image = ctypes.create_string_buffer(cubin, len(cubin))
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def symbol(self, module: ctypes.c_void_p, name: str) -> tuple[int, int]:
        """Address and bytes of a module's variable; DriverError: it has no such variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, name.encode()
        )
        return address.value, size.value

    def extended_kernel(
        self,
        module: ctypes.c_void_p,
        resolved: ResolvedLaunch,
        stream: int,
        arguments: Sequence[bytes],
    ) -> Callable[[], None]:
        """A launch with attributes (clusters, cooperative), ready for repeated calls."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, resolved.kernel.encode())
        shared = resolved.dynamic_shared
        if shared:
            self.call(
                "cuFuncSetAttribute",
                function,
                ctypes.c_int(_MAX_DYNAMIC_SHARED),
                ctypes.c_int(shared),
            )
        if math.prod(resolved.cluster or ()) > _PORTABLE_CLUSTER:
            self.call(
                "cuFuncSetAttribute", function, ctypes.c_int(_NON_PORTABLE_CLUSTER), ctypes.c_int(1)
            )
        asked = attributes_of(resolved)
        attributes = (_Attribute * len(asked))(*asked)
        config = _LaunchConfig(shared=shared, stream=stream, count=len(asked))
        config.grid[:] = resolved.grid
        config.block[:] = resolved.block
        config.attributes = attributes
        cells = [ctypes.create_string_buffer(each, len(each)) for each in arguments]
        parameters = (ctypes.c_void_p * max(1, len(cells)))(*(ctypes.addressof(c) for c in cells))

        def launch() -> None:
            # They are named so that they live as long as the closure.
            _ = (cells, attributes)
            self.call(
                "cuLaunchKernelEx", ctypes.byref(config), function, parameters, ctypes.c_void_p()
            )

        return launch

    def forget(self, texture: int, array: int | None) -> None:
        """Free a texture object and its array; if the context is gone, both are gone already."""
        self._lib.cuTexObjectDestroy(ctypes.c_uint64(texture))
        if array:
            self._lib.cuArrayDestroy(ctypes.c_void_p(array))

    def tensor_map(self, m: TensorMap, address: int) -> bytes:
        """Return the driver's 128-byte map of a tensor in an array; else DriverError."""
        memory = ctypes.create_string_buffer(_TENSOR_MAP_BYTES + _TENSOR_MAP_ALIGN)
        start = -ctypes.addressof(memory) % _TENSOR_MAP_ALIGN
        place = ctypes.c_void_p(ctypes.addressof(memory) + start)
        kind = ctypes.c_int(tuple(ELEMENT_BYTES).index(m.dtype))
        head = (
            *(place, kind, ctypes.c_uint(m.rank), ctypes.c_void_p(address + m.offset)),
            (ctypes.c_uint64 * m.rank)(*m.dims),
            (ctypes.c_uint64 * max(1, m.rank - 1))(*m.strides),
        )
        steps = (ctypes.c_uint * m.rank)(*(m.element_strides or (1,) * m.rank))
        modes = (_INTERLEAVES[m.interleave], _SWIZZLES[m.swizzle], _PROMOTIONS[m.l2_promotion])
        tail = (steps, *map(ctypes.c_int, (*modes, int(m.fill_nan))))
        if m.im2col is None:
            box = (ctypes.c_uint * m.rank)(*m.box)
            self.call("cuTensorMapEncodeTiled", *head, box, *tail)
        else:
            corners = (m.im2col.lower, m.im2col.upper)
            lower, upper = ((ctypes.c_int * len(each))(*each) for each in corners)
            counts = (ctypes.c_uint(m.im2col.channels), ctypes.c_uint(m.im2col.pixels))
            self.call("cuTensorMapEncodeIm2col", *head, lower, upper, *counts, *tail)
        return memory.raw[start : start + _TENSOR_MAP_BYTES]


def open_device() -> None:
    """Make the primary context of the first device, which stays until the process ends.

    A later user gets it immediately. PyCUDA would block all of Python for as long as the driver
    takes; called through ctypes, it does not. Raises DriverError: there is no driver, or no device.
    """
    driver, device, context = Driver(), ctypes.c_int(), ctypes.c_void_p()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)


class CudaGraph:
    """An instantiated graph. `close` frees it; replaying is one driver call."""

    def __init__(self, driver: Driver, executable: ctypes.c_void_p) -> None:
        self._driver = driver
        self._executable = executable

    def launch(self, stream: int) -> None:
        """Put one replay on the stream."""
        self._driver.call("cuGraphLaunch", self._executable, ctypes.c_void_p(stream))

    def close(self) -> None:
        """Free the executable graph."""
        if self._executable.value:
            self._driver.call("cuGraphExecDestroy", self._executable)
            self._executable = ctypes.c_void_p()


class _Linear(ctypes.Structure):
    # CUDA_RESOURCE_DESC's res.linear and res.pitch2D, which begin with the same fields.
    _fields_ = (
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("size", ctypes.c_size_t),  # bytes; or texels of a row if there are several
        ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
    )


class _TexelPlace(ctypes.Union):
    _fields_ = (("array", ctypes.c_void_p), ("linear", _Linear), ("reserved", ctypes.c_int * 32))


class _ResourceDescription(ctypes.Structure):
    # CUDA_RESOURCE_DESC
    _fields_ = (("kind", ctypes.c_int), ("of", _TexelPlace), ("flags", ctypes.c_uint))


class _TextureDescription(ctypes.Structure):
    # CUDA_TEXTURE_DESC; fields not named here are 0: no anisotropy, one level, a border of zeros.
    _fields_ = (
        ("address", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("rest", ctypes.c_int * 21),
    )


class _ArrayDescription(ctypes.Structure):
    # CUDA_ARRAY3D_DESCRIPTOR
    _fields_ = (
        ("extents", ctypes.c_size_t * 3),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("flags", ctypes.c_uint),
    )


class _End(ctypes.Structure):
    # One side of a CUDA_MEMCPY3D.
    _fields_ = (
        ("place", ctypes.c_size_t * 4),
        ("kind", ctypes.c_int),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class _Copy(ctypes.Structure):
    # CUDA_MEMCPY3D
    _fields_ = (("source", _End), ("goal", _End), ("extents", ctypes.c_size_t * 3))


class DeviceTexture:
    """A texture object over device memory, or over a CUDA array with a copy of it.

    `address` is that of its first texel; a copy is made on `stream`. Raises DriverError: the driver
    refuses it.
    """

    def __init__(self, driver: Driver, texture: Texture, address: int, stream: int) -> None:
        self._driver, array = driver, ctypes.c_void_p()
        if texture.layout == "array":
            array = self._copied(texture, address, stream)
            of = _TexelPlace(array=array)
        else:
            rows = len(texture.dims) > 1
            size = texture.dims[0] if rows else texture.extent
            form = _FORMATS[texture.dtype]
            linear = _Linear(address, form, texture.channels, size, texture.dims[-1], texture.row)
            of = _TexelPlace(linear=linear)
        kind = _OF_ARRAY if array.value else _OF_ROWS if len(texture.dims) > 1 else _OF_LINEAR
        modes = [_ADDRESS_MODES[each] for each in texture.modes]
        description = _TextureDescription(
            filter=_FILTER_MODES[texture.filter],
            flags=_AS_INTEGER * (not texture.floating) + _NORMALIZED * texture.normalized,
        )
        description.address[:] = [*modes, *[_ADDRESS_MODES["clamp"]] * (3 - len(modes))]
        handle = ctypes.c_uint64()
        driver.call(
            "cuTexObjectCreate",
            ctypes.byref(handle),
            ctypes.byref(_ResourceDescription(kind=kind, of=of)),
            ctypes.byref(description),
            ctypes.c_void_p(),
        )
        #: A kernel's argument.
        self.handle = handle.value
        weakref.finalize(self, driver.forget, self.handle, array.value).atexit = False

    def _copied(self, texture: Texture, address: int, stream: int) -> ctypes.c_void_p:
        width, height, depth = (*texture.dims, 1, 1)[:3]
        # An extent of 0 means that the axis does not exist.
        extents = (*texture.dims, 0, 0)[:3]
        shape = _ArrayDescription(format=_FORMATS[texture.dtype], channels=texture.channels)
        shape.extents[:] = extents
        array = ctypes.c_void_p()
        self._driver.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(shape))
        copy = _Copy(
            source=_End(kind=_DEVICE, device=address, pitch=texture.row, height=height),
            goal=_End(kind=_ARRAY, array=array),
        )
        copy.extents[:] = (width * texture.texel, height, depth)
        self._driver.call("cuMemcpy3DAsync_v2", ctypes.byref(copy), ctypes.c_void_p(stream))
        return array
