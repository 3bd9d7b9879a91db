"""A lifted launch becomes a study: its inputs and outputs, its kernel as v0, its source for v1.

What was recorded is told apart from what was guessed (names, element types, a tolerance), in the
docstring of ``study.py`` that is written, where all of it can be mended.
"""

from __future__ import annotations

import json
import keyword
import posixpath
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ptxemu import source_lines
from workbench.analysis.source.device import device_lines
from workbench.callers import foreign, marker
from workbench.compile.build import build
from workbench.compile.image import architecture, has_ptx
from workbench.disk.writing import create_files
from workbench.errors import KernelError, UsageError, WorkbenchError
from workbench.language import _, told
from workbench.project import Project
from workbench.specs import Version
from workbench.study.expressions import FUNCTIONS
from workbench.study.lifted import (
    FOLDER,
    POINTER,
    LiftedArgument,
    LiftedBuffer,
    LiftedLaunch,
    lifted_bytes,
    read_lifted,
)
from workbench.study.mangling import own_name
from workbench.study.scaffold import check_study_name, filled, first_text
from workbench.study.sources import read_source, without_comments

#: The study's one problem.
PROBLEM = "captured"
#: C++ types of elements, as demanglers and sources write them -> NumPy's names.
_ELEMENTS = {
    "float": "float32", "double": "float64", "__half": "float16", "half": "float16",
    "c10::Half": "float16", "at::Half": "float16", "__nv_bfloat16": "bfloat16",
    "c10::BFloat16": "bfloat16", "at::BFloat16": "bfloat16", "nv_bfloat16": "bfloat16",
    "int": "int32", "unsigned int": "uint32", "unsigned": "uint32", "long": "int64",
    "long long": "int64", "unsigned long": "uint64", "unsigned long long": "uint64",
    "short": "int16", "unsigned short": "uint16", "signed char": "int8", "char": "int8",
    "unsigned char": "uint8", "bool": "uint8", "int32_t": "int32", "uint32_t": "uint32",
    "int64_t": "int64", "uint64_t": "uint64", "int8_t": "int8", "uint8_t": "uint8",
    "float2": "float32", "float3": "float32", "float4": "float32", "int2": "int32",
    "int4": "int32", "uint4": "uint32", "double2": "float64", "__half2": "float16",
    "half2": "float16", "__nv_bfloat162": "bfloat16",
}  # fmt: skip
#: NumPy's name of a number passed by value -> its bytes, `struct`'s letter and front matter's cast.
_NUMBERS = {
    "float32": (4, "f", "float"), "float64": (8, "d", "double"), "int32": (4, "i", "int"),
    "uint32": (4, "I", "uint"), "int64": (8, "q", "long"), "uint64": (8, "Q", "ulong"),
    "int16": (2, "h", "short"), "uint16": (2, "H", "ushort"), "int8": (1, "b", "char"),
    "uint8": (1, "B", "uchar"),
}  # fmt: skip
_WORDS = {8: "uint64", 4: "uint32", 2: "uint16", 1: "uint8"}
#: What another order of sums may cost, of results of these types: stated, not measured.
_TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
_TENSOR_MAP = 128
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict)\b|[*&]")
_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_LOOKED_AT = 1 << 16  # bytes of a buffer whose type nothing says
_MOST_FILES = 64  # of a source and its own headers


@dataclass
class _Role:
    """How a buffer takes part: as an input alone, or compared, or kept for the launch alone."""

    buffer: LiftedBuffer
    name: str
    dtype: str = "uint8"
    role: str = "input"  # "output", "scratch", "symbol"
    restored: bool = True

    @property
    def given(self) -> str:
        """The input that holds what was there before."""
        return self.name if self.role == "input" else f"{self.name}_before"


@dataclass
class KernelParameter:
    """A kernel's parameter, as the source or the mangled name says it; empty where neither does."""

    name: str = ""
    type: str = ""

    @property
    def element(self) -> str:
        """NumPy's name of what it points to, or of what it is; empty where it is not known."""
        return _ELEMENTS.get(" ".join(_QUALIFIERS.sub(" ", self.type).split()), "")

    @property
    def writable(self) -> bool:
        """Whether it is a pointer through which may be written."""
        return "*" in self.type and not re.search(r"\bconst\b[^*]*\*\s*(?:\w+\s*)?\Z", self.type)


