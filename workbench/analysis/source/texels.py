"""Textures of a ``.cu``: what a kernel fetches, and what the host said of its texture object."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.analysis.source.amounts import element

#: What CUDA calls a texture object.
TEXTURE_OBJECTS = ("cudaTextureObject_t", "CUtexObject")
_AXES = {"1Dfetch": 1, "1D": 1, "2D": 2, "3D": 3}
_CHANNEL = re.compile(r"cudaCreateChannelDesc\s*<\s*([\w ]+?)\s*>")
_MODE = re.compile(r"\baddressMode\s*\[\s*\d\s*\]\s*=\s*cudaAddressMode(\w+)")


@dataclass(frozen=True, slots=True)
class TextureSeen:
    """A texture as a file has it; its sizes are not read.

    Attributes:
        dtype: NumPy's type of a channel.
        channels: Of a texel.
        axes: Of the fetch.
        layout, address, filter, read: As front matter calls them.
        normalized: Whether coordinates are from 0 to 1.
    """

    dtype: str
    channels: int
    axes: int
    layout: str
    address: str
    filter: str
    normalized: bool
    read: str


def texture_of(code: str, kernel: str, name: str) -> TextureSeen | None:
    """What a file says of a kernel's texture; None: the kernel does not fetch from it by name.

    Args:
        code: The file's text.
        kernel: That of the kernel.
        name: The kernel's parameter.
    """
    fetch = re.search(rf"\btex(1Dfetch|[123]D)\s*<\s*([\w ]+?)\s*>\s*\(\s*{name}\b", kernel)
    fetched = element(fetch[2]) if fetch is not None else None
    if fetch is None or fetched is None:
        return None
    as_float = "cudaReadModeNormalizedFloat" in code
    channel = _CHANNEL.search(code)
    held = element(channel[1]) if channel is not None else None
    if as_float and (held is None or held[0].startswith("float")):
        held = "uint8", fetched[1]
    dtype, channels = held if as_float and held else fetched
    normalized = re.search(r"\bnormalizedCoords\s*=\s*(?:true|1)\b", code) is not None
    mode = _MODE.search(code)
    address = mode[1].lower() if mode is not None else "wrap"  # the first of CUDA's, which is 0
    if address not in ("border", "clamp") and not normalized:
        address = "clamp"  # which CUDA takes in its place
    return TextureSeen(
        dtype,
        channels,
        _AXES[fetch[1]],
        "linear" if fetch[1] == "1Dfetch" else "array",
        address,
        "linear" if "cudaFilterModeLinear" in code and fetch[1] != "1Dfetch" else "point",
        normalized and fetch[1] != "1Dfetch",
        "float" if as_float else "element",
    )
