"""One recorded launch of a user's program: ``kernels/<study>/captured/``.

The folder holds ``launch.json.zst``, which is a `LiftedLaunch`, and the files that it names: each
buffer before the launch (and after it, if the launch changed it), the module's image, its PTX. All
are zstd frames; a buffer's SHA-256 is in the record. Reading the folder runs nothing in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import zstandard

from workbench.disk.limits import CAPTURE, LIFTED, RATIO, inflate, open_regular, read_regular
from workbench.disk.writing import replace_file, replacing
from workbench.errors import DataError, MissingError
from workbench.model import Dim3, Record

#: The folder of a study that holds it, and the record in that folder.
FOLDER, RECORD = "captured", "launch.json.zst"
SCHEMA = 1
_FORMAT = "workbench-lifted"
_LEVEL = 3  # the data is mostly random; a gigabyte takes several seconds
_PIECE = 1 << 22
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Limits of every launch: parameters of a kernel are at most 32,764 bytes, a grid 2^31-1 blocks.
_MOST_ARGUMENTS, _MOST_DIMENSION = 32_764, 2**31 - 1
#: A pointer's bytes.
POINTER = 8


class LiftedBuffer(Record, frozen=True):
    """Memory that the launch could reach: a part of an allocation, or a symbol of its module.

    `size` is in bytes, from `address` on. `before` and `after` name files in the folder; `after` is
    None if the launch did not change it; then both hashes are equal. `filled`: whether it was
    written before the launch; None: unknown.
    """

    name: str
    address: int
    size: int
    kind: Literal["device", "managed", "host", "symbol"]
    before: str
    sha256_before: str
    sha256_after: str
    after: str | None = None
    symbol: str | None = None
    filled: bool | None = None

    @classmethod
    def sealed(cls, name: str, seals: tuple[str, str], **place: Any) -> LiftedBuffer:
        """A buffer from the hashes of its content before and after; its files get its name."""
        after = f"{name}.after.zst" if seals[0] != seals[1] else None
        return cls(
            name=name,
            before=f"{name}.before.zst",
            sha256_before=seals[0],
            sha256_after=seals[1],
            after=after,
            **place,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """Its files: one from before the launch, and one from after it if the content differs."""
        return (self.before,) if self.after is None else (self.before, self.after)


class LiftedArgument(Record, frozen=True):
    """A parameter of the kernel: its place in the parameters' space, in bytes, and its bytes."""

    index: int
    offset: int
    size: int
    data: bytes


class LiftedPointer(Record, frozen=True):
    """Eight bytes, at `offset` of an argument or of a buffer, that are an address in a buffer.

    They lie in `argument` (its index), else in `buffer`; the address is `target_offset` bytes
    into `target`. In a tensor map the address is the first eight bytes.
    """

    offset: int
    target: str
    target_offset: int
    argument: int | None = None
    buffer: str | None = None


class LiftedTexture(Record, frozen=True):
    """An argument that is a texture object: its texels' buffer, and the keys of ``[[texture]]``.

    `dims` are in texels, the innermost first; `pitch` is in bytes, 0 without gaps.
    """

    argument: int
    buffer: str
    dtype: str
    dims: tuple[int, ...]
    channels: int = 1
    pitch: int = 0
    layout: Literal["array", "linear"] = "array"
    address: tuple[str, ...] = ("clamp",)
    filter: Literal["point", "linear"] = "point"
    normalized: bool = False
    read: Literal["element", "float"] = "element"


class LiftedLaunch(Record, frozen=True):
    """A launch with all data that it read and wrote. Shared memory is in bytes.

    `launch` counts the launches of the kernel in its program, from 1. `duration_ns` is its time in
    the program, untouched. `repeats_equal`: whether a second run on the same data wrote the same
    bytes; None: no second run. `notes` list omitted data, and the rule for each. Without an `image`
    its source is compiled.
    """

    kernel: str
    demangled: str
    grid: Dim3
    block: Dim3
    image: str | None
    capability: str
    device: str
    launch: int
    dynamic_shared: int = 0
    cluster: Dim3 | None = None
    cooperative: bool = False
    arguments: tuple[LiftedArgument, ...] = ()
    pointers: tuple[LiftedPointer, ...] = ()
    buffers: tuple[LiftedBuffer, ...] = ()
    textures: tuple[LiftedTexture, ...] = ()
    ptx: str | None = None
    duration_ns: int | None = None
    repeats_equal: bool | None = None
    notes: tuple[str, ...] = ()

    def buffer(self, name: str) -> LiftedBuffer:
        """The buffer of that name; KeyError: unknown."""
        return {each.name: each for each in self.buffers}[name]


