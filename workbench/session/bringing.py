"""A ``.cu`` that exists, made a study: read, written down, and nothing of it run.

What the file says of its kernels (`workbench.analysis.source.hostcode`) becomes front matter and a
``study.py``; what it does not say is guessed, and every guess stands in the study as a note.
It is one module because front matter, inputs, answer and notes name the same arrays, once chosen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.analysis.source.amounts import Known, drawn_between, element, number, width
from workbench.analysis.source.hostseen import (
    CopySeen,
    HostWork,
    LaunchSeen,
    Memory,
)
from workbench.analysis.source.hostwork import AnswerSought, HostReference
from workbench.analysis.source.kernels import (
    Formal,
    guarded,
    parameters,
    template_parameters,
)
from workbench.analysis.source.pieces import DEVICE_HEADERS, FilePiece, Headers, Pieces, inner
from workbench.analysis.source.texels import TEXTURE_OBJECTS, texture_of
from workbench.disk.writing import create_files
from workbench.errors import UsageError, did_you_mean
from workbench.language import N_, _, told
from workbench.project import Project
from workbench.session.rungs import Buffer, NewVersion, StudyPlan, rungs_of
from workbench.study.scaffold import check_study_name, ensure_project, pair, study_name
from workbench.study.sources import load_versions, read_source
from workbench.units import several

_CASTS = {"int64": "long", "uint64": "ulong", "uint32": "uint",
          "int16": "short", "uint16": "ushort",
          "int8": "char", "uint8": "uchar", "float32": "float", "float64": "double"}  # fmt: skip
_C_NAMES = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned int",
            "uint8": "unsigned char", "int8": "char", "float16": "__half",
            "bfloat16": "__nv_bfloat16", "int64": "long long"}  # fmt: skip
_TYPE_HEADERS = {
    "__nv_bfloat16": "cuda_bf16.h",
    "nv_bfloat16": "cuda_bf16.h",
    "__half": "cuda_fp16.h",
    "half": "cuda_fp16.h",
}
_BEFORE_CUDA_9 = {"__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__ballot", "__any", "__all"}
#: Headers of NVIDIA's samples for hosts, of which no kernel has need.
_HELPERS = ("helper_cuda.h", "helper_functions.h", "helper_string.h", "helper_timer.h")
#: Those of the standard library, which nvcc alone has.
_STANDARD = re.compile(
    r"c?(?:assert|float|limits|math|stdint|stdio|stdlib|stddef|string)(?:\.h)?|type_traits|"
    r"utility|algorithm|iostream|vector|functional|numeric|chrono|random"
)
_TOLERANCES = {
    "float16": (1e-2, N_("a guess: float16 keeps three digits")),
    "bfloat16": (3e-2, N_("a guess: bfloat16 keeps two digits")),
    "float64": (1e-10, N_("a guess: float64, in another order of sums")),
}


@dataclass(slots=True)
class Brought:
    """What was made of a file.

    Attributes:
        study: The study's name.
        paths: What was written, relative to the project.
        versions: The versions with their kernels.
        notes: What was guessed, and what is left to do.
        reference: Where the answer comes from; "": from v0 itself.
    """

    study: str
    paths: list[str]
    versions: dict[str, str]
    notes: list[str]
    reference: str


def bring(project: Project, path: Path, name: str = "", kernel: str = "") -> Brought:
    """Write the study of a ``.cu``; nothing of the file runs, and nothing compiles it.

    Args:
        project: Where the study is written.
        path: The file. Headers in quotes that lie beside it are read as well.
        name: Of the study; "": after the file.
        kernel: The one kernel that is wanted; "": all that the file launches.

    Raises:
        UsageError: it cannot be read, holds no such kernel, or there is a study of that name.
    """
    study = name or study_name(path.stem.lower())
    check_study_name(study)
    if (project.kernels / study).exists():
        raise UsageError(
            f"{project.kernels / study} is there already",
            f"Nothing was written. Choose another name: --study {study}_2.",
        )
    try:
        writer = _writer(path, study, kernel)
    except RecursionError as error:
        raise UsageError(
            f"{path} is nested too deeply to be read", "Start with `workbench new --study NAME`."
        ) from error
    files = writer.files()
    folder = f"kernels/{study}"
    made = ensure_project(project.root)
    create_files(project.root, {f"{folder}/{file}": text.encode() for file, text in files.items()})
    found = load_versions(project, study)
    writer.notes += [wrong.message for wrong in found.broken.values()]
    return Brought(
        study,
        [*made, *(f"{folder}/{file}" for file in files)],
        writer.versions,
        writer.notes,
        writer.says,
    )


def _writer(path: Path, study: str, kernel: str) -> _Files:
    text = read_source(path)
    pieces = _pieces(text, path)
    kernels = pieces.kernels()
    if not kernels:
        if line := pieces.unread():
            raise UsageError(
                f"{path}:{line}: from here on the file could not be read, and its kernels stand "
                "behind that",
                "Mostly it is an `#if` in the middle of a statement, or a macro that stands for a "
                "part of one: write out what it stands for, in a copy of the file.",
            )
        raise UsageError(f"{path} holds no kernel", "A kernel is a `__global__` function.")
    if kernel and kernel not in kernels:
        raise UsageError(
            f"{path} has no kernel `{kernel}`", did_you_mean(kernel, kernels, "kernels")
        )
    writer = _Files(study, path.name, pieces, rungs_of(pieces, kernel))
    if smaller := writer.oversized():
        for constant, value in smaller.items():
            text = _with(text, constant, value)
        pieces = _pieces(text, path)
        writer = _Files(study, path.name, pieces, rungs_of(pieces, kernel))
        for constant, value in smaller.items():
            writer.notes.append(
                f"{constant} is larger in the file, and compiled into a kernel: it is {value} "
                "here, so that the emulator can run it"
            )
    if not any(each.role == "output" for each in writer.buffers):
        launch = writer.rungs[0].launches[0]
        raise UsageError(
            f"{launch.place}: none of what {launch.kernel} is given could be read as an array, so "
            "nothing says what it computes",
            "Bring another kernel (--kernel NAME); or begin with `workbench new --study NAME`.",
        )
    for header in pieces.missing:
        if header not in _HELPERS:
            writer.notes.append(
                f"{header} does not lie beside the file: what it declares is not known"
            )
    return writer


def _pieces(text: str, path: Path) -> Pieces:
    pieces = Pieces()
    pieces.read(text, path.name, _headers(path.parent))
    return pieces


def _with(text: str, constant: str, value: int) -> str:
    """A file whose constant has another value."""
    declared = re.compile(
        rf"(^[ \t]*#[ \t]*define[ \t]+{constant}[ \t]+|\b{constant}[ \t]*=[ \t]*)"
        r"(?:(?!//|/\*|;).)+?(?=[ \t]*(?://|/\*|;|$))",
        re.MULTILINE,
    )
    return declared.sub(rf"\g<1>{value}", text, count=1)


def _headers(folder: Path) -> Headers:
    root = folder.resolve()

    def header(name: str) -> str | None:
        path = (root / name).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        return read_source(path)

    return header


class _Files(StudyPlan):
    """Writes the files of a study."""

    # --- files -------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        """Name -> text of every file of the study's folder."""
        reference = self._reference()
        files: dict[str, str] = {}
        for index, rung in enumerate(self.rungs):
            kernels = list(dict.fromkeys(each.kernel for each in rung.launches))
            stem = re.sub(r"\W+", "_", "_".join(kernels))[:40].rstrip("_").lower()
            self.versions[f"v{index}"] = ", ".join(kernels)
            files[f"v{index}_{stem}.cu"] = self._version(index, rung, kernels)
        if reference is not None:
            files["reference.cpp"] = reference.code
            self.says = reference.says
        else:
            more = "; a kernel that does another job is brought alone, by --kernel"
            self.notes.append(
                "no host code of the file gives the answer: versions must equal v0, and nothing "
                "proves v0 itself (reference in study.py)" + (more if len(self.rungs) > 1 else "")
            )
        return {"study.py": self._study(reference), **files}

    def _reference(self) -> HostReference | None:
        rung = self.rungs[0]
        inputs: dict[Memory, str] = {}
        outputs: dict[Memory, str] = {}
        roles = {each.name: each for each in self.buffers}
        for event in rung.events:
            if not isinstance(event, CopySeen):
                continue
            source, target = event.source, event.target
            if source is not None and id(source) in self.names and not source.device:
                inputs[source] = self.names[id(source)]
            if source is not None and target is not None:
                to = self.names.get(id(target), "")
                if to in roles and roles[to].role == "input" and not source.device:
                    inputs.setdefault(source, to)
        for memory in self.used(rung):
            name = self.names.get(id(memory), "")
            if memory.host and name in roles:
                (outputs if roles[name].role == "output" else inputs)[memory] = name
            for target in self.read_back(rung).get(id(memory), []):
                if name in roles and roles[name].role == "output":
                    outputs[target] = name
        work = [event for event in rung.events if isinstance(event, HostWork)]
        inputs = self._through(work, inputs)
        names = [each.name for each in self.buffers if each.role == "output"]
        begun = {b.start: b.name for b in self.buffers if isinstance(b.start, str)}
        sent, later = set[int](), set[tuple[int, int]]()
        for event in rung.events:
            if isinstance(event, CopySeen) and event.target is not None and event.target.device:
                sent.add(id(event.source))
            elif isinstance(event, HostWork):
                later |= {(id(event), id(m)) for m in event.writes if id(m) in sent}
        sought = AnswerSought(
            self.pieces, work, inputs, outputs, names, begun, later, self.parameters
        )
        return sought.found()

    def _through(self, work: list[HostWork], inputs: dict[Memory, str]) -> dict[Memory, str]:
        """Arrays whose elements were copied into what goes to the device are inputs too."""
        found = dict(inputs)
        for event in work:
            if event.callee or len(event.writes) != 1 or len(event.reads) != 1:
                continue
            (source,), (target,) = event.reads, event.writes
            if target in inputs and source not in inputs:
                found[source] = inputs[target]
                for buffer in self.buffers:
                    if buffer.name == inputs[target]:
                        buffer.filled = source.filled
        return found

    # --- study.py ------------------------------------------------------------------------------

    def _study(self, reference: HostReference | None) -> str:
        inputs = [each for each in self.buffers if each.role == "input"]
        outputs = [each for each in self.buffers if each.role == "output"]
        tolerance, why = self._tolerance(outputs, reference is not None)
        kernels = ", ".join(dict.fromkeys(self.versions.values()))
        self.notes[:] = dict.fromkeys(self.notes)
        work = _("flops(): the operations of the job, by which speeds are told")
        notes = [*map(told, self.notes), _("the tolerance"), work]
        head = _("Study {name}, made of {file}: {kernels}.")
        text = f'"""{head.format(name=self.name, file=self.file, kernels=kernels)}\n\n'
        text += _("Guessed or left to do:") + "\n\n" + "".join(f"* {note}\n" for note in notes)
        text += '"""\n\n'
        text += "from pathlib import Path\n\n" if reference else ""
        text += "import numpy as np\n\n"
        text += "from workbench.compile.host import call\n\n" if reference else ""
        text += f'title = "{kernels}"\n\n'
        text += f"input_names = {_tuple(each.name for each in inputs)}\n\n"
        text += self._problems()
        text += f'tolerance = {tolerance!r}\ntolerance_why = "{why}"\n\n\n'
        text += self._cdiv()
        text += "def inputs(problem, rng):\n" + _docstring(_("Fresh random inputs."))
        drawn = {each.name: self._drawn(each) for each in inputs}
        text += self._unpacked(inputs, " ".join(drawn.values()))
        text += "    return {\n"
        for name, values in drawn.items():
            text += f'        "{name}": {values},\n'
        text += "    }\n\n\n"
        text += "def outputs(problem):\n" + _docstring(_("Shape and type of every output."))
        text += self._unpacked(outputs)
        pairs = (
            f'"{each.name}": (({self.plain(each.count)},), "{each.dtype}")' for each in outputs
        )
        text += "    return {" + ", ".join(pairs) + "}\n\n\n"
        text += self._answer(reference)
        text += self._counts(inputs, outputs)
        return text

    def _problems(self) -> str:
        small = self.small()
        first = ", ".join(f'"{name}": {value}' for name, value in self.parameters.items())
        said = _("The first problem is the file's own; the others are small, for `verify`.")
        text = f"# {said}\nproblems = {{\n"
        if small == self.parameters:
            text += f'    "whole": {{{first}, "uses": ("verify", "profile", "sweep")}},\n'
        else:
            text += f'    "whole": {{{first}, "uses": ("profile", "sweep")}},\n'
            given = ", ".join(f'"{name}": {value}' for name, value in small.items())
            text += f'    "small": {{{given}, "uses": ("verify", "sweep")}},\n'
        odd = self._odd(small)
        if odd is not None:
            given = ", ".join(f'"{name}": {value}' for name, value in odd.items())
            text += f'    "odd": {{{given}, "uses": ("verify",)}},\n'
        return text + "}\n\n"

    def _odd(self, small: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes that no block divides, where grids are rounded up and every store has its guard."""
        sizes = " ".join(self.plain(each.count) for each in self.buffers)
        free = [
            n for n in small if self.free(n) and re.search(rf"\b{n}\b", sizes) and small[n] > 16
        ]
        launches = [launch for rung in self.rungs for launch in rung.launches]
        up = all(
            "cdiv" in each.text or re.fullmatch(r"\d+", each.text)
            for launch in launches
            for each in launch.grid
        )
        kernels = self.pieces.kernels()
        others = any(self.free(n) and n not in free for n in small)
        vector = any(re.search(r"float[24]|int[24]|128", kernels[x.kernel].text) for x in launches)
        safe = all(guarded(kernels[each.kernel]) for each in launches)
        if not free or not up or not safe or others or vector:
            return None
        return {name: value - 3 if name in free else value for name, value in small.items()}

    def _tolerance(self, outputs: list[Buffer], proved: bool) -> tuple[float, str]:
        kinds = {each.dtype for each in (*outputs, *self.buffers)}
        if all(each.dtype.startswith(("int", "uint")) for each in outputs):
            return 0, _("whole numbers")
        for kind in ("bfloat16", "float16"):
            if kind in kinds:
                return _TOLERANCES[kind][0], _(_TOLERANCES[kind][1])
        if all(each.dtype == "float64" for each in outputs):
            return _TOLERANCES["float64"][0], _(_TOLERANCES["float64"][1])
        if "linear" in self.textures.values():
            return 4e-3, _("a guess: a texture weighs texels in steps of 1/256")
        if proved:
            return 1e-5, _("a guess: float32 sums in another order differ by about 1e-6")
        given, made = (
            sum(self._evaluated(b.count, self.parameters) for b in self.buffers if b.role == role)
            for role in ("input", "output")
        )
        # Three deviations of a sum of so many float32 numbers, one behind the other.
        return float(f"{max(1e-5, 2**-24 * math.sqrt(given / max(made, 1))):.0e}"), _(
            "a guess: v0 sums float32 numbers as well, and each order of them rounds otherwise"
        )

    def _cdiv(self) -> str:
        every = " ".join(self.plain(each) for each in self.every())
        if "cdiv" not in every:
            return ""
        head = "def cdiv(a, b):\n" + _docstring(_("a / b, rounded up."))
        return head + "    return -(-a // b)\n\n\n"

    def _unpacked(self, buffers: Iterable[Buffer], more: str = "") -> str:
        words = set(
            re.findall(r"[A-Za-z_]\w*", " ".join([*(self.plain(b.count) for b in buffers), more]))
        )
        return "".join(
            f'    {name} = problem["{name}"]\n' for name in self.parameters if name in words
        )

    def _drawn(self, buffer: Buffer) -> str:
        """Random values of the kind that the file fills the array with."""
        size, kind = self.plain(buffer.count), buffer.dtype
        written = " ".join(buffer.filled)
        if listed := re.fullmatch(r"\{([-\d., e+]+)\}", written):
            numbers = listed[1].split(", ")
            if len(set(numbers)) > 1 and len(numbers) == buffer.count.whole:
                return f'np.array([{listed[1]}], "{kind}")'  # the host may know them by name
        if kind.startswith(("int", "uint")):
            low, high = drawn_between(written, kind, self.constants, self.parameters)
            return f'rng.integers({low}, {high}, {size}, dtype="{kind}")'
        drawn = f'rng.random({size}, dtype="float32")'
        signed = re.search(r"-\s*(?:0?\.5|1|\(?float\)?|RAND)|uniform|normal|\*\s*2", written)
        if not written or signed or (not re.search(r"rand|RAND", written) and "-" in written):
            drawn = f'rng.standard_normal({size}, dtype="float32")'
        if kind == "float32":
            return drawn
        if kind == "bfloat16":
            return f"{drawn}.astype(__import__('ml_dtypes').bfloat16)"
        return f'{drawn}.astype("{kind}")'

    def _answer(self, reference: HostReference | None) -> str:
        if reference is None:
            said = _("No host code gives the answer: versions must equal v0, which nothing proves.")
            more = _("To prove it, write def reference(problem, inputs) here, in float64.")
            return f'# {said}\n# {more}\nreference = "v0"\n\n\n'
        roles = {each.name: each for each in self.buffers}
        said = _("The answer by {origin} (reference.cpp).").format(origin=told(reference.says))
        text = "def reference(problem, inputs):\n" + _docstring(said)
        taken = [roles[name] for name in reference.arrays]
        fresh = [each for each in taken if each.role == "output"]
        text += self._unpacked(fresh, " ".join(reference.numbers))
        for each in taken:
            kind = reference.arrays[each.name][0]
            if each.role == "input":
                cast = f'inputs["{each.name}"].astype("{kind}")'
                text += f"    {each.name} = np.ascontiguousarray({cast})\n"
            elif isinstance(each.start, str):
                text += f'    {each.name} = inputs["{each.start}"].astype("{kind}")\n'
            else:
                # What the host compares may not be all: NaN is left of the rest, and told.
                first = "np.nan" if reference.compares and kind.startswith("float") else "0"
                size = self.plain(each.count)
                text += f'    {each.name} = np.full({size}, {first}, "{kind}")\n'
        given = ", ".join(
            [*reference.arrays, *(self.plain(Known(n, None)) for n in reference.numbers)]
        )
        text += f'    call(Path(__file__).with_name("reference.cpp"), "reference", {given})\n'
        answer = ", ".join(f'"{each.name}": {each.name}.astype("float64")' for each in fresh)
        return text + f"    return {{{answer}}}\n\n\n"

    def _counts(self, inputs: list[Buffer], outputs: list[Buffer]) -> str:
        work = " + ".join(self.plain(each.count) for each in outputs)
        said = _("TO DO: operations of the job; here one for each element of an output.")
        text = "def flops(problem):\n" + _docstring(said)
        text += self._unpacked(outputs) + f"    return {work}\n\n\n"
        sizes = " + ".join(
            f"{width(b.dtype)} * ({self.plain(b.count)})" for b in (*inputs, *outputs)
        )
        said = _("Every input read once, every output written once.")
        text += "def bytes(problem):\n" + _docstring(said)
        return text + self._unpacked((*inputs, *outputs)) + f"    return {sizes}\n"

    # --- a version -------------------------------------------------------------------------------

    def _version(self, index: int, rung: NewVersion, kernels: list[str]) -> str:
        title = _(" and ").join(kernels)
        if len(self.rungs) > 1 and rung.label and rung.label != "guessed":
            title += f" ({rung.label})"
        toml = pair("title", title, 6)
        change, place = _("as {file} launches it: {place}"), rung.launches[0].place
        toml += pair("change", change.format(file=self.file, place=place), 6)
        used = {self.names.get(id(m)) for m in self.used(rung)}
        for buffer in (*self.buffers, *self.own[index]):
            if buffer.role == "scratch" and buffer.name in used:
                toml += (
                    "\n[[scratch]]\n"
                    + pair("name", buffer.name, 5)
                    + pair("dtype", buffer.dtype, 5)
                )
                toml += pair("shape", [self._number(buffer.count, rung)], 5)
        device = self.device_pieces(
            [word for x in rung.launches for word in (x.kernel, *x.template)]
        )
        names = {name for piece in device for name in piece.names}
        for symbol, given in self.symbols.items():
            if symbol in names:
                toml += "\n[[fill]]\n" + pair("name", symbol, 5) + pair("input", given, 5)
        for buffer in (*self.buffers, *self.own[index]):
            if buffer.role != "input" and buffer.start is not None and buffer.name in used:
                toml += "\n[[fill]]\n" + pair("name", buffer.name, 5)
                key = "input" if isinstance(buffer.start, str) else "value"
                start = buffer.start if isinstance(buffer.start, str) else int(buffer.start)
                toml += pair(key, start, 5)
        instances: list[str] = []
        for launch in rung.launches:
            toml += self._textures(launch)
        for launch in rung.launches:
            toml += self._launch(launch, instances, rung)
        code = self._code(device) + "".join(f"\n{each}\n" for each in dict.fromkeys(instances))
        return f"/* ---\n{toml}--- */\n{code}"

    def _textures(self, launch: LaunchSeen) -> str:
        """The ``[[texture]]`` of a launch's kernel; each has an input of its own for texels."""
        piece, toml = self.pieces.kernels()[launch.kernel], ""
        sizes = [
            each.text
            for each in launch.arguments
            if isinstance(each, Known) and each.text in self.parameters
        ]
        for parameter in parameters(piece):
            name = parameter.name
            seen = texture_of(piece.plain, piece.text, name)
            if parameter.kind not in TEXTURE_OBJECTS or seen is None or name in self.textures:
                continue
            guess = "1024" if seen.axes == 1 else "64"
            dims = sizes[: seen.axes] if len(sizes) >= seen.axes else [guess] * seen.axes
            count = " * ".join([*dims, *([str(seen.channels)] if seen.channels > 1 else [])])
            texels = self._free(f"{name}_texels")
            self.buffers.append(Buffer(texels, seen.dtype, Known(count, None), "input"))
            self.textures[name] = seen.filter
            self.notes.append(
                f"{launch.kernel} reads the texture `{name}`: its texels are an input, `{texels}`, "
                f"and their extents, {' × '.join(dims)}, a guess"
            )
            toml += "\n[[texture]]\n" + pair("name", name, 6) + pair("buffer", texels, 6)
            toml += pair("dtype", seen.dtype, 6)
            toml += pair("channels", seen.channels) if seen.channels > 1 else ""
            toml += pair("dims", [int(each) if each.isdigit() else each for each in dims], 6)
            toml += pair("layout", seen.layout, 6)
            if seen.layout == "array":
                toml += pair("address", seen.address) + pair("filter", seen.filter, 6)
                toml += pair("normalized", True) if seen.normalized else ""
            toml += pair("read", seen.read, 6) if seen.read != "element" else ""
        return toml

    def _number(self, amount: Known, rung: NewVersion) -> int | str:
        text = self.plain(amount, rung)
        return int(text) if text.isdigit() else text

    def _launch(self, launch: LaunchSeen, instances: list[str], rung: NewVersion) -> str:
        piece = self.pieces.kernels()[launch.kernel]
        kernel, arguments = launch.kernel, []
        template = self._template(piece, launch)
        bound = dict(zip(template_parameters(piece), template, strict=False))
        if template:
            kernel = f"{kernel}<{', '.join(template)}>"
            instances.append(_instance(piece, kernel, bound))
            # A compiler writes enumerators as numbers, and functions with their types.
            if any("::" in each or self.pieces.function(each) for each in template):
                kernel = launch.kernel
        offsets = launch.offsets or [None] * len(launch.arguments)
        listed = zip(launch.arguments, offsets, parameters(piece), strict=False)
        for value, offset, parameter in listed:
            given = self._given(value, parameter, bound, rung)
            if isinstance(value, Memory) and offset is not None and offset.value != 0:
                given = self._behind(str(given), value, offset, rung)
            arguments.append(given)
        toml = "\n[[launch]]\n" + pair("kernel", kernel, 6)
        for key, amounts in (("grid", launch.grid), ("block", launch.block)):
            if any("?" in each.text for each in amounts):
                self.notes.append(f"the {key} of {launch.kernel} could not be read: 1 is a guess")
                amounts = [
                    replace(each, text="1") if "?" in each.text else each for each in amounts
                ]
            toml += pair(key, [self._number(each, rung) for each in amounts], 6)
        toml += pair("args", arguments, 6)
        if launch.shared is not None and launch.shared.value != 0:
            toml += pair("dynamic_shared", self._number(launch.shared, rung))
        if re.search(r"\bthis_grid\s*\(", piece.text):
            toml += pair("cooperative", True)
        return toml

    def _behind(self, name: str, memory: Memory, offset: Known, rung: NewVersion) -> str:
        """A pointer into an array: its bytes behind the beginning."""
        if offset.value is None:
            self.notes.append(f"a pointer into {name} could not be read: its beginning is a guess")
            return name
        steps, size = self.plain(offset, rung), width(memory.dtype or "float32")
        if offset.whole is not None and steps.isdigit():
            return f"at({name}, {size * offset.whole})"
        return f"at({name}, {size} * {steps if steps.isidentifier() else f'({steps})'})"

    def _template(self, piece: FilePiece, launch: LaunchSeen) -> list[str]:
        """The arguments of a template, those that its call leaves to the compiler as well."""
        names = template_parameters(piece)
        found = list(launch.template)
        for name in names[len(found) :]:
            given = next(
                (
                    value
                    for value, parameter in zip(launch.arguments, parameters(piece), strict=False)
                    if parameter.kind == name
                ),
                None,
            )
            if isinstance(given, Memory):
                found.append(given.kind.removesuffix("[]") or _C_NAMES.get(given.dtype, "float"))
            elif isinstance(given, Known):
                found.append("float" if isinstance(given.value, float) else "int")
            else:
                break
        return found

    def _given(
        self,
        value: Known | Memory | None,
        parameter: Formal,
        bound: Mapping[str, str],
        rung: NewVersion,
    ) -> str | int | float:
        if isinstance(value, Memory):
            return self.names.get(id(value), "") or self.named(value)
        if parameter.kind in TEXTURE_OBJECTS and parameter.name in self.textures:
            return parameter.name
        if parameter.stars and isinstance(value, Known) and value.value == 0:
            return "long(0)"  # a null pointer
        if value is None or (value.value is None and "?" in value.text):
            self.notes.append(
                f"`{parameter.name}` of {rung.launches[0].kernel} could not be read: 1 is a guess"
            )
            value = number(1)
        kind = element(self._resolved(bound.get(parameter.kind, parameter.kind)))
        dtype = kind[0] if kind else "int32"
        text = self.plain(value, rung)
        if (
            dtype == "float32"
            and isinstance(value.value, float)
            and not re.search(r"[A-Za-z]{2}|_", text)
        ):
            return float(value.value)
        if isinstance(value.value, float):
            return f"{_CASTS.get(dtype, 'float')}({value.value!r})"
        return text if dtype == "int32" else f"{_CASTS.get(dtype, 'int')}({text})"

    def _resolved(self, kind: str) -> str:
        for _again in range(4):
            piece = self.pieces.named(kind)
            target = inner(piece.node).child_by_field_name("type") if piece is not None else None
            if piece is None or piece.kind != "type" or target is None:
                return kind
            kind = piece.plain[target.start_byte : target.end_byte]
        return kind

    def _code(self, device: list[FilePiece]) -> str:
        """The part of the file that the version's kernels need."""
        kept, standard = [], []
        words = {word for piece in device for word in piece.words}
        for piece in self.pieces.pieces:
            if piece.kind == "include":
                name = piece.names[0]
                if name in self.pieces.missing:
                    continue
                if DEVICE_HEADERS.fullmatch(name):
                    # A library of its own, which many a program includes for its host alone.
                    if not name.startswith("curand") or any("curand" in word for word in words):
                        kept.append(piece.text)
                elif _STANDARD.fullmatch(name):
                    standard.append(piece.text)
            elif (
                piece.kind == "using"
                and "namespace std" not in piece.text
                and "std::" not in piece.text
            ):
                kept.append(piece.text)
            elif piece.kind == "using" and words & {"max", "min", "swap", "std"}:
                standard.append(piece.text)
        for word, header in _TYPE_HEADERS.items():
            if any(each.startswith(word) for each in words):
                kept.append(f"#include <{header}>")
        head = [*dict.fromkeys(kept)]
        if standard:
            lines = "\n".join(dict.fromkeys(standard))
            head.append(
                f"#ifndef __CUDACC_RTC__  // {_('NVRTC has no headers of the host')}\n"
                f"{lines}\n#endif"
            )
        for word in sorted(words & _BEFORE_CUDA_9):
            head.append(f"#define {word}(...) {word}_sync(0xffffffffu, __VA_ARGS__)")
            self.notes.append(
                f"{word} went with CUDA 9: {word}_sync, with all lanes, stands for it"
            )
        body = []
        for piece in device:
            ends = piece.kind in ("type", "variable") and not piece.text.rstrip().endswith(";")
            body.append(piece.text + (";" if ends else ""))
        return "\n".join(head) + "\n\n" + "\n\n".join(body) + "\n"


def _instance(piece: FilePiece, kernel: str, bound: Mapping[str, str]) -> str:
    """What asks the compiler for one instance of a template."""
    node = inner(piece.node)
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    text = piece.plain[listed.start_byte : listed.end_byte] if listed is not None else "()"
    text = re.sub(r"\s*=\s*[^,)]+", "", text)
    text = re.sub(r"[A-Za-z_]\w*", lambda word: bound.get(word[0], word[0]), text)
    return f"template __global__ void {kernel}{' '.join(text.split())};"


def _docstring(said: str) -> str:
    return f'    """{said}"""\n'


def _tuple(names: Iterable[str]) -> str:
    listed = [f'"{name}"' for name in names]
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def tell(brought: Brought, say: Callable[[str], None]) -> None:
    """Says what was made, and what to do next, a line each."""
    for path in brought.paths:
        say(f"wrote {path}")
    kernels = several(len(brought.versions), "version")
    say(f"{kernels}: " + ", ".join(f"{v} = {k}" for v, k in brought.versions.items()))
    if brought.reference:
        say(f"the right answer comes from {brought.reference}")
    for note in brought.notes:
        say(_("note: {text}").format(text=told(note)))
    say(f"Nothing of the file was run. Next: read it, then `workbench verify {brought.study}/v0`")
