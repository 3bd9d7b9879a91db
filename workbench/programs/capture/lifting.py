"""One launch of a program's kernel, kept with its memory: the program runs once more for it.

The library that the driver loads (`data/lifter.c`) copies memory to files in a fresh folder; its
notes on them become a `LiftedLaunch` (`study/lifted`). It copies each allocation that the launch
has an address in, from the lowest such address to the allocation's end. Addresses are found by
value: in the arguments, in symbols of the module, and in the first MiB of memory that may hold some
(all except the targets of arguments with a type like ``float*``).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from pathlib import Path

from workbench.compile.image import kernel_facts
from workbench.disk.limits import CAPTURE, MIB, open_regular, read_regular
from workbench.disk.writing import clear_folder
from workbench.engines import Say
from workbench.engines.host.process import Input
from workbench.errors import DataError, KernelError, MissingError, UsageError, did_you_mean
from workbench.model import Config, Record
from workbench.programs.capture.ranks import work_waits
from workbench.programs.capture.records import Shape, Survey, Work
from workbench.programs.capture.survey import Invocation, failed, run_program
from workbench.programs.capture.tracer import INJECTION, lifter
from workbench.programs.fatbin import packed_ptx
from workbench.study.lifted import (
    FOLDER,
    LiftedArgument,
    LiftedBuffer,
    LiftedLaunch,
    LiftedPointer,
    RecordedLaunch,
    write_lifted,
)
from workbench.study.mangling import demangled, in_parentheses
from workbench.study.parameters import KernelParameter
from workbench.units import listed, several

#: Bytes of memory that are kept for a launch by default.
LIMIT = 2 << 30
_RAW = "raw"
_PIECE = 4 * MIB


class Wanted(Record, frozen=True):
    """The launch to keep: the `number`-th of a kernel, from 1, or the first of a shape."""

    work: Work
    shape: Shape | None = None
    number: int = 1
    limit: int = LIMIT


def choose(survey: Survey, kernel: str, number: int | None, limit: int = LIMIT) -> Wanted:
    """The launch that a user means.

    Args:
        survey: Of a capture of the program.
        kernel: A kernel's name, or a regular expression for it; of several, the one that takes the
            most time.
        number: Which of its launches, from 1; None: the first of those that take the most time.
        limit: Bytes of memory that may be kept.

    Raises UsageError: no such kernel, or fewer launches than `number`.
    """
    kernels = [work for work in survey.works if work.kind == "kernel"]
    own = [work for work in kernels if kernel in (work.name, work.symbol)]
    hint = did_you_mean(kernel, [work.name for work in kernels], "kernels")
    if not own:
        try:
            pattern = re.compile(kernel)
        except re.error as error:
            raise UsageError(
                f"{kernel!r} is neither a kernel's name nor a regular expression: {error}", hint
            ) from error
        own = [work for work in kernels if pattern.search(work.name)]
        own = own or [work for work in kernels if pattern.search(work.signature)]
    if not own:
        raise UsageError(f"the capture has no kernel called {kernel!r}", hint)
    work = max(own, key=lambda each: sum(each.total_ns))
    if whom := work_waits(work):
        raise UsageError(
            f"{work.name} is not lifted: it waits for {whom} while it runs",
            "Nothing was run. Alone it would never end; lift a kernel that computes.",
        )
    if number is None:
        shape = max(work.shapes, key=lambda each: each.total_ns, default=None)
        return Wanted(work=work, shape=shape, limit=limit)
    if number > work.launches[-1]:
        raise UsageError(
            f"{work.name} was launched {several(work.launches[-1], 'time')}, not {number}",
            "Count its launches from 1: `KERNEL#1`.",
        )
    return Wanted(work=work, number=number, limit=limit)


def lift(invocation: Invocation, given: Input, wanted: Wanted, place: Path, say: Say) -> None:
    """Run the program once more, and keep the launch below `place`, a fresh folder.

    Raises:
        UsageError: it holds more than the limit, or there is no such launch.
        KernelError: a launch of this kind cannot be kept; the message has the reason.
        ProgramError: the program failed by itself.
        MissingError: no CUPTI or compiler; no space.
        KeyboardInterrupt: Ctrl-C.
    """
    name = wanted.work.name
    which = f"launch {wanted.number}" if wanted.shape is None else "its heaviest launch"
    say(f"the program runs once more; {which} of {name} is kept, up to {_told(wanted.limit)}")
    raw = place / _RAW
    clear_folder(place, _RAW)
    library = lifter()
    ended = run_program(
        invocation.command, invocation, given, {INJECTION: str(library), **_asked(wanted, raw)}
    )
    if (raw / "refused").is_file():
        why = read_regular(raw / "refused", CAPTURE).decode("utf-8", "replace")
        raise _refused(name, why)
    if ended.code:
        raise failed(ended)
    if not (raw / "report").is_file():
        raise _unseen(wanted, raw)
    recorded = described(raw, wanted)
    buffers = recorded.launch.buffers
    size = _told(sum(buffer.size for buffer in buffers))
    say(f"keeping {several(len(buffers), 'buffer')}, {size}, before and after")
    write_lifted(place / FOLDER, recorded)
    clear_folder(place.parent, place.name, keep=FOLDER)


def _told(size: int) -> str:
    return f"{size / (1 << 30):.2g} GiB" if size >= 1 << 30 else f"{size / MIB:.3g} MiB"


def _asked(wanted: Wanted, raw: Path) -> dict[str, str]:
    """The library's environment variables."""
    shape = wanted.shape
    numbers = (*shape.grid, *shape.block, shape.dynamic_shared) if shape is not None else ()
    plain = plain_parameters(wanted.work.signature or demangled(wanted.work.symbol))
    return {
        "WORKBENCH_LIFT": str(raw.resolve()),
        "WORKBENCH_LIFT_KERNEL": wanted.work.symbol,
        "WORKBENCH_LIFT_SHAPE": " ".join(map(str, numbers)),
        "WORKBENCH_LIFT_NUMBER": str(wanted.number - 1),
        "WORKBENCH_LIFT_LIMIT": str(wanted.limit),
        "WORKBENCH_LIFT_PLAIN": " ".join(map(str, plain)),
    }