@dataclass
class _SourceText:
    """What was found of the kernel's source: its text for v0, and what is told of it."""

    text: str = ""
    python: bool = False
    told: str = ""


def make_study(folder: Path, name: str) -> list[str]:
    """Write the study of a launch that lies in ``captured`` of its folder.

    Args:
        folder: The study's folder, which holds nothing but what was lifted.
        name: The study's name.

    Returns:
        The names of the files that were written.

    Raises:
        UsageError: the name cannot be one, or there is a study of it.
        MissingError, DataError: what was lifted is not there, or damaged.
        KernelError: a launch that no study can repeat: says which part of it.
    """
    check_study_name(name)
    held = folder / FOLDER
    lifted = read_lifted(held)
    _check_repeatable(lifted)
    cubin = lifted_bytes(held, lifted.image)
    source = find_source(lifted, cubin)
    base = own_name(_plain(lifted))
    parameters = parameters_of(base, lifted.demangled, source.text, len(lifted.arguments))
    uses, notes = _uses(held, lifted, parameters)
    notes.append(source.told)
    if lifted.ptx is None and not has_ptx(cubin):
        notes.append("No PTX of it was found, so v0 runs on a GPU and not in the emulator.")
    study = _study_text(lifted, uses, notes)
    front = _front_matter(lifted, sha256(cubin).hexdigest(), uses, parameters)
    if source.python:
        head = _("{kernel}, as a program launched it.").format(kernel=_plain(lifted))
        text = f'r"""{head}\n\n---\n{front}---\n"""\n{source.text}'
    else:
        text = f"/* ---\n{front}--- */\n{source.text}"
    version = f"v0_lifted{'.py' if source.python else '.cu'}"
    files = {"study.py": study.encode(), version: text.encode()}
    create_files(folder, files)
    return list(files)


def _check_repeatable(lifted: LiftedLaunch) -> None:
    """Refuse what cannot be launched from what was kept.

    Raises:
        KernelError: a tensor map, or a pointer to a variable of the code or into itself.
    """
    symbols = {each.name for each in lifted.buffers if each.kind == "symbol"}
    for argument in lifted.arguments:
        inside = [each for each in lifted.pointers if each.argument == argument.index]
        if argument.size == _TENSOR_MAP and [each.offset for each in inside] == [0]:
            raise KernelError(
                f"argument {argument.index + 1} of {_plain(lifted)} looks like a tensor map, whose "
                "address only the driver can write",
                "Write the study by hand, with a [[tensor_map]]: `workbench new --study NAME`.",
            )
    for pointer in lifted.pointers:
        if pointer.target in symbols:
            raise KernelError(
                f"a pointer of {_plain(lifted)} leads to the variable {pointer.target} of its code",
                "Its address is known to the program alone; write the study by hand.",
            )


def _plain(lifted: LiftedLaunch) -> str:
    """The kernel's name as a person writes it: without parameters, return type, namespaces."""
    head = re.sub(r"\(anonymous namespace\)::", "", lifted.demangled or lifted.kernel)
    head = head.partition("(")[0]
    depth, cut = 0, 0
    for at, letter in enumerate(head):
        depth += (letter == "<") - (letter == ">")
        if letter == " " and not depth:
            cut = at + 1
    return head[cut:] or lifted.kernel


# --- the source ------------------------------------------------------------------------------


def find_source(lifted: LiftedLaunch, cubin: bytes) -> _SourceText:
    """The source of the kernel that the line table of its image names, cut to what is needed."""
    try:
        rows = source_lines(cubin).get(lifted.kernel, [])
    except ValueError:
        rows = []
    named = tuple(dict.fromkeys(path for path, _ in rows if path))
    if not named:
        return _SourceText(
            told="The image has no line table (the program was built without -lineinfo), so its "
            "source is not known and v0 has machine code alone."
        )
    base = own_name(_plain(lifted))
    word = re.compile(rf"\b{re.escape(base)}\b")
    for path in named:
        if not Path(path).is_file():
            continue
        try:
            text = read_source(Path(path))
        except UsageError:
            continue
        if word.search(text):
            python = path.endswith(".py")
            shown = posixpath.basename(path)
            body = f"{marker(shown, 1, python=True)}\n{text}" if python else _cut(Path(path), text)
            if not python and (made := _instantiation(lifted)):
                body += f"\n{made}\n"
            return _SourceText(
                body, python, f"The source is {shown}, as it was when this was lifted."
            )
    own = [path for path in named if not _toolkit(path)] or list(named)
    told = ", ".join(own[:3])
    return _SourceText(
        told=f"The line table names {told}, which is not here: v0 has machine code alone."
    )


