"""What the launches of a ``.cu`` become: versions, their buffers, the sizes of problems.

A file that chooses between kernels, or runs several on the same data, holds a ladder; kernels that
work one after the other on each other's results are one version.

It is one module because launches decide which versions there are, versions which buffers, and these
which sizes a problem may have.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise, zip_longest

from workbench.analysis.source.amounts import Known, element, number, operated
from workbench.analysis.source.hostcode import follow
from workbench.analysis.source.hostseen import (
    ClearSeen,
    CopySeen,
    Event,
    Followed,
    HostWork,
    LaunchSeen,
    LibrarySeen,
    Memory,
)
from workbench.analysis.source.kernels import Access, accesses, parameters
from workbench.analysis.source.pieces import FilePiece, Pieces
from workbench.errors import UsageError
from workbench.language import template
from workbench.study.expressions import FUNCTIONS, evaluate

_PREFIX = re.compile(r"(?:d|h|dev|device|gpu|host)_(?=\w)|(?:d|h)(?=[A-Z]\w*\Z)")
_SUFFIX = re.compile(r"(?<=\w)_(?:d|dev|device|gpu|h|host)\Z")
#: Kernels that stand beside a ladder, by their names -> what they are there for.
_BESIDE = {
    re.compile(r"warm_?(?:ing_?)?up", re.IGNORECASE): template("{name} by its name only warms up"),
    re.compile(r"(?:\w*[a-z]_)?copy(?![a-z])|\w*Copy(?![a-z])"): template(
        "{name} by its name only copies"
    ),
}
#: A size that the file does not tell.
_GUESS = 1024
#: Elements of all buffers together that a problem for `verify` has at most, where sizes are free.
_SMALL = 1 << 16
#: And as many as a kernel may be compiled for.
_MOST = 1 << 23


@dataclass(slots=True)
class NewVersion:
    """One version: launches that belong together, and the walk that they were met on."""

    launches: list[LaunchSeen]
    events: list[Event]
    constants: dict[str, int]
    notes: list[str] = field(default_factory=list)
    label: str = ""


@dataclass(slots=True)
class Buffer:
    """A buffer of the study, or of one version.

    `role` is input, output or scratch; `start` what an output or scratch buffer begins with: the
    name of an input, or a number.
    """

    name: str
    dtype: str
    count: Known
    role: str
    start: str | float | None = None
    filled: list[str] = field(default_factory=list)


# --- which launches are a version ---------------------------------------------------------------


def rungs_of(pieces: Pieces, kernel: str) -> list[NewVersion]:
    """The versions that a file holds, in its order."""
    nested = {name for name, piece in pieces.kernels().items() if "<<<" in piece.text}
    if nested and (kernel in nested or nested >= pieces.kernels().keys()):
        raise UsageError(
            f"{kernel or sorted(nested)[0]} launches kernels itself, which the build of a version "
            "does not know (it links no device code)",
            "Bring a kernel that launches none: --kernel NAME."
            if nested < pieces.kernels().keys()
            else "Begin with `workbench new --study NAME`, and a kernel that launches none.",
        )
    first = follow(pieces)
    walks = [first, *(follow(pieces, i) for i in range(1, len(first.choices)))]
    found: list[NewVersion] = []
    for number_, walk in enumerate(walks):
        for rung in _split(walk, pieces, nested):
            rung.label = walk.choices[number_] if walk.choices else ""
            if not kernel or any(each.kernel == kernel for each in rung.launches):
                found.append(rung)
    unique: dict[object, NewVersion] = {}
    for rung in found:
        unique.setdefault(tuple(map(_key, rung.launches)), rung)
    wanted = list(unique.values())
    if not kernel:
        for named, why in _BESIDE.items():
            wanted = _kept(wanted, [_all_are(named, rung, why) for rung in wanted])
        wanted = _kept(wanted, [_incomplete(rung, pieces) for rung in wanted])
        wanted = _of_one_answer(wanted, pieces)
    guessed: dict[str, Memory] = {}
    for rung in wanted:
        for launch in rung.launches:
            _guess_arrays(launch, rung, pieces, guessed)
    wanted = _kept(wanted, [_unlike(wanted[0], rung, pieces) for rung in wanted])
    if not wanted:
        names = [kernel] if kernel else [each for each in pieces.kernels() if each not in nested]
        wanted = [_guessed(pieces.kernels()[name], pieces) for name in names]
    for each in nested:
        wanted[0].notes.append(f"{each} launches kernels itself: it is left out")
    return wanted


def _kept(rungs: list[NewVersion], whys: list[str]) -> list[NewVersion]:
    """The versions that nothing speaks against; all of them where there would be none."""
    kept = [rung for rung, why in zip(rungs, whys, strict=True) if not why]
    same: dict[str, dict[str, str]] = {}
    for rung, why in zip(rungs, whys, strict=True):
        if why:
            kernel = rung.launches[0].kernel
            same.setdefault(why.removeprefix(kernel), {}).setdefault(kernel, why)
    for alike in same.values() if kept else ():
        (first, why), *others = alike.items()
        likewise = f" (and so with {', '.join(name for name, _ in others)})" if others else ""
        alone = f"`--kernel {first}` brings it alone"
        kept[0].notes.append(f"{why}{likewise}: it is left out ({alone})")
    return kept or rungs


def _all_are(named: re.Pattern[str], rung: NewVersion, why: str) -> str:
    """Whether a version's kernels by their names only wake the device, or copy."""
    name = rung.launches[0].kernel
    all_are = all(named.match(each.kernel) for each in rung.launches)
    return why.format(name=name) if all_are else ""