def _refused(name: str, why: str) -> UsageError | KernelError:
    if "more than the" in why and "that are kept" in why:
        return UsageError(
            f"{name} is not lifted: {why}",
            "Nothing was copied. Allow more (`--limit GiB`), or give the program less to do.",
        )
    return KernelError(
        f"{name} is not lifted: {why}", "Nothing was kept. Another launch: `KERNEL#N`."
    )


def _unseen(wanted: Wanted, raw: Path) -> UsageError | MissingError:
    seen = [read_regular(path, CAPTURE).split() for path in sorted(raw.glob("*.seen"))]
    if not seen:
        return MissingError(
            "the program never initialized CUDA under the tracer, or was stopped before its end",
            "Run it as it was captured.",
        )
    most = max(int(words[0]) for words in seen if words)
    return UsageError(
        f"{wanted.work.name} was launched {several(most, 'time')} in this run, never as requested",
        "Run the program as it was captured, or capture it again; `KERNEL#N` names a launch.",
    )


# --- reading the library's output --------------------------------------------------------------


#: The library's output: word -> the rest of each line that begins with it.
_Facts = Mapping[str, Sequence[str]]


def described(raw: Path, wanted: Wanted) -> RecordedLaunch:
    """The record of the library's output in its folder `raw`, and the file of each content.

    Raises:
        KernelError: the image that was found is not the kernel's.
        DataError: the folder does not hold the library's output.
    """
    text = read_regular(raw / "report", CAPTURE).decode("utf-8", "replace")
    facts: defaultdict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        facts[word].append(rest)
    try:
        return _record(raw, wanted, facts)
    except (ValueError, IndexError, KeyError, FileNotFoundError) as error:
        raise DataError(
            f"the record of the launch cannot be read ({error!r})", "Report this."
        ) from error


def _record(raw: Path, wanted: Wanted, facts: _Facts) -> RecordedLaunch:
    if not facts["end"]:
        raise ValueError("it does not end")
    arguments = tuple(
        LiftedArgument(index=place, offset=int(at), size=int(size), data=bytes.fromhex(data))
        for place, (at, size, data) in enumerate(each.split(" ") for each in facts["argument"])
    )
    pointing = [each.split(" ") for each in facts["pointer"]]
    lying = [each.split(" ") for each in facts["buffer"]]
    names = _names(lying, pointing)
    files: dict[str, Iterator[bytes]] = {}
    buffers = tuple(
        _buffer(raw, place, names[place], words, files) for place, words in enumerate(lying)
    )
    image = _image(raw, wanted.work.symbol, facts["images"][0], arguments)
    files["module.cubin.zst"] = iter([image])
    ptx = find_ptx(raw, wanted.work.symbol, image)
    if ptx:
        files["module.ptx.zst"] = iter([ptx])
    shape = [int(word) for word in facts["shape"][0].split(" ")]
    cluster = [int(word) for each in facts["cluster"] for word in each.split(" ")]
    capability, _, device = facts["device"][0].partition(" ")
    grid, block = (shape[0], shape[1], shape[2]), (shape[3], shape[4], shape[5])
    launch = LiftedLaunch(
        kernel=wanted.work.symbol,
        demangled=wanted.work.signature or demangled(wanted.work.symbol),
        grid=grid,
        block=block,
        dynamic_shared=shape[6],
        cluster=(cluster[0], cluster[1], cluster[2]) if cluster else None,
        cooperative=bool(facts["cooperative"]),
        arguments=arguments,
        pointers=tuple(_pointer(words, names) for words in pointing),
        buffers=buffers,
        image="module.cubin.zst",
        ptx="module.ptx.zst" if ptx else None,
        capability=capability,
        device=device,
        launch=int(facts["launch"][0]),
        duration_ns=_duration(wanted.work, (grid, block, shape[6])),
        repeats_equal=bool(int(facts["repeat"][0])) if facts["repeat"] else None,
        notes=tuple(_notes(facts, names)),
    )
    return RecordedLaunch(launch, files)


