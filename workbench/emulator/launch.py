"""One launch: place the arguments, compile the kernel, run all blocks (or a sample)."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from workbench.emulator.faults.origins import Origins
from workbench.emulator.program import Program
from workbench.emulator.ptx.flow import ControlFlow, control_flow
from workbench.emulator.ptx.inlining import FlatKernel, flatten
from workbench.emulator.ptx.instructions import Function, Module, Variable
from workbench.emulator.state.context import Context, Limits, Runtime
from workbench.emulator.state.lanes import Dim3, Geometry
from workbench.emulator.state.spaces import GLOBAL_BASE, Arena
from workbench.emulator.state.values import Array
from workbench.errors import KernelError, UsageError

#: Lanes of one batch: arrays of this many float64 stay within a core's second-level cache.
BATCH_LANES = 16_384
_SHARED_LIMIT = 232_448
#: The array that holds the kernel's arguments, where a kernel takes their address.
PARAMETERS = "(parameters)"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A kernel argument: the address of a named array."""

    name: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A kernel argument by value; `kind` is a key of `workbench.study.launches.CTYPES`."""

    value: int | float
    kind: str = "int"


Argument = Buffer | Scalar
_FORMS = {"int": "<i", "uint": "<I", "long": "<q", "ulong": "<Q", "float": "<f",
          "double": "<d"}  # fmt: skip


@dataclass(slots=True)
class KernelLaunch:
    """What to run."""

    kernel: str
    grid: Dim3
    block: Dim3
    args: Sequence[Argument]
    dynamic_shared: int = 0
    limits: Limits = field(default_factory=Limits)

    @property
    def geometry(self) -> Geometry:
        """Its shape."""
        return Geometry(self.grid, self.block)


def _check(launch: KernelLaunch, function: Function) -> None:
    geometry = launch.geometry
    if not 1 <= geometry.threads <= 1024 or geometry.blocks < 1:
        raise UsageError(
            f"kernel {launch.kernel}: cannot launch grid {launch.grid} with block {launch.block}",
            "A block has 1 to 1024 threads and a grid at least one block.",
        )
    for name in ("maxntid", "reqntid"):
        limit = function.directives.get(name)
        if limit and geometry.threads > int(np.prod(limit)):
            raise UsageError(
                f"kernel {launch.kernel}: block {launch.block} exceeds its launch bound of "
                f"{int(np.prod(limit))} threads",
                "Correct __launch_bounds__ or the block size.",
            )


def _pack(
    params: list[Variable], launch: KernelLaunch, arena: Arena
) -> tuple[bytes, dict[str, int]]:
    """The parameter block, and each parameter's offset in it."""
    if len(params) != len(launch.args):
        raise UsageError(
            f"kernel {launch.kernel} takes {len(params)} arguments, not {len(launch.args)}",
            "Correct `args` of the launch.",
        )
    data = bytearray()
    offsets: dict[str, int] = {}
    for variable, argument in zip(params, launch.args, strict=True):
        align = max(variable.align, 1)
        data += bytes(-len(data) % align)
        offsets[variable.name] = len(data)
        if isinstance(argument, Buffer):
            raw = struct.pack("<Q", arena.address(argument.name))
        else:
            raw = struct.pack(_FORMS[argument.kind], argument.value)
        if len(raw) != variable.size:
            raise UsageError(
                f"kernel {launch.kernel}: argument {len(offsets)} has {len(raw)} bytes, the kernel "
                f"expects {variable.size}",
                "Correct its type in `args` of the launch.",
            )
        data += raw
    return bytes(data), offsets


