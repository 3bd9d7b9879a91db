"""Make one launch: place the arguments, compile the kernel, run all blocks (or a sample)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ptxemu.arena import DRIVER, OF_MODULE, PARAMETERS, WORKSPACE
from ptxemu.compiled import CompiledKernel
from ptxemu.errors import DAMAGE, LaunchError, PtxError, ResourceError
from ptxemu.faults.origins import Origins
from ptxemu.ptx.flow import ControlFlow, control_flow, walk
from ptxemu.ptx.inlining import FlatKernel, flatten
from ptxemu.ptx.instructions import (
    Addr,
    Function,
    Instr,
    Ptx,
    Sym,
    Variable,
    atoms,
    layout,
    space_of,
)
from ptxemu.ptx.shapes import check_shapes
from ptxemu.sass import Assembled
from ptxemu.state.context import Bound, Context, Limits, Named, Placement, Runtime
from ptxemu.state.lanes import Dim3, Geometry
from ptxemu.state.spaces import RESERVED, GlobalMemory
from ptxemu.state.values import Array
from ptxemu.tensormap import SHARED_LIMIT, TensorMap
from ptxemu.texture import Texture

#: Lanes of one batch: arrays of this many float64 stay within a core's second-level cache.
BATCH_LANES = 16_384
_CLUSTER_LIMIT = 16
_MOST_BLOCKS = 1 << 24
_ENVIRONMENT = 32
_MOST_COMPILED = 64  # the most kernels kept with a memory of many launches
#: Most bytes of a thread's local memory (CUDA's "Technical Specifications per Compute Capability").
_LOCAL_BYTES = 512 << 10


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A kernel argument: the tensor map of an array, for a ``__grid_constant__`` parameter.

    `of` is the array, or the name of one in memory.
    """

    of: str | Array
    map: TensorMap


@dataclass(frozen=True, slots=True)
class TextureArgument:
    """A kernel argument: a texture over an array, for a ``cudaTextureObject_t`` parameter.

    `of` is the array, or the name of one in memory.
    """

    of: str | Array
    texture: Texture


#: The value of a parameter: the address of a named array, or bytes of a number or struct.
Argument = str | bytes | TensorArgument | TextureArgument
#: Textures of a launch: the handle of argument n is n of these steps after the first.
_TEXTURES, _TEXTURE_STEP = 0x7B00_0000_0000, 16


