"""Make a study from a lifted launch: its inputs and outputs, its kernel as v0, its source for v1.

The docstring of the written ``study.py`` separates recorded facts from guesses (names, element
types, a tolerance); the user can correct both there.
"""

from __future__ import annotations

import math
import posixpath
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from ptxemu import source_lines
from workbench.callers import foreign, marker
from workbench.compile.image import has_ptx
from workbench.errors import KernelError, UsageError
from workbench.language import _
from workbench.programs.studies.headers import NO_HEADERS, SYSTEM, OwnHeaders, own_headers
from workbench.programs.studies.recordings import (
    BufferUse,
    ProblemSizes,
    Recording,
    front_matter,
    itemsize,
    plain_name,
    study_text,
    told_guesses,
)
from workbench.study.lifted import (
    FOLDER,
    POINTER,
    LiftedBuffer,
    LiftedLaunch,
    lifted_bytes,
    read_lifted,
)
from workbench.study.mangling import own_name
from workbench.study.parameters import KernelParameter, free_name, parameters_of
from workbench.study.scaffold import pair
from workbench.study.sources import read_source

#: Type -> the error that a different order of summation may cause: assumed, not measured.
_TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
_TENSOR_MAP = 128
_LOOKED_AT = 1 << 16  # bytes of a buffer of unknown type


@dataclass
class _SourceText:
    """The kernel's source, if it was found: its text for v0, and a note on it."""

    text: str = ""
    python: bool = False
    told: str = ""
    headers: OwnHeaders = NO_HEADERS


def lifted_study(folder: Path, name: str) -> dict[str, str]:
    """The files of a study whose launch is kept in ``captured`` of its folder.

    Raises:
        MissingError, DataError: the lifted files are missing or damaged.
        KernelError: no study can repeat the launch; the message names the reason.
    """
    held = folder / FOLDER
    lifted = read_lifted(held)
    check_repeatable(lifted)
    cubin = lifted_bytes(held, lifted.image) if lifted.image else b""
    source = find_source(lifted, cubin)
    base = own_name(plain_name(lifted))
    parameters = parameters_of(base, lifted.demangled, source.text, len(lifted.arguments))
    uses, notes = buffer_uses(partial(lifted_bytes, held), lifted, parameters)
    notes.append(source.told)
    if lifted.ptx is None and not has_ptx(cubin):
        notes.append("No PTX for it was found, so v0 runs on a GPU and not in the emulator.")
    if source.headers.folders:
        flags = ", ".join(f'"-Ikernels/{name}/{each}"' for each in source.headers.folders)
        notes.append(f"A version of the source needs flags = [{flags}].")
    title = _("{kernel} as it was lifted").format(kernel=plain_name(lifted))
    head = pair("title", title) + pair("image", sha256(cubin).hexdigest())
    front = front_matter(head, [lifted], uses, parameters, ProblemSizes())
    if source.python:
        said = _("{kernel}, as a program launched it.").format(kernel=plain_name(lifted))
        text = f'r"""{said}\n\n---\n{front}---\n"""\n{source.text}'
    else:
        text = f"/* ---\n{front}--- */\n{source.text}"
    return {
        "study.py": _lifted_text(lifted, uses, notes),
        f"v0_lifted{'.py' if source.python else '.cu'}": text,
        **source.headers.files,
    }


def check_repeatable(lifted: LiftedLaunch) -> None:
    """Refuse a launch that cannot be repeated from the kept data.

    Raises KernelError: a tensor map, or a pointer to a variable of the code or into itself.
    """
    symbols = {each.name for each in lifted.buffers if each.kind == "symbol"}
    for argument in lifted.arguments:
        inside = [each for each in lifted.pointers if each.argument == argument.index]
        if argument.size == _TENSOR_MAP and [each.offset for each in inside] == [0]:
            raise KernelError(
                f"argument {argument.index + 1} of {plain_name(lifted)} looks like a tensor map, "
                "whose address only the driver can write",
                "Write the study by hand, with a [[tensor_map]]: `workbench new NAME`.",
            )
    for pointer in lifted.pointers:
        if pointer.target in symbols:
            raise KernelError(
                f"a pointer of {plain_name(lifted)} points to the variable {pointer.target} of its "
                "code",
                "Only the program knows that address; write the study by hand.",
            )


# --- the source ------------------------------------------------------------------------------