def _incomplete(rung: NewVersion, pieces: Pieces) -> str:
    """Whether a library goes on with what a version's kernels wrote."""
    writes = {id_ for launch in rung.launches for id_ in _touched(launch, pieces)[1]}
    for event in rung.events[rung.events.index(rung.launches[0]) :]:
        if isinstance(event, LaunchSeen) and event not in rung.launches:
            break
        if isinstance(event, CopySeen) and id(event.source) in writes:
            break
        if isinstance(event, LibrarySeen) and not writes.isdisjoint(map(id, event.arrays[:-1])):
            why = template("{name} only prepares what {event} works on")
            return why.format(name=rung.launches[0].kernel, event=event.name)
    return ""


def _of_one_answer(rungs: list[NewVersion], pieces: Pieces) -> list[NewVersion]:
    """The versions without those whose result the file compares with their own input.

    A copy often stands in a ladder as the speed to reach; the ladder's answer is another.
    """
    said = [_compared_with(rung, pieces) for rung in rungs]
    reasons = {
        "input": template(
            "{name} is compared with its own input, which is not the answer of the others"
        ),
        "itself": template("{name} is compared with nothing but its own result"),
    }
    whys = [
        reasons[what].format(name=rung.launches[0].kernel) if what in reasons else ""
        for rung, what in zip(rungs, said, strict=True)
    ]
    return _kept(rungs, whys) if "another" in said else rungs


def _unlike(first: NewVersion, rung: NewVersion, pieces: Pieces) -> str:
    """Why a launch cannot have the first version's arrays; "": it can."""
    mine = {_plain_name(m.name): m for x in first.launches for m, _ in _accessed(x, pieces)}
    for launch in rung.launches if rung is not first else ():
        name = f"{launch.kernel}<{', '.join(launch.template)}>".removesuffix("<>")
        for memory, access in _accessed(launch, pieces):
            other = mine.get(_plain_name(memory.name))
            if other is None and not access.written and (read := _read_by(first, memory, pieces)):
                size = memory.count and memory.count.whole
                if size is not None and None not in read and size not in read:
                    why = template("{name} works on arrays of another size than v0's")
                    return why.format(name=name)
            if other is None or other is memory:
                continue
            if memory.dtype and other.dtype and memory.dtype != other.dtype:
                why = template("{name} works on {dtype}, not on v0's {other}")
                return why.format(name=name, dtype=memory.dtype, other=other.dtype)
            sizes = [each.count and each.count.whole for each in (memory, other)]
            alike = launch.kernel == first.launches[0].kernel and None not in sizes
            if alike and sizes[0] != sizes[1]:
                return template("{name} works on arrays of another size than v0's").format(
                    name=name
                )
    if rung is not first and len({_given_back(each, pieces) for each in (first, rung)} - {0}) > 1:
        why = template("{name} gives the host another number of elements than v0")
        return why.format(name=rung.launches[0].kernel)
    return ""


