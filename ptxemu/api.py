"""Load PTX, run its kernels on NumPy arrays, and examine the results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from ptxemu.arena import memory_for
from ptxemu.callers import Foreign, shipped
from ptxemu.counts import Counts
from ptxemu.errors import Fault, LaunchError, PtxError
from ptxemu.faults.origins import Origins
from ptxemu.launch import Argument, KernelLaunch, TensorArgument, TextureArgument, three
from ptxemu.ptx.inlining import entry_of
from ptxemu.ptx.instructions import SIZES, Instr, Ptx, Variable, layout
from ptxemu.ptx.parser import parse
from ptxemu.run import Hosted, run, sample
from ptxemu.sass import functions_of
from ptxemu.state.context import Limits
from ptxemu.state.lanes import Dim3
from ptxemu.state.spaces import GlobalMemory
from ptxemu.state.values import Array
from ptxemu.texture import Texture

#: An argument of a kernel: an array, passed by its address; the name of an array in an existing
#: memory; a number; the bytes of a struct; a tensor map; a texture.
Given = Array | str | int | float | np.generic | bytes | TensorArgument | TextureArgument
#: A shared-memory variable in the text of a kernel: alignment, type, name and elements.
_SHARED = re.compile(
    r"\.shared\s+(?:\.align\s+(\d{1,9})\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d{1,15})\])?\s*;"
)
_ELF = b"\x7fELF"
_FLOATS = {"f16": "<f2", "f32": "<f4", "f64": "<f8"}


class Options(TypedDict, total=False):
    """Options for a launch; all are optional.

    Attributes:
        cluster: Blocks of a cluster; by default the size for which the kernel is compiled.
        cooperative: All blocks must be on the chip at once (``cudaLaunchCooperativeKernel``).
        resident: Blocks that the chip holds at once; 0: any number.
        check: Look for races and for reads of unwritten memory (slower); on by default.
        unwritten: Names of arrays without values: reading an element before writing it is a fault.
        blocks: Run about this many blocks, and scale the counts; 0: all.
        seed: Seed for the choice of these blocks.
        textures: Handle, as arguments and memory hold it -> the texture and its texels' address;
            textures whose texels are not in one array are omitted.
        limits: Limits on instructions and time, at which the launch ends.
        workers: Processes; by default one for each core.
        origins: Records the source lines behind every value (slow).
        go_on: Collect faults that a GPU survives (a race, an unwritten read), and continue.
        host: Called when threads wait and none can continue, also in worker processes: True if the
            host may still write the value that they wait for. The call may block.
        print: Gets the kernel's printed output, block by block; by default standard error does.
    """

    cluster: Dim3
    cooperative: bool
    resident: int
    check: bool
    unwritten: Collection[str]
    blocks: int
    seed: int
    textures: Mapping[int, tuple[Texture, int]]
    limits: Limits
    workers: int
    origins: Origins
    go_on: bool
    host: Callable[[], bool] | None
    print: Callable[[str], None] | None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a launch; `outputs` and `counts` of a faulty launch raise its fault.

    Attributes:
        faults: Faults of the kernel; without counts, the last one is fatal.
        memory: The arrays as the launch left them.
    """

    faults: tuple[Fault, ...]
    memory: GlobalMemory
    _counts: Counts | None = field(repr=False)

    @property
    def outputs(self) -> dict[str, Array]:
        """A copy of each array by its name; Fault: the launch had one."""
        self._sound()
        return {name: self.memory.read(name) for name in self.memory.names}

    @property
    def counts(self) -> Counts:
        """Executions and costs of each instruction; raises Fault if the launch had one."""
        self._sound()
        assert self._counts is not None
        return self._counts

    def _sound(self) -> None:
        if self._counts is None:
            raise self.faults[-1]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a module, by its name in the PTX."""

    module: Module
    name: str

    @property
    def parameters(self) -> tuple[Variable, ...]:
        """Its parameters, with their sizes in bytes."""
        return tuple(self.module.ptx.functions[self.name].params)

    def run(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[Given] | Mapping[str, Given],
        shared: int = 0,
        *,
        memory: GlobalMemory | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Run it to its end, or to its first fault.

        Args:
            grid: Blocks along each axis.
            block: Threads of a block along each axis.
            args: One for each parameter. Arrays are copied in, and come out as `Result.outputs`
                under the key of a mapping, or as ``arg0``, ``arg1`` … by their place.
            shared: Bytes of dynamic shared memory.
            memory: Arrays that several launches share (`Module.memory`), named in `args`.
            options: `Options`.

        Raises:
            LaunchError: grid, block or arguments do not fit the kernel.
            Unsupported: it needs an instruction that the emulator does not have.
            ResourceError: no time or memory is left for it.
        """
        named = (
            dict(args)
            if isinstance(args, Mapping)
            else {f"arg{place}": each for place, each in enumerate(args)}
        )
        given = list(named.values())
        if memory is not None and _arrays(named):
            raise LaunchError(
                f"kernel {self.name}: an array in `args` together with `memory`",
                "Put it into the memory, and pass its name.",
            )
        if memory is None:
            memory = self.module.memory(_arrays(named), options.get("unwritten", ()))
        launch = KernelLaunch(
            self.name,
            _three(grid),
            _three(block),
            [self._argument(place, each, named) for place, each in enumerate(given)],
            shared,
            options.get("limits", Limits()),
            options.get("resident", 0),
            options.get("cooperative", False),
            options.get("cluster", (1, 1, 1)),
            options.get("textures", {}),
        )
        wanted, seed = options.get("blocks", 0), options.get("seed", 0)
        try:
            counts = run(
                self.module.ptx,
                launch,
                memory,
                blocks=sample(launch.geometry, wanted, seed) if wanted else None,
                check=options.get("check", True),
                workers=options.get("workers"),
                origins=options.get("origins"),
                hosted=Hosted(
                    options.get("go_on", False), options.get("host"), options.get("print")
                ),
            )
        except Fault as fault:
            return Result((*fault.others, fault), memory, None)
        return Result(counts.faults, memory, counts)

    def _argument(self, place: int, given: Given, named: Mapping[str, Given]) -> Argument:
        """Convert an argument for a launch.

        Raises:
            LaunchError: it is not a possible argument, or does not fit its parameter.
        """
        if isinstance(given, np.ndarray):
            return _name_of(given, named)
        if isinstance(given, TensorArgument | TextureArgument):
            of = given.of
            return given if isinstance(of, str) else replace(given, of=_name_of(of, named))
        if isinstance(given, str | bytes):
            return given
        if isinstance(given, np.generic):
            return given.tobytes()
        if not isinstance(given, int | float):
            raise LaunchError(
                f"kernel {self.name}: argument {place + 1} is a {type(given).__name__}",
                "Pass an array, a number, the bytes of a struct, a TensorArgument or a "
                "TextureArgument.",
            )
        parameters = self.parameters
        if place >= len(parameters):
            return b""  # too many are reported when they are placed
        return _number(given, parameters[place], f"kernel {self.name}: argument {place + 1}")