class RecordedLaunch(NamedTuple):
    """A launch and the content of the files that its record names, piece by piece.

    `stored`: the most bytes that its threads stored to memory that is not shared or local.
    """

    launch: LiftedLaunch
    files: Mapping[str, Iterable[bytes]]
    stored: float = math.inf

    def content(self, name: str) -> bytes:
        """The content of a file."""
        return b"".join(self.files[name])


class _Sealed(msgspec.Struct):
    format: str
    schema_version: int
    sha256: dict[str, str]
    record: msgspec.Raw


def write_lifted(folder: Path, recorded: RecordedLaunch) -> None:
    """Keep a launch, its record last. `folder` is new, and is renamed when it is complete.

    Raises:
        MissingError: no space, no permission.
        DataError: the record contradicts itself or the files.
    """
    replace_file(folder, ".gitignore", b"*\n")
    launch = recorded.launch
    kept = {name: _kept(folder, name, pieces) for name, pieces in recorded.files.items()}
    hashes = {name: seal for name, (seal, _) in kept.items()}
    fault = _contradiction(launch, hashes) or next(
        (
            f"{name} holds {kept[name][1]:,} bytes, and not {each.size:,}"
            for each in launch.buffers
            for name in each.files
            if kept[name][1] != each.size
        ),
        "",
    )
    if fault:
        raise DataError(f"cannot keep {folder}: {fault}", "This is a bug; nothing was kept.")
    sealed = _Sealed(_FORMAT, SCHEMA, hashes, msgspec.Raw(msgspec.json.encode(launch)))
    _kept(folder, RECORD, [msgspec.json.encode(sealed)])


def _kept(folder: Path, name: str, pieces: Iterable[bytes]) -> tuple[str, int]:
    """Write one file; return the hash of its content, and its size in bytes."""
    seal, size = sha256(), 0
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, threads=2)
    with replacing(folder, name) as stream, packer.stream_writer(stream, closefd=False) as packed:
        for piece in pieces:
            seal.update(piece)
            size += len(piece)
            packed.write(piece)
    return seal.hexdigest(), size


def read_lifted(folder: Path) -> LiftedLaunch:
    """The record of a stored launch. Its buffers are not read: see `lifted_bytes`.

    Raises:
        MissingError: there is no record.
        DataError: it is damaged, contradicts itself, holds too much, or is of a newer workbench.
    """
    return _read(folder)[0]


def lifted_bytes(folder: Path, name: str) -> bytes:
    """The content of one file of a launch: a buffer's bytes, the image, or the PTX.

    Raises:
        MissingError: there is no such file.
        DataError: it is damaged, or differs from the record.
    """
    launch, hashes = _read(folder)
    path = folder / name
    if name not in hashes:
        raise DataError(f"{path} is not named by {RECORD}", AGAIN)
    sizes = {file: each.size for each in launch.buffers for file in each.files}
    try:
        if name in sizes:
            data = _exactly(path, sizes[name])
        else:
            data = b"".join(inflate(read_regular(path, CAPTURE), path, CAPTURE))
    except (ValueError, FileNotFoundError) as error:
        why = "it is missing" if isinstance(error, OSError) else str(error)
        raise DataError(f"{path} is damaged: {why}", AGAIN) from error
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", "Check the path.") from error
    if sha256(data).hexdigest() != hashes[name]:
        raise DataError(f"{path} is damaged: its SHA-256 is not the one recorded", AGAIN)
    return data


#: The hint for a damaged folder.
AGAIN = "Restore the folder as it was, or lift the kernel again: `workbench new --from-launch …`."


def _exactly(path: Path, size: int) -> bytes:
    """Unpack a frame of exactly `size` bytes; never read more.

    Buffers of zeros are legitimate, so no ratio is checked: `_contradiction` limits them all.
    ValueError: another size, or not a complete frame. OSError: it cannot be read.
    """
    out = bytearray()
    try:
        with open_regular(path) as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            while piece := stream.read(min(_PIECE, size + 1 - len(out))):
                out += piece
                if len(out) > size:
                    break
    except zstandard.ZstdError as error:
        raise ValueError(f"not a whole zstd file ({error})") from error
    if len(out) != size:
        more = "more" if len(out) > size else f"{len(out):,}"
        raise ValueError(f"it holds {more} and not {size:,} bytes")
    return bytes(out)


