"""Kernels of the emulator's tests on the GPU: what is right there must be right here.

The tests are taken as they are. Their kernels run in the emulator first; what the GPU gives is
then held against what the test wants of the emulator.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ptxemu import DescriptorError, Im2col, TensorMap
from ptxemu.counts import Counts
from ptxemu.launch import Argument, TensorArgument, TextureArgument
from ptxemu.ptx.instructions import Ptx
from ptxemu.ptx.parser import parse
from tests.ptxemu import conftest, test_bulk, test_cluster, test_textures, test_wgmma
from tests.ptxemu.conftest import Array, Compile
from workbench.compile import compilers
from workbench.engines.gpu.device import DeviceContext
from workbench.engines.gpu.libcuda import DeviceTexture, Driver, DriverError
from workbench.engines.gpu.nvml import Gpu
from workbench.engines.host.job import BufferSpec
from workbench.study.launches import ResolvedLaunch

# Under these names pytest runs them here, with the fixtures of this module.
test_a_ring_of_stages = test_bulk.test_a_ring_of_stages
test_counts_tokens_and_drops = test_bulk.test_counts_tokens_and_drops
test_small_copies_arrive = test_bulk.test_small_copies_arrive
test_tiles_with_each_swizzle = test_bulk.test_tiles_with_each_swizzle
test_im2col_is_a_convolutions_window = test_bulk.test_im2col_is_a_convolutions_window
test_tiles_and_sums_go_out = test_bulk.test_tiles_and_sums_go_out
test_tiles_with_steps_and_nan = test_bulk.test_tiles_with_steps_and_nan
test_product = test_wgmma.test_product
test_a_specialized_kernel = test_wgmma.test_a_specialized_kernel
test_blocks_read_each_others_memory = test_cluster.test_blocks_read_each_others_memory
test_multicast = test_cluster.test_multicast
test_linear_memory = test_textures.test_linear_memory_is_read_by_whole_numbers_and_is_0_outside
test_fetches = test_textures.test_a_fetch_between_and_beyond_texels_is_as_the_guide_has_it
test_weights = test_textures.test_weights_have_8_bits_behind_the_point
test_integers = test_textures.test_integers_are_read_as_numbers_of_0_to_1
test_three_axes = test_textures.test_three_axes
test_measured = test_textures.test_fetches_between_texels_are_those_of_an_h200
test_measured_integers = test_textures.test_weighed_integers_end_in_the_steps_of_an_h200

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
Extent = int | tuple[int, int, int]


class Twin:
    """Runs kernels in the emulator and then on the GPU, whose results it gives."""

    def __init__(self, session: DeviceContext) -> None:
        self.session = session
        self.driver = Driver()
        self.cubins: dict[int, bytes] = {}

    def execute(
        self,
        module: Ptx,
        kernel: str,
        buffers: Mapping[str, Array],
        args: Sequence[str | int | float | Argument],
        *,
        grid: Extent = 1,
        block: Extent = 32,
        shared: int = 0,
        **watched: Any,
    ) -> tuple[dict[str, Array], Counts]:
        _, outcome = conftest.execute(
            module, kernel, buffers, args, grid=grid, block=block, shared=shared, **watched
        )
        session = self.session
        arrays = {}
        for name, host in buffers.items():
            spec = BufferSpec(name=name, role="scratch", shape=host.shape, dtype=host.dtype.name)
            arrays[name] = session.allocate(spec)
            session.upload(arrays[name], host)
        values: list[bytes] = []
        textures: list[DeviceTexture] = []  # which live until the kernel has run
        stream = int(session.stream.handle)
        for each in args:
            if isinstance(each, str):
                values.append(struct.pack("@P", arrays[each].address))
            elif isinstance(each, TensorArgument):
                values.append(self.driver.tensor_map(each.map, arrays[str(each.of)].address))
            elif isinstance(each, TextureArgument):
                address = arrays[str(each.of)].address
                textures.append(DeviceTexture(self.driver, each.texture, address, stream))
                values.append(struct.pack("@Q", textures[-1].handle))
            elif isinstance(each, bytes):
                values.append(each)
            elif isinstance(each, float):
                values.append(struct.pack("@f", each))
            else:
                assert isinstance(each, int)
                values.append(struct.pack("@i", each))
        launch = ResolvedLaunch(
            kernel=kernel, grid=_three(grid), block=_three(block), dynamic_shared=shared
        )
        loaded = self.driver.load(self.cubins[id(module)])
        self.driver.extended_kernel(loaded, launch, stream, values)()
        session.synchronize()
        out = {name: session.download(array) for name, array in arrays.items()}
        assert session.strayed() == ()
        session.release()
        return out, outcome


def _three(extent: Extent) -> tuple[int, int, int]:
    return (extent, 1, 1) if isinstance(extent, int) else extent


@pytest.fixture
def twin(gpu: Gpu) -> Iterator[Twin]:
    with DeviceContext() as session:
        twin = Twin(session)
        yield twin
        if not session.alive():  # the next test is to have a context of its own
            twin.driver.call("cuDevicePrimaryCtxReset_v2", 0)


@pytest.fixture
def hopper(twin: Twin, tmp_path: Path) -> Compile:
    """As the emulator's, but the cubin is kept for the GPU."""
    tool = compilers.choose("auto")

    def get(text: str) -> Ptx:
        (tmp_path / "k.cu").write_text(text, encoding="utf-8")
        output = tool.compile(tmp_path, "k.cu", "sm_90a", ("-std=c++17", "-lineinfo"))
        assert not output.failed, output.log
        module = parse(output.ptx)
        twin.cubins[id(module)] = output.cubin
        return module

    return get