@dataclass(frozen=True, slots=True)
class Module:
    """PTX that was read. `ptx` is its typed form, which later releases may change."""

    ptx: Ptx = field(repr=False)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of its kernels, as the PTX has them."""
        return tuple(each.name for each in self.ptx.functions.values() if each.entry)

    def parameters(self, name: str) -> tuple[tuple[int, int], ...]:
        """Offset and bytes of each parameter of a kernel, by its full name."""
        params = entry_of(self.ptx, name).params
        places, _ = layout(params)
        return tuple((places[each.name], each.size) for each in params)

    def threads(self, name: str) -> int:
        """The most threads of a kernel's block (``__launch_bounds__``)."""
        told = entry_of(self.ptx, name).directives
        return math.prod(told.get("maxntid") or told.get("reqntid") or (1024,))

    def static_shared(self, name: str) -> int:
        """Bytes of shared memory that a kernel's own text declares or names; it reads no body."""
        source = entry_of(self.ptx, name).source
        own = [
            Variable(found[3], "shared", SIZES.get(found[2], 1) * int(found[4] or 1),
                     int(found[1] or 1))
            for found in _SHARED.finditer(source)
        ]  # fmt: skip
        every = self.ptx.variables.values()
        return layout([*own, *(v for v in every if v.space == "shared" and v.name in source)])[1]

    @property
    def files(self) -> Mapping[int, str]:
        """The source files that it names, by number."""
        return self.ptx.files

    @property
    def variables(self) -> dict[str, int]:
        """Its own variables in global and constant memory, with their bytes."""
        every = self.ptx.variables.values()
        return {each.name: each.size for each in every if each.space in ("global", "const")}

    @property
    def assembled(self) -> bool:
        """True if ptxas's machine code is known."""
        return bool(self.ptx.assembled)

    def kernel(self, name: str) -> Kernel:
        """A kernel by its C++ or mangled name; PtxError: unknown or ambiguous."""
        mangled = f"{len(name)}{name}"
        fitting = [each for each in self.kernels if mangled in each]
        if name in self.kernels or len(fitting) != 1:
            if len(fitting) > 1 and name not in self.kernels:
                raise PtxError(
                    f"the PTX has {len(fitting)} kernels {name!r}",
                    f"Name one of them in full: {', '.join(fitting)}.",
                )
            return Kernel(self, entry_of(self.ptx, name).name)
        return Kernel(self, fitting[0])

    def memory(self, arrays: Mapping[str, Array], unwritten: Collection[str] = ()) -> GlobalMemory:
        """Global memory with copies of these arrays and the module's own variables.

        Args:
            arrays: The arrays, by their names in arguments and messages.
            unwritten: Those without values: it is a fault to read an element before writing it.
        """
        return memory_for(self.ptx, arrays, unwritten)

    def origins(self, memory: GlobalMemory) -> Origins:
        """A recorder of the source lines behind every value, for launches on a memory."""
        return Origins(self.ptx, memory)

    def place(self, instr: Instr) -> tuple[str, int]:
        """Path and line to which a profiler assigns an instruction."""
        return self.ptx.place(instr)

    def where(self, instr: Instr) -> str:
        """``file:line`` of an instruction, as messages say it."""
        return self.ptx.where(instr.loc)


