"""The device of one process: its memory, modules and launches, which the emulator runs."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import ptxemu
from workbench.engines.emulated.chips import ShownChip
from workbench.programs.capture.counted import CountedLaunch
from workbench.programs.standin.callsites import Chain
from workbench.programs.standin.faults import ARRAY, HEADER, ILLEGAL_INSTRUCTION, FaultLog, code_of
from workbench.programs.standin.launches import Launches
from workbench.programs.standin.memo import Memo, Region
from workbench.programs.standin.modules import LoadedModule, ModuleKernel, NoCodeError
from workbench.study.mangling import own_name

#: Bytes of a process's address space, and the part of them for variables of modules.
ARENA, RESERVED = 64 << 30, 8 << 30
#: Possible addresses of the arena: far from a program, its heap and its libraries.
BASES = (0x2000_0000_0000, 0x3000_0000_0000, 0x1800_0000_0000, 0x4000_0000_0000)
#: CUresult codes of refusals.
INVALID_VALUE, INVALID_IMAGE, NO_BINARY, NOT_FOUND, NOT_SUPPORTED = 1, 218, 209, 500, 801
OUT_OF_RESOURCES = 701
#: The reason for the end of a run that has reached its time limit.
TIME_IS_OVER = "the time limit of the run was reached"
_ALIGN = 256
_NORESERVE = 0x4000  # MAP_NORESERVE of Linux


class Refusal(NamedTuple):
    """An error that the program gets."""

    code: int
    why: str


class RunOverError(Exception):
    """The run has used up its time or its budget."""


@dataclass(slots=True)
class RunState:
    """State that all processes of a run share.

    Args:
        chip: The chip that programs see.
        check: Look for races and for reads of unwritten memory.
        deadline: When the run ends, by `time.monotonic`.
        budget: The number of thread instructions that it may run.
        record: A context around each launch; it keeps launches if they are wanted.
    """

    chip: ShownChip
    check: bool
    deadline: float
    budget: float
    found: FaultLog
    launches: Launches
    record: Callable[
        [EmulatedDevice, LaunchAsked, LoadedModule], contextlib.AbstractContextManager[None]
    ]
    allocations: list[Chain] = field(default_factory=list)
    notices: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    def note(self, key: str, message: str) -> None:
        """Keep a notice on the run, once for each key."""
        message = message.replace(f"{self.found.folder}/", "")
        self.notices.setdefault(key, HEADER.sub("cuda/", message))

    def refused(self, kernel: str, sizes: Sequence[int], why: str = "") -> None:
        """Note a launch that a device would refuse: its grid, block and bytes of shared memory."""
        self.launches.failed += 1
        grid, block = (" × ".join(map(str, sizes[at : at + 3])) for at in (0, 3))
        what = (
            f"a launch of {own_name(kernel)} was refused, and its kernel did not run: grid {grid}, "
            f"block {block}, {sizes[6]:,} bytes of dynamic shared memory"
        )
        self.note(f"refused {kernel}", f"{what}; {why}" if why else what)


class LaunchAsked(NamedTuple):
    """A launch that the program requests. `parameters`: the kernel's parameter block."""

    number: int
    module: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    cooperative: bool
    cluster: tuple[int, int, int]
    stream: int
    parameters: bytes

    @property
    def key(self) -> tuple[object, ...]:
        """The parts that are equal if a launch repeats: not the number and the stream."""
        return (*self[1:8], self.parameters)


class Allocation(NamedTuple):
    """Memory that a program allocated. `number`: its index in `RunState.allocations`."""

    start: int
    size: int
    kind: str
    number: int


