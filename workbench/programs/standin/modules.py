"""A module of a program: its PTX as the emulator reads it, its kernels, their machine code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import ptxemu
from workbench.compile.build import BuildResult
from workbench.compile.compilers import Nvcc, find_nvcc, wheel_nvcc
from workbench.compile.image import resources_of
from workbench.disk.writing import private_folder
from workbench.engines.emulated.chips import ShownChip
from workbench.errors import DataError
from workbench.model import Build, KernelResources, SourceFile
from workbench.programs.fatbin import code_of, linked
from workbench.programs.standin.functions import SOURCES
from workbench.programs.studies.recordings import itemsize
from workbench.study.mangling import demangled, in_parentheses, own_name
from workbench.study.parameters import KernelParameter

#: Machine code up to this size is read for the counts of its loads and stores.
_LARGEST_CUBIN = 16 << 20


#: A function of NVIDIA's library cudadevrt; our own PTX is linked for it.
_GRID = b"cudaCGSynchronize"


class NoCodeError(DataError):
    """A module that the emulator cannot run: only machine code, from a library or from Python."""


@dataclass
class ModuleKernel:
    """A kernel of a module, and the layout of its parameters: (offset, bytes)."""

    kernel: ptxemu.Kernel
    parameters: tuple[tuple[int, int], ...]

    @cached_property
    def pointed(self) -> tuple[tuple[int, int], ...]:
        """Parameters that point to plain elements: offset, and bytes per element."""
        types = in_parentheses(demangled(self.kernel.name))
        if len(types) != len(self.parameters):
            return ()
        kinds = [KernelParameter(type=each) if "*" in each else KernelParameter() for each in types]
        return tuple(
            (at, itemsize(kind.element))
            for (at, _), kind in zip(self.parameters, kinds, strict=True)
            if kind.element
        )

    def arguments(self, packed: bytes) -> list[bytes]:
        """The arguments of a launch, from its parameter block."""
        return [packed[offset : offset + size] for offset, size in self.parameters]


class LoadedModule:
    """A module that a program gave the driver; several images are linked.

    Raises:
        NoCodeError: it holds only machine code.
        PtxError: its PTX is damaged.
    """

    def __init__(self, images: Sequence[bytes], chip: ShownChip) -> None:
        found = [code_of(image, chip.capability) for image in images]
        texts = [code.ptx for code in found if code is not None]
        if not texts or len(texts) < len(images):
            if len(images) > 1:  # objects of -rdc; NVIDIA's library has no PTX
                raise NoCodeError(
                    "a part of a module is only machine code",
                    "Kernels that launch kernels (cudadevrt) are not supported; build each of your "
                    "own parts with PTX.",
                )
            kernel = _first_kernel(images)
            raise NoCodeError(
                f"the kernels of a module ({kernel}) exist only as machine "
                "code, but the emulator runs PTX",
                "Build it with PTX (-gencode arch=compute_90,code=compute_90), or with line "
                "information, which keeps the PTX: -lineinfo of nvcc and NVRTC, "
                "ProgramOptions(lineinfo=True) of cuda.core, @cuda.jit(lineinfo=True) of Numba.",
            )
        if any(_GRID in text for text in texts):
            texts.append((SOURCES / "grid.ptx").read_bytes())
        cubin = next((code.cubin for code in found if code is not None), b"")
        self.text = texts[0] if len(texts) == 1 else linked(texts)
        self.cubin = cubin if len(texts) == 1 and len(cubin) <= _LARGEST_CUBIN else b""
        self.module = ptxemu.load(
            self.text.decode("utf-8", "replace"),
            self.cubin or None,
            foreign=ptxemu.shipped,
            lazy=True,
        )
        self._chip = chip
        self._kernels: dict[str, ModuleKernel] = {}

    @cached_property
    def sources(self) -> tuple[SourceFile, ...]:
        """The files that the PTX names, in order."""
        return tuple(SourceFile(path=path) for path in dict.fromkeys(self.module.files.values()))

    @cached_property
    def resources(self) -> dict[str, KernelResources]:
        """Resources of each kernel: from the program's own build, else from ptxas here."""
        cubin = self.cubin or _assembled(self.text, self._chip.arch)
        found = resources_of(cubin, self.module.kernels)
        return {each.name: each for each in found}

    def build(self, arch: str) -> BuildResult:
        """The module as a build that was compiled elsewhere."""
        build = Build(
            compiler="the program's own",
            arch=arch,
            resources=tuple(self.resources.values()),
            ptx=self.text.decode("utf-8", "replace"),
        )
        return BuildResult(cubin=Path(), build=build, sources=(), cached=True)

    def kernel(self, name: str) -> ModuleKernel:
        """A kernel by its mangled name; PtxError: unknown."""
        found = self._kernels.get(name)
        if found is None:
            kernel = self.module.kernel(name)
            found = self._kernels[name] = ModuleKernel(kernel, tuple(self.module.parameters(name)))
        return found

    def table(self, addresses: dict[str, int]) -> str:
        """Kernels and variables for the stand-in driver, one per line."""
        lines = []
        for name in self.module.kernels:
            places = ",".join(f"{at}:{size}" for at, size in self.kernel(name).parameters) or "-"
            threads, shared = self.module.threads(name), self.module.static_shared(name)
            lines.append(f"kernel {name} {shared} {threads} {places}")
        for name, size in self.module.variables.items():
            if name in addresses:
                lines.append(f"variable {name} {addresses[name]} {size}")
        return "\n".join(lines)


def _assembled(text: bytes, arch: str) -> bytes:
    """The machine code of PTX; empty if ptxas fails, or there is no compiler."""
    nvcc = find_nvcc() or wheel_nvcc()
    if nvcc is None:
        return b""
    ptx = text.decode("utf-8", "replace")
    with private_folder() as holder:
        made = Nvcc(nvcc).assemble(Path(holder), ptx, arch, ())
        if made.failed:  # it calls functions of a linked library, such as cudadevrt
            made = Nvcc(nvcc).assemble(Path(holder), ptx, arch, ("-rdc=true",))
        return made.cubin


def _first_kernel(images: Sequence[bytes]) -> str:
    found = re.search(rb"\.text\.(\w+)\0", b"".join(images))
    return own_name(found[1].decode()) if found else "?"