@dataclass(slots=True)
class KernelLaunch:
    """A kernel with its launch configuration.

    `resident`: blocks that the chip holds at once; 0: any number. `cooperative`: all must be
    resident at once. `textures`: by their handles, with the addresses of their texels.
    """

    kernel: str
    grid: Dim3
    block: Dim3
    args: Sequence[Argument]
    dynamic_shared: int = 0
    limits: Limits = field(default_factory=Limits)
    resident: int = 0
    cooperative: bool = False
    cluster: Dim3 = (1, 1, 1)
    textures: Mapping[int, tuple[Texture, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.geometry.blocks > _MOST_BLOCKS:
            raise ResourceError(
                f"kernel {self.kernel}: a grid of {self.geometry.blocks:,} blocks; the emulator "
                f"runs at most {_MOST_BLOCKS:,}",
                "Choose a smaller problem, or run it on a GPU.",
            )

    @property
    def geometry(self) -> Geometry:
        """Its shape."""
        return Geometry(self.grid, self.block, self.cluster)


def three(extents: Sequence[int]) -> Dim3:
    """Up to three extents along three axes."""
    x, y, z = (*extents, 1, 1)[:3]
    return int(x), int(y), int(z)


def clustered(module: Ptx, launch: KernelLaunch) -> KernelLaunch:
    """The launch with the cluster that its kernel is compiled for (``__cluster_dims__``)."""
    function = module.functions.get(launch.kernel)
    wanted = function.directives.get("reqnctapercluster") if function is not None else None
    plain = launch.cluster == (1, 1, 1)
    return replace(launch, cluster=three(wanted)) if wanted and plain else launch


def _check(launch: KernelLaunch, function: Function) -> None:
    geometry = launch.geometry
    if not 1 <= geometry.threads <= 1024 or geometry.blocks < 1:
        raise LaunchError(
            f"kernel {launch.kernel}: cannot launch grid {launch.grid} with block {launch.block}",
            "A block has 1 to 1024 threads, and a grid has at least one block.",
        )
    required = three(function.directives.get("reqnctapercluster", launch.cluster))
    if required != launch.cluster or any(
        extent % by for extent, by in zip(launch.grid, launch.cluster, strict=True)
    ):
        raise LaunchError(
            f"kernel {launch.kernel}: cannot launch grid {launch.grid} in clusters of "
            f"{launch.cluster} blocks",
            f"Every dimension of the grid must be a multiple of the cluster's, {required}.",
        )
    if geometry.blocks_of_cluster > _CLUSTER_LIMIT:
        raise LaunchError(
            f"kernel {launch.kernel}: a cluster of {geometry.blocks_of_cluster} blocks",
            f"A cluster has at most {_CLUSTER_LIMIT} blocks.",
        )
    if launch.cooperative and launch.resident and geometry.blocks > launch.resident:
        raise LaunchError(
            f"kernel {launch.kernel}: a cooperative launch of {geometry.blocks:,} blocks, but the "
            f"chip holds at most {launch.resident:,} at once",
            "Launch no more blocks than fit, and give each more work.",
        )
    for name in ("maxntid", "reqntid"):
        limit = function.directives.get(name)
        if limit and geometry.threads > int(np.prod(limit)):
            raise LaunchError(
                f"kernel {launch.kernel}: block {launch.block} exceeds its launch bound of "
                f"{int(np.prod(limit))} threads",
                "Correct __launch_bounds__ or the block size.",
            )


def _pack(params: list[Variable], launch: KernelLaunch, arena: GlobalMemory) -> bytes:
    """Pack the kernel's arguments, each at its parameter's place."""
    if len(params) != len(launch.args):
        raise LaunchError(
            f"kernel {launch.kernel} takes {len(params)} arguments, not {len(launch.args)}",
            "Correct `args` of the launch.",
        )
    places, size = layout(params)
    if size > DRIVER[PARAMETERS]:
        raise LaunchError(
            f"kernel {launch.kernel} takes {size:,} bytes of parameters",
            f"A kernel has at most {DRIVER[PARAMETERS]:,}.",
        )
    data = bytearray(size)
    for number, (variable, argument) in enumerate(zip(params, launch.args, strict=True), 1):
        if isinstance(argument, TensorArgument):
            raw = argument.map.encoded(arena.address(str(argument.of)))
        elif isinstance(argument, TextureArgument):
            raw = _handle(number).to_bytes(8, "little")
        elif isinstance(argument, str):
            raw = arena.address(argument).to_bytes(8, "little")
        else:
            raw = argument
        if len(raw) != variable.size:
            raise LaunchError(
                f"kernel {launch.kernel}: argument {number} has {len(raw)} bytes, but the kernel "
                f"expects {variable.size}",
                "Correct its type in `args` of the launch.",
            )
        start = places[variable.name]
        data[start : start + len(raw)] = raw
    return bytes(data)


def _handle(number: int) -> int:
    """The texture object of an argument, counted from 1."""
    return _TEXTURES + _TEXTURE_STEP * number


def _bound(launch: KernelLaunch, arena: GlobalMemory) -> dict[int, Bound]:
    """The launch's textures by their handles; LaunchError: one reaches beyond its array."""
    found = {}
    for handle, (texture, start) in launch.textures.items():
        array = arena.allocation_of(start)
        if array is not None and start + texture.extent <= array.end:
            found[handle] = Bound(texture, array.name, start - arena.base)
    for number, argument in enumerate(launch.args, 1):
        if isinstance(argument, TextureArgument):
            texture, name = argument.texture, str(argument.of)
            start = arena.address(name)
            if not arena.holds(start, start + texture.extent - 1):
                raise LaunchError(
                    f"kernel {launch.kernel}: the texture of argument {number} covers "
                    f"{texture.extent:,} bytes, more than {name} has",
                    "Correct `dims`, `channels`, `pitch` or `dtype`; the innermost axis is first.",
                )
            found[_handle(number)] = Bound(texture, name, start - arena.base)
    return found


def prepare(
    module: Ptx,
    launch: KernelLaunch,
    arena: GlobalMemory,
    *,
    check: bool = False,
    origins: Origins | None = None,
) -> CompiledKernel:
    """Compile a kernel for one launch on an arena; `origins` record every value's lines.

    Raises:
        PtxError: there is no such kernel, or it is not valid PTX.
        Unsupported: an instruction, with file and line.
        LaunchError: grid, block, arguments or memory do not fit the kernel.
    """
    kernel = _prepared(module, launch.kernel)
    launch = clustered(module, launch)
    _check(launch, module.functions[launch.kernel])
    params, base = _pack(kernel.flat.params, launch, arena), arena.address(PARAMETERS)
    arena.bytes[base - arena.base :][: len(params)] = np.frombuffer(params, np.uint8)
    shared_bytes = kernel.dynamic - RESERVED + launch.dynamic_shared
    if shared_bytes > SHARED_LIMIT:
        raise LaunchError(
            f"kernel {launch.kernel} needs {shared_bytes:,} bytes of shared memory",
            f"A block has at most {SHARED_LIMIT:,} bytes.",
        )
    if kernel.local_bytes > _LOCAL_BYTES:
        raise LaunchError(
            f"kernel {launch.kernel} needs {kernel.local_bytes:,} bytes of local memory per thread",
            f"A thread has at most {_LOCAL_BYTES:,} bytes.",
        )
    key = launch.kernel, launch.dynamic_shared, check
    known = arena.compiled if origins is None else None
    compiled: CompiledKernel | None = None if known is None else known.get(key)
    rt = Runtime() if compiled is None else compiled.rt
    rt.begin(arena, shared_bytes, kernel.local_bytes, check=check, origins=origins)
    if compiled is None:
        placement = _placement(module, launch, arena, kernel)
        ctx = Context(kernel.flat, kernel.graph, kernel.widths, placement, module, rt)
        with _sensible(launch.kernel):
            compiled = CompiledKernel(kernel.flat, kernel.graph, ctx)
        if known is not None:
            if len(known) >= _MOST_COMPILED:
                known.clear()
            known[key] = compiled
    compiled.begin(params, _environment(launch, arena), _bound(launch, arena), launch.limits)
    return compiled


def _placement(
    module: Ptx, launch: KernelLaunch, arena: GlobalMemory, kernel: _Prepared
) -> Placement:
    every, base = [*module.variables.values(), *kernel.flat.variables], arena.address(PARAMETERS)
    symbols = dict(kernel.places)
    symbols |= {v.name: (v.space, arena.address(v.name)) for v in every if v.space in OF_MODULE}
    symbols |= {name: ("param", base + at) for name, at in layout(kernel.flat.params)[0].items()}
    named = tuple(_named(v, symbols[v.name][1], module, launch) for v in kernel.shared)
    return Placement(symbols, named, base)


def _named(variable: Variable, start: int, module: Ptx, launch: KernelLaunch) -> Named:
    """A shared-memory variable, with its type if the source's declaration has this size."""
    name, size = _plain(variable.name), variable.size or launch.dynamic_shared
    width, shape = module.shapes.get(name, (0, (0,)))
    if variable.size and width * math.prod(shape) != size:
        width = 0
    return Named(name, start, size, width, shape, not variable.size)


def _environment(launch: KernelLaunch, arena: GlobalMemory) -> dict[str, int]:
    """``%envreg``: the address of a cooperative launch's workspace, otherwise zeros."""
    out = {f"envreg{number}": 0 for number in range(_ENVIRONMENT)}
    if launch.cooperative:
        address = arena.address(WORKSPACE)
        start = address - arena.base
        arena.bytes[start : start + DRIVER[WORKSPACE]] = 0
        out |= {"envreg1": address >> 32, "envreg2": address & 0xFFFF_FFFF}
    return out


class _Prepared(NamedTuple):
    """The parts of a kernel that do not depend on the launch."""

    flat: FlatKernel  # the kernel without calls
    graph: ControlFlow  # its control flow
    #: Its shared-memory variables, those with a size first.
    shared: tuple[Variable, ...]
    places: dict[str, tuple[str, int]]  # variable -> (space, address) in shared and local memory
    dynamic: int  # start of dynamic shared memory
    local_bytes: int  # local memory of a thread
    widths: dict[int, int]  # ``id(instruction)`` -> bytes of a thread that its load or store moves


def _prepared(module: Ptx, name: str) -> _Prepared:
    """The parts that are the same for all launches of a kernel.

    Raises:
        PtxError: it is damaged.
        Unsupported: it calls a function that does not exist.
    """
    if name not in module.prepared:
        with _sensible(name):
            module.prepared[name] = _prepare(module, name)
    found: _Prepared = module.prepared[name]
    return found


@contextmanager
def _sensible(name: str) -> Iterator[None]:
    """Turn exceptions that damaged PTX causes in its readers into a PtxError."""
    try:
        yield
    except DAMAGE as error:
        raise PtxError(
            f"kernel {name}: its PTX cannot be interpreted ({type(error).__name__}: {error})",
            "The PTX may be damaged.",
        ) from error


def _prepare(module: Ptx, name: str) -> _Prepared:
    flat = flatten(module, name)
    instrs = (item for item in flat.body if isinstance(item, Instr))
    check_shapes(name, instrs, flat.registers, lambda instr: module.where(instr.loc))
    graph = control_flow(flat)
    every = [*module.variables.values(), *flat.variables]
    used = _used(flat)
    fixed = [v for v in every if v.space == "shared" and v.size and v.name in used]
    dynamic = [v for v in every if v.space == "shared" and not v.size]
    places, end = layout(fixed)
    align = max([v.align for v in dynamic], default=1)
    start = RESERVED + -(-end // align) * align
    local, local_bytes = layout(v for v in flat.variables if v.space == "local")
    symbols = {name: ("shared", RESERVED + at) for name, at in places.items()}
    symbols |= {v.name: ("shared", start) for v in dynamic}
    symbols |= {name: ("local", at) for name, at in local.items()}
    widths = _widths(graph, module.assembled)
    return _Prepared(flat, graph, (*fixed, *dynamic), symbols, start, local_bytes, widths)


def _widths(graph: ControlFlow, assembled: Assembled) -> dict[int, int]:
    """Widths of loads and stores in ptxas's code; unknown ones are left out."""
    out = {}
    every = [instr for _, instr in walk(graph.blocks) if instr.op in ("ld", "st")]
    accesses = [instr for instr in every if space_of(instr) not in ("param", "const")]
    for instr in accesses:
        width = assembled.width(instr.ptx_line, instr.op)
        if width or (width == 0 and not any(_has(each, instr, assembled) for each in accesses)):
            out[id(instr)] = width
    return out


def _has(one: Instr, other: Instr, assembled: Assembled) -> bool:
    """Test whether an access's machine instruction also covers another one of its form."""
    here, there = (
        next((each for each in instr.operands if isinstance(each, Addr)), Addr(None))
        for instr in (one, other)
    )
    distance = there.offset - here.offset
    alike = one.parts == other.parts and here.base is not None and here.base == there.base
    return alike and distance != 0 and assembled.holds(one.ptx_line, one.op, distance)


def _used(flat: FlatKernel) -> set[str]:
    """Names of the variables that a kernel's operands are or use as a base."""
    operands = [each for item in flat.body if isinstance(item, Instr) for each in item.operands]
    pieces = (piece for operand in operands for piece in atoms(operand))
    bases = (piece.base if isinstance(piece, Addr) else piece for piece in pieces)
    return {base.name for base in bases if isinstance(base, Sym)}


def _plain(name: str) -> str:
    """``_ZZ8sgemm_v2E2As`` -> ``As``: the variable's own name at the end of a mangled one."""
    if not name.startswith("_ZZ"):
        return name
    for length in range(len(name) - 1, 0, -1):
        tail = name[-length:]
        if not tail[0].isdigit() and name[:-length].endswith(str(length)):
            return tail
    return name