def find_source(lifted: LiftedLaunch, cubin: bytes) -> _SourceText:
    """The kernel's source, as named in its image's line table, and its own headers."""
    try:
        rows = source_lines(cubin).get(lifted.kernel, [])
    except ValueError:
        rows = []
    named = tuple(dict.fromkeys(path for path, _ in rows if path))
    if not named:
        return _SourceText(
            told="The image has no line table (the program was built without -lineinfo), so its "
            "source is unknown and v0 has only machine code."
        )
    base = own_name(plain_name(lifted))
    word = re.compile(rf"\b{re.escape(base)}\b")
    for path in named:
        if not Path(path).is_file():
            continue
        try:
            text = read_source(Path(path))
        except UsageError:
            continue
        if word.search(text):
            python, shown = path.endswith(".py"), posixpath.basename(path)
            body = f"{marker(shown, 1, python=python)}\n{text}"
            if not python and (made := instantiation(lifted)):
                body += f"\n{made}\n"
            said = f"The source is {shown}, as it was when this was lifted."
            headers = NO_HEADERS if python else own_headers(Path(path), text)
            return _SourceText(body, python, said, headers)
    own = [path for path in named if not _toolkit(path)] or list(named)
    told = ", ".join(own[:3])
    return _SourceText(
        told=f"The line table names {told}, which is not here: v0 has only machine code."
    )


def _toolkit(path: str) -> bool:
    return path.startswith(SYSTEM) or (foreign(path) and not posixpath.isabs(path))


def instantiation(lifted: LiftedLaunch) -> str:
    """The explicit instantiation of the launched template instance; "" for other kernels."""
    head = lifted.demangled.replace("(anonymous namespace)::", "")
    if not head.startswith("void ") or ">(" not in head or not lifted.kernel.startswith("_Z"):
        return ""
    return f"template __global__ {head};"


# --- the buffers -----------------------------------------------------------------------------


def buffer_uses(
    content: Callable[[str], bytes],
    lifted: LiftedLaunch,
    parameters: Sequence[KernelParameter],
    stored: float = math.inf,
) -> tuple[list[BufferUse], list[str]]:
    """The use of each buffer, and notes on it.

    `content` reads a file of the record; `stored` is the most bytes that the launch stored.
    Raises KernelError: a buffer cannot be restored; or there is no right answer: the launch changed
    no byte of a buffer, and may have rewritten the same bytes only in a part of one, or in none.
    """
    notes: list[str] = []
    taken: set[str] = set()
    holding = {each.buffer for each in lifted.pointers if each.buffer is not None}
    aimed = {each.target for each in lifted.pointers if each.buffer is not None}
    leading: dict[str, list[tuple[int, KernelParameter]]] = {}
    for pointer in lifted.pointers:
        if pointer.argument is not None:
            of = parameters[pointer.argument]
            whole = lifted.arguments[pointer.argument].size == POINTER
            leading.setdefault(pointer.target, []).append(
                (pointer.target_offset, of if whole else KernelParameter())
            )
    changed = [each for each in lifted.buffers if each.after is not None]
    known = changed or [each for each in lifted.buffers if each.filled is False]
    guessed = [] if known else _rewritten(lifted, leading, stored)
    uses = []
    for buffer in lifted.buffers:
        by = sorted(leading.get(buffer.name, ()), key=lambda each: each[0])
        name = next((of.name for offset, of in by if offset == 0 and of.name), "") or buffer.name
        use = BufferUse(buffer, free_name(name, taken))
        if buffer.kind == "symbol":
            use.role = "symbol"
            if buffer.after is not None:
                notes.append(
                    f"The variable {buffer.symbol} is changed: this is not compared, but the "
                    "program's later launches see it. Each run of the study restores the old value."
                )
        elif buffer.after is not None:
            use.role, use.restored = "output", buffer.filled is not False
        elif buffer.filled is False:
            # All of it was written, though it held zeros before. A version must write it as well.
            use.role, use.restored = "output", False
        elif buffer.name in guessed:
            use.role, use.restored = "output", False
            notes.append(
                f"{use.name}: the launch did not change it, because the program had computed the "
                "same before. It starts without a value, assuming that all of it is written."
            )
        if use.role == "output" and buffer.name in holding:
            if buffer.name in aimed:
                raise KernelError(
                    f"{buffer.name} of {plain_name(lifted)} is changed, holds pointers, and others "
                    "point to it",
                    "A study cannot restore such a buffer; write the study by hand.",
                )
            use.role = "scratch"
            notes.append(f"{use.name} holds pointers and is changed: it is restored, not compared.")
        if buffer.kind != "symbol":
            use.dtype = _element(buffer, by, content(buffer.after or buffer.before))
        uses.append(use)
    if not any(use.role == "output" for use in uses):
        only = ", ".join(each.name for each in changed)
        raise KernelError(
            f"no right answer was recorded: the launch changed only what is not compared ({only})"
            if only
            else "no right answer was recorded: the launch wrote nothing to memory"
            if not stored
            else "no right answer was recorded: the launch did not change memory, so a version "
            "that writes nothing would pass",
            "Lift its first launch, or one with different data: `KERNEL#N`.",
        )
    return uses, notes