def _toolkit(path: str) -> bool:
    system = path.startswith(("/usr/", "/opt/nvidia/"))
    return system or (foreign(path) and not posixpath.isabs(path))


def _cut(path: Path, text: str) -> str:
    """A source and its own headers as one text, each piece with the line that it comes from."""
    seen = {path.resolve()}
    out: list[str] = []

    def add(path: Path, text: str) -> None:
        lines = text.split("\n")
        told = False
        for first, last in device_lines(text):
            told = False
            for number in range(first, min(last, len(lines)) + 1):
                line = lines[number - 1]
                header = _own_header(path, line)
                if header is not None or _ONCE.match(line):
                    told = False
                    if header is not None and header.resolve() not in seen:
                        seen.add(header.resolve())
                        if len(seen) <= _MOST_FILES:
                            add(header, read_source(header))
                    continue
                if not told:
                    out.append(marker(path.name, number))
                    told = True
                out.append(line)

    add(path, text)
    return "\n".join(out).rstrip("\n") + "\n"


def _own_header(path: Path, line: str) -> Path | None:
    found = _INCLUDE.match(line)
    header = path.parent / found[1] if found else None
    return header if header is not None and header.is_file() else None


def _instantiation(lifted: LiftedLaunch) -> str:
    """What makes a compiler write a template's instance that was launched; empty if it is none."""
    head = lifted.demangled.replace("(anonymous namespace)::", "")
    if not head.startswith("void ") or ">(" not in head or not lifted.kernel.startswith("_Z"):
        return ""
    return f"template __global__ {head};"


def parameters_of(
    kernel: str, demangled: str, text: str, count: int | None = None
) -> list[KernelParameter]:
    """The kernel's parameters: types by its mangled name, names by its source.

    Args:
        kernel: Its own name.
        demangled: With its types, or empty.
        text: Its source, or empty.
        count: How many there are; None: as many as either says.
    """
    mangled = _list_behind(demangled)
    plain = without_comments(text)
    found = re.search(rf"__global__\b[^;{{}}]*?\b{re.escape(kernel)}\s*\(", plain)
    written = _list_behind(plain[found.end() - 1 :]) if found else []
    if count is None:
        count = len(written or mangled)
    if len(mangled) != count:
        mangled = [""] * count
    if len(written) != count:
        written = [""] * count
    out = []
    for place in range(count):
        said = re.match(r"(.*?)(\w+)\s*(?:\[\w*\])?\Z", written[place].strip(), re.DOTALL)
        name = said[2] if said and said[1].strip() else ""
        own = said[1] if said else ""
        # A template's source says T; its instance says what that is.
        out.append(KernelParameter(name, mangled[place] or own))
    return out


def _list_behind(text: str) -> list[str]:
    """What stands between the first parenthesis that is not part of a template, by its commas."""
    depth, parts, at = 0, [""], -1
    for place, letter in enumerate(text):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth == 0 and not text.startswith("(anonymous", place):
            at = place
            break
    if at < 0:
        return []
    depth = 0
    for letter in text[at + 1 :]:
        if letter in "(<[{":
            depth += 1
        elif letter in ">]}" or (letter == ")" and depth):
            depth -= 1
        elif letter == ")":
            break
        elif letter == "," and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts] if any(part.strip() for part in parts) else []


# --- the buffers -----------------------------------------------------------------------------