class EmulatedDevice:
    """The context of a process, which has a number in the run."""

    def __init__(self, state: RunState, process: int) -> None:
        self.state, self.process = state, process
        self.arena_fd, self.mask_fd = (
            os.memfd_create(name, os.MFD_CLOEXEC) for name in ("arena", "mask")
        )
        for fd in (self.arena_fd, self.mask_fd):
            os.ftruncate(fd, ARENA)
        self.data = np.frombuffer(_mapped(self.arena_fd), np.uint8)
        self.written = np.frombuffer(_mapped(self.mask_fd), np.uint8) if state.check else None
        self.base = 0
        self.arena: ptxemu.Arena
        self.memo: Memo[tuple[CountedLaunch, str]]
        self.modules: dict[int, LoadedModule] = {}
        self.memories: dict[int, ptxemu.GlobalMemory] = {}
        self.textures: dict[int, tuple[ptxemu.Texture, int]] = {}
        self.allocations: dict[int, Allocation] = {}
        #: The instructions of the last launch.
        self.rows: Sequence[ptxemu.Executed] = ()
        self._top = _ALIGN
        self._handle = 0

    def begin(self, base: int) -> None:
        """Start: the program has mapped the arena at `base`."""
        self.base = base
        self.arena = ptxemu.Arena(self.data, base, self.written)
        self.memo = Memo(self.data, self.written)

    def close(self) -> None:
        """Give the memory back."""
        for fd in (self.arena_fd, self.mask_fd):
            os.close(fd)

    # --- memory

    def reserve(self, size: int, align: int) -> int:
        """Reserve a device address for a module's variable."""
        align = max(align, _ALIGN)
        start = -(-self._top // align) * align
        gap = min(max(512, size), 1 << 24)
        if start + size + gap > RESERVED:
            raise ptxemu.ResourceError(
                f"variables of modules need more than {RESERVED:,} bytes", "Make them smaller."
            )
        self._top = start + size + gap
        self.memo.regions[start] = Region(start, size)
        return self.base + start

    def allocate(self, start: int, size: int, kind: str, chain: Chain) -> None:
        """Register memory that the program has allocated."""
        number = len(self.state.allocations)
        self.state.allocations.append(chain)
        self.arena.allocate(ARRAY.format(number), start, size)
        self.allocations[start] = Allocation(start, size, kind, number)
        place = start - self.base
        self.memo.regions[place] = Region(place, size, kind in ("pinned", "managed", "mapped"))

    def free(self, start: int) -> None:
        """Remove an allocation that the program has freed."""
        if self.allocations.pop(start, None) is not None:
            self.arena.release(start)
            self.memo.regions.pop(start - self.base, None)

    def holding(self, address: int) -> Allocation | None:
        """The program's allocation that contains an address."""
        found = self.arena.allocation_of(address)
        return self.allocations.get(found.start) if found is not None else None

    def touch(self, start: int, size: int) -> None:
        """Note that a call on the host changed bytes."""
        self.memo.touched(start - self.base, size)

    # --- modules

    def load(self, number: int, images: list[bytes]) -> str | Refusal:
        """Read a module; returns its kernels and variables in the stand-in driver's form."""
        try:
            module = LoadedModule(images, self.state.chip)
            memory = self.arena.place(module.module, self.reserve)
        except NoCodeError as error:
            self.state.note("no-code", f"{error.message}. {error.hint}")
            return Refusal(NO_BINARY, error.message)
        except ptxemu.EmulatorError as error:
            self.state.note("ptx", f"a module cannot be read: {error.message}")
            return Refusal(INVALID_IMAGE, error.message)
        self.modules[number], self.memories[number] = module, memory
        variables = module.module.variables
        return module.table({name: memory.address(name) for name in variables})

    def resources(self, number: int, kernel: str) -> str | Refusal:
        """Registers and memory of a kernel, as ptxas assigned them."""
        found = self.modules[number].resources.get(kernel)
        if found is None:
            name = own_name(kernel)
            why = f"the registers of {name} are unknown: no nvcc here assembles it"
            self.state.note(f"registers {kernel}", why)
            return Refusal(NOT_SUPPORTED, why)
        threads = most_threads(found.registers)
        return (
            f"registers {found.registers}\nshared {found.static_shared}\nlocal {found.stack}\n"
            f"constant {found.constant}\nthreads {threads}"
        )

    # --- textures

    def texture(self, words: dict[str, str]) -> int | Refusal:
        """Make a texture; returns its handle."""
        try:
            texture = _texture(words)
        except (ptxemu.DescriptorError, KeyError, ValueError) as error:
            why = getattr(error, "message", repr(error))
            self.state.note("texture", f"a texture cannot be made: {why}")
            return Refusal(NOT_SUPPORTED, str(why))
        self._handle += 1
        handle = 0x7B00_0000_0000 + 64 * self._handle
        self.textures[handle] = (texture, int(words["address"]))
        return handle

    def tensor_map(self, address: int, *numbers: int) -> bytes | Refusal:
        """The 128 bytes of a tiled tensor map, from the numbers of ``cuTensorMapEncodeTiled``."""
        (kind, interleave, swizzle, promotion, fill), axes = numbers[:5], numbers[5:]
        try:
            return ptxemu.TensorMap(
                list(ptxemu.ELEMENT_BYTES)[kind], axes[::4], axes[7::4], axes[1::4], axes[2::4],
                (0, 32, 64, 128)[swizzle], (0, 16, 32)[interleave], bool(fill),
                l2_promotion=(0, 64, 128, 256)[promotion],
            ).encoded(address)  # fmt: skip
        except (ptxemu.DescriptorError, IndexError) as error:
            why = getattr(error, "message", f"not of this chip: {numbers}")
            self.state.note("tensor map", f"cuTensorMapEncodeTiled was refused: {why}")
            return Refusal(INVALID_VALUE, why)

    # --- launches

    def launch(self, asked: LaunchAsked) -> str | Refusal:
        """Run a launch, or repeat its known effects; returns its printed output.

        Raises RunOverError: the time or the budget of the run is used up.
        """
        state = self.state
        if state.stopped or time.monotonic() > state.deadline:
            raise RunOverError
        module = self.modules.get(asked.module)
        if module is None:
            return Refusal(NOT_FOUND, "its module is not loaded")
        found = module.resources.get(asked.kernel)
        if found is not None and math.prod(asked.block) > most_threads(found.registers):
            why = f"each thread takes {found.registers} registers"
            return self._refused(asked, OUT_OF_RESOURCES, why)
        key = self.memo.key(asked.key)
        if key is not None and (known := self.memo.again(key)) is not None:
            state.launches.repeat(known[0], self.process, asked.stream)
            return known[1]
        begin = time.monotonic()
        with state.record(self, asked, module):
            outcome = self._run(asked, module)
        if isinstance(outcome, Refusal):
            self.memo.ran(asked.key, None, 0.0)
            return outcome
        self.memo.ran(asked.key, key, time.monotonic() - begin, outcome)
        return outcome[1]

    def _run(self, asked: LaunchAsked, module: LoadedModule) -> tuple[CountedLaunch, str] | Refusal:
        state, printed = self.state, list[str]()
        # A kernel may poll memory that the host shares.
        shared = any(each.kind != "device" for each in self.allocations.values())
        limits = ptxemu.Limits(1 << 62, max(state.deadline - time.monotonic(), 0), state.deadline)
        try:
            kernel = module.kernel(asked.kernel)
            self._type(kernel, asked.parameters)
            result = kernel.kernel.run(
                asked.grid,
                asked.block,
                kernel.arguments(asked.parameters),
                asked.shared,
                memory=self.memories[asked.module],
                check=state.check,
                go_on=True,
                cooperative=asked.cooperative,
                cluster=asked.cluster,
                textures=self.textures,
                print=printed.append,
                host=self._wait_for_host if shared else None,
                limits=limits,
            )
        except ptxemu.LaunchError as error:
            return self._refused(asked, INVALID_VALUE, error.message)
        except ptxemu.Unsupported as error:
            state.note(f"unsupported {error.message}", f"{error.message} (not supported)")
            return Refusal(ILLEGAL_INSTRUCTION, error.message)
        except ptxemu.PtxError as error:
            state.note(f"ptx {asked.kernel}", error.message)
            return Refusal(NOT_FOUND, error.message)
        except ptxemu.ResourceError as error:
            if time.monotonic() > state.deadline:
                raise RunOverError from None
            state.note(f"resources {asked.kernel}", f"{error.message}. {error.hint}")
            return Refusal(OUT_OF_RESOURCES, error.message)
        return self._told(asked, module, result, "".join(printed))

    def _refused(self, asked: LaunchAsked, code: int, why: str) -> Refusal:
        self.state.refused(asked.kernel, (*asked.grid, *asked.block, asked.shared), why)
        return Refusal(code, why)

    def _type(self, kernel: ModuleKernel, parameters: bytes) -> None:
        """Let messages count elements if a kernel's signature has an array's element type."""
        for at, width in kernel.pointed:
            found = self.arena.allocation_of(int.from_bytes(parameters[at : at + 8], "little"))
            if found is not None and not found.width and found.start in self.allocations:
                self.arena.release(found.start)
                self.arena.allocate(found.name, found.start, found.size, width)

    def _told(
        self, asked: LaunchAsked, module: LoadedModule, result: ptxemu.Result, printed: str
    ) -> tuple[CountedLaunch, str] | Refusal:
        state = self.state
        for fault in result.faults:
            state.found.add(fault, asked.kernel, asked.number)
        fatal = next((fault for fault in result.faults if fault.fatal), None)
        if fatal is not None:
            state.launches.failed += 1
            return Refusal(code_of(fatal), fatal.message)
        counts = result.counts
        self.rows = counts.rows
        state.budget -= counts.thread_instructions
        if state.budget < 0:
            state.stopped = "the budget of thread instructions is used up"
        kind = state.launches.add(counts, module, self.process, asked.stream)
        for remark in (*counts.warnings, *state.launches.remarks):
            state.note(remark, remark)
        return kind, printed

    def _wait_for_host(self) -> bool:
        time.sleep(0.002)
        return time.monotonic() < self.state.deadline


def most_threads(registers: int) -> int:
    """The most threads of a block with `registers` per thread; a warp takes units of 256."""
    warp = -(-registers * 32 // 256) * 256
    return min(1024, 65536 // warp * 32) if registers else 1024


def _mapped(fd: int) -> mmap.mmap:
    # Untouched pages take no memory, and nothing is reserved for them.
    return mmap.mmap(fd, ARENA, mmap.MAP_SHARED | _NORESERVE)


_KINDS = {"signed": "int", "unsigned": "uint", "float": "float"}


def _texture(words: dict[str, str]) -> ptxemu.Texture:
    bits = [int(words[axis]) for axis in "xyzw"]
    integers = words["kind"] != "float"
    dims = [int(words[name]) for name in ("width", "height", "depth")]
    while len(dims) > 1 and not dims[-1]:
        dims.pop()
    linear = words["layout"] != "array"
    normalized = words["normalized"] == "1"
    address = [words[f"address{axis}"] for axis in range(len(dims))]
    if not normalized:  # as CUDA does
        address = ["clamp" if each in ("wrap", "mirror") else each for each in address]
    return ptxemu.Texture(
        dtype=f"{_KINDS[words['kind']]}{bits[0]}",
        dims=tuple(dims),
        channels=sum(1 for each in bits if each),
        pitch=int(words["pitch"]) if len(dims) > 1 else 0,
        layout="linear" if linear else "array",
        address=tuple(address),  # type: ignore[arg-type]
        filter="linear" if words["filter"] == "linear" else "point",
        normalized=normalized,
        as_float=integers and words["read"] == "normalized",
        layers=int(words["layers"]),
    )


def fields(text: str) -> dict[str, str]:
    """Lines of ``key value``."""
    return {key: value for key, _, value in (line.partition(" ") for line in text.splitlines())}