def load(
    ptx: str | Path,
    cubin: bytes | Path | None = None,
    *,
    arch: str = "",
    foreign: Foreign = shipped,
    shapes: Mapping[str, tuple[int, tuple[int, ...]]] | None = None,
    lazy: bool = False,
) -> Module:
    """Read PTX, as ``nvcc -ptx -lineinfo`` or NVRTC write it.

    Args:
        ptx: The text, or the path of a file.
        cubin: ptxas's output for exactly this text with ``-lineinfo``: with it, counts are those of
            the machine's loads and stores. A missing or unreadable one is ignored.
        arch: The cubin's architecture, like ``sm_90``; "": the PTX's own target.
        foreign: Tests whether a path is that of a header whose cost is its caller's; by default
            those of a toolkit or the system are.
        shapes: Shared-memory arrays as the source declares them, for messages: name -> the bytes of
            an element, and the extents.
        lazy: The bodies of functions are read when they are first needed; errors in one are
            reported then.

    Raises:
        PtxError: this is not PTX; names its line.
    """
    if isinstance(ptx, Path):
        data = ptx.read_bytes()
        if data.startswith(_ELF):
            raise PtxError(
                f"{ptx} holds machine code, but the emulator runs PTX",
                "Compile with `nvcc -ptx -lineinfo`; a cubin may be passed as `cubin=`.",
            )
        ptx = data.decode("utf-8", "replace")
    if isinstance(cubin, Path):
        cubin = cubin.read_bytes() if cubin.is_file() else None
    functions = None
    if cubin is not None:
        target = arch or _target_of(ptx)
        try:
            functions = functions_of(cubin, target)
        except ValueError:
            functions = None
    module = parse(ptx, functions, foreign, lazy=lazy)
    module.shapes = shapes or {}
    return Module(module)


def _target_of(ptx: str) -> str:
    found = re.search(r"^\s*\.target\s+(sm_\w+)", ptx, re.MULTILINE)
    return found[1] if found else "sm_90"


def _three(extent: int | tuple[int, ...]) -> Dim3:
    """An extent along three axes; LaunchError: it has more."""
    axes = (extent,) if isinstance(extent, int) else tuple(extent)
    if not 1 <= len(axes) <= 3:
        raise LaunchError(f"{axes} has {len(axes)} axes", "A grid or block has 1 to 3 dimensions.")
    return three(axes)


def _name_of(array: Array, named: Mapping[str, Given]) -> str:
    """The name under which an array was placed: its first one among the arguments."""
    return next(name for name, each in _arrays(named).items() if each is array)


def _arrays(named: Mapping[str, Given]) -> dict[str, Array]:
    """The arrays among arguments, each once, by its first name."""
    found: dict[str, Array] = {}
    for name, given in named.items():
        array = given.of if isinstance(given, TensorArgument | TextureArgument) else given
        if isinstance(array, np.ndarray) and not any(each is array for each in found.values()):
            found[name] = array
    return found


def _number(value: int | float, parameter: Variable, what: str) -> bytes:
    """A number as the bytes of a parameter; LaunchError: it does not fit."""
    if parameter.kind in _FLOATS:
        return np.array(value, _FLOATS[parameter.kind]).tobytes()
    if parameter.size > 8 or isinstance(value, float):
        kind = f"a struct of {parameter.size} bytes" if parameter.size > 8 else "an integer"
        raise LaunchError(
            f"{what} is {value!r}, but the kernel expects {kind}",
            "Pass a number of that type, or the bytes of a struct.",
        )
    try:
        return int(value).to_bytes(parameter.size, "little", signed=value < 0)
    except OverflowError:
        raise LaunchError(
            f"{what} is {value}, which {parameter.size} bytes cannot hold",
            "Check the argument against the kernel's parameter.",
        ) from None