def _uses(
    folder: Path, lifted: LiftedLaunch, parameters: Sequence[KernelParameter]
) -> tuple[list[_Role], list[str]]:
    """What becomes of each buffer, and what is to be told of it."""
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
    uses = []
    for buffer in lifted.buffers:
        by = sorted(leading.get(buffer.name, ()), key=lambda each: each[0])
        name = next((of.name for offset, of in by if offset == 0 and of.name), "") or buffer.name
        use = _Role(buffer, free_name(name, taken))
        if buffer.kind == "symbol":
            use.role = "symbol"
            if buffer.after is not None:
                notes.append(f"The variable {buffer.symbol} is changed; that is not compared.")
        elif buffer.after is not None:
            use.role = "output"
        elif not changed and any(of.writable for _, of in by):
            # The program had computed the same before. What nobody reads is not given again.
            use.role = "output"
            use.restored = not _whole(buffer, by)
            notes.append(
                f"{use.name}: the launch left it as it was, so the program had computed the same "
                "before; a version that writes nothing passes. Lift the first launch instead."
                if use.restored
                else f"{use.name}: the launch left it as it was, so the program had computed the "
                "same before. It begins without a value, on the guess that all is written."
            )
        if use.role == "output" and buffer.name in holding:
            if buffer.name in aimed:
                raise KernelError(
                    f"{buffer.name} of {_plain(lifted)} is changed, holds pointers, and others "
                    "lead to it",
                    "No study can give such a buffer back; write the study by hand.",
                )
            use.role = "scratch"
            notes.append(f"{use.name} holds pointers and is changed: it is restored, not compared.")
        content = lifted_bytes(folder, buffer.after or buffer.before)
        use.dtype = _element(buffer, by, content) if buffer.kind != "symbol" else "uint8"
        uses.append(use)
    if not any(use.role == "output" for use in uses):
        raise KernelError(
            f"{_plain(lifted)} changed no buffer that can be compared",
            "Lift another launch of it: --launch N.",
        )
    return uses, notes


def _whole(buffer: LiftedBuffer, by: Sequence[tuple[int, KernelParameter]]) -> bool:
    """Whether a buffer is one array that is only written, as far as can be seen."""
    pool = 2 << 20  # PyTorch's allocator takes memory in such pieces, for many arrays
    return all(of.writable and not offset for offset, of in by) and buffer.size % pool != 0


def free_name(name: str, taken: set[str]) -> str:
    """A name for a buffer that Python, expressions and the other buffers leave free."""
    plain = re.sub(r"\W", "_", name)
    if not plain.isidentifier() or keyword.iskeyword(plain) or plain in FUNCTIONS or plain == "at":
        plain = f"b_{plain}"
    found = plain
    number = 2
    while found in taken or f"{found}_before" in taken:
        found, number = f"{plain}_{number}", number + 1
    taken |= {found, f"{found}_before"}
    return found


def _element(
    buffer: LiftedBuffer, by: Sequence[tuple[int, KernelParameter]], content: bytes
) -> str:
    """The type of a buffer's elements, as far as pointers to it say one; else by its content."""
    known = {of.element for _, of in by if of.element}
    dtype = known.pop() if len(known) == 1 else "uint8" if known else _floats(content)
    return dtype if buffer.size % _itemsize(dtype) == 0 else "uint8"


