"""The texts of a study of recorded launches: ``study.py``, and the front matter of a version.

`workbench.programs.studies.adopting` finds the use of each buffer; this module writes it.
"""

from __future__ import annotations

import json
import keyword
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from workbench.errors import KernelError
from workbench.language import _, told
from workbench.study.expressions import FUNCTIONS, LIMIT
from workbench.study.lifted import FOLDER, POINTER, LiftedBuffer, LiftedLaunch
from workbench.study.mangling import written
from workbench.study.parameters import KernelParameter
from workbench.study.scaffold import PROBLEM, docstring, filled, first_text, pair, table, trimmed

#: NumPy's name for a number passed by value -> its bytes, `struct`'s letter, front matter's cast.
_NUMBERS = {
    "float32": (4, "f", "float"), "float64": (8, "d", "double"), "int32": (4, "i", "int"),
    "uint32": (4, "I", "uint"), "int64": (8, "q", "long"), "uint64": (8, "Q", "ulong"),
    "int16": (2, "h", "short"), "uint16": (2, "H", "ushort"), "int8": (1, "b", "char"),
    "uint8": (1, "B", "uchar"),
}  # fmt: skip
#: Names that have another meaning in a study.
_TAKEN = {"recording", "name", "uses", "parameters", "block_x", "block_y", "block_z", *FUNCTIONS}
_WORDS = {8: "uint64", 4: "uint32", 2: "uint16", 1: "uint8"}


@dataclass
class BufferUse:
    """The use of a buffer: only an input, an output to compare, or needed only for the launch.

    `source` is the input with the content before the launch; "": the one named after the buffer.
    """

    buffer: LiftedBuffer
    name: str
    dtype: str = "uint8"
    role: Literal["input", "output", "scratch", "symbol"] = "input"
    restored: bool = True
    source: str = ""

    @property
    def given(self) -> str:
        """The input with the content before the launch."""
        return self.source or (self.name if self.role == "input" else f"{self.name}_before")