def _names(buffers: Sequence[list[str]], pointing: Sequence[list[str]]) -> list[str]:
    """A name for each buffer: ``arg0`` for the first target of an argument, ``symbol1``."""
    first: dict[int, str] = {}
    for kind, index, _, target, _ in pointing:
        if kind == "argument":
            first.setdefault(int(target), f"arg{index}")
    taken: set[str] = set()
    names = []
    for place, words in enumerate(buffers):
        kind = "symbol" if words[0] == "symbol" else "memory"
        name = first.get(place, f"{kind}{place}") if kind == "memory" else f"symbol{place}"
        if name in taken:  # a struct that points to several buffers
            name = f"{name}_{place}"
        taken.add(name)
        names.append(name)
    return names


def _buffer(
    raw: Path, place: int, name: str, words: list[str], files: dict[str, Iterator[bytes]]
) -> LiftedBuffer:
    kind, address, size, symbol = words[:4]
    before, after = raw / f"before-{place}", raw / f"after-{place}"
    if kind not in ("device", "managed", "host", "symbol"):
        raise ValueError(kind)
    buffer = LiftedBuffer.sealed(
        name,
        (_sealed(before), _sealed(after)),
        address=int(address),
        size=int(size),
        kind=kind,
        symbol=symbol if kind == "symbol" else None,
    )
    files.update(zip(buffer.files, map(_pieces, (before, after)), strict=False))
    return buffer


def _pointer(words: list[str], names: Sequence[str]) -> LiftedPointer:
    kind, index, offset, target, into = words
    inside = kind == "buffer"
    return LiftedPointer(
        argument=None if inside else int(index),
        buffer=names[int(index)] if inside else None,
        offset=int(offset),
        target=names[int(target)],
        target_offset=int(into),
    )


def _notes(facts: _Facts, names: Sequence[str]) -> Iterator[str]:
    yield from dict.fromkeys(facts["note"])
    large = [names[int(each.partition(" ")[0])] for each in facts["scanned"]]
    if large:
        yield f"addresses were searched for only in the first MiB of {listed(large)}"


def _duration(work: Work, config: Config) -> int | None:
    own = next((x for x in work.shapes if x.config == config and x.launches), None)
    return own.total_ns // own.launches if own is not None else None


def _pieces(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            yield piece


def _sealed(path: Path) -> str:
    seal = sha256()
    for piece in _pieces(path):
        seal.update(piece)
    return seal.hexdigest()


def plain_parameters(signature: str) -> list[int]:
    """Parameters of a demangled signature that point to data without addresses.

    ``void f<int>(float const*, S, int*)`` -> ``[0, 2]``.
    """
    types = map(KernelParameter, repeat(""), in_parentheses(signature))
    return [at for at, each in enumerate(types) if each.type.count("*") == 1 and each.element]


# --- images ------------------------------------------------------------------------------------


def _image(raw: Path, symbol: str, found: str, arguments: Sequence[LiftedArgument]) -> bytes:
    """The image that the kernel was launched from, among those with a kernel of its name.

    Raises KernelError: none of them matches its registers or the size of its parameters.
    """
    count, registers = map(int, found.split(" "))
    size = max((each.offset + each.size for each in arguments), default=0)
    images = [read_regular(raw / f"image-{place}", CAPTURE) for place in range(count)]
    fits = []
    for image in images:
        own, bytes_ = kernel_facts(image, symbol)
        if registers in (own, -1) and bytes_ == size:
            fits.append(image)
    if not fits:
        raise KernelError(
            f"{symbol} is not lifted: no image of the program has its {registers} registers and "
            f"{size} bytes of parameters",
            "Nothing was kept. If the driver compiled the kernel, report this with the driver's "
            "version.",
        )
    return fits[-1]


# --- PTX -----------------------------------------------------------------------------------------


def find_ptx(raw: Path, symbol: str, image: bytes) -> bytes:
    """The kernel's PTX: from the driver's input, a fat binary or Triton; else empty."""
    entry = re.compile(rb"\.entry\s+" + re.escape(symbol.encode()) + rb"\s*[({\n]")
    path = raw / "text.ptx"
    if path.is_file() and entry.search(text := read_regular(path, CAPTURE)):
        return text
    path = raw / "packed.ptx"
    if path.is_file():
        for text in packed_ptx(read_regular(path, CAPTURE)):
            if entry.search(text):
                return text.rstrip(b"\0")
    for home in _triton_homes():
        for cubin in sorted(home.glob(f"*/{symbol if symbol.isidentifier() else '?'}.cubin")):
            twin = cubin.with_suffix(".ptx")
            if not twin.is_file() or cubin.stat().st_size != len(image):
                continue
            if read_regular(cubin, CAPTURE) == image:
                return read_regular(twin, CAPTURE)
    return b""


def _triton_homes() -> Iterator[Path]:
    """Folders in which Triton keeps its compiled kernels."""
    if os.environ.get("TRITON_CACHE_DIR"):
        yield Path(os.environ["TRITON_CACHE_DIR"])
    yield Path.home() / ".triton" / "cache"
