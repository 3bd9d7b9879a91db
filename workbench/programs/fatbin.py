"""Fat binaries: the PTX and machine code that nvcc packs into a program, one entry each.

The layout is not documented; the fields used here are the same in CUDA 9 to 13. Payloads are
plain, zstd (since CUDA 12.8) or LZ4 blocks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

from workbench.compile.image import ptx_inside
from workbench.disk.limits import CAPTURE, MIB, inflate
from workbench.errors import DataError

_MAGIC = 0xBA55ED50
#: Magic number, version, bytes of this header, bytes of all entries.
_HEADER = struct.Struct("<IHHQ")
#: Kind, version, bytes of header and payload, packed bytes, architecture, unpacked bytes.
_ENTRY = struct.Struct("<HHIQI8xI24xQ")
_PTX_KIND, _ELF_KIND = 1, 2
_ZSTD = b"\x28\xb5\x2f\xfd"
_ELF = b"\x7fELF"
#: The most bytes that are unpacked from LZ4; this many take seconds.
_PATIENCE = 64 * MIB
_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+)([a-z]?)", re.MULTILINE)


class FatEntry(NamedTuple):
    """One entry. `arch`: 90 for sm_90 and sm_90a; `body`: unpacked."""

    ptx: bool
    arch: int
    body: bytes


class Code(NamedTuple):
    """The PTX of a module, and its machine code (empty if absent)."""

    ptx: bytes
    cubin: bytes


def entries(data: bytes) -> Iterator[FatEntry]:
    """The entries, in order; damaged ones are left out."""
    at, patience = 0, _PATIENCE
    while at + _ENTRY.size <= len(data):
        kind, _, head, payload, packed, arch, whole = _ENTRY.unpack_from(data, at)
        start = at + head
        at = start + payload
        if kind not in (_PTX_KIND, _ELF_KIND):
            continue
        body = data[start : start + (packed or payload)]
        try:
            if body.startswith(_ZSTD):
                body = b"".join(inflate(body, "PTX", CAPTURE, joined=True))
            elif whole:
                patience -= whole
                body = _unpacked_lz4(body, whole) if patience > 0 else b""
        except (ValueError, IndexError, DataError, zstandard.ZstdError):
            continue
        yield FatEntry(kind == _PTX_KIND, arch, body)


def packed_ptx(data: bytes) -> Iterator[bytes]:
    """The PTX among entries."""
    return (entry.body for entry in entries(data) if entry.ptx)


def code_of(image: bytes, newest: int) -> Code | None:
    """The PTX for a chip (90) in a fat binary, a cubin or a text; None: it has none."""
    if image.startswith(_ELF):
        ptx = ptx_inside(image)
        return Code(ptx, image) if ptx else None
    if len(image) < _HEADER.size or _HEADER.unpack_from(image)[0] != _MAGIC:
        return Code(image.rstrip(b"\0"), b"")
    _, _, head, size = _HEADER.unpack_from(image)
    found = list(entries(image[head : head + size]))
    texts = [entry.body.rstrip(b"\0") for entry in found if entry.ptx]
    cubins = [entry for entry in found if not entry.ptx and entry.body.startswith(_ELF)]
    texts += [ptx for each in cubins if (ptx := ptx_inside(each.body))]
    fitting = [
        (target, text) for text in texts if (target := _target(text)) and target[0] <= newest
    ]
    if not fitting:
        return None
    target, text = max(fitting, key=lambda each: each[0])
    made = [each.body for each in cubins if each.arch == target[0]]
    return Code(text, made[0] if made else b"")


def _target(text: bytes) -> tuple[int, bytes] | None:
    found = _TARGET.search(text)
    return (int(found[1]), found[2]) if found else None


_NUMBER = re.compile(rb"^(\s*\.(?:file|loc)\s+)(\d+)|(\binlined_at\s+)(\d+)", re.MULTILINE)
_HEAD = re.compile(rb"^\s*\.(?:version|target|address_size)\b.*$", re.MULTILINE)
#: Variables and functions that one part declares and another one defines, by name.
_NAME = rb"(?:\([^)]*\)\s*)?([\w$]+)\s*(?=[\[(=;{])"
_EXTERN = re.compile(rb"^\s*\.extern\s+(?:\.\w+\s+|\d+\s+)*" + _NAME + rb"[^;]*;", re.MULTILINE)
_DEFINED = re.compile(rb"^\s*(\.visible|\.weak)\s+(?:\.\w+\s+|\d+\s+)*" + _NAME, re.MULTILINE)


def linked(parts: list[bytes]) -> bytes:
    """Join texts of several translation units as nvlink joins machine code.

    File numbers are shifted so that each part keeps its own.
    """
    out = [parts[0]]
    for place, part in enumerate(parts[1:], 1):
        by = 10_000 * place

        def moved(match: re.Match[bytes], by: int = by) -> bytes:
            head, number = (match[1], match[2]) if match[1] else (match[3], match[4])
            return head + str(int(number) + by).encode()

        out.append(_NUMBER.sub(moved, _HEAD.sub(b"", part)))
    text = b"\n".join(out)
    defined = {name: linkage for linkage, name in _DEFINED.findall(text)}

    def resolved(match: re.Match[bytes]) -> bytes:
        if match[1] not in defined:
            return match[0]
        # A function may be called before it is defined, if it was declared.
        return match[0].replace(b".extern", defined[match[1]], 1) if b".func" in match[0] else b""

    return _EXTERN.sub(resolved, text)


def _unpacked_lz4(data: bytes, size: int) -> bytes:
    """Unpack a block of LZ4, as in fat binaries; ValueError, IndexError if it is damaged."""
    out = bytearray()
    at = 0
    while at < len(data) and len(out) < size:
        token, at = data[at], at + 1
        length, at = _length(data, at, token >> 4)
        out += data[at : at + length]
        at += length
        if at >= len(data) or len(out) >= size:
            break
        back = data[at] | data[at + 1] << 8
        length, at = _length(data, at + 2, token & 15)
        start = len(out) - back
        if not 0 <= start < len(out):
            raise ValueError("a copy from before the beginning")
        again = out[start : start + length + 4]
        while len(again) < length + 4:  # it overlaps its own output
            again += again[: length + 4 - len(again)]
        out += again
    if len(out) != size:
        raise ValueError("cut short")
    return bytes(out)


def _length(data: bytes, at: int, nibble: int) -> tuple[int, int]:
    while nibble >= 15:
        nibble += data[at]
        at += 1
        if data[at - 1] != 255:
            break
    return nibble, at