@pytest.fixture(autouse=True)
def on_the_gpu(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (test_bulk, test_cluster, test_textures, test_wgmma):
        monkeypatch.setattr(each, "execute", twin.execute)
    # An H200 adds products of 8-bit floats with about 13 bits, whatever the type of the sums.
    monkeypatch.setitem(test_wgmma.LIMITS, "e4m3", 1e-3)


PLAIN: dict[str, Any] = {
    "dtype": "float16", "dims": (64, 32, 16), "strides": (128, 4096), "box": (32, 8, 1),
    "swizzle": 64,
}  # fmt: skip
WINDOW: dict[str, Any] = {
    "dtype": "float16", "dims": (64, 9, 7, 2), "strides": (128, 1152, 8064),
    "im2col": Im2col((-1, -1), (-1, -1), 64, 64), "swizzle": 128,
}  # fmt: skip
CHANGES: dict[str, list[Any]] = {
    "dtype": ["uint8", "int32", "uint64", "float32", "float64", "bfloat16", "tfloat32_ftz"],
    "dims": [(64,), (8, 32, 16), (63, 32, 16), (1, 1, 1), (0, 32, 16), (1 << 32, 32, 16),
             ((1 << 32) + 1, 32, 16), (64, 32), (64, 32, 16, 2)],
    "strides": [(), (128,), (112, 4096), (120, 4096), (136, 4096), (128, 136), (4096, 128), (0, 0),
                (16, 16), (128, 1 << 40), (128, (1 << 40) - 16), (128, 4096, 65536)],
    "box": [(), (32, 8), (8, 8, 1), (7, 8, 1), (4, 8, 1), (32, 256, 1), (32, 257, 1), (32, 0, 1),
            (40, 8, 1), (64, 8, 1), (128, 8, 1), (256, 8, 1), (24, 8, 1), (32, 256, 16)],
    "element_strides": [(1, 1, 1), (1, 2, 8), (1, 9, 1), (0, 1, 1), (2, 1, 1), (8, 1, 1), (1, 1)],
    "swizzle": [0, 32, 64, 128],
    "interleave": [16, 32],
    "fill_nan": [True],
    "offset": [8, 16, 32],
    "l2_promotion": [64, 128, 256],
    "im2col": [
        Im2col((-1, -1), (-1, -1), 32, 64), Im2col((-1, -1), (0, 0), 64, 64),
        Im2col((0, 0), (1, 1), 64, 264), Im2col((-128, 0), (127, 0), 64, 64),
        Im2col((-129, 0), (0, 0), 64, 64), Im2col((0, 0), (128, 0), 64, 64),
        Im2col((0, 0), (-9, 0), 64, 64), Im2col((0, 0), (-8, 0), 64, 64),
        Im2col((-1, -1), (-1, -1), 256, 64), Im2col((-1, -1), (-1, -1), 64, 1024),
        Im2col((-1, -1), (-1, -1), 64, 1025), Im2col((-1, -1), (-1, -1), 4, 64),
        Im2col((-1, -1), (-1, -1), 64, 0), Im2col((-1,), (-1,), 64, 64),
    ],
}  # fmt: skip


def test_the_driver_refuses_what_the_rules_refuse(twin: Twin) -> None:
    """Descriptors that differ from a right one in one value or in two."""
    spec = BufferSpec(name="x", role="scratch", shape=(1 << 20,), dtype="uint8")
    address = twin.session.allocate(spec).address
    apart = []
    for base in (PLAIN, WINDOW):
        single = [{key: value} for key, values in CHANGES.items() for value in values]
        pairs = [a | b for a, b in itertools.combinations(single, 2) if a.keys() != b.keys()]
        for change in [{}, *single, *pairs]:
            if ("im2col" if base is PLAIN else "box") in change:
                continue
            ours = theirs = ""
            try:
                described = TensorMap(**(base | change))
                if (address + described.offset) % described.alignment:
                    raise DescriptorError("offset", "its address is not aligned", "")
            except DescriptorError as error:
                ours = error.message
                described = object.__new__(TensorMap)
                for name in TensorMap.__dataclass_fields__:
                    default = TensorMap.__dataclass_fields__[name].default
                    object.__setattr__(described, name, (base | change).get(name, default))
            axes = len(described.dims)
            if len(described.strides) != axes - 1 or len(described.element_strides) not in (
                0,
                axes,
            ):
                continue  # the driver would read past the array
            walk = described.im2col
            if len(described.box) != axes if walk is None else len(walk.lower) != axes - 2:
                continue
            try:
                twin.driver.tensor_map(described, address)
            except DriverError as error:
                theirs = str(error)
            # The driver takes other swizzles with slices of 32 bytes, against its manual, and
            # of sliced channels windows without a pixel.
            known = ("needs a swizzle of 32", "no pixels") if described.interleave else ()
            if bool(ours) != bool(theirs) and not any(each in ours for each in known):
                apart.append((change, ours, theirs))
    for each in apart[:200]:
        print(each)  # noqa: T201 - pytest shows it where the test fails
    assert not apart, len(apart)