@dataclass(frozen=True)
class ProblemSizes:
    """The recordings of a study, one per problem, and the integers that its problems name.

    `recordings` are the numbers of one version's recordings; `named` is parameter -> values, one
    per recording.
    """

    recordings: tuple[int, ...] = (0,)
    named: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, problems: Sequence[Mapping[str, int]], recordings: tuple[int, ...]) -> ProblemSizes:
        """The parameters of some recordings, for a version that only those have."""
        names = [name for name in problems[0] if name != "recording"]
        return cls(recordings, {name: [problems[at][name] for at in recordings] for name in names})

    def text(self, values: Sequence[int], name: str = "", block: Sequence[int] = ()) -> int | str:
        """A parameter, a number, or an expression that has these values in the recordings."""
        if name and list(self.named.get(name, ())) == list(values):
            return name
        if len(set(values)) == 1:
            return values[0]
        for each, have in self.named.items():
            if list(have) == list(values):
                return each
            if block and [-(-a // b) for a, b in zip(have, block, strict=True)] == list(values):
                return f"cdiv({each}, {block[0]})" if len(set(block)) == 1 else each
        pairs = zip(self.recordings, values, strict=True)
        return " + ".join(f"(recording == {at}) * {value}" for at, value in pairs)


@dataclass(frozen=True)
class Recording:
    """A problem of a study, its integers, and its recording: the launch of v0.

    `folder` is in the study's folder; `said` is the program's command line.
    """

    lifted: LiftedLaunch
    folder: str = FOLDER
    problem: str = PROBLEM
    parameters: Mapping[str, int] = field(default_factory=dict)
    said: str = ""


def readable(symbol: str) -> str:
    """A kernel's name as people write it: without parameters, return type, unnamed namespaces."""
    return written(symbol.replace("(anonymous namespace)::", "")).replace(
        "(anonymous namespace)::", ""
    )


def plain_name(lifted: LiftedLaunch) -> str:
    """The readable name of a launch's kernel."""
    return readable(lifted.demangled or lifted.kernel) or lifted.kernel


def told_guesses(uses: Sequence[BufferUse], notes: Sequence[str]) -> list[str]:
    """The paragraphs of a docstring that list the guesses."""
    return [
        _("Guessed; correct them here: names, element types, the tolerance."),
        "\n".join(map(_in_words, uses)),
        *[f"* {told(note)}" for note in notes if note],
    ]


def study_text(
    title: str,
    said: Sequence[str],
    recordings: Sequence[Recording],
    uses: Sequence[BufferUse],
    tolerance: tuple[float, str],
) -> str:
    """``study.py`` for recorded launches of v0, one problem each; the tolerance with its reason."""
    names = {use.buffer.name: use for use in uses}
    inputs = [use for use in uses if use.role != "output" or use.restored]
    sizes = {
        use.name: [
            each.lifted.buffer(use.buffer.name).size // itemsize(use.dtype) for each in recordings
        ]
        for use in uses
    }
    pointers = [
        [
            (names[each.buffer].given, each.offset, names[each.target].name, each.target_offset)
            for each in recording.lifted.pointers
            if each.buffer is not None
        ]
        for recording in recordings
    ]
    many = len(recordings) > 1
    problems = {
        each.problem: {
            **({"recording": at} if many else {}),
            **each.parameters,
            "uses": ["verify", "profile", "sweep"],
        }
        for at, each in enumerate(recordings)
    }
    paragraphs = (text if text[:1].isspace() else filled(text) for text in said)
    bound, why = tolerance
    text = first_text("study/study_of_launch.py").format(
        title=repr(title),
        folders=[each.folder for each in recordings],
        inputs=_table({use.given: (use.buffer.name, use.dtype) for use in inputs}),
        outputs=_table(
            {
                use.name: (use.buffer.name, use.dtype, sizes[use.name])
                for use in uses
                if use.role == "output"
            }
        ),
        names=repr(tuple(use.given for use in inputs)),
        problems=_table(problems),
        tolerance=bound,
        why=repr(why),
        bytes=[sum(map(_traffic, one.lifted.buffers)) for one in recordings],
    )
    more = first_text("study/pointers.py")
    return docstring(*paragraphs) + text + more.format(pointers=pointers) * any(pointers)


def _traffic(buffer: LiftedBuffer) -> int:
    """The fewest bytes that a launch moves: a buffer changed in place is read and written."""
    return buffer.size * (2 if buffer.filled and buffer.after is not None else 1)


def _in_words(use: BufferUse) -> str:
    said = _("  {name}: {size} bytes, {role}, taken as {dtype}")
    if use.buffer.symbol:
        said = _("  {name}: {size} bytes, {role}, taken as {dtype} (variable {symbol})")
    size, symbol = f"{use.buffer.size:,}", use.buffer.symbol
    return said.format(name=use.name, size=size, role=use.role, dtype=use.dtype, symbol=symbol)


def _table(rows: Mapping[str, object]) -> str:
    return "{\n" + "".join(f"    {name!r}: {value!r},\n" for name, value in rows.items()) + "}"


def itemsize(dtype: str) -> int:
    """The bytes per element."""
    return 2 if dtype == "bfloat16" else int(re.sub(r"\D", "", dtype)) // 8


def front_matter(
    head: str,
    launches: Sequence[LiftedLaunch],
    uses: Sequence[BufferUse],
    parameters: Sequence[KernelParameter],
    sizes: ProblemSizes,
    kernel: str = "",
) -> str:
    """The TOML of a version: its launch as recorded.

    `head` comes first: the title and the like. There is one of `launches` per recording; buffers
    have the same names in all. `kernel` is its name in the launch; "": the mangled one.
    """
    names = {use.buffer.name: use for use in uses}
    text, first = head, launches[0]
    for use in uses:
        if use.role == "scratch":
            shape = sizes.text([each.buffer(use.buffer.name).size for each in launches])
            text += table("scratch", {"name": use.name, "dtype": "uint8", "shape": [shape]})
    for use in uses:
        if use.role != "input" and (use.restored or use.role == "scratch"):
            name = use.buffer.symbol if use.role == "symbol" else use.name
            value = "" if use.restored else [0]
            values = {"input": use.given * use.restored, "value": value, "restores": True}
            text += table("fill", {"name": name, **values})
    for texture in first.textures:
        of = parameters[texture.argument].name or f"texture_{texture.argument}"
        text += "\n[[texture]]\n" + pair("name", of)
        text += pair("buffer", names[texture.buffer].given)
        text += "".join(
            pair(key, value if isinstance(value, str | int) else list(value))
            for key, value in msgspec.structs.asdict(texture).items()
            if key not in ("argument", "buffer")
        )
    blocks = list(zip(*(each.block for each in launches), strict=True))
    grids = list(zip(*(each.grid for each in launches), strict=True))
    text += "\n[[launch]]\n" + pair("kernel", kernel or first.kernel)
    grid = [sizes.text(each, block=block) for each, block in zip(grids, blocks, strict=True)]
    text += pair("grid", trimmed(grid)) + pair("block", trimmed(map(sizes.text, blocks)))
    given = [_argument(launches, at, of, names, sizes) for at, of in enumerate(parameters)]
    text += "args = [\n" + "".join(f"    {json.dumps(each)},\n" for each in given) + "]\n"
    if any(each.dynamic_shared for each in launches):
        text += pair("dynamic_shared", sizes.text([each.dynamic_shared for each in launches]))
    if first.cluster is not None and first.cluster != (1, 1, 1):
        text += pair("cluster", list(first.cluster))
    if first.cooperative:
        text += pair("cooperative", True)
    return text


def _argument(
    launches: Sequence[LiftedLaunch],
    at: int,
    of: KernelParameter,
    names: Mapping[str, BufferUse],
    sizes: ProblemSizes,
) -> str | list[str]:
    """An argument in the form of front matter; a struct by value, as words.

    KernelError: its pointers differ between recordings.
    """
    first = launches[0]
    argument = first.arguments[at]
    inside = _inside(first, at)
    if any(
        {place: to[0] for place, to in _inside(each, at).items()}
        != {place: to[0] for place, to in inside.items()}
        or each.arguments[at].size != argument.size
        or each.textures != first.textures
        for each in launches
    ):
        raise KernelError(
            f"argument {at + 1} of {plain_name(first)} points elsewhere in another recording",
            "Record only one size: leave out --also.",
        )

    if any(each.argument == at for each in first.textures):
        return of.name or f"texture_{at}"

    def address(place: int) -> str:
        offset = sizes.text([_inside(each, at)[place][1] for each in launches])
        name = names[inside[place][0]].name
        return f"at({name}, {offset})" if offset else name

    def number(dtype: str, begin: int, size: int, name: str = "") -> str:
        values = [each.arguments[at].data[begin : begin + size] for each in launches]
        return _number(dtype, values, name, sizes)

    if argument.size == POINTER and 0 in inside:
        return address(0)
    if argument.size in _WORDS and not inside:
        return number(of.element if "*" not in of.type else "", 0, argument.size, of.name)
    unit = next(each for each in (4, 2, 1) if argument.size % each == 0)
    members, place = [], 0
    while place < argument.size:
        wide = POINTER if place in inside else unit
        members.append(address(place) if place in inside else number("", place, unit))
        place += wide
    return members


def _inside(lifted: LiftedLaunch, at: int) -> dict[int, tuple[str, int]]:
    """The pointers of an argument: their offset in it -> the buffer, and the offset in that."""
    return {
        each.offset: (each.target, each.target_offset)
        for each in lifted.pointers
        if each.argument == at
    }


def integers_of(
    launches: Sequence[LiftedLaunch], parameters: Sequence[KernelParameter]
) -> Iterator[tuple[str, list[int]]]:
    """The integers that a kernel gets by value: their names, and one value per launch."""
    textures = {each.argument for each in launches[0].textures}
    for at, of in enumerate(parameters):
        size, letter, _cast = _NUMBERS.get(of.element, (0, "", ""))
        data = [each.arguments[at].data for each in launches]
        if "*" in of.type or letter in "fd" or size != len(data[0]) or at in textures:
            continue
        values = [struct.unpack(f"<{letter}", each)[0] for each in data]
        named = of.name.isidentifier() and of.name not in _TAKEN and not keyword.iskeyword(of.name)
        if named and all(abs(each) < LIMIT for each in values):
            yield of.name, values


def _number(dtype: str, values: Sequence[bytes], name: str, sizes: ProblemSizes) -> str:
    """A number passed by value, with the type in the signature, or as plain bits.

    It may differ between recordings; a floating-point number is then written as bits.
    """
    size, letter, cast = _NUMBERS.get(dtype, (0, "", ""))
    same = len(set(values)) == 1
    if size != len(values[0]) or (letter in "fd" and not same):
        bits = _WORDS[len(values[0])]
        size, letter, cast = _NUMBERS[bits if same else bits.removeprefix("u")]
    found = [struct.unpack(f"<{letter}", each)[0] for each in values]
    text = str(sizes.text(found, name))
    if letter in "fd":
        text = _shortest(found[0], letter)
        if struct.pack(f"<{letter}", float(text)) != values[0]:  # a NaN with a payload
            return _number("", values, name, sizes)
    return text if cast in ("int", "float") else f"{cast}({text})"


def _shortest(value: float, letter: str) -> str:
    """The shortest text that gives exactly this number."""
    exact = struct.pack(f"<{letter}", value)
    tries = (f"{value:.{digits}g}" for digits in range(1, 18))
    text = next((each for each in tries if struct.pack(f"<{letter}", float(each)) == exact), "nan")
    return text if re.search(r"[.ein]", text) else f"{text}.0"