def _read(folder: Path) -> tuple[LiftedLaunch, dict[str, str]]:
    path = folder / RECORD
    try:
        packed = read_regular(path, CAPTURE)
        sealed = msgspec.json.decode(b"".join(inflate(packed, path, CAPTURE)), type=_Sealed)
        if sealed.format != _FORMAT:
            raise ValueError(f"holds a {sealed.format!r}, not a {_FORMAT!r}")
        if sealed.schema_version > SCHEMA:
            raise DataError(
                f"{path} was written by a newer workbench (schema {sealed.schema_version})",
                "Update workbench.",
            )
        launch = msgspec.json.decode(sealed.record, type=LiftedLaunch)
        if fault := _contradiction(launch, sealed.sha256):
            raise ValueError(fault)
    except FileNotFoundError as error:
        raise MissingError(
            f"the data of the lifted launch is not here: {path}",
            "It is not kept in git. Lift it again (`workbench new --from-launch …`), or copy the "
            f"folder `{FOLDER}` from where it was lifted.",
        ) from error
    except OSError as error:
        raise MissingError(f"cannot read {path}: {error.strerror}", "Check the path.") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}", AGAIN) from error
    _check_size(folder, launch)
    return launch, sealed.sha256


def _check_size(folder: Path, launch: LiftedLaunch) -> None:
    """Refuse buffers that expand to more than users lift on purpose (DataError)."""
    total = sum(each.size * len(each.files) for each in launch.buffers)
    if total <= LIFTED.bytes:
        return
    here = [folder / name for name in {name for each in launch.buffers for name in each.files}]
    packed = sum(path.stat().st_size for path in here if path.is_file())
    if total > RATIO * packed or LIFTED.bytes != LIFTED.default:
        raise LIFTED.exceeded(folder, f"announces {total:,} bytes in {packed:,}")


def _contradiction(launch: LiftedLaunch, hashes: Mapping[str, str]) -> str:
    """The first contradiction in a record; "" if there is none."""
    sizes = {each.name: each.size for each in launch.buffers}
    if len(sizes) != len(launch.buffers):
        return "two buffers with the same name"
    named = [each for each in (launch.image, launch.ptx) if each is not None]
    for each in launch.buffers:
        if each.size < 1 or not 0 <= each.address < 2**64:
            return f"the buffer {each.name} has no place"
        if (each.kind == "symbol") != (each.symbol is not None):
            return f"the buffer {each.name} has a symbol that its kind contradicts"
        if (each.after is None) != (each.sha256_before == each.sha256_after):
            return f"the buffer {each.name} has hashes that contradict its recorded change"
        if hashes.get(each.before) != each.sha256_before:
            return f"{each.before} differs from the recording"
        if each.after is not None and hashes.get(each.after) != each.sha256_after:
            return f"{each.after} differs from the recording"
        named += each.files
    for name in named:
        if not _NAME.fullmatch(name) or name == RECORD or name not in hashes:
            return f"{name!r} is not one of its files"
    shape = (*launch.grid, *launch.block, *(launch.cluster or ()))
    if not all(1 <= n <= _MOST_DIMENSION for n in shape) or launch.dynamic_shared < 0:
        return "an impossible grid, block or cluster"
    return _misplaced(launch, sizes)


def _misplaced(launch: LiftedLaunch, sizes: Mapping[str, int]) -> str:
    """The first argument or pointer outside of its bounds; "" if there is none."""
    end = 0
    lengths: dict[int, int] = {}
    for place, each in enumerate(launch.arguments):
        if each.index != place or each.offset < end or len(each.data) != each.size:
            return f"argument {each.index} does not follow the one before it"
        end = each.offset + each.size
        lengths[place] = each.size
    if end > _MOST_ARGUMENTS:
        return f"arguments of {end:,} bytes"
    for pointer in launch.pointers:
        if (pointer.argument is None) == (pointer.buffer is None):
            return "a pointer that lies in an argument and in a buffer, or in neither"
        room = (
            lengths.get(pointer.argument, 0)
            if pointer.argument is not None
            else sizes.get(pointer.buffer or "", 0)
        )
        if not 0 <= pointer.offset <= room - POINTER:
            return "a pointer that lies outside of its buffer"
        if pointer.target not in sizes or not 0 <= pointer.target_offset <= sizes[pointer.target]:
            return f"a pointer that points outside {pointer.target}"
    for texture in launch.textures:
        if texture.argument not in lengths or texture.buffer not in sizes:
            return "a texture that belongs to no argument or no buffer"
    return ""