def _read_by(rung: NewVersion, like: Memory, pieces: Pieces) -> set[int | None]:
    """The sizes of arrays of one type that a version only reads; empty if the array is one."""
    listed = [pair for launch in rung.launches for pair in _accessed(launch, pieces)]
    if any(memory is like for memory, _ in listed):
        return set()
    read = [m for m, access in listed if not access.written and m.dtype == like.dtype]
    return {memory.count.whole if memory.count else None for memory in read}


def _given_back(rung: NewVersion, pieces: Pieces) -> int:
    """Bytes of a version's result that the host copies first; 0 where that is not known."""
    writes = {memory for launch in rung.launches for memory in _touched(launch, pieces)[1]}
    for event in rung.events[rung.events.index(rung.launches[-1]) :]:
        if isinstance(event, CopySeen) and id(event.source) in writes:
            return (event.size and event.size.whole) or 0
    return 0


def _compared_with(rung: NewVersion, pieces: Pieces) -> str:
    """What the host holds a version's result against: its ``input``, or ``another`` array; ""."""
    last = rung.events.index(rung.launches[-1])
    touched = [_touched(launch, pieces) for launch in rung.launches]
    reads, writes = ({each for side in touched for each in side[at]} for at in (0, 1))
    copies = [each for each in rung.events if isinstance(each, CopySeen)]
    inputs = {id(each.source) for each in copies if id(each.target) in reads} - {id(None)}
    own = {each.kernel for each in rung.launches}
    results: set[int] = set()
    for event in rung.events[last:]:
        if isinstance(event, LaunchSeen) and event.kernel not in own:
            break
        if isinstance(event, CopySeen) and id(event.source) in writes:
            results.add(id(event.target))
        elif isinstance(event, HostWork) and not event.writes:
            others = [id(each) for each in event.reads if id(each) not in results]
            if event.reads and not others:
                return "itself"
            if len(others) == 1 and len(event.reads) == 2:
                return "input" if others[0] in inputs else "another"
    return ""


def _key(launch: LaunchSeen) -> object:
    given = tuple(
        each.name if isinstance(each, Memory) else each and each.text for each in launch.arguments
    )
    shape = tuple(each.text for each in (*launch.grid, *launch.block))
    return launch.kernel, tuple(launch.template), shape, given


def _split(walk: Followed, pieces: Pieces, nested: set[str]) -> Iterator[NewVersion]:
    """A program's launches, parted where the next one does the same work anew."""
    kernels = pieces.kernels().keys() - nested
    current: list[LaunchSeen] = []
    seen: set[object] = set()
    written, all_written = set[int](), set[int]()
    for at, event in enumerate(walk.events):
        if not isinstance(event, LaunchSeen) or event.kernel not in kernels:
            continue
        if event.part and current and current[-1].kernel == event.kernel:
            current.append(event)
        if event.part or _key(event) in seen:
            continue
        if any(each is None for each in event.arguments) and any(
            each.kernel == event.kernel for each in walk.events[:at] if isinstance(each, LaunchSeen)
        ):
            continue  # in a template that measures, of which less is known
        seen.add(_key(event))
        reads, writes = _touched(event, pieces)
        between = [each for each in _since(walk, current, event) if isinstance(each, CopySeen)]
        written -= {id(each.target) for each in between}  # filled anew
        again = writes & written or any(id(each.source) in all_written for each in between)
        same = bool(current) and _same_work(current[-1], event, pieces)
        if current and (again or same) and not reads & written:
            yield NewVersion(current, walk.events, walk.constants, walk.notes)
            current, written, all_written = [], set(), set()
        current.append(event)
        written |= writes
        all_written |= writes
    if current:
        yield NewVersion(current, walk.events, walk.constants, walk.notes)


def _same_work(a: LaunchSeen, b: LaunchSeen, pieces: Pieces) -> bool:
    """Whether two launches read the same arrays, and write others of one type and size."""
    if a.kernel == b.kernel:
        return False
    sides = [_accessed(each, pieces) for each in (a, b)]
    reads = [{id(m) for m, access in side if not access.written} for side in sides]
    writes = [
        [(m.dtype, m.count and m.count.text) for m, access in side if access.written]
        for side in sides
    ]
    return bool(reads[0]) and reads[0] == reads[1] and writes[0] == writes[1]


def _since(walk: Followed, current: list[LaunchSeen], event: LaunchSeen) -> list[object]:
    if not current:
        return []
    return list(walk.events[walk.events.index(current[-1]) : walk.events.index(event)])


