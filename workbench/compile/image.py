"""Machine code that is not compiled here: a lifted launch's module, as a version's build.

A version whose front matter has `image` is run as it was recorded. Its text is the source, as far
as it was found, reduced to the device code: a comment ``// from softmax.cu:17`` names the place of
the lines after it in the file that the line table names. So counters are shown at the version's own
lines, and a version made from that text is compared with it line by line.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterable, Iterator
from hashlib import sha256

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from msgspec.structs import replace

from ptxemu import source_lines
from workbench.errors import DataError, KernelError, MissingError
from workbench.model import IMAGE, Build, KernelResources, Profile, Record, SourceFile
from workbench.project import Project
from workbench.specs import Version
from workbench.study.frontmatter import place
from workbench.study.lifted import FOLDER, LiftedLaunch, lifted_bytes, read_lifted

_AGAIN = "Lift the kernel again: `workbench new --from-launch …`."
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+")(?!/usr/|/opt/nvidia/)[^"]*[/\\]', re.MULTILINE)
_PTX_TEXT = ".nv_debug_ptx_txt"
#: Folders that are the same on every machine.
_SYSTEM = ("/usr/", "/opt/nvidia/")
#: In ``.nv.info``: the format of attributes with data; a function's registers and stack (four bytes
#: for the function, four for the value); a kernel's parameter bytes.
_WITH_BYTES, _REGISTERS, _FRAME, _PARAMETERS = 4, 0x2F, 0x11, 0x19


class Image(Record, frozen=True):
    """A module: its machine code, and its build."""

    cubin: bytes
    build: Build


def architecture(lifted: LiftedLaunch) -> str:
    """Return the architecture of its image, as compilers name it: ``sm_90``."""
    return f"sm_{lifted.capability.removeprefix('sm_').replace('.', '')}"


def load_image(project: Project, version: Version) -> Image:
    """The machine code that a version names, from ``captured/``.

    Raises:
        MissingError: the folder does not exist.
        DataError: it is damaged, or holds an image that is not the version's.
        KernelError: the image has no kernel with a launch's name.
    """
    folder = project.kernels / version.study / FOLDER
    lifted = read_lifted(folder)
    image = lifted.image or ""
    cubin = lifted_bytes(folder, image) if image else b""
    if sha256(cubin).hexdigest() != version.image:
        raise DataError(
            f"{place(version, 'image')}: the machine code in {folder / image} is different",
            f"Restore the folder {FOLDER}/ that belongs to this version. {_AGAIN}",
        )
    text = lifted_bytes(folder, lifted.ptx).decode("utf-8", "replace") if lifted.ptx else ""
    try:
        elf = ELFFile(io.BytesIO(cubin))
        text = text or _ptx_inside(elf, _named(cubin))
        resources = tuple(_resources(elf, {each.kernel for each in version.launches}))
    except (ELFError, struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{folder / image} is not machine code: {error}", _AGAIN) from error
    known = {each.name for each in resources}
    for index, launch in enumerate(version.launches):
        if launch.kernel not in known:
            raise KernelError(
                f"{place(version, f'launch[{index}].kernel')}: the image has no kernel "
                f"`{launch.kernel}`",
                "Write its mangled name, as `workbench new --from-launch …` did.",
            )
    build = Build(
        compiler=IMAGE, arch=architecture(lifted), resources=resources, ptx=_FILE.sub(r"\1", text)
    )
    return Image(_without_folders(cubin), build)


def _without_folders(cubin: bytes) -> bytes:
    """The code with a machine's folders replaced in file names, padded to their length by ``/``."""
    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(".debug_line")
    if section is None:
        return cubin
    begin, table = section["sh_offset"], section.data()
    end = begin + len(table)
    for path in _named(cubin):
        folder, _, name = (part.encode() for part in path.rpartition("/"))
        if folder and not path.startswith(_SYSTEM):
            bare = b"." + b"/" * (len(folder) - 1)
            for behind in (b"\0", b"/" + name + b"\0"):
                table = table.replace(folder + behind, bare + behind)
    return cubin[:begin] + table + cubin[end:]


def _named(cubin: bytes) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for rows in source_lines(cubin).values() for path, _ in rows))


def fits(image: str, chip: str) -> bool:
    """Test whether machine code for one architecture runs on another chip: ``sm_80`` on sm_86."""
    (one, other) = (re.match(r"sm_(\d+)(\d)([af]?)", each) for each in (image, chip))
    if one is None or other is None:
        return False
    same = one[1] == other[1] and int(other[2]) >= int(one[2])
    return one[0] == other[0] or (same and (not one[3] or one[2] == other[2]))


def check_fits(version: Version, image: str, chip: str) -> None:
    """Refuse a chip that cannot run the image; MissingError: it was made for another chip."""
    if not fits(image, chip):
        raise MissingError(
            f"{version.id} is machine code for {image}, which an {chip} does not run",
            "Run it on the chip on which it was lifted; a version of its source "
            f"(`workbench new`) is compiled for {chip}.",
        )