def _floats(content: bytes) -> str:
    """The floating type that the first values of a buffer are plausible of; else bytes.

    Both halves of two float16 are of one size; the lower ones of float32 are of any.
    """
    head = content[:_LOOKED_AT]
    if len(content) % 4 or not any(head):
        return "uint8"
    halves = [abs(value) for (value,) in struct.iter_unpack("<e", head)]
    if any(halves[::2]) and _share(halves, 2**-20, 2**15) > 0.999:
        middle = sorted(halves[1::2])[len(halves) // 4]
        if _share(halves[::2], middle / 64, middle * 64) > 0.9:
            # A bfloat16's exponent fills that of a float16 and more: such values lie around 1.
            return "bfloat16" if _share(halves, 0.25, 4.0) > 0.9 else "float16"
    words = [abs(value) for (value,) in struct.iter_unpack("<f", head)]
    return "float32" if _share(words, 1e-20, 1e20) > 0.99 else "uint8"


def _share(values: Sequence[float], low: float, high: float) -> float:
    return sum(1 for value in values if value == 0 or low < value < high) / len(values)


# --- what is written ---------------------------------------------------------------------------


def _study_text(lifted: LiftedLaunch, uses: Sequence[_Role], notes: Sequence[str]) -> str:
    """``study.py``: what was recorded, and what was guessed, to be mended."""
    names = {use.buffer.name: use for use in uses}
    outputs = [use for use in uses if use.role == "output"]
    inputs = [use for use in uses if use.role != "output" or use.restored]
    tolerance, why = _tolerance(lifted, outputs)
    pointers = [
        (names[each.buffer].given, each.offset, names[each.target].name, each.target_offset)
        for each in lifted.pointers
        if each.buffer is not None
    ]
    duration = _("not timed")
    if lifted.duration_ns:
        took = f"{lifted.duration_ns / 1e3:.2f} µs"
        duration = _("{time} in its program").format(time=took)
    recorded = _(
        "Recorded: launch {number} of the kernel, grid {grid}, block {block}, {duration}; its "
        "arguments, its buffers before and after, its machine code. The data lie in captured/, "
        "which Git leaves out."
    )
    said = [
        recorded.format(
            number=lifted.launch, grid=lifted.grid, block=lifted.block, duration=duration
        ),
        _("Guessed, and to be mended here: names, element types, the tolerance."),
        "\n".join(map(_in_words, uses)),
        *[f"* {told(note)}" for note in (*lifted.notes, *notes) if note],
    ]
    head = _("{kernel}, as a program launched it on {device}.")
    paragraphs = [
        text if text.startswith(" ") else filled(text)
        for text in (head.format(kernel=_plain(lifted), device=lifted.device), *said)
    ]
    doc = "\n\n".join(paragraphs).replace("\\", "/").replace('"""', "'''")
    given = {use.given: (use.buffer.name, use.dtype) for use in inputs}
    kept = {
        use.name: (use.buffer.name, use.dtype, use.buffer.size // _itemsize(use.dtype))
        for use in outputs
    }
    title = _("{kernel}, lifted from a program").format(kernel=_plain(lifted))
    text = f'"""{doc}\n"""\n\n' + first_text("study/study_of_launch.py").format(
        title=json.dumps(title, ensure_ascii=False),
        inputs=_table(given),
        outputs=_table(kept),
        names="(" + "".join(f'"{name}", ' for name in given).rstrip(" ") + ")",
        problem=PROBLEM,
        tolerance=tolerance,
        why=json.dumps(why, ensure_ascii=False),
        bytes=sum(use.buffer.size for use in uses),
    )
    more = first_text("study/pointers.py").format(pointers=_rows(pointers)) if pointers else ""
    return text + more


def _in_words(use: _Role) -> str:
    said = _("  {name}: {size} bytes, {role}, taken as {dtype}")
    if use.buffer.symbol:
        said = _("  {name}: {size} bytes, {role}, taken as {dtype} (variable {symbol})")
    size, symbol = f"{use.buffer.size:,}", use.buffer.symbol
    return said.format(name=use.name, size=size, role=use.role, dtype=use.dtype, symbol=symbol)


def _table(rows: Mapping[str, tuple[object, ...]]) -> str:
    lines = [f"    {name!r}: {value!r},\n" for name, value in rows.items()]
    return ("{\n" + "".join(lines) + "}").replace("'", '"')


def _rows(rows: Sequence[tuple[object, ...]]) -> str:
    return ("[\n" + "".join(f"        {row!r},\n" for row in rows) + "    ]").replace("'", '"')


def _itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else int(re.sub(r"\D", "", dtype)) // 8


def _tolerance(lifted: LiftedLaunch, outputs: Sequence[_Role]) -> tuple[float, str]:
    said = {
        True: _("Run twice on the same data, the launch wrote the same bytes"),
        False: _("Run twice on the same data, the launch wrote other bytes"),
        None: _("The launch was not run a second time"),
    }[lifted.repeats_equal]
    floats = [use.dtype for use in outputs if use.dtype in _TOLERANCES]
    if not floats:
        return 0, _("{said}; the outputs are integers or bytes.").format(said=said)
    widest = max(floats, key=lambda each: _TOLERANCES[each])
    why = _(
        "{said}. Another order of sums rounds otherwise: {bound} is a stated bound for {kind}, not "
        "a measured one."
    )
    bound = _TOLERANCES[widest]
    return bound, why.format(said=said, bound=bound, kind=widest)


def _front_matter(
    lifted: LiftedLaunch, image: str, uses: Sequence[_Role], parameters: Sequence[KernelParameter]
) -> str:
    """The TOML of v0: the launch as it was recorded."""
    names = {use.buffer.name: use.name for use in uses}

    def pair(key: str, value: object) -> str:
        return f"{key} = {json.dumps(value, ensure_ascii=False)}\n"

    title = _("{kernel} as it was lifted")
    text = pair("title", title.format(kernel=_plain(lifted))) + pair("image", image)
    for use in uses:
        if use.role == "scratch":
            text += "\n[[scratch]]\n" + pair("name", use.name) + pair("dtype", "uint8")
            text += pair("shape", [use.buffer.size])
    for use in uses:
        if use.role != "input" and use.restored:
            name = use.buffer.symbol if use.role == "symbol" else use.name
            text += "\n[[fill]]\n" + pair("name", name) + pair("input", use.given)
            text += pair("restores", True)
    text += "\n[[launch]]\n" + pair("kernel", lifted.kernel)
    text += pair("grid", list(lifted.grid)) + pair("block", list(lifted.block))
    given = [
        _argument(lifted, argument, of, names)
        for argument, of in zip(lifted.arguments, parameters, strict=True)
    ]
    text += "args = [\n" + "".join(f"    {json.dumps(each)},\n" for each in given) + "]\n"
    if lifted.dynamic_shared:
        text += pair("dynamic_shared", lifted.dynamic_shared)
    if lifted.cluster is not None and lifted.cluster != (1, 1, 1):
        text += pair("cluster", list(lifted.cluster))
    if lifted.cooperative:
        text += pair("cooperative", True)
    return text


def _argument(
    lifted: LiftedLaunch, argument: LiftedArgument, of: KernelParameter, names: Mapping[str, str]
) -> str | list[str]:
    """An argument as front matter writes it; of a struct the members, by value, as words."""
    inside = {
        each.offset: _address(names[each.target], each.target_offset)
        for each in lifted.pointers
        if each.argument == argument.index
    }
    if argument.size == POINTER and 0 in inside:
        return inside[0]
    if argument.size in _WORDS and not inside:
        return _number(of.element if "*" not in of.type else "", argument.data)
    unit = next(each for each in (4, 2, 1) if argument.size % each == 0)
    members, at = [], 0
    while at < argument.size:
        if at in inside:
            members.append(inside[at])
            at += POINTER
        else:
            members.append(_number("", argument.data[at : at + unit]))
            at += unit
    return members


def _address(name: str, offset: int) -> str:
    return f"at({name}, {offset})" if offset else name


def _number(dtype: str, data: bytes) -> str:
    """A number passed by value, of the type that the signature says, or as plain bits."""
    size, letter, cast = _NUMBERS.get(dtype, (0, "", ""))
    if size != len(data):
        size, letter, cast = _NUMBERS[_WORDS[len(data)]]
    (value,) = struct.unpack(f"<{letter}", data)
    if letter not in "fd":
        return str(value) if cast == "int" else f"{cast}({value})"
    text = _shortest(value, letter)
    if struct.pack(f"<{letter}", float(text)) != data:  # a NaN with bits of its own
        return _number("", data)
    return text if cast == "float" else f"{cast}({text})"


def _shortest(value: float, letter: str) -> str:
    """The shortest text that is this number again."""
    exact = struct.pack(f"<{letter}", value)
    tries = (f"{value:.{digits}g}" for digits in range(1, 18))
    text = next((each for each in tries if struct.pack(f"<{letter}", float(each)) == exact), "nan")
    return text if re.search(r"[.ein]", text) else f"{text}.0"


# --- v1 ------------------------------------------------------------------------------------------


def compiles(project: Project, version: Version) -> str:
    """Why a version that was made from lifted source does not compile here; empty where it does."""
    try:
        lifted = read_lifted(project.kernels / version.study / FOLDER)
        build(project, version, architecture(lifted))
    except WorkbenchError as error:
        return f"{error.message}. {error.hint}"
    return ""