def _touched(launch: LaunchSeen, pieces: Pieces) -> tuple[set[int], set[int]]:
    reads, writes = set[int](), set[int]()
    for memory, access in _accessed(launch, pieces):
        if access.read:
            reads.add(id(memory))
        if access.written:
            writes.add(id(memory))
    return reads, writes


def _accessed(launch: LaunchSeen, pieces: Pieces) -> list[tuple[Memory, Access]]:
    piece = pieces.kernels()[launch.kernel]
    pairs = zip(launch.arguments, accesses(piece, pieces), strict=False)
    return [(memory, access) for memory, access in pairs if isinstance(memory, Memory)]


def _guess_arrays(
    launch: LaunchSeen, rung: NewVersion, pieces: Pieces, guessed: dict[str, Memory]
) -> None:
    """Arrays in place of pointers that could not be read, of one element for each thread."""
    listed = parameters(pieces.kernels()[launch.kernel])
    for at, (value, parameter) in enumerate(zip(launch.arguments, listed, strict=False)):
        kind = element(parameter.kind, pieces.members)
        if isinstance(value, Memory) or parameter.stars != 1 or kind is None:
            continue
        count = number(kind[1])
        for blocks, threads in zip_longest(launch.grid, launch.block, fillvalue=number(1)):
            rounded = re.fullmatch(r"cdiv\((.+), (.+)\)", blocks.text)
            whole = operated("*", blocks, threads)
            if rounded is not None and rounded[2] == threads.text and whole is not None:
                whole = Known(f"({rounded[1]})" if " " in rounded[1] else rounded[1], whole.value)
            count = (whole and operated("*", count, whole)) or count
        launch.arguments[at] = guessed.setdefault(
            parameter.name, Memory(parameter.name, kind[0], count, device=True)
        )
        said = f"`{parameter.name}` of {launch.kernel} could not be read: "
        rung.notes.append(f"{said}an array with an element for each thread is a guess")


def _guessed(piece: FilePiece, pieces: Pieces) -> NewVersion:
    """A launch of a kernel that nothing in its file launches."""
    listed = parameters(piece)
    integers = [
        p
        for p in listed
        if not p.stars and p.kind != "bool" and re.match(r"u?int", (element(p.kind) or " ")[0])
    ]
    sizes = [Known(p.name, 1024 if len(integers) < 2 else 256) for p in integers[:3]]
    plane = "blockIdx.y" in piece.text or "threadIdx.y" in piece.text
    if not sizes:
        sizes = [Known("N", 1024)]
    arguments: list[Known | Memory | None] = []
    pointers = [p for p in listed if p.stars]
    for parameter in listed:
        if parameter.stars:
            known = element(parameter.kind, pieces.members)
            count = _guessed_count(sizes, pointers.index(parameter), len(pointers), plane)
            if known is not None:
                count = operated("*", count, number(known[1])) or count
            arguments.append(Memory(parameter.name, known[0] if known else "float32", count, True))
        elif parameter in integers[:3]:
            arguments.append(sizes[integers.index(parameter)])
        else:
            arguments.append(number(1))
    wide = sizes[1] if len(sizes) > 1 else sizes[0]
    if plane:
        grid = [Known(f"cdiv({wide.text}, 16)", 16), Known(f"cdiv({sizes[0].text}, 16)", 16)]
        block = [number(16), number(16)]
    else:
        grid, block = [Known(f"cdiv({sizes[0].text}, 256)", 4)], [number(256)]
    launch = LaunchSeen(piece.names[0], [], grid, block, None, arguments, piece.place)
    values = {each.text: each.whole or 1 for each in sizes}
    made = NewVersion([launch], [launch], values)
    made.notes.append(
        f"nothing in the file launches {piece.names[0]}: its grid, block and sizes are guesses"
    )
    return made


def _guessed_count(sizes: list[Known], index: int, pointers: int, plane: bool) -> Known:
    names = [each.text for each in sizes]
    value = sizes[0].whole or 1
    if len(names) == 3 and pointers >= 3:  # A is M×K, B is K×N, C is M×N
        m, n, k = names
        return Known([f"{m} * {k}", f"{k} * {n}", f"{m} * {n}"][min(index, 2)], value * value)
    if len(names) == 1:
        return Known(f"{names[0]} * {names[0]}", value * value) if plane else sizes[0]
    return Known(" * ".join(names), math.prod(each.whole or 1 for each in sizes))