def _attributes(elf: ELFFile, section: str) -> Iterator[tuple[int, bytes]]:
    info = elf.get_section_by_name(section)
    data, at = (info.data() if info is not None else b""), 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _WITH_BYTES:
            yield attribute, data[at : at + size]
            at += size
        else:
            yield attribute, data[at - 2 : at]


def kernel_facts(image: bytes, symbol: str) -> tuple[int | None, int]:
    """Read a kernel's registers per thread (None: unknown) and parameter bytes from its cubin.

    Raises ValueError: it is not a cubin.
    """
    registers, size = None, 0
    try:
        elf = ELFFile(io.BytesIO(image))
        numbers = {
            number
            for section in elf.iter_sections()
            if isinstance(section, SymbolTableSection)
            for number, each in enumerate(section.iter_symbols())
            if each.name == symbol
        }
        for attribute, data in _attributes(elf, ".nv.info"):
            if attribute == _REGISTERS and len(data) == 8:
                number, count = struct.unpack("<II", data)
                registers = count if number in numbers else registers
        for attribute, data in _attributes(elf, f".nv.info.{symbol}"):
            if attribute == _PARAMETERS and len(data) == 2:
                size = int.from_bytes(data, "little")
    except (ELFError, struct.error) as error:
        raise ValueError(f"no cubin: {error}") from error
    return registers, size


def _resources(elf: ELFFile, kernels: Iterable[str]) -> Iterable[KernelResources]:
    """Resources of kernels, from the image; it does not state spills, so they stay 0."""
    symbols = elf.get_section_by_name(".symtab")
    found: dict[tuple[int, str], int] = {}
    for attribute, data in _attributes(elf, ".nv.info"):
        if len(data) == 8 and isinstance(symbols, SymbolTableSection):
            of, value = struct.unpack("<II", data)
            found[attribute, symbols.get_symbol(of).name] = value
    for kernel in sorted(kernels):
        text = elf.get_section_by_name(f".text.{kernel}")
        if text is None:
            continue
        constant = (
            each["sh_size"]
            for each in elf.iter_sections()
            if re.fullmatch(rf"\.nv\.constant\d+\.{re.escape(kernel)}", each.name)
        )
        yield KernelResources(
            name=kernel,
            registers=found.get((_REGISTERS, kernel), text["sh_info"] >> 24),
            static_shared=_shared(elf, kernel),
            constant=sum(constant),
            stack=found.get((_FRAME, kernel), 0),
        )


def _shared(elf: ELFFile, kernel: str) -> int:
    """Bytes of a kernel's own shared memory, without the part that the system reserves."""
    section = elf.get_section_by_name(f".nv.shared.{kernel}")
    if section is None:
        return 0
    size = int(section["sh_size"])
    reserved = elf.get_section_by_name(".nv.shared.reserved.0")
    kept = 1024 if reserved is not None and size >= 1024 else 0
    return size - kept


def code_digests(cubin: bytes) -> dict[str, str]:
    """Function of a cubin -> the SHA-256 of its machine code; empty if it cannot be read."""
    try:
        return {
            section.name.removeprefix(".text."): sha256(section.data()).hexdigest()
            for section in ELFFile(io.BytesIO(cubin)).iter_sections()
            if section.name.startswith(".text.")
        }
    except (ELFError, struct.error):
        return {}


def has_ptx(cubin: bytes) -> bool:
    """Test whether machine code contains the PTX from which it was made."""
    try:
        return ELFFile(io.BytesIO(cubin)).get_section_by_name(_PTX_TEXT) is not None
    except ELFError:
        return False


def _ptx_inside(elf: ELFFile, files: Iterable[str]) -> str:
    """Return the PTX that ``-lineinfo`` leaves in machine code, line for line, if any.

    It has lost its ``.file`` directives; the machine code gives each instruction's line.
    """
    section = elf.get_section_by_name(_PTX_TEXT)
    if section is None:
        return ""
    named = [f'.file\t{number} "{path}"' for number, path in enumerate(files, 1)]
    text = section.data().replace(b"\0", b"\n").decode("utf-8").rstrip("\n")
    return "\n".join([text, *named, ""])


def ptx_inside(cubin: bytes) -> bytes:
    """The PTX that machine code contains; empty if there is none."""
    try:
        return _ptx_inside(ELFFile(io.BytesIO(cubin)), _named(cubin)).encode()
    except (ELFError, struct.error, ValueError, IndexError):
        return b""


def resources_of(cubin: bytes, kernels: Iterable[str]) -> tuple[KernelResources, ...]:
    """Return ptxas's resources for kernels; empty if this is not machine code."""
    try:
        return tuple(_resources(ELFFile(io.BytesIO(cubin)), kernels)) if cubin else ()
    except (ELFError, struct.error, ValueError, IndexError):
        return ()


def with_text(profile: Profile, version: Version) -> Profile:
    """An image's profile, with the version's text among its sources (`callers.placed`)."""
    if not version.image or any(each.path == version.path for each in profile.sources):
        return profile
    text = SourceFile(
        path=version.path, text=version.text, sha256=sha256(version.text.encode()).hexdigest()
    )
    return replace(profile, sources=(*profile.sources, text))
