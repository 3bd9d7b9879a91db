"""Run CUDA kernels on the CPU: run PTX on NumPy arrays, check it and count, without a GPU.

Input: PTX and arrays. Output: the arrays, the kernel's faults with their source lines, and each
instruction's cost. This is the whole public interface: modules below it may change. Names are
imported when they are first used, so that errors and tensor maps do not need NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxemu.api import Given, Kernel, Module, Options, Result, load
    from ptxemu.arena import Arena
    from ptxemu.callers import Callers, Foreign, Position, files_of, shipped
    from ptxemu.cost import SECTOR
    from ptxemu.counts import Counts, Executed
    from ptxemu.errors import (
        DescriptorError,
        EmulatorError,
        Fault,
        LaunchError,
        PtxError,
        ResourceError,
        Unsupported,
    )
    from ptxemu.faults.origins import Origins
    from ptxemu.launch import TensorArgument, TextureArgument
    from ptxemu.ptx.instructions import Instr
    from ptxemu.ptxas import MachineCode
    from ptxemu.sass import source_lines
    from ptxemu.state.context import Limits
    from ptxemu.state.spaces import GlobalMemory
    from ptxemu.tensormap import ELEMENT_BYTES, FILLS, Im2col, TensorMap
    from ptxemu.texture import CHANNELS, Texture

__all__ = [
    "CHANNELS", "ELEMENT_BYTES", "FILLS", "SECTOR", "Arena", "Callers", "Counts",
    "DescriptorError", "EmulatorError", "Executed", "Fault", "Foreign", "Given", "GlobalMemory",
    "Im2col", "Instr", "Kernel", "LaunchError", "Limits", "MachineCode", "Module", "Options",
    "Origins", "Position", "PtxError", "ResourceError", "Result", "TensorArgument", "TensorMap",
    "Texture", "TextureArgument", "Unsupported", "files_of", "load", "shipped", "source_lines",
]  # fmt: skip
#: Public name -> its module; names that are not here are in `api`.
_HOMES = {
    **dict.fromkeys(("Callers", "Foreign", "Position", "files_of", "shipped"), "callers"),
    **dict.fromkeys(("Counts", "Executed"), "counts"),
    **dict.fromkeys(("DescriptorError", "EmulatorError", "Fault", "LaunchError", "PtxError",
                     "ResourceError", "Unsupported"), "errors"),
    **dict.fromkeys(("ELEMENT_BYTES", "FILLS", "Im2col", "TensorMap"), "tensormap"),
    **dict.fromkeys(("CHANNELS", "Texture"), "texture"),
    "Arena": "arena", "GlobalMemory": "state.spaces", "Instr": "ptx.instructions",
    "Limits": "state.context", "MachineCode": "ptxas",
    "Origins": "faults.origins", "SECTOR": "cost", "TensorArgument": "launch",
    "TextureArgument": "launch", "source_lines": "sass",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name now."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'api')}"), name)
    globals()[name] = found
    return found