def _rewritten(
    lifted: LiftedLaunch,
    leading: Mapping[str, Sequence[tuple[int, KernelParameter]]],
    stored: float,
) -> list[str]:
    """The buffers that were probably rewritten in full with the same content."""
    pool = 2 << 20  # PyTorch's allocator allocates pieces of this size for many arrays
    found = [
        each
        for each in lifted.buffers
        if (by := leading.get(each.name)) and all(of.writable and not at for at, of in by)
    ]
    if stored < math.inf:
        return [each.name for each in found if sum(one.size for one in found) <= stored]
    return [each.name for each in found if each.size % pool]


def _element(
    buffer: LiftedBuffer, by: Sequence[tuple[int, KernelParameter]], content: bytes
) -> str:
    """The type of a buffer's elements: from pointers to it if they agree, else from its content."""
    known = {of.element for _, of in by if of.element}
    dtype = known.pop() if len(known) == 1 else "uint8" if known else _floats(content)
    return dtype if buffer.size % itemsize(dtype) == 0 else "uint8"


def _floats(content: bytes) -> str:
    """The floating type for which the first values of a buffer are plausible; else bytes.

    Both halves of two float16 have similar magnitudes; the lower halves of float32 have any.
    """
    head = content[:_LOOKED_AT]
    if len(content) % 4 or not any(head):
        return "uint8"
    halves = [abs(value) for (value,) in struct.iter_unpack("<e", head)]
    if any(halves[::2]) and _share(halves, 2**-20, 2**15) > 0.999:
        middle = sorted(halves[1::2])[len(halves) // 4]
        if _share(halves[::2], middle / 64, middle * 64) > 0.9:
            # A bfloat16's exponent fills more than a float16's: read as one, values are around 1.
            return "bfloat16" if _share(halves, 0.25, 4.0) > 0.9 else "float16"
    words = [abs(value) for (value,) in struct.iter_unpack("<f", head)]
    return "float32" if _share(words, 1e-20, 1e20) > 0.99 else "uint8"


def _share(values: Sequence[float], low: float, high: float) -> float:
    return sum(1 for value in values if value == 0 or low < value < high) / len(values)


# --- the written files -------------------------------------------------------------------------


def _lifted_text(lifted: LiftedLaunch, uses: Sequence[BufferUse], notes: Sequence[str]) -> str:
    """``study.py`` of a lifted launch: recorded facts, and guesses for the user to correct."""
    duration = _("not timed")
    if lifted.duration_ns:
        took = f"{lifted.duration_ns / 1e3:.2f} µs"
        duration = _("{time} in its program").format(time=took)
    recorded = _(
        "Recorded: launch {number} of the kernel, grid {grid}, block {block}, {duration}; its "
        "arguments, its buffers before and after, its machine code. The data are in captured/, "
        "which Git ignores."
    )
    head = _("{kernel}, as a program launched it on {device}.")
    title = _("{kernel}, lifted from a program").format(kernel=plain_name(lifted))
    said = [
        head.format(kernel=plain_name(lifted), device=lifted.device),
        recorded.format(
            number=lifted.launch, grid=lifted.grid, block=lifted.block, duration=duration
        ),
        *told_guesses(uses, (*lifted.notes, *notes)),
    ]
    return study_text(title, said, [Recording(lifted)], uses, tolerance_of(lifted, uses))


def tolerance_of(lifted: LiftedLaunch, uses: Sequence[BufferUse]) -> tuple[float, str]:
    """The tolerance of the outputs, and the reason for it."""
    said = {
        True: _("Run twice on the same data, the launch wrote the same bytes"),
        False: _("Run twice on the same data, the launch wrote different bytes"),
        None: _("The launch was not run a second time"),
    }[lifted.repeats_equal]
    floats = [use.dtype for use in uses if use.role == "output" and use.dtype in _TOLERANCES]
    if not floats:
        return 0, _("{said}; the outputs are integers or bytes.").format(said=said)
    widest = max(floats, key=lambda each: _TOLERANCES[each])
    why = _(
        "{said}. A different order of sums rounds differently: {bound} is a stated bound for "
        "{kind}, not a measured one."
    )
    bound = _TOLERANCES[widest]
    return bound, why.format(said=said, bound=bound, kind=widest)