def _place(variables: list[Variable], start: int = 0) -> tuple[dict[str, int], int]:
    at, places = start, {}
    for variable in variables:
        align = max(variable.align, 1)
        at = -(-at // align) * align
        places[variable.name] = at
        at += variable.size
    return places, at


def module_buffers(module: Module) -> dict[str, Array]:
    """Module-level ``.global`` and ``.const`` variables as arrays."""
    out: dict[str, Array] = {}
    for variable in module.variables.values():
        if variable.space in ("global", "const"):
            data = np.zeros(variable.size, np.uint8)
            data[: len(variable.init)] = np.frombuffer(variable.init, np.uint8)
            out[variable.name] = data
    return out


def prepare(
    module: Module, launch: KernelLaunch, arena: Arena, origins: Origins | None = None
) -> Program:
    """Compile a kernel for one launch over an arena.

    Args:
        module: The parsed PTX.
        launch: Kernel, shape and arguments.
        arena: Global memory.
        origins: Told of every value's lines, where they are wanted.

    Raises:
        KernelError: an unsupported instruction, with file and line.
        UsageError: grid, block or arguments do not fit the kernel.
    """
    flat, graph = _flat(module, launch.kernel)
    _check(launch, module.functions[launch.kernel])
    params, offsets = _pack(flat.params, launch, arena)
    shared = [v for v in module.variables.values() if v.space == "shared" and v.size]
    shared += [v for v in flat.variables if v.space == "shared" and v.size]
    dynamic = [v for v in module.variables.values() if v.space == "shared" and not v.size]
    dynamic += [v for v in flat.variables if v.space == "shared" and not v.size]
    used = _used(flat)
    shared = [v for v in shared if v.name in used]
    places, static_bytes = _place(shared)
    start = -(-static_bytes // max([v.align for v in dynamic] or [1])) * max(
        [v.align for v in dynamic] or [1]
    )
    shared_bytes = start + launch.dynamic_shared
    if shared_bytes > _SHARED_LIMIT:
        raise KernelError(
            f"kernel {launch.kernel} needs {shared_bytes:,} bytes of shared memory",
            f"A block has at most {_SHARED_LIMIT:,}.",
        )
    local_places, local_bytes = _place([v for v in flat.variables if v.space == "local"])
    symbols: dict[str, tuple[str, int]] = {n: ("shared", at) for n, at in places.items()}
    symbols |= {v.name: ("shared", start) for v in dynamic}
    symbols |= {n: ("local", at) for n, at in local_places.items()}
    for variable in [*module.variables.values(), *flat.variables]:
        if variable.space in ("global", "const"):
            symbols[variable.name] = (variable.space, arena.address(variable.name))
    base = arena.address(PARAMETERS)
    arena_at = base - GLOBAL_BASE
    arena.bytes[arena_at : arena_at + len(params)] = np.frombuffer(params, np.uint8)
    symbols |= {n: ("param", base + at) for n, at in offsets.items()}
    rt = Runtime(arena, shared_bytes, local_bytes)
    rt.origins = origins
    ctx = Context(flat.registers, symbols, lambda i: module.where(i.loc), launch.kernel, rt)
    ctx.params, ctx.param_base = params, base
    ctx.variables = [(_plain(v.name), "shared", places[v.name], v.size) for v in shared]
    ctx.variables += [(_plain(v.name), "shared", start, launch.dynamic_shared) for v in dynamic]
    return Program(flat, graph, ctx, launch.limits)


@lru_cache(maxsize=8)
def _flat(module: Module, kernel: str) -> tuple[FlatKernel, ControlFlow]:
    """A kernel without calls and its control flow; neither depends on the launch."""
    flat = flatten(module, kernel)
    return flat, control_flow(flat)


def _used(flat: FlatKernel) -> set[str]:
    from workbench.emulator.ptx.instructions import Addr, Sym, Vec

    names: set[str] = set()
    for item in flat.body:
        for operand in getattr(item, "operands", ()):
            for piece in operand.items if isinstance(operand, Vec) else (operand,):
                if isinstance(piece, Sym):
                    names.add(piece.name)
                elif isinstance(piece, Addr) and isinstance(piece.base, Sym):
                    names.add(piece.base.name)
    return names


def _plain(name: str) -> str:
    """``_ZZ8sgemm_v2E2As`` -> ``As``: the variable's own name at the end of a mangled one."""
    if not name.startswith("_ZZ"):
        return name
    for length in range(len(name) - 1, 0, -1):
        tail = name[-length:]
        if not tail[0].isdigit() and name[:-length].endswith(str(length)):
            return tail
    return name


def arena_for(
    module: Module, buffers: Mapping[str, Array], unwritten: Collection[str] = ()
) -> Arena:
    """An arena with the caller's arrays, the module's variables and room for parameters."""
    return Arena(
        {**buffers, **module_buffers(module), PARAMETERS: np.zeros(4352, np.uint8)}, unwritten
    )