# --- the study ------------------------------------------------------------------------------------


class StudyPlan:
    """The buffers and sizes of a study, and of each of its versions.

    Attributes:
        file: The file's name.
        pieces: Of the file.
        rungs: Its versions.
        notes: What was guessed.
        buffers: Of the study.
        own: Of every version, the buffers that it alone has.
        parameters: Name -> value of what sizes are made of.
        fixed: Parameters that a kernel was compiled with.
        textures: What kernels call the textures that were described -> their filter.
    """

    def __init__(self, name: str, file: str, pieces: Pieces, rungs: list[NewVersion]) -> None:
        self.name, self.file, self.pieces, self.rungs = name, file, pieces, rungs
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}
        self.textures: dict[str, str] = {}
        self.says = ""
        self.walk = rungs[0].events
        self.constants = self._constants()
        self.names: dict[int, str] = {}
        self.sources: dict[str, str] = {}  # the host's variables -> inputs
        self.buffers = self._buffers(rungs[0])
        self.symbols = self._symbols()
        self.own: list[list[Buffer]] = [
            [] if i == 0 else self._others(rung) for i, rung in enumerate(rungs)
        ]
        self.parameters = self._parameters()
        self.notes = [
            note
            for note in self.notes
            if not (asked := re.match(r"[\w ]+ gives? `(\w+)`, and \d+ was put", note))
            or asked[1] in self.parameters
        ]
        self.fixed = self._fixed()

    def _constants(self) -> dict[str, int]:
        """The programs' constants; of one name with several values that of the first version."""
        found: dict[str, int] = {}
        for rung in self.rungs:
            self.notes += [note for note in rung.notes if note not in self.notes]
            found = rung.constants | found
        for word in self._unread(found):
            self.notes.append(f"`{word}` could not be read, and {_GUESS} was put in its place")
            found[word] = _GUESS
        return found

    def _unread(self, known: Mapping[str, int]) -> list[str]:
        """Names in sizes, of numbers that the file does not tell."""
        amounts = [each.count for rung in self.rungs for each in self.used(rung)]
        amounts += [
            each
            for rung in self.rungs
            for launch in rung.launches
            for each in (*launch.grid, *launch.arguments)
            if isinstance(each, Known)
        ]
        words = [
            word
            for each in amounts
            if each is not None and each.value is None and "?" not in each.text
            for word in re.findall(r"[A-Za-z_]\w*", each.expression)
        ]
        return [word for word in dict.fromkeys(words) if word not in {*known, *FUNCTIONS}]

    # --- buffers -------------------------------------------------------------------------

    def used(self, rung: NewVersion) -> dict[Memory, Access]:
        """Memory that a version's kernels reach: what all of its launches together do."""
        found: dict[Memory, Access] = {}
        for launch in rung.launches:
            for memory, access in _accessed(launch, self.pieces):
                old = found.get(memory)
                if old is None:
                    found[memory] = access
                else:
                    found[memory] = Access(
                        old.read or (access.read and not old.written),
                        old.written or access.written,
                        old.added or (access.added and not old.written),
                    )
        return found

    def _beginning(self, memory: Memory, rung: NewVersion) -> Memory | Known | None:
        """What memory holds before a version's first launch: the host's array, or a number."""
        end = rung.events.index(rung.launches[0])
        start: Memory | Known | None = None
        for event in rung.events[:end]:
            if isinstance(event, CopySeen) and event.target is memory and event.source is not None:
                start = event.source
            elif isinstance(event, ClearSeen) and event.target is memory:
                start = event.value
        if start is None and memory.host and memory.filled:
            return memory
        return start

    def read_back(self, rung: NewVersion) -> dict[int, list[Memory]]:
        """By the identity of a device's array, the host's arrays that it is copied to."""
        found: dict[int, list[Memory]] = {}
        for event in rung.events:
            if isinstance(event, CopySeen) and event.source is not None and event.source.device:
                found.setdefault(id(event.source), [])
                if event.target is not None:
                    found[id(event.source)].append(event.target)
        return found

    def _buffers(self, rung: NewVersion) -> list[Buffer]:
        used, back = self.used(rung), self.read_back(rung)
        outputs = [m for m, access in used.items() if access.written and (id(m) in back or m.host)]
        if not outputs:
            last = _accessed(rung.launches[-1], self.pieces)
            outputs = [m for m, access in last if access.written][:4]
            if outputs:
                self.notes.append(
                    f"{outputs[0].name} is taken for an output because the kernel writes it"
                )
        if not outputs:  # what writes may be a function that a kernel is made for
            outputs = [m for m in used if id(m) in back]
        if not outputs and used:
            outputs = [list(used)[-1]]
            self.notes.append(f"{outputs[0].name} is taken for the output: nothing says what is")
        found: list[Buffer] = []
        for memory, access in used.items():
            name = self.named(memory)
            begins = self._beginning(memory, rung)
            size = memory.count or number(1024)
            if memory.count is None or "?" in memory.count.text:
                self.notes.append(f"the size of {memory.name} could not be read")
            dtype = memory.dtype or "float32"
            if not memory.dtype:
                self.notes.append(
                    f"the type of {memory.name} could not be read: float32 is a guess"
                )
            filled = begins.filled if isinstance(begins, Memory) else []
            if memory in outputs or access.written:
                role = "output" if memory in outputs else "scratch"
                start = self._start(name, begins, access, found, dtype, size)
                if start is None and role == "output" and self._behind_its_beginning(memory, rung):
                    self.notes.append(f"the elements of {name} before the launch's begin with 0")
                    start = 0.0
                found.append(Buffer(name, dtype, size, role, start))
            else:
                if begins is None:
                    self.notes.append(
                        f"nothing seems to fill {memory.name}: its values are guesses"
                    )
                found.append(Buffer(name, dtype, size, "input", None, filled or memory.filled))
                if isinstance(begins, Memory):
                    self.sources[begins.name] = name
        return found

    def _start(
        self,
        name: str,
        begins: Memory | Known | None,
        access: Access,
        found: list[Buffer],
        dtype: str,
        size: Known,
    ) -> str | float | None:
        """What is there before the first launch; an input of its own where that is data."""
        if isinstance(begins, Known):
            return float(begins.value or 0)
        if isinstance(begins, Memory):
            written = " ".join(begins.filled)
            if not access.read and not access.added:
                return None
            if re.fullmatch(r"[{}\s0.f]+", written):
                return 0.0
            first = self._free(f"{name}_before")
            found.append(Buffer(first, dtype, size, "input", None, begins.filled))
            self.names[id(begins)] = first
            self.sources[begins.name] = first
            return first
        if access.added:
            self.notes.append(f"{name} is added to, and begins with 0: that is a guess")
            return 0.0
        return None

    def _behind_its_beginning(self, memory: Memory, rung: NewVersion) -> bool:
        """Whether kernels get an array from some element on, so that the first stay as they are."""
        return all(
            offset is not None and offset.value != 0
            for launch in rung.launches
            for value, offset in zip(launch.arguments, launch.offsets, strict=False)
            if value is memory
        )

    def _symbols(self) -> dict[str, str]:
        """Variables of the device -> the inputs that are copied to them."""
        found: dict[str, str] = {}
        for rung in self.rungs:
            for event in rung.events[: rung.events.index(rung.launches[-1])]:
                if not isinstance(event, CopySeen) or not event.symbol or event.symbol in found:
                    continue
                source = event.source
                if source is None or source.count is None:
                    continue
                name = self.sources.get(source.name, "")
                if not name:
                    name = self._free(f"{event.symbol}_values")
                    dtype = source.dtype or "float32"
                    made = Buffer(name, dtype, source.count, "input", None, source.filled)
                    self.buffers.append(made)
                    self.sources[source.name] = name
                found[event.symbol] = name
                self.names[id(source)] = name
        return found

    def _others(self, rung: NewVersion) -> list[Buffer]:
        """Buffers of a later version: those of the study by name, its own beside them."""
        used, back = self.used(rung), self.read_back(rung)
        outputs = [each for each in self.buffers if each.role == "output"]
        mine = [m for m, access in used.items() if access.written and (id(m) in back or m.host)]
        own: list[Buffer] = []
        for memory, access in used.items():
            plain = _plain_name(memory.name)
            same = next((b for b in self.buffers if b.name in (plain, f"{plain}_")), None)
            same = same or self._at_its_place(memory, rung)
            if same is None and memory in mine and len(mine) == len(outputs):
                same = outputs[mine.index(memory)]
            elif memory not in mine and not access.written and same is None:
                begins = self._beginning(memory, rung)
                known = self.sources.get(begins.name, "") if isinstance(begins, Memory) else ""
                inputs = [b for b in self.buffers if b.role == "input" and b.dtype == memory.dtype]
                same = next((b for b in inputs if b.name == known), None)
                if same is None and len(inputs) == 1:
                    same = inputs[0]
            if same is not None:
                self.names[id(memory)] = same.name
                continue
            name = self.named(memory)
            size = memory.count or number(1024)
            own.append(
                Buffer(
                    name, memory.dtype or "float32", size, "scratch", 0.0 if access.added else None
                )
            )
        return own

    def _at_its_place(self, memory: Memory, rung: NewVersion) -> Buffer | None:
        """The buffer that v0 gives its kernel where this version gives the same kernel `memory`."""
        first = self.rungs[0].launches
        if [each.kernel for each in rung.launches] != [each.kernel for each in first]:
            return None
        for mine, theirs in zip(rung.launches, first, strict=True):
            for value, other in zip(mine.arguments, theirs.arguments, strict=False):
                if value is memory and isinstance(other, Memory) and other.dtype == memory.dtype:
                    name = self.names.get(id(other), "")
                    return next((each for each in self.buffers if each.name == name), None)
        return None

    def named(self, memory: Memory) -> str:
        """The name that an array has in the study."""
        if id(memory) not in self.names:
            self.names[id(memory)] = self._free(_plain_name(memory.name))
        return self.names[id(memory)]

    def _free(self, name: str) -> str:
        taken = {*self.constants, *self.names.values(), *FUNCTIONS, "problem", "inputs", "rng"}
        while name in taken or keyword.iskeyword(name):
            name += "_"
        return name

    # --- sizes -----------------------------------------------------------------------------

    def every(self) -> Iterator[Known]:
        """The sizes of all buffers."""
        for buffer in (*self.buffers, *(each for own in self.own for each in own)):
            yield buffer.count

    def _parameters(self) -> dict[str, int]:
        """The constants that sizes are made of, and those that kernels are given."""
        words: list[str] = []
        for amount in self.every():
            words += re.findall(r"[A-Za-z_]\w*", amount.expression)
        for rung in self.rungs:
            for launch in rung.launches:
                for each in (*launch.arguments, *launch.grid):
                    if isinstance(each, Known):
                        words += re.findall(r"[A-Za-z_]\w*", each.expression)
        found = {word: self.constants[word] for word in words if word in self.constants}
        blocks = " ".join(
            each.expression for r in self.rungs for launch in r.launches for each in launch.block
        )
        sizes = " ".join(each.expression for each in self.every())
        # A block's width is a number of the launch, unless a size is made of it.
        return {
            name: value
            for name, value in found.items()
            if re.search(rf"\b{name}\b", sizes) or not re.search(rf"\b{name}\b", blocks)
        } or {"N": 1}

    def _fixed(self) -> set[str]:
        """Parameters that a kernel was compiled with, or a block is made of."""
        words: set[str] = set()
        for rung in self.rungs:
            for launch in rung.launches:
                for piece in self.device_pieces([launch.kernel, *launch.template]):
                    if piece.kind in ("macro", "variable", "type"):
                        words |= set(piece.names)
                    if piece.kind == "macro":
                        words |= piece.words
                shapes = [*launch.block, *([launch.shared] if launch.shared else [])]
                for each in shapes:
                    words |= set(re.findall(r"[A-Za-z_]\w*", each.expression))
        return words & set(self.parameters)

    def device_pieces(self, words: Iterable[str]) -> list[FilePiece]:
        """What of the file kernels need that mention these words."""
        return self.pieces.needed(words)

    def _elements(self, values: Mapping[str, int]) -> int:
        return sum(self._evaluated(each.count, values) for each in self.buffers)

    def _evaluated(self, amount: Known, values: Mapping[str, int]) -> int:
        try:
            return evaluate(self.plain(amount), dict(values))
        except UsageError:
            return amount.whole or 1

    def oversized(self) -> dict[str, int]:
        """Constants of kernels that make arrays which no emulator gets through, made smaller."""
        values = dict(self.parameters)
        sizes = " ".join(self.plain(each.count) for each in self.buffers)
        while self._elements(values) > _MOST:
            able = [n for n in self.fixed if re.search(rf"\b{n}\b", sizes)]
            large = [n for n in able if _halved(values[n], self.parameters[n], 1024) < values[n]]
            if not large:
                break
            widest = max(large, key=lambda n: values[n])
            values[widest] = _halved(values[widest], self.parameters[widest], 1024)
        free = [n for n in values if n not in self.fixed and values[n] > 1 and n in sizes]
        return {n: values[n] for n in self.fixed if values[n] != self.parameters[n] and not free}

    def free(self, name: str) -> bool:
        """Whether a size may be another: kernels are told it, or inputs are drawn below it."""
        told = [x for r in self.rungs for y in r.launches for x in (*y.grid, *y.arguments)]
        texts = [each.expression for each in told if isinstance(each, Known)]
        if str(self.parameters[name]) in texts:
            return False  # the same number, written out: nothing says that it may be another
        texts += [written for each in self.buffers for written in each.filled if "%" in written]
        return name not in self.fixed and re.search(rf"\b{name}\b", " ".join(texts)) is not None

    def small(self) -> dict[str, int]:
        """Sizes that the emulator is quick with, each a half or a quarter … of the file's."""
        values = dict(self.parameters)
        sizes = " ".join(self.plain(each.count) for each in self.buffers)
        free = [n for n in values if self.free(n) and re.search(rf"\b{n}\b", sizes)]
        if any(n not in self.fixed and n not in free for n in values):
            given = [n for n in values if n not in self.fixed and n not in free]
            if any(values[n] > 1 for n in given) and self._together(given):
                return values
        while self._elements(values) > _SMALL:
            halves = {n: _halved(values[n], self.parameters[n], 128) for n in free}
            able = [
                n for n in free if halves[n] < values[n] and self._works(values | {n: halves[n]})
            ]
            large = [n for n in able if values[n] > 32 and values[n] % 2 == 0]
            large = large or [n for n in able if values[n] > 256]
            if not large:
                break
            widest = max(large, key=lambda n: values[n])
            values[widest] = halves[widest]
        for first, second in combinations(free, 2):
            # Two sides of one length would hide that they were mixed up.
            if (
                values[first] == values[second]
                and self.parameters[first] != self.parameters[second]
            ):
                whole = self.parameters[second]
                values[second] += min(whole & -whole, 128)
            elif self.parameters[first] == self.parameters[second]:
                # The file's author vouches for these alone: many a kernel takes both for one.
                values[first] = values[second] = min(values[first], values[second])
        return values

    def _works(self, values: Mapping[str, int]) -> bool:
        """Whether sizes leave something of each array and of each grid: ``n - n % 512``.

        And whether a launch of one block, which takes up what each block before it left, still
        has as many to take up as it has threads.
        """
        grids = [x for r in self.rungs for launch in r.launches for x in launch.grid]
        if not all(self._evaluated(each, values) > 0 for each in (*self.every(), *grids)):
            return False
        for rung in self.rungs:
            for before, last in pairwise(rung.launches):
                left, threads = (self._product(each, values) for each in (before.grid, last.block))
                was = self._product(before.grid, self.parameters)
                if self._product(last.grid, values) == 1 and left < threads <= was:
                    return False
        return True

    def _product(self, amounts: list[Known], values: Mapping[str, int]) -> int:
        return math.prod(self._evaluated(each, values) for each in amounts)

    def _together(self, given: list[str]) -> bool:
        """Whether numbers that kernels get make up a size, and would not shrink with it."""
        return math.prod(self.parameters[n] for n in given) > _SMALL

    def plain(self, amount: Known, rung: NewVersion | None = None) -> str:
        """An expression in which every constant that is no parameter is its number.

        Args:
            amount: The number.
            rung: The version that it is of; None: the study.
        """
        constants = self.constants | (rung.constants if rung is not None else {})
        return re.sub(
            r"[A-Za-z_]\w*",
            lambda word: (
                word[0]
                if word[0] in self.parameters or word[0] in FUNCTIONS or word[0] not in constants
                else str(constants[word[0]])
            ),
            amount.expression,
        )


def _halved(value: int, whole: int, most: int) -> int:
    """Half of a size, divided by what divides the whole one: blocks may count on that."""
    part = min(whole & -whole, most)
    return max(part, value // 2 // part * part)


def _plain_name(name: str) -> str:
    short = _SUFFIX.sub("", _PREFIX.sub("", name, count=1))
    return short if short.isidentifier() else name
